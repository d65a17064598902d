"""What a document says of a GPU beside what was found."""

from __future__ import annotations

from dataclasses import dataclass

NAMES = {"gtx560ti": "GTX560Ti", "gtx780": "GTX780", "gtx980": "GTX980", "8800gtx": "G80", "gtx280": "GT200",
         "gtx480": "Fermi", "gtx680": "Kepler"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What a document says, in words or in a number, and what was found."""

    place: str
    gpu: str
    what: str
    published: str
    found: str
    agrees: bool

    @property
    def line(self) -> str:
        verdict = "agrees" if self.agrees else "**differs**"
        return f"| {self.place} | {NAMES[self.gpu]} | {self.what} | {self.published} | {self.found} | {verdict} |"


def number(place: str, gpu: str, what: str, published: float, found: float, unit: str, within: float) -> Row:
    """A number that must be found again `within` a relative distance."""
    off = found / published - 1
    return Row(place, gpu, what, f"{published:g} {unit}", f"{found:.4g} {unit} ({off:+.1%})", abs(off) <= within)

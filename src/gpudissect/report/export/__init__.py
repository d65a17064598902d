"""Results in the formats of other programs, and as GPU files of the catalogue: one module or package a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.report.result import Result


@dataclass(frozen=True)
class Format:
    """A format that a result can be written in: what it is, in a few words, and who writes its text."""

    summary: str
    write: Callable[[Result], str]


def _gpu(result: Result) -> str:
    from gpudissect.report.export.gpu import gpu_file

    return gpu_file(result)


FORMATS: Mapping[str, Format] = {
    "gpu": Format("a GPU file of the catalogue, to simulate what was measured", _gpu),
}
"""By the name that the command line takes."""


def export(result: Result, wanted: str) -> str:
    """The text of a result in the format named `wanted`.

    Raises `UsageError` for a format that there is not, and for a result that cannot be written in it.
    """
    if wanted not in FORMATS:
        known = "; ".join(f"{name} ({each.summary})" for name, each in FORMATS.items())
        raise UsageError(f"no such format: {wanted:.40}; there is {known}")
    return FORMATS[wanted].write(result)

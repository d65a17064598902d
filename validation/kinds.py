"""What a comparison is evidence of: each has exactly one kind."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudissect.catalogue import Published

DOCS = Path(__file__).parents[1] / "docs"
TABLES = (
    "validation-silicon",
    "validation-data",
    "validation-older-methods",
    "validation",
    "validation-hiding",
    "throughput",
)
"""Tables of comparisons; each has the columns `kind` and `agrees`."""
YES, NO = "yes", "no"


class Kind(StrEnum):
    """What a comparison is evidence of, the strongest first."""

    SILICON = "silicon"  # a GPU measured by gpudissect against a measurement of another group
    DATA = "data"  # a number that a paper printed as measured against the simulation of what the paper concludes
    EMERGENT = "emergent"  # a published number against a simulation that does not have it as an input
    TUNED = "tuned"  # as emergent, but a parameter of the simulation was fitted to it
    ROUND_TRIP = "round trip"  # an input of a GPU file, or a sum of such inputs, and what is found in its simulation
    CALCULATION = "calculation"  # a formula or a model with printed parameters; nothing is measured or simulated


MEANINGS = {
    Kind.SILICON: "measurements of real GPUs, by gpudissect and by other groups",
    Kind.DATA: "data printed in a paper, and a simulation of what the paper infers from them",
    Kind.EMERGENT: "a published number, and a simulation that does not have it as an input",
    Kind.TUNED: "the same, but a parameter of the simulation was fitted to the number: no evidence",
    Kind.ROUND_TRIP: "an input of a simulation (a number of a GPU file or a sum of them), and what is found in it",
    Kind.CALCULATION: "a printed number, and our formula or model with printed parameters",
}
PRINTED_IN = {
    "k20c": "MT22 table 5.4",
    "840m": "MT22 table 5.5",
    "p6000": "MT22 table 5.6",
    "v100": "MT22 table 5.7",
    "rtx2080ti": "MT22 table 5.8",
    "a100": "MT22 table 5.9",
}
"""Tables that print a number other than that of the structure. For other GPUs, the source prints it."""
OURS = "measured: gpudissect"  # source of a number of ours, which its simulation only gives back
TUNED_LOADS = ("ldg_streaming", "ldg_random")
"""`memory.variability` of the GPU files is fitted to the warps that these need (VV16 table 6.3)."""


def kind_of(item: Published) -> Kind:
    """The kind of a number of a GPU file, compared with what is found in the simulation of that file."""
    if item.attribute == "warps_needed":  # rate and latency are inputs, this is not
        return Kind.TUNED if item.element in TUNED_LOADS else Kind.EMERGENT
    if item.attribute in ("max_miss_rate", "copy_rate") and not item.source.startswith(OURS):
        return Kind.DATA  # MC14 figure 9, MC16 table 7
    return Kind.ROUND_TRIP


def count(tables: Iterable[str] = TABLES) -> Counter[tuple[Kind, bool]]:
    """How many comparisons of each kind agree and do not; rows without a kind are not compared."""
    counts: Counter[tuple[Kind, bool]] = Counter()
    for name in tables:
        counts.update((Kind(row["kind"]), row["agrees"] == YES) for row in read(name) if row["kind"])
    return counts


def read(name: str) -> list[dict[str, str]]:
    """The rows of a table in docs/."""
    with (DOCS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def yes(agrees: bool) -> str:
    """The cell of the column `agrees`."""
    return YES if agrees else NO

"""What a TLB miss costs, measured several times: latencies drift between the rings that are compared."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpudissect.measure.plan import Ask, Bench
from gpudissect.measure.tlb.infer_translation import Stair
from gpudissect.measure.tlb.translation import LAPS, Pages, Translations

PENALTY_SPREAD = 1.0  # cycles: a clock of whole cycles, read twice
ROUNDS = 3  # of measuring anew


@dataclass(frozen=True)
class Costs:
    """Cycles of a miss beyond a hit in the first level, each time that it was measured.

    Pages in random order change the window of the page table at almost every miss (MC16 s5.2, P6), pages in order now
    and then only.

    """

    in_order: tuple[float, ...]
    at_random: tuple[float, ...]
    evidence: tuple[str, ...]

    @property
    def alike(self) -> bool:
        """Whether the order makes no difference."""
        if not self.in_order or not self.at_random:
            return False
        return abs(float(np.median(self.in_order) - np.median(self.at_random))) <= 2 * PENALTY_SPREAD

    @property
    def own(self) -> tuple[float, ...]:
        """Those of a miss in the TLB alone; at random if no page is slow in order."""
        return (*self.in_order, *self.at_random) if self.alike else self.in_order or self.at_random


def costs_of(ring: Pages, page: int, stair: Stair, bench: Bench) -> Ask[Costs]:
    """What a miss costs in a ring of which every page misses, from the lines alone on anew in each round."""
    in_order: list[float] = []
    at_random: list[float] = []
    evidence: list[str] = []
    for repetition in range(1, ROUNDS + 1):
        afresh = Translations(page, bench, repetition)
        (shuffled,) = yield from afresh.penalties([ring])
        (ordered,) = yield from afresh.visits([ring], LAPS)
        evidence += afresh.evidence
        for told, costs in ((shuffled, at_random), (ordered, in_order)):
            typical = np.median(told, axis=0)  # of each page: single accesses are delayed by chance
            if (slower := typical[typical >= stair.threshold]).size:
                costs.append(float(np.median(slower)))
    return Costs(tuple(in_order), tuple(at_random), tuple(evidence))

"""Hold the TLBs, as inferred, against random visits to pages: which of them knows each?

All levels are simulated one behind the other; that a translation is missed shows in what an access costs beyond its
line alone.
"""

from __future__ import annotations

import numpy as np

from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.prediction.infer_disagreement import Answered, Unforetold, Whole, policies_refuted, whole
from gpudissect.measure.prediction.infer_hierarchy import Inferred, Translation
from gpudissect.measure.prediction.inferred import BEHIND_L1, covered, translations
from gpudissect.measure.tlb.plan_entries import tlb_of
from gpudissect.measure.tlb.translation import PATH, VISITS, WARMUP, Pages, Translations, memory
from gpudissect.vocabulary import TLBS

NAME = "translation"
FOOTPRINTS = (0.6, 1.0, 1.4)  # of the entries of a level
LAPS = 3
METHOD = "random visits to pages that nothing was inferred from, against all TLBs simulated as inferred"


def translated_plan(bench: Bench, known: Known) -> Plan:
    """Knowledge: the `Whole` of all TLBs, or why it is `Unforetold`.

    A policy that foretells too little becomes ambiguous.
    """
    told = translations(known)
    first = known[tlb_of("tlb_l1")]
    if not told:
        why = "no TLB was found" if first is None else "the policy of the first TLB was not found"
        return Outcome(knowledge=Unforetold(f"path {NAME}", why))
    asked = _Asked(told, bench, known)
    parts: list[Answered] = []
    for number in range(len(told)):
        parts += yield from asked.around(number)
    names = [each.element for each in told]
    left = [element for element in TLBS[len(told) :] if known[tlb_of(element)] is not None]
    assumed = tuple(f"{element}: left out, its policy is not known" for element in left)
    result = whole(NAME, names, parts, assumed)
    if isinstance(result, Unforetold):
        return Outcome(knowledge=result)
    policies = {each.element: each.cache.policy for each in told}
    return Outcome(policies_refuted(parts, result, policies, METHOD), result)


class _Asked:
    """Visits to pages, as many as a level has entries or a few more or less."""

    def __init__(self, told: tuple[Translation, ...], bench: Bench, known: Known) -> None:
        self.told, self.bench = told, bench
        self.route = Inferred(PATH, (), 0.0, told)
        self.levels = [level for each in told if (level := known[tlb_of(each.element)]) is not None]
        unknown = covered(known)
        self.covered = memory(bench) if unknown is None else min(memory(bench), unknown)

    def around(self, number: int) -> Ask[list[Answered]]:
        """Visits to as many pages as one level keeps, or a few more or less."""
        level = self.levels[number]
        looked_at = len(self.told[number].cache.index.table)
        most = min(looked_at, self.covered // level.page)
        counts = sorted({max(2, min(most, round(share * level.entries))) for share in FOOTPRINTS})
        sequences = [self._visits(count, number) for count in counts]
        translations = Translations(level.page, self.bench)
        once = yield from translations.visits(sequences, LAPS)
        again = yield from translations.visits(sequences, LAPS, repetition=1)
        half = len(translations.evidence) // 2
        evidence = zip(translations.evidence[:half], translations.evidence[half:], strict=True)
        parts = []
        for pages, *seen, digests in zip(sequences, once, again, evidence, strict=True):
            told = self.route.foretold(np.tile(pages * level.page, WARMUP + LAPS))
            offsets = np.tile(pages * level.page, LAPS)
            places = [self.route.places(penalties.ravel()) for penalties in seen]
            every = np.ones(offsets.size, dtype=bool)
            parts.append(Answered(offsets, every, told.after(WARMUP * pages.size), places, digests))
        return parts

    def _visits(self, count: int, number: int) -> Pages:
        """Random pages, each several times in random order."""
        rng = self.bench.rng("unseen pages", number, count)
        return np.asarray(rng.permutation(np.repeat(np.arange(count), VISITS)), dtype=np.int64)


EXPERIMENTS = (
    Experiment(
        key=Key("hierarchy.translation", (Whole, Unforetold)),
        element="hierarchy",
        plan=translated_plan,
        revises=tuple(f"{tlb}.replacement_policy" for tlb in TLBS),
        needs=BEHIND_L1,
    ),
)

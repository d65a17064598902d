"""Validate the inferred TLBs on random page accesses: which level hits?

All levels are simulated one behind the other; a miss shows in the penalty of an access.
"""

from __future__ import annotations

import numpy as np

from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.prediction.infer_agreement import (
    CheckedSequence,
    NotPredicted,
    PathCounts,
    count_levels,
    refute_policies,
)
from gpudissect.measure.prediction.infer_hierarchy import PathModel
from gpudissect.measure.prediction.plan_hierarchy import BEHIND_L1, tlb_models, translated_bytes
from gpudissect.measure.tlb.infer_tlb_level import TlbLevel
from gpudissect.measure.tlb.page_accesses import PATH, VISITS, WARMUP, PageAccesses, Pages, memory_limit
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.vocabulary import TLBS

NAME = "translation"
FOOTPRINTS = (0.6, 1.0, 1.4)  # relative to the entries of a level
LAPS = 3
METHOD = "random page accesses that nothing was inferred from, compared with all TLBs simulated as inferred"


def translation_plan(bench: Bench, known: Known) -> Plan:
    """Knowledge: the `PathCounts` of all TLBs, or why they are `NotPredicted`.

    A policy that predicts too few accesses becomes ambiguous.
    """
    tlbs = tlb_models(known)
    if not tlbs:
        first = known[tlb_of("tlb_l1")]
        reason = "no TLB was found" if first is None else "the policy of the first TLB was not found"
        return Outcome(knowledge=NotPredicted(f"path {NAME}", reason))
    model = PathModel(PATH, (), 0.0, tlbs)
    limit = min(memory_limit(bench), translated_bytes(known) or memory_limit(bench))
    sequences: list[CheckedSequence] = []
    for number, tlb in enumerate(tlbs):
        level = known[tlb_of(tlb.element)]
        assert level is not None  # its model is made from it
        max_pages = min(len(tlb.cache.index.table), limit // level.page_size)
        sequences += yield from _check(model, number, level, max_pages, bench)
    missing = [element for element in TLBS[len(tlbs) :] if known[tlb_of(element)] is not None]
    assumed = tuple(f"{element}: not simulated, its policy is not known" for element in missing)
    counts = count_levels(NAME, [tlb.element for tlb in tlbs], sequences, assumed)
    if isinstance(counts, NotPredicted):
        return Outcome(knowledge=counts)
    policies = {tlb.element: tlb.cache.policy for tlb in tlbs}
    return Outcome(refute_policies(sequences, counts, policies, METHOD), counts)


def _check(model: PathModel, number: int, level: TlbLevel, max_pages: int, bench: Bench) -> Ask[list[CheckedSequence]]:
    """Random visits to about as many pages as one level has entries, run twice."""
    page = level.page_size
    counts = sorted({max(2, min(max_pages, round(share * level.entries))) for share in FOOTPRINTS})
    visits = [_visits(count, bench.rng("unseen pages", number, count)) for count in counts]
    accesses = PageAccesses(page, bench)
    first = yield from accesses.visits(visits, LAPS)
    second = yield from accesses.visits(visits, LAPS, repetition=1)
    evidence = zip(accesses.evidence[: len(visits)], accesses.evidence[len(visits) :], strict=True)
    sequences = []
    for pages, *runs, digests in zip(visits, first, second, evidence, strict=True):
        observed = [model.classify(penalties.ravel()) for penalties in runs]
        levels, resampled = model.predict(np.tile(pages * page, WARMUP + LAPS))
        timed, offsets = slice(WARMUP * pages.size, None), np.tile(pages * page, LAPS)
        counted = np.ones(offsets.size, dtype=bool)
        sequences.append(CheckedSequence(offsets, counted, levels[timed], resampled[timed], observed, digests))
    return sequences


def _visits(count: int, rng: np.random.Generator) -> Pages:
    """Random pages, each several times."""
    return np.asarray(rng.permutation(np.repeat(np.arange(count), VISITS)), dtype=np.int64)


EXPERIMENTS = (
    Experiment(
        key=Key("hierarchy.translation", (PathCounts, NotPredicted)),
        element="hierarchy",
        plan=translation_plan,
        revises=tuple(f"{tlb}.replacement_policy" for tlb in TLBS),
        needs=BEHIND_L1,
    ),
)

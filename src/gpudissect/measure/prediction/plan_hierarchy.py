"""Validate the inferred hierarchy on random accesses: which cache of a path answers each of them, which TLB hits?

Every cache of the path and the TLBs are simulated together. Lines are visited again after few or many others, so that
every level answers some; each sequence runs twice, for a second run misreads other accesses. The TLBs alone are
validated on page accesses, whose misses show in their penalties.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.estimate import Estimate, Series
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import CACHES_ON_PATH, levels_of, levels_on
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.cache.plan_policy import Replacement, replacement_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly
from gpudissect.measure.prediction import infer_agreement, infer_hierarchy
from gpudissect.measure.prediction.infer_agreement import CheckedSequence, NotPredicted, PathCounts, refute_policies
from gpudissect.measure.prediction.infer_hierarchy import PathModel, Stage, TlbModel
from gpudissect.measure.prediction.plan_cache import predict_each
from gpudissect.measure.tlb.infer_miss_penalty import TlbLevel
from gpudissect.measure.tlb.page_accesses import PATH, WARMUP, PageAccesses, memory_limit
from gpudissect.measure.tlb.page_accesses import VISITS as PAGE_VISITS
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.measure.tlb.plan_miss_cache import miss_cache_of
from gpudissect.measure.tlb.plan_policy import tlb_caches_to
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Policy, PolicyKind
from gpudissect.trace import Array, Trace
from gpudissect.vocabulary import TLBS
from gpudissect.workload import Chase, Explicit, Path, Timing

PLACEMENTS = ((0, 0), (0, 1), (1, 2))
"""Of lines in pages, in the two runs of a check of a TLB; later pairs only if the check fails. Some accesses are
delayed in every run of the same order over the same lines, and misses of some pages take hardly longer than hits."""
FOOTPRINTS = (0.6, 1.0, 1.4)  # relative to the capacity of a cache or the entries of a TLB
VISITS = 6  # of each line, through random words of it
MAX_ACCESSES = 1 << 17  # of a sequence
SCATTER_RATIO = 8  # lines from which the visited ones are chosen, relative to their number
DEFAULT_BYTES = 256 << 10  # visited where the capacity of no cache is known
MAX_ROWS = 512  # of a series
L2_SHARE = 0.1  # of an L2 of unknown sets that is visited: it may have two partitions, and others use it too
MIN_L2_BYTES = 256 << 10  # held by an L2 of unknown capacity
DEFAULT_L2_LINE = 128
TRANSLATION, TLB_LAPS = "translation", 3
TLB_METHOD = "random page accesses that no inference used, compared with all TLBs simulated as inferred"
METHOD = "random accesses that no inference used, compared with all caches and TLBs simulated as inferred"


def cache_keys(element: str) -> tuple[Key[Any], ...]:
    """What must be known of a cache to simulate it."""
    return lines_of(element), capacity_of(element), structure_of(element), replacement_of(element)


BEHIND_L1: tuple[Key[Any], ...] = (
    levels_of("l2"),
    *cache_keys("l2"),
    *(key for tlb in TLBS for key in (tlb_of(tlb), tlb_caches_to(tlb))),
)
"""What must be known of the L2 and the TLBs."""


def hierarchy_plan(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Plan:
    """Knowledge: `PathCounts` of a path with `elements` before the L2, or `NotPredicted`. May refute policies."""
    if isinstance(model := path_model(path, elements, bench, known), NotPredicted):
        return Outcome(knowledge=model)
    bounds = (bench.info.limit(path), model.indexed_bytes, translated_bytes(known))
    first, *orders = _orders(model, min(bound for bound in bounds if bound is not None), bench)
    if len(model.tlb_positions()) > 1:
        ((trace,),) = yield from _run(path, [first], 1)
        levels, positions = model.classify(trace.cycles), model.tlb_positions()
        model = max(positions, key=lambda each: float(np.mean(each.predict(first)[0] == levels)))  # first of equals
    sequences = yield from _check(model, orders)
    names = [stage.element for stage in model.stages]
    assumed = tuple(f"{stage.element}: {stage.assumed}" for stage in model.stages if stage.assumed)
    counts = infer_agreement.count_levels(path.value, names, sequences, assumed)
    if isinstance(counts, NotPredicted):
        return Outcome(knowledge=counts)
    policies = {stage.element: stage.cache.policy if stage.certain else None for stage in model.stages}
    return Outcome(refute_policies(sequences, counts, policies, METHOD), counts, _series(names, sequences, path))


def path_model(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> PathModel | NotPredicted:
    """The model of a path with its caches `elements` before the L2; or why it cannot be simulated."""
    levels = known[levels_on(path)] if elements else None
    private = levels.found if levels else ()
    if levels is not None and not private:
        reasons = dict.fromkeys(absence.reason for absence in levels.absent.values())
        return NotPredicted(f"path {path}", "; ".join(reasons))
    l2_levels = known[levels_of("l2")]
    l2 = l2_levels.level("l2")
    if l2 is None and not private:
        return NotPredicted(f"path {path}", l2_levels.absent["l2"].reason)
    stages = []
    for level in private:
        stage = _private_stage(level, bench.info.limit(path), known)
        if stage is None:
            return NotPredicted(f"path {path}", f"of {level.element} neither sets nor line and capacity are known")
        stages.append(stage)
    behind = private[-1].behind if private else None
    memory = behind.median if behind else (stages[-1].hit if stages else 0.0)
    if l2 is not None:
        hit = behind.median if behind else max(l2.hit.median, memory)
        stages.append(infer_hierarchy.shift_latency(_l2_stage(l2, known), hit))
        memory = hit + (l2.behind.median - l2.hit.median if l2.behind else 0.0)
    return PathModel(path, tuple(stages), memory, tlb_models(known))


def tlb_models(known: Known) -> tuple[TlbModel, ...]:
    """The TLBs whose policies were found, in the order of their look-ups, without miss caches."""
    deepest = max((caches or () for caches in [known[tlb_caches_to(element)] for element in TLBS]), key=len)
    levels = [(element, known[tlb_of(element)]) for element in TLBS]
    return tuple(
        TlbModel(element, cache, level.miss.cycles, level.miss.threshold)
        for (element, level), cache in zip(levels, deepest, strict=False)
        if level is not None
    )


def translated_bytes(known: Known) -> int | None:
    """Bytes over which the first TLB that cannot be simulated never misses; None if there is none."""
    simulated = len(tlb_models(known))
    level = known[tlb_of(TLBS[simulated])] if simulated < len(TLBS) else None
    return None if level is None else level.entries * level.page_size


def _private_stage(level: Level, limit: int, known: Known) -> Stage | None:
    """A cache before the L2."""
    lines, capacity = known[lines_of(level.element)], known[capacity_of(level.element)]
    if (stage := _stage_of_sets(level, known)) is not None or lines is None:
        return stage
    if level.behind is None:  # whatever the path reaches fits
        return infer_hierarchy.stage_of_ample_size(level, lines.line, limit)
    return None if capacity is None else infer_hierarchy.stage_of_capacity(level, lines.line, capacity)


def _l2_stage(level: Level, known: Known) -> Stage:
    stage = _stage_of_sets(level, known) if level.home_partition is None else None
    if stage is not None:
        return stage
    lines, capacity = known[lines_of("l2")], known[capacity_of("l2")]
    line = lines.line if lines else max(DEFAULT_L2_LINE, level.fetch.fetch or 0)
    return infer_hierarchy.stage_of_ample_size(level, line, int(L2_SHARE * capacity) if capacity else MIN_L2_BYTES)


def _stage_of_sets(level: Level, known: Known) -> Stage | None:
    """A cache whose sets are known; None if they are not, or if its policy cannot be simulated on all of them."""
    structure, replacement = known[structure_of(level.element)], known[replacement_of(level.element)]
    if replacement is None and structure is not None and max(structure.ways) == 1:
        replacement = Replacement(Policy(PolicyKind.LRU), True)  # there is no choice
    if structure is None or replacement is None:
        return None
    stage = infer_hierarchy.stage_of_structure(level, structure, replacement.policy, replacement.sure)
    try:
        check_cache(stage.cache)
    except UsageError:
        return None
    return stage


def _orders(model: PathModel, reach: int, bench: Bench) -> list[Array]:
    """Sequences over about the capacity of every cache whose capacity is known; the first size comes twice."""
    line = max(stage.cache.line for stage in model.stages)
    limits = [stage.max_bytes for stage in model.stages if stage.max_bytes is not None]
    capacities = [stage.cache.capacity for stage in model.stages if stage.max_bytes is None]
    sizes = {share * capacity for capacity in capacities for share in FOOTPRINTS} or {DEFAULT_BYTES}
    max_size = min([*limits, reach, MAX_ACCESSES // VISITS * line])
    counts = sorted({max(2, int(min(size, max_size)) // line) for size in sizes})
    return [
        _visits(count, line, model.path.word, reach, bench.rng("hierarchy", model.path, count, number))
        for number, count in enumerate([counts[0], *counts])
    ]


def _visits(count: int, line: int, word: int, reach: int, rng: np.random.Generator) -> Array:
    """Offsets of visits to random lines, each visited several times after a few others or after very many.

    Each visit reads another random word of the line: a chase needs a word of its own for each access.
    """
    visits = min(VISITS, line // word)
    lines = rng.choice(max(count, min(reach // line, SCATTER_RATIO * count)), size=count, replace=False)
    words = np.argsort(rng.random((count, line // word)), axis=1)[:, :visits]
    gaps = np.exp(rng.uniform(0, np.log(count * visits), size=(count, visits)))
    gaps[:, 0] = rng.uniform(0, count * visits, size=count)
    order = np.argsort(np.cumsum(gaps, axis=1).ravel(), kind="stable")
    return np.asarray((lines[:, None] * line + words * word).ravel()[order], dtype=np.int64)


def _check(model: PathModel, orders: Sequence[Array]) -> Ask[list[CheckedSequence]]:
    """Run every sequence twice."""
    runs = yield from _run(model.path, orders, infer_agreement.RUNS)
    predictions = predict_each(model.predict, orders)
    sequences = []
    for order, prediction, (first, second) in zip(orders, predictions, runs, strict=True):
        observed = [model.classify(trace.cycles) for trace in (first, second)]
        evidence = (first.workload, second.workload)
        counted = infer_agreement.is_repeated(order, model.fetch)
        sequences.append(CheckedSequence(order, counted, *prediction, observed, evidence))
    return sequences


def _series(names: Sequence[str], sequences: Sequence[CheckedSequence], path: Path) -> tuple[Series, ...]:
    """The accesses that another level than predicted answered in both runs; empty if there are none."""
    levels = [*names, "memory"]
    rows = [
        (number, int(at), int(each.offsets[at]), levels[each.predicted[at]], levels[each.observed[0][at]])
        for number, each in enumerate(sequences, start=1)
        for at in np.flatnonzero(each.always_wrong)
    ][:MAX_ROWS]
    if not rows:
        return ()
    columns = zip(("sequence", "access", "offset", "predicted", "answered"), zip(*rows, strict=True), strict=True)
    evidence = tuple(digest for each in sequences for digest in each.evidence)
    return (Series(names[0], f"not as predicted on path {path}, by access", dict(columns), {"offset": "B"}, evidence),)


def _run(path: Path, orders: Sequence[Array], runs: int) -> Ask[list[list[Trace]]]:
    """Run each sequence several times, each from cold."""
    chase = partial(Chase, path=path, timing=Timing.EACH, warmup=0, alone=True, flush=True)
    traces = yield [chase(order=Explicit(order), repetition=run) for order in orders for run in range(runs)]
    return [traces[i : i + runs] for i in range(0, len(traces), runs)]


def translation_plan(bench: Bench, known: Known) -> Plan:
    """Knowledge: the `PathCounts` of all TLBs, or why they are `NotPredicted`. May refute their policies."""
    tlbs = [replace(tlb, miss_cache=known[miss_cache_of(tlb.element)] or 0) for tlb in tlb_models(known)]
    if not tlbs:
        first = known[tlb_of("tlb_l1")]
        reason = "no TLB was found" if first is None else "the policy of the first TLB was not found"
        return Outcome(knowledge=NotPredicted(f"path {TRANSLATION}", reason))
    model = PathModel(PATH, (), 0.0, tuple(tlbs))
    limit = min(memory_limit(bench), translated_bytes(known) or memory_limit(bench))
    elements = [tlb.element for tlb in tlbs]
    sequences: list[CheckedSequence] = []
    refutations: list[Estimate] = []
    for number, tlb in enumerate(tlbs):
        level = known[tlb_of(tlb.element)]
        assert level is not None  # its model is made from it
        max_pages = min(len(tlb.cache.index.table), limit // level.page_size)
        policies = {element: tlb.cache.policy if element == tlb.element else None for element in elements}
        for placements in PLACEMENTS:
            try:
                checked = yield from _check_tlb(model, number, level, max_pages, bench, placements)
            except StopEarly:
                if placements is not PLACEMENTS[-1]:  # which earlier recordings lack
                    raise
                break
            counts = infer_agreement.count_levels(TRANSLATION, elements, checked, ())
            found = refute_policies(checked, counts, policies, TLB_METHOD) if isinstance(counts, PathCounts) else ()
            if not found or level.address is None:  # early recordings have no accesses to other lines
                break
        sequences += checked
        refutations += found
    missing = [element for element in TLBS[len(tlbs) :] if known[tlb_of(element)] is not None]
    assumed = tuple(f"{element}: not simulated, its policy is not known" for element in missing)
    counts = infer_agreement.count_levels(TRANSLATION, elements, sequences, assumed)
    return Outcome(tuple(refutations), counts)


def _check_tlb(
    model: PathModel, number: int, level: TlbLevel, max_pages: int, bench: Bench, placements: tuple[int, int]
) -> Ask[list[CheckedSequence]]:
    """Random visits to about as many pages as one level has entries, each page several times, in two runs.

    A hit in an earlier level counts as a hit in this one; earlier levels are checked by their own sequences.
    `placements` are those of the lines of each run, see `PageAccesses`.
    """
    page = level.page_size
    counts = sorted({max(2, min(max_pages, round(share * level.entries))) for share in FOOTPRINTS})
    rngs = {count: bench.rng("unseen pages", number, count) for count in counts}
    visits = [rng.permutation(np.repeat(np.arange(count), PAGE_VISITS)) for count, rng in rngs.items()]
    first_placement, second_placement = placements
    accesses = PageAccesses(page, bench, placement=first_placement)
    again = accesses if second_placement == first_placement else accesses.to_other_lines()
    first = yield from accesses.visits(visits, TLB_LAPS)
    second = yield from again.visits(visits, TLB_LAPS, repetition=1)
    evidence = zip(accesses.evidence[: len(visits)], again.evidence[-len(visits) :], strict=True)
    sequences = []
    for pages, *runs, digests in zip(visits, first, second, evidence, strict=True):
        observed = [np.maximum(model.classify(penalties.ravel()), np.int8(number)) for penalties in runs]
        predicted = model.predict(np.tile(pages * page, WARMUP + TLB_LAPS))
        levels, resampled = (np.maximum(each, np.int8(number)) for each in predicted)
        timed, offsets = slice(WARMUP * pages.size, None), np.tile(pages * page, TLB_LAPS)
        counted = np.ones(offsets.size, dtype=bool)
        sequences.append(CheckedSequence(offsets, counted, levels[timed], resampled[timed], observed, digests))
    return sequences


EXPERIMENTS = (
    Experiment(
        Key(f"hierarchy.{TRANSLATION}", (PathCounts, NotPredicted)),
        translation_plan,
        element="hierarchy",
        revises=tuple(f"{tlb}.replacement_policy" for tlb in TLBS),
        needs=(*BEHIND_L1, *map(miss_cache_of, TLBS)),
        simulates=True,
    ),
    *(
        Experiment(
            Key(f"hierarchy.{path}", (PathCounts, NotPredicted)),
            partial(hierarchy_plan, path, elements),
            element="hierarchy",
            revises=tuple(f"{element}.replacement_policy" for element in (*elements, "l2")),
            needs=(
                *([levels_on(path)] if elements else []),
                *(key for element in elements for key in cache_keys(element)),
                *BEHIND_L1,
            ),
            simulates=True,
        )
        for path, elements in {Path.GLOBAL_L2: (), **CACHES_ON_PATH}.items()
    ),
)

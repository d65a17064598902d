"""Puts together what was found of the caches and TLBs on a path, so that it can be simulated as one."""

from __future__ import annotations

from typing import Any

from gpudissect.errors import UsageError
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of, levels_on
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.cache.plan_policy import Replacement, replacement_of
from gpudissect.measure.cache.plan_sets import structure_of
from gpudissect.measure.plan import Bench, Key, Known
from gpudissect.measure.prediction.infer_disagreement import Unforetold
from gpudissect.measure.prediction.infer_hierarchy import (
    Inferred,
    Stage,
    Translation,
    ample,
    farther,
    of_capacity,
    structured,
)
from gpudissect.measure.tlb.plan_entries import tlb_of
from gpudissect.measure.tlb.plan_policy import tlb_caches_to
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Cache, Policy, PolicyKind
from gpudissect.vocabulary import TLBS
from gpudissect.workload import Path

SHARE = 0.1  # of an L2 of unknown sets that is asked for: it may be in two parts, and shares its room with others
SURELY_HELD = 256 << 10  # bytes, of an L2 of unknown capacity
LINE = 128  # of an L2 whose line is not known


def inferred(path: Path, elements: tuple[str, ...], bench: Bench, known: Known) -> Inferred | Unforetold:
    """The path with its caches `elements` before the L2, as what is `known` makes it; or why it cannot be simulated."""
    found, absent = _own(path, elements, known)
    if elements and not found:
        return Unforetold(f"path {path}", absent)
    l2_levels = known[levels_of("l2")]
    l2 = l2_levels.level("l2")
    if l2 is None and not found:
        return Unforetold(f"path {path}", l2_levels.absent["l2"].reason)
    stages = []
    for level in found:
        stage = _private(level, bench.info.limit(path), known)
        if stage is None:
            return Unforetold(f"path {path}", f"of {level.element} neither the sets nor line and capacity are known")
        stages.append(stage)
    behind = found[-1].behind if found else None
    memory = behind.median if behind else (stages[-1].hit if stages else 0.0)
    if l2 is not None:
        hit = behind.median if behind else max(l2.hit.median, memory)
        stages.append(farther(_l2(l2, known), hit))
        memory = hit + (l2.behind.median - l2.hit.median if l2.behind else 0.0)
    return Inferred(path, tuple(stages), memory, translations(known))


def translations(known: Known) -> tuple[Translation, ...]:
    """The TLBs whose policies were found, in the order they are asked."""
    deepest: tuple[Cache, ...] = ()
    for element in TLBS:
        if caches := known[tlb_caches_to(element)]:
            deepest = caches
    levels = [known[tlb_of(element)] for element in TLBS[: len(deepest)]]
    return tuple(
        Translation(element, cache, level.stair.cycles, level.stair.threshold)
        for element, cache, level in zip(TLBS, deepest, levels, strict=False)
        if level is not None
    )


def covered(known: Known) -> int | None:
    """Bytes over which no TLB that cannot be simulated misses; None if there is none of that kind."""
    simulated = len(translations(known))
    level = known[tlb_of(TLBS[simulated])] if simulated < len(TLBS) else None
    return None if level is None else level.entries * level.page


def _own(path: Path, elements: tuple[str, ...], known: Known) -> tuple[tuple[Level, ...], str]:
    if not elements:
        return (), ""
    levels = known[levels_on(path)]
    reasons = dict.fromkeys(absence.reason for absence in levels.absent.values())
    return levels.found, "; ".join(reasons)


def _private(level: Level, limit: int, known: Known) -> Stage | None:
    """A cache before the L2."""
    stage = _of_sets(level, known)
    if stage is not None:
        return stage
    lines = known[lines_of(level.element)]
    capacity = known[capacity_of(level.element)]
    if lines is None:
        return None
    if level.behind is None:  # whatever the path reaches fits
        return ample(level, lines.line, limit)
    return None if capacity is None else of_capacity(level, lines.line, capacity)


def _l2(level: Level, known: Known) -> Stage:
    stage = _of_sets(level, known) if level.homes is None else None
    if stage is not None:
        return stage
    lines = known[lines_of("l2")]
    return ample(level, lines.line if lines else max(LINE, level.fetch.fetch or 0), of_the_l2(known))


def of_the_l2(known: Known) -> int:
    """Bytes that an L2 of unknown sets surely holds."""
    capacity = known[capacity_of("l2")]
    return int(SHARE * capacity) if capacity else SURELY_HELD


def _of_sets(level: Level, known: Known) -> Stage | None:
    """A cache whose sets are known; None if they are not, or if its policy cannot be simulated on all of them."""
    structure = known[structure_of(level.element)]
    if structure is None:
        return None
    replacement = known[replacement_of(level.element)]
    if replacement is None and max(structure.ways) == 1:
        replacement = Replacement(Policy(PolicyKind.LRU), True)  # nothing to choose
    if replacement is None:
        return None
    stage = structured(level, structure, replacement.policy, replacement.sure)
    try:
        check_cache(stage.cache)
    except UsageError:
        return None
    return stage


def cache_keys(element: str) -> tuple[Key[Any], ...]:
    """What must be known of a cache to simulate it."""
    return lines_of(element), capacity_of(element), structure_of(element), replacement_of(element)


BEHIND_L1: tuple[Key[Any], ...] = (
    levels_of("l2"),
    *cache_keys("l2"),
    *(key for tlb in TLBS for key in (tlb_of(tlb), tlb_caches_to(tlb))),
)
"""What must be known of the L2 and the TLBs."""

"""Latencies: of a hit by whole-lap pure pointer chase, of a miss by the distance between two plateaus."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import NoneType

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.infer_confidence import LATENCY
from gpudissect.measure.infer_latency import Latency, lap_latency, miss_penalty
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.vocabulary import CACHES
from gpudissect.workload import Chase, Path, Shuffled, Timing
from gpudissect.workload.digest import digest

LAPS = 41  # short ones: even where one access in 200 is delayed, some laps are not
LAP_COST = 50  # cycles at most that a lap costs beside its loads
MOST_LINKS = 64  # of a lap: of more hardly a lap goes undisturbed where one access in a hundred is delayed
METHOD = "lower quartile of laps of a pure pointer chase, less those of a shorter ring"


def latency_of(element: str) -> Key[Latency | None]:
    """Hit latency of a cache; of the L2, what timing a single access adds. None if it was not found."""
    return Key(f"latency.{element}", (Latency, NoneType))


def latency_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of a cache private to an SM, cycles."""
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, "hit_latency", "miss_penalty"))
    latency, evidence = yield from slope(level.path, _resident(level), bench)
    return Outcome((latency_found(element, "hit_latency", latency, METHOD, evidence), penalty_found(level)), latency)


@dataclass(frozen=True)
class Rings:
    """A ring of `count` links, `stride` bytes apart, and a shorter one whose laps cost the same beside their loads.

    Without a shorter one, what a lap costs beside its loads is part of the bracket.
    """

    count: int
    stride: int
    shorter: tuple[int, int] | None


def over_the_same(size: int, stride: int) -> Rings:
    """A ring within `size` bytes, and one of half the links over the same span: lines and pages are the same."""
    count = max(2, _whole_rounds(min(size // stride, MOST_LINKS)))
    return Rings(count, stride, (count // 2, 2 * stride))


def slope(path: Path, rings: Rings, bench: Bench) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Latency of a load, from laps of a ring less those of a shorter one."""
    sizes = [(rings.count, rings.stride), *([rings.shorter] if rings.shorter else [])]
    chases = [
        Chase(path=path, order=Shuffled(count, stride, bench.seed_for("latency", path, count)), timing=Timing.LAP,
              warmup=2, laps=LAPS)
        for count, stride in sizes
    ]  # fmt: skip
    whole, *shorter = yield chases
    if rings.shorter:
        latency = lap_latency(whole.cycles, rings.count, shorter[0].cycles, rings.shorter[0])
    else:
        latency = lap_latency(whole.cycles, rings.count, least=LAP_COST / rings.count)
    return latency, tuple(digest(chase) for chase in chases)


def _whole_rounds(links: int) -> int:
    """Links of a ring whose half has a multiple of 16, the loads between two checks of a lap's end; few stay as is."""
    return links // 32 * 32 if links >= 32 else links // 2 * 2


def _resident(level: Level) -> Rings:
    """Rings well inside the level, and none that a nearer level would answer: those stood on the level's plateau."""
    finest = min(stride for _, stride in level.hit.points)
    sizes = sorted(size for size, stride in level.hit.points if stride == finest)
    inside = [size for size in sizes if size * 2 <= sizes[-1]]
    size = (inside or sizes[-1:])[-1]
    if not level.nearest:
        smaller = size // 2 if size // 2 in sizes else None
        return Rings(size // finest, finest, (smaller // finest, finest) if smaller else None)
    if size == sizes[0] or size // finest < MOST_LINKS:
        return over_the_same(size, level.path.word)
    return over_the_same(size, finest)


def penalty_found(level: Level) -> Estimate:
    """Cycles that a miss adds, from single accesses of both plateaus, where the timer's own cost cancels."""
    if level.behind is None:
        return Estimate(element=level.element, attribute="miss_penalty", status=Status.NOT_FOUND,
                        reason="no footprint that this path reaches misses", evidence=level.evidence)  # fmt: skip
    penalty = miss_penalty(level.hit.samples, level.behind.samples)
    return Estimate(
        element=level.element, attribute="miss_penalty", status=Status.FOUND, value=penalty.cycles,
        low=penalty.low, high=penalty.high, confidence=LATENCY,
        method="distance of the plateaus of single accesses (the timer cancels)", evidence=level.evidence,
    )  # fmt: skip


def latency_found(
    element: str, attribute: str, latency: Latency, method: str, evidence: tuple[str, ...], confidence: float = LATENCY
) -> Estimate:
    """The estimate of a latency, in cycles; of those that random GPUs have not it is less sure."""
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=latency.cycles,
        low=latency.low, high=latency.high, confidence=confidence, method=method, evidence=evidence,
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=latency_of(element),
        element=element,
        plan=partial(latency_plan, element),
        emits=("hit_latency", "miss_penalty"),
        needs=(levels_of(element),),
        quick=True,
    )
    for element in CACHES
    if element != "l2"
)

"""Latencies: of a hit by whole-lap pure pointer chase, of a miss by the distance between two plateaus."""

from __future__ import annotations

from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench, Known, Outcome, Plan, without
from gpudissect.inference.confidence import LATENCY
from gpudissect.inference.latency import Latency, lap_latency, miss_penalty
from gpudissect.inference.level import Level, Levels
from gpudissect.workload import Chase, Path, Shuffled, Timing
from gpudissect.workload.digest import digest

LAPS = 41  # short ones: even where one access in 200 is delayed, some laps are not
MOST_LINKS = 256
FEW_LINKS = 64
METHOD = "lower quartile of laps of a pure pointer chase, less those of half the links"


def latency_plan(element: str, needs: str, bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of a cache private to an SM, cycles."""
    levels: Levels = known[needs]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, "hit_latency", "miss_penalty"))
    size, stride = _resident_point(level)
    latency, evidence = yield from slope(level.path, size, stride, bench)
    return Outcome((latency_found(element, "hit_latency", latency, METHOD, evidence), penalty_found(level)), latency)


def slope(path: Path, size: int, stride: int, bench: Bench) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Latency of a load, from a ring and one of half its links over the same span: what else a lap costs cancels.

    Both have a multiple of 16 links where they can, the number of loads between two checks of the lap's end.
    """
    links = max(2, size // stride // 32 * 32)
    chases = [
        Chase(path=path, order=Shuffled(count, apart, bench.seed_for("latency", path, count)), timing=Timing.LAP,
              warmup=2, laps=LAPS)
        for count, apart in ((links, stride), (links // 2, 2 * stride))
    ]  # fmt: skip
    whole, half = yield chases
    latency = lap_latency(whole.cycles, links, half.cycles, links // 2)
    return latency, tuple(digest(chase) for chase in chases)


def _resident_point(level: Level) -> tuple[int, int]:
    """Size and stride (bytes) of a ring well inside the level, but none that a nearer level would answer."""
    finest = min(stride for _, stride in level.hit.points)
    sizes = sorted(size for size, stride in level.hit.points if stride == finest)
    inside = [size for size in sizes if size * 2 <= sizes[-1] and size // finest <= MOST_LINKS]
    size = (inside or sizes[-1:])[-1]
    if size == sizes[0] or size // finest < FEW_LINKS:
        return size, level.path.word if level.nearest else finest
    return size, finest


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


def latency_found(element: str, attribute: str, latency: Latency, method: str, evidence: tuple[str, ...]) -> Estimate:
    """The estimate of a latency, in cycles."""
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=latency.cycles,
        low=latency.low, high=latency.high, confidence=LATENCY, method=method, evidence=evidence,
    )  # fmt: skip

"""Latencies: of hits by laps of a pure pointer chase, of misses by the distance between two plateaus, of the timer.

A hit of the L2 takes longer or shorter from SM to SM and from line to line, so each of several chains over different
lines is followed by another SM. What timing one access costs (MC16 s4.2) is measured on shared memory, which has no
misses; nothing is ever corrected by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure import infer_latency
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_levels import (
    L2,
    L2_STRIDE,
    NO_FAR_PARTITION,
    PRIVATE_CACHES,
    absent,
    far_hits,
    first_access_chases,
    for_each_cache,
    level_of,
    levels_of,
    memory_chase,
    overflow_chase,
    sample_chase,
)
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.infer_confidence import BRACKETED, DOUBTFUL, LATENCY, TIMED
from gpudissect.measure.infer_latency import (
    MAX_LAP_COST,
    Latency,
    deviation_over_sms,
    lap_latency,
    median_over_sms,
    miss_penalty,
    timing_overhead,
    trimmed_mean,
    widened,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.sampling import shortfall, until_precise
from gpudissect.trace import Array, Trace
from gpudissect.workload import Chase, Path, Shuffled, Timing

PARTITION_ATTRIBUTES = ("near_latency", "far_latency")
L2_ATTRIBUTES = ("hit_latency", "miss_penalty", *PARTITION_ATTRIBUTES)
WARMUP_LAPS = 2
LAPS = 41  # even where one access in 200 is delayed, some short laps are not
MAX_LINKS = 64  # of a lap: longer ones are hardly ever undisturbed where one access in a hundred is delayed
LINKS_PER_CHECK = 16  # loads between two checks of the end of a lap
FAR_SMS = 9
MIN_FAR_SMS = 3  # with far hits; of fewer the latency from one SM stays
TIMER_BYTES, TIMER_LAPS = 4096, 9
MAX_LAP_SPREAD = 0.5  # cycles per load between the fastest and the slowest lap, if nothing delays loads
L2_CHAINS, L2_CHAIN_DISTANCE = 25, 1 << 20
L2_CHAIN_BYTES = 32 << 10  # few pages, of any size, and laps that nothing delays
METHOD = "lower quartile of laps of a pure pointer chase, less those of a shorter chain"
L2_METHOD = "median of {} chains, each from another SM over other lines; of each, the lower quartile of laps"
FAR_METHOD = "single accesses to far lines that the near partition lacks, less the timing overhead"
FROM_ONE_SM = "measured from one SM; the bracket allows for the distances of the others ({:.1f} cycles of deviation)"


@dataclass(frozen=True)
class L2Timing:
    """What latencies of the L2 and of memory are corrected by.

    Attributes:
        overhead: cycles that timing a single access adds.
        deviation: standard deviation over SMs of the hit latency, cycles: they are at different distances.

    """

    overhead: Latency
    deviation: float


L2_TIMING: Key[L2Timing | None] = Key("latency.l2", (L2Timing, NoneType))
"""None without an L2."""


def latency_of(element: str) -> Key[Latency | None]:
    """Hit latency of a private cache; None if it was not found."""
    return Key(f"latency.{element}", (Latency, NoneType))


def latency_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Hit latency of a private cache, cycles."""
    level = level_of(element, known)
    if level is None:
        return absent(element, known, "hit_latency")
    latency, evidence = yield from chase_latency(level.path, _resident_chains(level), bench)
    # One SM followed the chain. Others may be farther from the cache, or nearer, by as much as those of the plateau.
    of_any_sm = Latency(latency.cycles, latency.low - level.hit.range, latency.high + level.hit.range)
    return Outcome((latency_estimate(element, "hit_latency", of_any_sm, METHOD, evidence),), latency)


def penalty_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Cycles that a miss of a private cache adds; the last one's are measured from another SM for each footprint."""
    level, timing, lines = level_of(element, known), known[L2_TIMING], known[lines_of(element)]
    if level is None:
        return absent(element, known, "miss_penalty")
    is_last = level is known[levels_of(element)].found[-1]
    chases = [sample_chase(level.path, *max(level.behind.points), bench)] if level.behind and is_last else []
    deviation = 0.0 if level.behind is None else level.behind.deviation
    if is_last:
        deviation = timing.deviation if timing else 0.0
    penalty = yield from _penalty_estimate(level, deviation, chases, bench)
    if lines is not None and lines.slower is not None and penalty.confidence is not None:
        penalty = replace(penalty, confidence=DOUBTFUL, caveats=(*penalty.caveats, str(lines.slower)))
    return Outcome((penalty,))


@dataclass(frozen=True)
class ChainPair:
    """A chain of `count` links, `stride` bytes apart, and a shorter one (count, stride) with the same cost per lap.

    Without a shorter one, the cost of a lap beside its loads is part of the bracket.
    """

    count: int
    stride: int
    shorter: tuple[int, int] | None


def chains_over(size: int, stride: int) -> ChainPair:
    """A chain within `size` bytes, and one of half the links over the same span: lines and pages are the same.

    Half of the links are whole checks of a lap's end, unless they are few.
    """
    links = min(size // stride, MAX_LINKS)
    unit = 2 * LINKS_PER_CHECK if links >= 2 * LINKS_PER_CHECK else 2
    count = max(2, links // unit * unit)
    return ChainPair(count, stride, (count // 2, 2 * stride))


def chase_latency(path: Path, chains: ChainPair, bench: Bench) -> Ask[tuple[Latency, tuple[str, ...]]]:
    """Latency of a load, from laps of a chain less those of a shorter one, and its evidence."""
    traces = yield [
        lap_chase(path, Shuffled(count, stride, bench.seed_for("latency", path, count)))
        for count, stride in [(chains.count, chains.stride), *([chains.shorter] if chains.shorter else [])]
    ]
    if chains.shorter:
        latency = infer_latency.chase_latency(traces[0].cycles, chains.count, traces[1].cycles, chains.shorter[0])
    else:
        latency = lap_latency(traces[0].cycles, chains.count, min_error=MAX_LAP_COST / chains.count)
    return latency, tuple(trace.workload for trace in traces)


def lap_chase(path: Path, order: Shuffled, alone: bool = False, peer: int = 1) -> Chase:
    """A chase of which whole laps are timed."""
    return Chase(path=path, order=order, timing=Timing.LAP, warmup=WARMUP_LAPS, laps=LAPS, alone=alone, peer=peer)


def _resident_chains(level: Level) -> ChainPair:
    """Chains well inside the level that no nearer level serves: they lie on the level's plateau."""
    finest = min(stride for _, stride in level.hit.points)
    sizes = sorted(size for size, stride in level.hit.points if stride == finest)
    inside = [size for size in sizes if size * 2 <= sizes[-1]]
    size = (inside or sizes)[-1]
    if not level.nearest:
        return ChainPair(size // finest, finest, (size // 2 // finest, finest) if size // 2 in sizes else None)
    if size == sizes[0] or size // finest < MAX_LINKS:
        return chains_over(size, level.path.word)
    return chains_over(size, finest)


def _penalty_estimate(level: Level, deviation: float, chases: Sequence[Chase], bench: Bench) -> Ask[Estimate]:
    """Cycles that a miss adds, from single accesses on both plateaus, where the timing overhead cancels.

    `deviation`: standard deviation in cycles over the SMs that the misses were measured from, one for each footprint.
    If the requested precision needs more SMs, they traverse `chases`: the first misses, the second (if any) hits.
    """
    if level.behind is None:
        reason = "this path reaches no footprint that misses"
        return without(Status.NOT_FOUND, level.element, reason, "miss_penalty", evidence=level.evidence)[0]
    misses, points, evidence = level.behind, len(level.behind.points), level.evidence
    sms: list[int] = bench.rng("misses", level.path, "sms").permutation(bench.info.sm_count).tolist()

    def more(numbers: range) -> Ask[list[list[Array]]]:
        nonlocal evidence
        traces = yield [replace(chase, sm=sms[n - 1], alone=True) for n in numbers for chase in chases]
        evidence += tuple(trace.workload for trace in traces)
        cycles = [
            (misses if i % len(chases) == 0 else level.hit).select(trace.cycles) for i, trace in enumerate(traces)
        ]
        return [cycles[i : i + len(chases)] for i in range(0, len(cycles), len(chases))]

    def penalty(samples: Sequence[list[Array]]) -> Latency:
        missed, hit = (np.concatenate([of_sm[i] for of_sm in samples if i < len(of_sm)]) for i in (0, 1))
        by_sm = [miss_penalty(of_sm[1] if len(of_sm) > 1 else hit, of_sm[0]) for of_sm in samples]
        error = max(deviation, deviation_over_sms(by_sm))
        return widened(miss_penalty(hit, missed), error, points + len(samples) - 1)

    first = [[misses.samples, level.hit.samples]]
    samples = yield from until_precise(bench, first, 1 + len(sms) * bool(chases), more, penalty)
    method = "difference between the plateaus of single accesses (the timer cancels)"
    latency = penalty(samples)
    caveats = shortfall(bench, latency)
    return latency_estimate(level.element, "miss_penalty", latency, method, evidence, caveats=caveats)


def latency_estimate(
    element: str,
    attribute: str,
    latency: Latency,
    method: str,
    evidence: tuple[str, ...],
    confidence: float = LATENCY,
    caveats: tuple[str, ...] = (),
) -> Estimate:
    """The estimate of a latency in cycles."""
    return found(element, attribute, latency.cycles, latency.low, latency.high, confidence, method, evidence, caveats)


def scattered_chases(
    path: Path, bench: Bench, *seed_parts: str, chain_bytes: int = L2_CHAIN_BYTES, count: int = L2_CHAINS
) -> list[Chase]:
    """Laps of up to `count` chains over different lines of the L2, each followed by another SM.

    Their seeds follow from `seed_parts` and a number.
    """
    count = max(1, min(count, bench.info.limit(path) // L2_CHAIN_DISTANCE))
    sms: list[int] = bench.rng(*seed_parts, "sms").permutation(bench.info.sm_count).tolist()
    links, distance = chain_bytes // L2_STRIDE, L2_CHAIN_DISTANCE
    orders = (Shuffled(links, L2_STRIDE, bench.seed_for(*seed_parts, i), start=i * distance) for i in range(count))
    return [replace(lap_chase(path, order, alone=True), sm=sm) for order, sm in zip(orders, cycle(sms), strict=False)]


def l2_latency_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency and miss penalty of the L2, cycles; of its near and its far partition, if it has two."""
    level = level_of("l2", known)
    if level is None:
        return absent("l2", known, *L2_ATTRIBUTES)
    chain_bytes = min(L2_CHAIN_BYTES, level.hit.largest // 2)
    max_chains = max(L2_CHAINS, bench.info.sm_count)
    chases = scattered_chases(level.path, bench, "latency", "l2", chain_bytes=chain_bytes, count=max_chains)
    traces = yield [*chases[:L2_CHAINS], replace(chases[0], timing=Timing.EACH, laps=5)]
    *laps, single = traces

    def more(numbers: range) -> Ask[list[Trace]]:
        return (yield [chases[number] for number in numbers])

    def chains_of(laps: Sequence[Trace]) -> list[Latency]:
        return [lap_latency(trace.cycles, chases[0].order.count) for trace in laps]

    laps = yield from until_precise(bench, laps, len(chases), more, lambda laps: median_over_sms(chains_of(laps)))
    chains, traces = chains_of(laps), [*laps, single]
    timing = L2Timing(timing_overhead(single.cycles, chains[0]), deviation_over_sms(chains))
    evidence = tuple(trace.workload for trace in traces)
    cycles = [chain.cycles for chain in chains]
    caveat = f"median over SMs and lines; single chains take {min(cycles):.0f} to {max(cycles):.0f} cycles"
    method = L2_METHOD.format(len(chains))
    latency = median_over_sms(chains)
    caveats = (caveat, *shortfall(bench, latency))
    hit = latency_estimate("l2", "hit_latency", latency, method, evidence, LATENCY, caveats)
    if level.far_partition is None:
        partitions = without(Status.NOT_FOUND, "l2", NO_FAR_PARTITION, *PARTITION_ATTRIBUTES)
    else:
        latency = widened(trimmed_mean(level.far_partition.hits.samples, timing.overhead), timing.deviation)
        caveats = (FROM_ONE_SM.format(timing.deviation),)
        far = latency_estimate("l2", "far_latency", latency, FAR_METHOD, evidence + level.evidence, BRACKETED, caveats)
        partitions = (replace(hit, attribute="near_latency"), far)
    chases = []
    if level.behind is not None:
        hits = sample_chase(level.path, *max(level.hit.points), bench)
        chases = [memory_chase(level.path, level.behind.points[0][1], bench), hits]
    penalty = yield from _penalty_estimate(level, timing.deviation, chases, bench)
    return Outcome((hit, *partitions, penalty), timing)


def far_partition_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency of the far partition, cycles, mean over SMs; no estimate without such a partition.

    In place of that from one SM. Each traverses a footprint that its near partition does not hold. Its hits in the far
    one are accesses to lines with a far home that take longer than a near hit and less than memory. Which lines have a
    far home depends on the SM, so each SM also accesses them first after a flush.
    """
    level, timing = level_of("l2", known), known[L2_TIMING]
    if level is None or timing is None or level.far_partition is None or level.home_partition is None:
        return Outcome()
    home, size = level.home_partition, level.far_partition.overflow_footprint
    chase, offsets = overflow_chase(level.path, size, bench)
    chases = [chase, *first_access_chases(level.path, offsets, bench, size)]
    sms: list[int] = bench.rng("far", "sms").permutation(bench.info.sm_count).tolist()
    evidence: tuple[str, ...] = ()

    def sample(numbers: range) -> Ask[list[Array]]:
        nonlocal evidence
        traces = yield [replace(each, sm=sms[number]) for number in numbers for each in chases]  # of the same memory
        evidence += tuple(trace.workload for trace in traces)
        found_by_sm = (
            far_hits(level, home, size, trace, touches)[0]
            for trace, *touches in (traces[i : i + len(chases)] for i in range(0, len(traces), len(chases)))
        )
        return [hits.samples if hits is not None else np.empty(0, np.int64) for hits in found_by_sm]

    def means_of(samples: Sequence[Array]) -> list[Latency]:
        return [trimmed_mean(each, timing.overhead) for each in samples if each.size]

    def mean(samples: Sequence[Array]) -> Latency:
        by_sm = means_of(samples)
        deviation = max(timing.deviation, deviation_over_sms(by_sm))
        return widened(trimmed_mean(np.concatenate(samples), timing.overhead), deviation, len(by_sm))

    samples = yield from sample(range(min(FAR_SMS, len(sms))))
    if len(means_of(samples)) < MIN_FAR_SMS:
        return Outcome()
    samples = yield from until_precise(bench, samples, len(sms), sample, mean)
    latency, means = mean(samples), [each.cycles for each in means_of(samples)]
    caveat = f"mean over {len(means)} SMs; single SMs: {min(means):.0f} to {max(means):.0f} cycles"
    caveats = (caveat, *shortfall(bench, latency))
    return Outcome((latency_estimate("l2", "far_latency", latency, FAR_METHOD, evidence, BRACKETED, caveats),))


def timer_plan(bench: Bench, known: Known) -> Plan:
    """Cycles that timing a single access adds: its time less that of the same load in a pure pointer chase.

    An empty timed window shows how often the clock can be read, not what it adds to a load.
    """
    path = next((path for path in (Path.SHARED, Path.GLOBAL) if bench.info.limit(path) >= TIMER_BYTES), None)
    if path is None:
        return Outcome(without(Status.NOT_SUPPORTED, "timer", "no path on which an access could be timed", "overhead"))
    sizes = (TIMER_BYTES, TIMER_BYTES // 2)
    whole, half = (footprint(size, path.word, bench.seed_for("timer", size)) for size in sizes)
    lap_chases = [replace(lap_chase(path, order), laps=TIMER_LAPS) for order in (whole, half)]
    traces = yield [Chase(path=path, order=half, timing=Timing.EACH, warmup=WARMUP_LAPS, laps=1), *lap_chases]
    latency = lap_latency(traces[1].cycles, whole.count, traces[2].cycles, half.count)
    if np.ptp(traces[1].cycles) > MAX_LAP_SPREAD * whole.count:  # something delays loads now and then: shorter laps
        size = MAX_LINKS * path.word
        chains = [footprint(each, path.word, bench.seed_for("timer", each)) for each in (size, size // 2)]
        short = yield [lap_chase(path, order) for order in chains]
        latency = lap_latency(short[0].cycles, MAX_LINKS, short[1].cycles, MAX_LINKS // 2)
        traces = [*traces, *short]
    low, median, high = (float(q) - latency.cycles for q in np.quantile(traces[0].cycles, [0.01, 0.5, 0.99]))
    method = f"a single access less the same load in a pure pointer chase, on path {path.value}"
    overhead = Latency(median, low, high)
    evidence = tuple(trace.workload for trace in traces)
    return Outcome((latency_estimate("timer", "overhead", overhead, method, evidence, TIMED),), median)


EXPERIMENTS = (
    *for_each_cache(latency_of, latency_plan, levels_of, caches=PRIVATE_CACHES, emits=("hit_latency",), quick=True),
    *for_each_cache(
        lambda element: Key(f"penalty.{element}"),
        penalty_plan,
        levels_of,
        lambda _: L2_TIMING,
        lines_of,
        caches=PRIVATE_CACHES,
        emits=("miss_penalty",),
        quick=True,
    ),
    Experiment(L2_TIMING, l2_latency_plan, L2_ATTRIBUTES, needs=(L2,), quick=True),
    Experiment(Key("far_partition.l2"), far_partition_plan, needs=(L2, L2_TIMING), revises=("l2.far_latency",)),
    Experiment(Key("timer"), timer_plan, ("overhead",), quick=True),
)

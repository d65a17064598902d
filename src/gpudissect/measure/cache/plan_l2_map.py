"""A map of the L2: hit latency of every SM, and the partition that each SM lies in.

Each SM in turn accesses the same lines after a flush, and then again lap after lap. The first accesses show the
partition of an SM: memory near to it answers sooner, and which lines are near is reversed in the other partition. The
laps after that are hits. They alone would not do, for an SM keeps copies of far lines in the near partition. The SMs
come in random order, and some come again at the end, so that nothing that changes with time looks like a partition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import scattered_offsets
from gpudissect.measure.cache.infer_l2_partitions import (
    MIN_SMS,
    LatencyMap,
    Partitions,
    count_slices,
    find_partitions,
    fit_additive,
    share_explained_by_partition,
)
from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.plan_dram import MEMORY_LATENCY
from gpudissect.measure.cache.plan_latency import L2_TIMING, latency_estimate
from gpudissect.measure.cache.plan_levels import L2, L2_STRIDE, absent, level_of
from gpudissect.measure.infer_confidence import BRACKETED, TIMED, UNTRIED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT, Latency, lap_latency, median_over_sms
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Explicit, Timing

LINES = 192  # whole checks of a lap; with all laps of 132 SMs as many numbers as a recording should hold
SPAN = 2 << 20  # one large page
LAPS = 5  # one of first accesses, four of hits
REPEATED_SMS = 16
UNTIMED_SMS, UNTIMED_LAPS = 3, 21  # whole laps, which give the timing overhead of single accesses
MIN_RESIDENT_SHARE = 0.5  # of the lines, which must hit from every SM
MAX_NAMED_SMS = 8
ATTRIBUTES = ("latency_by_sm", "partition_by_sm")
METHOD = "mean over lines of the median of single hits, less the timing overhead"
BY_TOUCHES = "which lines are near and which far, by first accesses from every SM"
MEMORY_METHOD = "median over all SMs of first accesses to lines of that home, less the timing overhead"
BY_HITS = "two patterns of hit latencies over the lines"


@dataclass(frozen=True, eq=False)
class _Measured:
    """Latencies of all SMs, those of the `repeated` SMs once more, and the timing overhead on some SMs (cycles)."""

    level: Level
    latencies: LatencyMap
    repeated: list[int]
    repetition: LatencyMap
    overheads: list[float]
    partitions: Partitions | None
    span: str
    evidence: tuple[str, ...]

    @property
    def overhead(self) -> float:
        """Median timing overhead in cycles."""
        return float(np.median(self.overheads))


def l2_map_plan(bench: Bench, known: Known) -> Plan:
    """Hit latency of every SM, cycles, and the partition of the L2 that each lies in."""
    level = level_of("l2", known)
    if level is None:
        return absent("l2", known, *ATTRIBUTES)
    span = min(SPAN, bench.info.limit(level.path))
    lines = scattered_offsets(min(LINES, span // L2_STRIDE), L2_STRIDE, span, bench.rng("map"))
    sms: list[int] = bench.rng("map", "order").permutation(bench.info.sm_count).tolist()
    repeated: list[int] = bench.rng("map", "again").permutation(sms)[:REPEATED_SMS].tolist()
    chase = partial(Chase, path=level.path, order=Explicit(lines), alone=True)
    timed = partial(chase, timing=Timing.EACH, warmup=0, laps=LAPS, flush=True)
    untimed = partial(chase, timing=Timing.LAP, warmup=2, laps=UNTIMED_LAPS)
    first = [timed(sm=sm) for sm in sms]
    laps = [untimed(sm=sm) for sm in sms[:UNTIMED_SMS]]
    again = [timed(sm=sm, repetition=1) for sm in repeated]
    traces = yield [*first, *laps, *again]  # one batch: in the next the lines might be allocated elsewhere
    cycles = [trace.cycles.reshape(LAPS, -1) for trace in (*traces[: len(first)], *traces[len(first) + len(laps) :])]
    latencies = LatencyMap.from_laps([cycles[i] for i in np.argsort(sms)])
    repetition = LatencyMap.from_laps(cycles[len(first) :])
    resident = np.all(latencies.hits < (level.behind.low if level.behind else np.inf), axis=0)
    if np.mean(resident) < MIN_RESIDENT_SHARE:
        hits = int(resident.sum())
        reason = f"of {lines.size} lines within {format_bytes(span)} only {hits} are hits from every SM"
        return Outcome(without(Status.NOT_FOUND, "l2", reason, *ATTRIBUTES))
    pure = [lap_latency(trace.cycles, lines.size).cycles for trace in traces[len(first) : len(first) + len(laps)]]
    overheads = [float(latencies.hits[sm].mean()) - latency for sm, latency in zip(sms, pure, strict=False)]
    if not resident.all() and (timing := known[L2_TIMING]) is not None:  # in laps, what misses may be another line
        overheads = [timing.overhead.cycles]
    latencies, repetition = latencies.select(resident), repetition.select(resident)
    evidence = tuple(trace.workload for trace in traces)
    partitions = find_partitions(latencies)
    measured = _Measured(level, latencies, repeated, repetition, overheads, partitions, format_bytes(span), evidence)
    return Outcome((_latency_estimate(measured), _partition_estimate(measured), *_memory_estimates(measured)))


def _latency_estimate(measured: _Measured) -> Estimate:
    hits, overhead, repeated = measured.latencies.hits, measured.overhead, measured.repeated
    model = fit_additive(hits)
    cycles = hits.mean(axis=1) - overhead
    change = float(np.max(np.abs(measured.repetition.hits.mean(axis=1) - hits[repeated].mean(axis=1))))
    error = 0.5 + MAX_CLOCK_DRIFT * float(cycles.max()) + float(np.ptp(measured.overheads)) / 2 + change
    low, high = np.quantile(model.by_line, [0.005, 0.995]) + model.mean - overhead
    caveats = [
        f"over the same {hits.shape[1]} lines within {measured.span}; error of each: {error:.1f} cycles",
        f"{len(repeated)} SMs measured again at the end: within {change:.1f} cycles of the first measurement",
        f"lines differ as well: {low:.0f} to {high:.0f} cycles, means over the SMs",
    ]
    if model.explained is not None:
        caveat = f"latency = SM + line explains {model.explained:.1%} of the variance"
        if measured.partitions is not None:
            explained = share_explained_by_partition(hits, measured.partitions.second) or 0
            caveat += f", with separate lines for each partition {explained:.1%}"
        caveats.append(caveat)
    if (slices := count_slices(hits)) is not None:
        caveats.append(f"the lines show {slices} different patterns over the SMs: at least as many slices")
    latencies = tuple(round(float(latency), 1) for latency in cycles)
    return found("l2", "latency_by_sm", latencies, None, None, TIMED, METHOD, measured.evidence, tuple(caveats))


def _partition_estimate(measured: _Measured) -> Estimate:
    partitions, sms = measured.partitions, len(measured.latencies.hits)
    if partitions is None:
        reason = "the same lines are fast from every SM: one partition"
        if sms < MIN_SMS:
            reason = f"{sms} SMs are too few to distinguish partitions"
        return without(Status.NOT_FOUND, "l2", reason, "partition_by_sm", evidence=measured.evidence)[0]
    changed = partitions.assign(measured.repetition) != partitions.second[measured.repeated]
    unsure = sorted({*partitions.groups.unsure, *np.array(measured.repeated)[changed].tolist()})
    method = BY_TOUCHES if partitions.by_touches else BY_HITS
    if unsure:
        named = ", ".join(map(str, unsure[:MAX_NAMED_SMS])) + (" and more" if len(unsure) > MAX_NAMED_SMS else "")
        reason = f"two groups of SMs, but some lines or the second measurement put SM {named} into the other"
        fields = {"method": method, "evidence": measured.evidence}
        return without(Status.AMBIGUOUS, "l2", reason, "partition_by_sm", **fields)[0]
    value = tuple(map(float, partitions.second))
    confidence = BRACKETED if partitions.by_touches and partitions.hits_agree is not False else UNTRIED
    caveats = tuple(_near_and_far_caveats(measured, partitions))
    return found("l2", "partition_by_sm", value, None, None, confidence, method, measured.evidence, caveats)


def _memory_estimates(measured: _Measured) -> Iterator[Estimate]:
    """Memory latency by home partition, median over all SMs, in place of that from one SM."""
    partitions = measured.partitions
    if partitions is None or not partitions.by_touches:
        return
    touches, far = measured.latencies.touches - measured.overhead, partitions.far_lines
    error = 1.0 + MAX_CLOCK_DRIFT * float(np.median(touches)) + float(np.ptp(measured.overheads)) / 2
    for attribute, lines in (("near_latency", ~far), ("far_latency", far)):
        medians = [float(np.median(row[mask])) for row, mask in zip(touches, lines, strict=True) if mask.any()]
        latency = median_over_sms([Latency(each, each - error, each + error) for each in medians])
        caveat = f"single SMs: {min(medians):.0f} to {max(medians):.0f} cycles"
        yield latency_estimate("dram", attribute, latency, MEMORY_METHOD, measured.evidence, BRACKETED, (caveat,))


def _near_and_far_caveats(measured: _Measured, partitions: Partitions) -> list[str]:
    """Latencies of near and far lines from all SMs, beside those from one SM."""
    if not partitions.by_touches:
        return ["by hits alone: no line's memory is nearer to some SMs and farther from others"]

    def near_and_far(near: float, far: float) -> str:
        return f"near {near - measured.overhead:.0f}, far {far - measured.overhead:.0f}"

    home, far = measured.level.home_partition, measured.level.far_partition
    memory = near_and_far(*partitions.near_and_far(measured.latencies.touches))
    caveats = [f"memory from all SMs: {memory} cycles"]
    if home is not None:
        caveats[-1] += f" (one SM alone: {near_and_far(home.near, home.far)})"
    caveats.append(f"hits from all SMs: {near_and_far(*partitions.near_and_far(measured.latencies.hits))} cycles")
    if far is not None:
        one_sm = near_and_far(measured.level.hit.median, far.hits.median)
        caveats[-1] += f" (one SM alone, far ones that the near partition lacks: {one_sm})"
    if partitions.hits_agree is not None:
        caveats.append("patterns of hits group the SMs " + ("equally" if partitions.hits_agree else "differently"))
    return caveats


EXPERIMENTS = (
    Experiment(
        Key("map.l2"),
        l2_map_plan,
        ATTRIBUTES,
        needs=(L2, L2_TIMING, MEMORY_LATENCY),
        revises=("dram.near_latency", "dram.far_latency"),
    ),
)

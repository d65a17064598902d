"""Bulk copies from global into shared memory (TMA; Hopper on): how long one takes, and how much all of them move."""

from __future__ import annotations

from dataclasses import replace

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_l2_latency import FROM_ONE_SM
from gpudissect.measure.cache.plan_latency import latency_found
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import lap_latency, median_latency
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import peak_bandwidth
from gpudissect.measure.throughput.stream_search import BestStream, bandwidth_estimate, measure_best, why_no_streams
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Shuffled, Stream, Timing
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer

RINGS = 9
LAPS = 41
STRIDE = 128
SIZE = 32 << 10  # of a ring, bytes: well inside the L2, or any part of it
APART = 1 << 20
METHOD = (
    f"median of {RINGS} rings over different lines, of each the lower quartile of laps of 16 B copies, "
    "each to where the one before it pointed"
)
WHOLE_WAY = "from an address in a register to the next: copy, wait for its barrier, load from shared memory"

CONFIGURATIONS = (
    (1, 32 << 10, 4), (1, 16 << 10, 8), (2, 16 << 10, 4), (2, 8 << 10, 8), (4, 16 << 10, 2), (1, 16 << 10, 4),
    (2, 8 << 10, 4),
)  # fmt: skip
"""Blocks an SM, bytes of a copy, copies of a block under way: 128 KiB an SM, and 64."""
PER_COPY = 8  # bytes of shared memory beside each copy, for its barrier
PER_BLOCK = 1024  # bytes of it that the driver keeps of each block
BEYOND_L2 = 64  # footprint in memory, in L2 capacities: of so much little is still in the L2
WITHIN_L2 = 4  # and in the L2: a part of its capacity
IN_MEMORY = 4 << 30  # bytes that one run reads, at least
MOST = 0.5  # of what may be taken


def tma_latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of a bulk copy of 16 bytes that hits in the L2, cycles."""
    limit = bench.info.limit(Path.TMA)
    if not limit:
        reason = bench.info.unsupported.get(Path.TMA, "this device does not tell of any bulk copies")
        return Outcome(without(Status.NOT_SUPPORTED, "tma", reason, "hit_latency"))
    orders = [
        Shuffled(SIZE // STRIDE, STRIDE, bench.seed_for("tma", turn), start=turn * APART)
        for turn in range(max(1, min(RINGS, limit // APART)))
    ]
    copies = [_over(Path.TMA, order) for order in orders]
    loads = [_over(Path.GLOBAL_L2, order) for order in orders] if bench.info.limit(Path.GLOBAL_L2) else []
    traces = yield [*copies, *loads]
    found = [lap_latency(trace.cycles, order.count) for trace, order in zip(traces, orders, strict=False)]
    latency = median_latency(found)
    caveats: tuple[str, ...] = (FROM_ONE_SM, WHOLE_WAY)
    if loads:
        direct = median_latency(
            [lap_latency(trace.cycles, order.count) for trace, order in zip(traces[len(copies) :], orders, strict=True)]
        )
        caveats += (f"loads past the L1 of the same lines: {direct.cycles:.1f} cycles",)
    evidence = tuple(digest(chase) for chase in (*copies, *loads))
    hit = latency_found("tma", "hit_latency", latency, METHOD, evidence, TIMED)
    return Outcome((replace(hit, caveats=caveats),))


def _over(path: Path, order: Shuffled) -> Chase:
    return Chase(path=path, order=order, timing=Timing.LAP, warmup=2, laps=LAPS, alone=True)


def tma_bandwidth_plan(bench: Bench, known: Known) -> Plan:
    """What bulk copies of all SMs together read from memory, B/s; from the L2 as a caveat."""
    facts = bench.info.facts
    reason = why_no_streams(Path.TMA, bench)
    l2 = facts.get("l2_size")
    if reason is None and not (isinstance(l2, int) and _fitting(bench)):
        reason = "the driver does not say how large L2 and shared memory are, or they are too small"
    if reason is not None or not isinstance(l2, int):
        return Outcome(without(Status.NOT_SUPPORTED, "tma", str(reason), "read_bandwidth"))
    beyond = min(BEYOND_L2 * l2, int(MOST * bench.info.limit(Path.TMA)))
    memory = yield from _from(beyond, bench)
    cached = yield from _from(l2 // WITHIN_L2, bench)
    bound = peak_bandwidth(bench.info)
    best = memory.best
    caveats = (
        f"{best.blocks} blocks with {best.ilp} copies of {format_bytes(best.width)} under way, "
        f"over {format_bytes(best.footprint)}",
        f"over {format_bytes(cached.best.footprint)}, in the L2: {cached.second.rate / 1e12:.4g} TB/s",
    )
    evidence = (*memory.evidence, *cached.evidence)
    found = bandwidth_estimate("tma", "read_bandwidth", replace(memory, evidence=evidence), bound, caveats)
    if found.low is not None:  # what the run before left in the L2 need not have come from memory
        found = replace(found, low=found.low * (1 - min(1.0, l2 / best.footprint)))
    return Outcome((found,))


def _fitting(bench: Bench) -> list[tuple[int, int, int]]:
    """Configurations for which an SM has enough shared memory."""
    block, sm = (bench.info.facts.get(name) for name in ("shared_per_block", "shared_per_sm"))
    if not isinstance(block, int) or not isinstance(sm, int):
        return []
    rooms = {each: each[2] * (each[1] + PER_COPY) for each in CONFIGURATIONS}
    return [each for each, room in rooms.items() if room <= block and each[0] * (room + PER_BLOCK) <= sm]


def _from(footprint: int, bench: Bench) -> Ask[BestStream]:
    """The best configuration over a footprint of about so many bytes."""
    streams = []
    for per_sm, width, depth in _fitting(bench):
        blocks = per_sm * bench.info.sm_count
        share = max(1, footprint // (blocks * width))  # copies of each block: all get the same
        whole = share * blocks * width
        streams.append(
            Stream(path=Path.TMA, transfer=Transfer.READ, footprint=whole, blocks=blocks, threads=1, ilp=depth,
                   width=width, passes=max(1, IN_MEMORY // whole))
        )  # fmt: skip
    return (yield from measure_best(streams))


EXPERIMENTS = (
    Experiment(key=Key("latency.tma"), element="tma", plan=tma_latency_plan, emits=("hit_latency",)),
    Experiment(key=Key("bandwidth.tma"), element="tma", plan=tma_bandwidth_plan, emits=("read_bandwidth",)),
)

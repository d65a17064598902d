"""Bulk copies from global into shared memory (TMA; Hopper on): latency of one, bandwidth of all."""

from dataclasses import replace
from functools import partial

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_latency import latency_estimate, scattered_chases
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import lap_latency, median_over_sms
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import peak_bandwidth
from gpudissect.measure.throughput.stream_search import BestStream, bandwidth_estimate, measure_best, why_no_streams
from gpudissect.units import format_bytes
from gpudissect.workload import Path, Stream
from gpudissect.workload.stream import Transfer

METHOD = (
    "median over chains, each from another SM over other lines; of each, the lower quartile of laps of 16 B copies, "
    "each from the address that the previous copy fetched"
)
WHOLE_PATH = "from an address in a register to the next: copy, wait for its barrier, load from shared memory"
KIB = 1 << 10
CONFIGURATIONS = (
    *((1, 32 * KIB, 4), (1, 16 * KIB, 8), (2, 16 * KIB, 4), (2, 8 * KIB, 8), (4, 16 * KIB, 2)),
    *((1, 16 * KIB, 4), (2, 8 * KIB, 4)),
)
"""Blocks per SM, bytes of a copy, copies of a block in flight: 128 KiB per SM, and 64."""
BARRIER_BYTES = 8  # of shared memory for each copy
RESERVED_BYTES = 1024  # of shared memory that the driver keeps of each block
MEMORY_FOOTPRINT_IN_L2_SIZES = 64  # so that little of it is still in the L2
L2_FOOTPRINT_SHARE = 4  # of the L2's capacity: one part in so many
MIN_READ_BYTES = 4 << 30  # of one run
MAX_MEMORY_SHARE = 0.5  # of what may be allocated


def tma_latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of a bulk copy of 16 bytes that hits in the L2, cycles."""
    if not bench.info.limit(Path.TMA):
        reason = bench.info.unsupported.get(Path.TMA, "this device reports no bulk copies")
        return Outcome(without(Status.NOT_SUPPORTED, "tma", reason, "hit_latency"))
    chases = scattered_chases(Path.TMA, bench, "tma")
    paths = (Path.TMA, Path.GLOBAL_L2) if bench.info.limit(Path.GLOBAL_L2) else (Path.TMA,)
    traces = yield [replace(chase, path=path) for path in paths for chase in chases]
    latencies = [lap_latency(trace.cycles, chases[0].order.count) for trace in traces]
    caveats: tuple[str, ...] = (WHOLE_PATH,)
    if len(paths) > 1:
        loads = median_over_sms(latencies[len(chases) :])
        caveats += (f"loads of the same lines that bypass the L1: {loads.cycles:.1f} cycles",)
    evidence = tuple(trace.workload for trace in traces)
    copies = median_over_sms(latencies[: len(chases)])
    return Outcome((latency_estimate("tma", "hit_latency", copies, METHOD, evidence, TIMED, caveats),))


def tma_bandwidth_plan(bench: Bench, known: Known) -> Plan:
    """Bandwidth at which bulk copies of all SMs read memory, B/s; from the L2 as a caveat."""
    reason, l2 = why_no_streams(Path.TMA, bench), bench.info.facts.get("l2_size")
    if reason is None and not (isinstance(l2, int) and _configurations(bench)):
        reason = "the driver does not state the sizes of L2 and shared memory, or they are too small"
    if reason is not None or not isinstance(l2, int):
        return Outcome(without(Status.NOT_SUPPORTED, "tma", str(reason), "read_bandwidth"))
    footprint = min(MEMORY_FOOTPRINT_IN_L2_SIZES * l2, int(MAX_MEMORY_SHARE * bench.info.limit(Path.TMA)))
    memory = yield from _best_over(footprint, bench)
    cached = yield from _best_over(l2 // L2_FOOTPRINT_SHARE, bench)
    best = memory.best
    caveats = (
        f"{best.blocks} blocks with {best.ilp} copies of {format_bytes(best.width)} in flight, "
        f"over {format_bytes(best.footprint)}",
        f"over {format_bytes(cached.best.footprint)}, in the L2: {cached.second.rate / 1e12:.4g} TB/s",
    )
    memory = replace(memory, evidence=(*memory.evidence, *cached.evidence))
    found = bandwidth_estimate("tma", "read_bandwidth", memory, peak_bandwidth(bench.info), caveats)
    if found.low is not None:  # what the run before left in the L2 may not have come from memory
        found = replace(found, low=found.low * (1 - min(1.0, l2 / best.footprint)))
    return Outcome((found,))


def _configurations(bench: Bench) -> list[tuple[int, int, int]]:
    """Configurations for which an SM has enough shared memory."""
    per_block, per_sm = (bench.info.facts.get(name) for name in ("shared_per_block", "shared_per_sm"))
    if not isinstance(per_block, int) or not isinstance(per_sm, int):
        return []
    return [
        (blocks, width, depth)
        for blocks, width, depth in CONFIGURATIONS
        if (used := depth * (width + BARRIER_BYTES)) <= per_block and blocks * (used + RESERVED_BYTES) <= per_sm
    ]


def _best_over(footprint: int, bench: Bench) -> Ask[BestStream]:
    """The best configuration over about so many bytes; all blocks copy equally many."""
    streams = []
    stream = partial(Stream, path=Path.TMA, transfer=Transfer.READ, threads=1)
    for per_sm, width, depth in _configurations(bench):
        blocks = per_sm * bench.info.sm_count
        total = max(1, footprint // (blocks * width)) * blocks * width
        passes = max(1, MIN_READ_BYTES // total)
        streams.append(stream(footprint=total, blocks=blocks, ilp=depth, width=width, passes=passes))
    return (yield from measure_best(streams))


EXPERIMENTS = (
    Experiment(Key("latency.tma"), tma_latency_plan, ("hit_latency",)),
    Experiment(Key("bandwidth.tma"), tma_bandwidth_plan, ("read_bandwidth",)),
)

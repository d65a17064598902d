"""Distributed shared memory (Hopper on): latency between blocks of a cluster, and the bandwidth of all of them."""

from collections.abc import Sequence
from functools import partial

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_latency import METHOD, chains_over, lap_chase, latency_estimate
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import Latency, lap_latency, median_latency
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded
from gpudissect.measure.throughput.stream_search import bandwidth_estimate, measure_best, why_no_streams
from gpudissect.trace import Trace
from gpudissect.workload import Path, Shuffled, Stream
from gpudissect.workload.stream import Transfer

LATENCIES = ("hit_latency", "near_latency", "far_latency")
CHAIN_BYTES, STRIDE = 4096, 16
CLUSTER_SIZES = (2, 4, 8, 16)
SHAPES = ((1024, 4), (1024, 2), (512, 4), (256, 4))  # threads, loads in flight; the first compares cluster sizes
WIDTH = 16
PASS_BYTES = 64 << 10  # that all threads of a block read at a time, in any shape
MAX_PASSES = 2  # of a footprint, if shared memory is large enough
READ_BYTES = 32 << 20  # of each block in a run: about a millisecond
BANK_BYTES = 128  # that an SM's shared memory gives per cycle: 32 banks of 4 bytes
ALL_BANKS = "the banks of all SMs"
NO_CLOCK = Unbounded(f"not compared with what {ALL_BANKS} can give: the driver does not state the clock")


def cluster_latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of another block's shared memory: median over the blocks of a cluster, the nearest and the farthest."""
    reason = _why_no_clusters(bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", reason, *LATENCIES))
    ranks = range(int(bench.info.facts["cluster_size"]))
    chains = chains_over(min(CHAIN_BYTES, bench.info.limit(Path.CLUSTER)), STRIDE)
    assert chains.shorter is not None  # chains_over gives one
    whole, half = (
        Shuffled(count, stride, bench.seed_for("cluster", count))
        for count, stride in ((chains.count, chains.stride), chains.shorter)
    )
    traces = yield [lap_chase(Path.CLUSTER, order, peer=rank) for rank in ranks for order in (whole, half)]
    long, short = traces[0::2], traces[1::2]
    latencies = [lap_latency(a.cycles, whole.count, b.cycles, half.count) for a, b in zip(long, short, strict=True)]
    evidence = tuple(trace.workload for trace in traces)
    first, *others = latencies
    caveats = (
        f"its own shared memory through the window of the cluster: {first.cycles:.1f} cycles",
        f"clusters of {len(ranks)} blocks; {_describe_ranks(latencies, long)}",
    )
    method = f"{METHOD}; median over the blocks of a cluster"
    hit = latency_estimate("cluster", "hit_latency", median_latency(others), method, evidence, TIMED, caveats)
    return Outcome((hit, *_near_and_far(others, evidence)))


def _why_no_clusters(bench: Bench) -> str | None:
    if not bench.info.limit(Path.CLUSTER):
        return bench.info.unsupported.get(Path.CLUSTER, "this device reports no clusters")
    size = bench.info.facts.get("cluster_size")
    return None if isinstance(size, int) and size > 1 else "this device does not report the size of its clusters"


def _describe_ranks(latencies: Sequence[Latency], traces: Sequence[Trace]) -> str:
    """Cycles of each rank, and its SMs where the traces have them."""
    parts = []
    for rank, (latency, trace) in enumerate(zip(latencies, traces, strict=True)):
        sm, peer = trace.context.sm, trace.context.notes.get("peer_sm")
        where = "" if sm is None or peer is None else f" (SM {sm} to {peer})"
        parts.append(f"{rank}{where}: {latency.cycles:.1f}")
    return "cycles by rank: " + ", ".join(parts)


def _near_and_far(others: Sequence[Latency], evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    """Latency of the nearest and of the farthest block, where they differ by more than their brackets."""
    near, far = (pick(others, key=lambda latency: latency.cycles) for pick in (min, max))
    if far.low <= near.high:
        reason = "all other blocks of the cluster have the same latency, within the variation of laps"
        return without(Status.NOT_FOUND, "cluster", reason, "near_latency", "far_latency")
    return tuple(
        latency_estimate("cluster", attribute, latency, f"{METHOD}; {which} of a cluster", evidence, TIMED)
        for attribute, latency, which in (
            ("near_latency", near, "nearest block"),
            ("far_latency", far, "farthest block"),
        )
    )


def cluster_bandwidth_plan(bench: Bench, known: Known) -> Plan:
    """Bandwidth at which all blocks together read their neighbours' shared memory, B/s."""
    reason = _why_no_clusters(bench) or why_no_streams(Path.CLUSTER, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", reason, "read_bandwidth"))
    counts = {size: bench.info.facts.get(f"clusters_{size}") for size in CLUSTER_SIZES}
    available = [(size, count) for size, count in counts.items() if isinstance(count, int) and count > 0]
    footprint = min(MAX_PASSES, bench.info.limit(Path.CLUSTER) // PASS_BYTES) * PASS_BYTES
    if not available or not footprint:
        reason = "no clusters, or blocks with enough shared memory, that the driver would run at once"
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", reason, "read_bandwidth"))
    streams = [_neighbour_stream(footprint, size, count, *SHAPES[0]) for size, count in available]
    streams += [_neighbour_stream(footprint, *available[0], *shape) for shape in SHAPES[1:]]
    measured = yield from measure_best(streams)
    best, clock = measured.best, bench.info.facts.get("clock_hz")
    bound = Bound(best.blocks * BANK_BYTES * float(clock), ALL_BANKS) if clock else NO_CLOCK
    rates = zip(available, measured.rates, strict=False)
    by_size = ", ".join(f"{size}: {result.rate / 1e12:.3g}" for (size, _), result in rates)
    caveats = (
        f"every block reads the next one of its cluster; TB/s by blocks per cluster: {by_size}",
        f"{best.blocks} blocks of {best.threads} threads with {best.ilp} loads of {WIDTH} B in flight, "
        f"clusters of {best.cluster}",
    )
    return Outcome((bandwidth_estimate("cluster", "read_bandwidth", measured, bound, caveats),))


def _neighbour_stream(footprint: int, size: int, count: int, threads: int, ilp: int) -> Stream:
    """Every block of `count` clusters of `size` blocks reads the shared memory of the next block."""
    stream = partial(Stream, path=Path.CLUSTER, transfer=Transfer.READ, width=WIDTH, passes=READ_BYTES // footprint)
    return stream(footprint=footprint, blocks=size * count, cluster=size, threads=threads, ilp=ilp)


EXPERIMENTS = (
    Experiment(Key("latency.cluster"), cluster_latency_plan, LATENCIES),
    Experiment(Key("bandwidth.cluster"), cluster_bandwidth_plan, ("read_bandwidth",)),
)

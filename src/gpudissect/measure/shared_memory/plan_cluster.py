"""Distributed shared memory (Hopper on): latency between blocks of a cluster, and how much all of them read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_latency import LAPS, METHOD, latency_found, over_the_same
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import Latency, lap_latency, median_latency
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded
from gpudissect.measure.throughput.stream_search import bandwidth_estimate, measure_best, why_no_streams
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Path, Shuffled, Stream, Timing
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer

LATENCIES = ("hit_latency", "near_latency", "far_latency")
SIZE = 4096
STRIDE = 16
OVER_RANKS = "over the blocks of a cluster"
ONE_DISTANCE = "every other block of the cluster answers after the same time, within what laps differ by"

SIZES = (2, 4, 8, 16)  # of clusters
SHAPES = (
    (1024, 4),
    (1024, 2),
    (512, 4),
    (256, 4),
)  # threads, loads in flight of each; the first tells cluster sizes apart
WIDTH = 16
AT_A_TIME = 64 << 10  # bytes that all threads of a block read in one round, in any shape
ROUNDS = 2  # that a footprint takes, if shared memory is large enough
READ = 32 << 20  # bytes that each block reads in a run: about a millisecond
BANKS = 128  # bytes an SM's shared memory gives in a cycle: 32 banks of 4 bytes
ALL_BANKS = "the banks of all SMs"
NO_CLOCK = Unbounded(f"not compared with what {ALL_BANKS} can give: the driver does not say")


def cluster_latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of another block's shared memory: median over the blocks of a cluster, the nearest and the farthest."""
    reason = _why_no_clusters(bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", reason, *LATENCIES))
    ranks = range(int(bench.info.facts["cluster_size"]))
    chases = [chase for rank in ranks for chase in _rings(rank, bench)]
    traces = yield chases
    whole, half = chases[0].order.count, chases[1].order.count
    found = [
        lap_latency(long.cycles, whole, short.cycles, half)
        for long, short in zip(traces[0::2], traces[1::2], strict=True)
    ]
    evidence = tuple(digest(chase) for chase in chases)
    own, *others = found
    caveats = (
        f"its own shared memory through the window of the cluster: {own.cycles:.1f} cycles",
        f"clusters of {len(ranks)} blocks; {_by_rank(found, traces)}",
    )
    method = f"{METHOD}; median {OVER_RANKS}"
    hit = latency_found("cluster", "hit_latency", median_latency(others), method, evidence, TIMED)
    return Outcome((replace(hit, caveats=caveats), *_distances(others, evidence)))


def _why_no_clusters(bench: Bench) -> str | None:
    if not bench.info.limit(Path.CLUSTER):
        return bench.info.unsupported.get(Path.CLUSTER, "this device does not tell of any clusters")
    size = bench.info.facts.get("cluster_size")
    return None if isinstance(size, int) and size > 1 else "this device does not say how large its clusters are"


def _rings(rank: int, bench: Bench) -> list[Chase]:
    """A ring in the memory of this rank, and one of half its links over the same span."""
    rings = over_the_same(min(SIZE, bench.info.limit(Path.CLUSTER)), STRIDE)
    assert rings.shorter is not None  # over_the_same gives one
    return [
        Chase(path=Path.CLUSTER, order=Shuffled(count, stride, bench.seed_for("cluster", count)), timing=Timing.LAP,
              warmup=2, laps=LAPS, peer=rank)
        for count, stride in ((rings.count, rings.stride), rings.shorter)
    ]  # fmt: skip


def _by_rank(found: Sequence[Latency], traces: Sequence[Trace]) -> str:
    """What each rank took, and between which SMs, as far as the traces tell."""
    parts = []
    for rank, (latency, trace) in enumerate(zip(found, traces[0::2], strict=True)):
        there = trace.context.notes.get("peer_sm")
        where = f" (SM {trace.context.sm} to {there})" if there is not None and trace.context.sm is not None else ""
        parts.append(f"{rank}{where}: {latency.cycles:.1f}")
    return "cycles by rank: " + ", ".join(parts)


def _distances(others: Sequence[Latency], evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    """Latency of the nearest and of the farthest block, where they differ by more than their brackets."""
    near, far = min(others, key=lambda each: each.cycles), max(others, key=lambda each: each.cycles)
    if far.low <= near.high:
        return without(Status.NOT_FOUND, "cluster", ONE_DISTANCE, "near_latency", "far_latency")
    return (
        latency_found("cluster", "near_latency", near, f"{METHOD}; least {OVER_RANKS}", evidence, TIMED),
        latency_found("cluster", "far_latency", far, f"{METHOD}; most {OVER_RANKS}", evidence, TIMED),
    )


def cluster_bandwidth_plan(bench: Bench, known: Known) -> Plan:
    """What all blocks together read from their neighbours' shared memory, B/s."""
    reason = _why_no_clusters(bench) or why_no_streams(Path.CLUSTER, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", reason, "read_bandwidth"))
    counts = {size: bench.info.facts.get(f"clusters_{size}") for size in SIZES}
    fitting = [(size, count) for size, count in counts.items() if isinstance(count, int) and count > 0]
    rounds = min(ROUNDS, bench.info.limit(Path.CLUSTER) // AT_A_TIME)
    if not fitting or not rounds:
        lacking = "clusters, or blocks with enough shared memory, that the driver would run at once"
        return Outcome(without(Status.NOT_SUPPORTED, "cluster", f"no {lacking}", "read_bandwidth"))
    streams = [_ring_of_blocks(rounds, size, count, *SHAPES[0]) for size, count in fitting]
    streams += [_ring_of_blocks(rounds, *fitting[0], *shape) for shape in SHAPES[1:]]
    measured = yield from measure_best(streams)
    clock = bench.info.facts.get("clock_hz")
    most = Bound(measured.best.blocks * BANKS * float(clock), ALL_BANKS) if clock else NO_CLOCK
    by_size = ", ".join(
        f"{stream.cluster}: {each.rate / 1e12:.3g}" for stream, each in zip(streams, measured.rates, strict=True)
        if (stream.threads, stream.ilp) == SHAPES[0]
    )  # fmt: skip
    caveats = (
        f"every block reads the next one of its cluster; TB/s by blocks of a cluster: {by_size}",
        f"{measured.best.blocks} blocks of {measured.best.threads} threads with {measured.best.ilp} loads of {WIDTH} B "
        f"in flight, clusters of {measured.best.cluster}",
    )
    return Outcome((bandwidth_estimate("cluster", "read_bandwidth", measured, most, caveats),))


def _ring_of_blocks(rounds: int, size: int, count: int, threads: int, ilp: int) -> Stream:
    footprint = rounds * AT_A_TIME
    return Stream(
        path=Path.CLUSTER, transfer=Transfer.READ, footprint=footprint, blocks=size * count, threads=threads, ilp=ilp,
        width=WIDTH, passes=READ // footprint, cluster=size,
    )  # fmt: skip


EXPERIMENTS = (
    Experiment(key=Key("latency.cluster"), element="cluster", plan=cluster_latency_plan, emits=LATENCIES),
    Experiment(key=Key("bandwidth.cluster"), element="cluster", plan=cluster_bandwidth_plan, emits=("read_bandwidth",)),
)

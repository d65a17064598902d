"""Latency and read bandwidth against footprint, through every level of the global path: what a kernel meets.

Nothing is inferred from these curves: capacities, latencies and bandwidths have experiments of their own. *Latency*:
whole laps of a pure pointer chase, in random order over every line of the footprint, by one SM. *Bandwidth*: every SM
reads a part of its own, again and again, as in a kernel with one tile per block.
"""

import math
from dataclasses import replace

from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_line import lines_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.measure.throughput.stream_search import (
    Configuration,
    bytes_per_second,
    l2_sizes,
    resident_blocks,
    why_no_streams,
)
from gpudissect.series import Series
from gpudissect.units import KIB, MIB
from gpudissect.workload import Chase, Path, Stream, Timing, Transfer
from gpudissect.workload.digest import digest

ELEMENT = "curves"
STEPS_PER_OCTAVE = 2
MIN_CHASE_BYTES = 2 * KIB
ALONE_BYTES = 256 * KIB  # from which on a chain may leave the private caches: others would evict its lines
L2_FACTOR = 3.0  # of the last footprint, relative to the L2
DEFAULT_L2_BYTES = 16 * MIB
DEFAULT_LINE = 128
LAPS = 2
BLOCKS_PER_SM, THREADS, WIDTH, ILPS = 2, 512, 16, (4, 2, 1)
MIN_READ_BYTES = 16 * KIB  # of an SM
READ_BYTES = 1 << 30  # of a run, over all passes
RUNS = 3


def latency_curve_plan(bench: Bench, known: Known) -> Plan:
    """Cycles of a load against the footprint of a chase, from the L1 to memory."""
    path = Path.GLOBAL
    if not bench.info.limit(path):
        return Outcome()
    lines = [each for name in ("l1", "l2") if (each := known[lines_of(name)]) is not None]
    stride = min((each.line for each in lines), default=DEFAULT_LINE)
    sizes = footprints(MIN_CHASE_BYTES, min(_last_footprint(bench, known), bench.info.limit(path)))
    chases = [
        Chase(
            path=path,
            order=footprint(size, stride, bench.seed_for("curve", size, stride)),
            timing=Timing.LAP,
            warmup=1,
            laps=LAPS,
            alone=size >= ALONE_BYTES,
        )
        for size in sizes
    ]
    traces = yield chases
    latencies = [float(trace.cycles.min()) / chase.order.count for trace, chase in zip(traces, chases, strict=True)]
    columns = {"footprint": tuple(map(float, sizes)), "latency": tuple(latencies)}
    units = {"footprint": "B", "latency": "cycles"}
    evidence = tuple(map(digest, chases))
    return Outcome(series=(Series(ELEMENT, "latency against footprint", columns, units, evidence),))


def bandwidth_curve_plan(bench: Bench, known: Known) -> Plan:
    """Bytes per second that all SMs read, against the footprint of all of them together."""
    if why_no_streams(Path.GLOBAL, bench) is not None:
        return Outcome()
    sms, last = bench.info.sm_count, min(2 * _last_footprint(bench, known), bench.info.limit(Path.GLOBAL))
    streams: dict[int, Stream] = {}
    for size in footprints(MIN_READ_BYTES, max(MIN_READ_BYTES, last // sms)):
        if (stream := _read_stream(size, bench)) is not None:
            streams[stream.footprint] = stream
    if not streams:
        return Outcome()
    traces = yield list(streams.values())
    rates = tuple(bytes_per_second(trace).rate for trace in traces)
    columns = {"footprint": tuple(map(float, streams)), "bandwidth": rates}
    units = {"footprint": "B", "bandwidth": "B/s"}
    evidence = tuple(map(digest, streams.values()))
    return Outcome(series=(Series(ELEMENT, "read bandwidth against footprint", columns, units, evidence),))


def footprints(first: int, last: int) -> list[int]:
    """Footprints in bytes from `first` to `last`, `STEPS_PER_OCTAVE` to a power of two."""
    steps = int(STEPS_PER_OCTAVE * math.log2(max(1, last / first)) + 1e-9)
    return [round(first * 2 ** (step / STEPS_PER_OCTAVE)) for step in range(steps + 1)]


def _last_footprint(bench: Bench, known: Known) -> int:
    return int(L2_FACTOR * max(l2_sizes(bench, known), default=DEFAULT_L2_BYTES))


def _read_stream(size: int, bench: Bench) -> Stream | None:
    """Reads of about `size` bytes by each SM; None if no configuration fits."""
    for ilp in ILPS:
        shape = Configuration(BLOCKS_PER_SM, THREADS, ilp, WIDTH)
        tiles = size // shape.in_flight
        if tiles and resident_blocks(shape, bench.info) >= BLOCKS_PER_SM:
            blocks = BLOCKS_PER_SM * bench.info.sm_count
            total = tiles * blocks * shape.tile
            stream = shape.stream(Path.GLOBAL, Transfer.READ, total, blocks, max(1, READ_BYTES // total))
            return replace(stream, runs=RUNS)
    return None


NEEDS = (lines_of("l1"), lines_of("l2"), capacity_of("l2"))
EXPERIMENTS = (
    Experiment(Key(f"latency.{ELEMENT}"), latency_curve_plan, needs=NEEDS),
    Experiment(Key(f"bandwidth.{ELEMENT}"), bandwidth_curve_plan, needs=(capacity_of("l2"),)),
)

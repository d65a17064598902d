"""Latency and read bandwidth against footprint, through every level of the global path: what a kernel meets.

Nothing is inferred from these curves: capacities, latencies and bandwidths have experiments of their own. *Latency*:
whole laps of a pure pointer chase, in random order over every line of the footprint, by one SM. *Bandwidth*: every SM
reads a part of its own, again and again, as in a kernel with one tile per block; the same with loads that bypass the
L1. A part of what an SM reads may still lie in its L1 at footprints beyond all L1s together.
"""

import math
from dataclasses import replace

from gpudissect.estimate import Series
from gpudissect.measure.access_patterns import filled, footprint, next_accesses
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
from gpudissect.units import KIB, MIB
from gpudissect.workload import Chase, Path, Timing, Transfer
from gpudissect.workload.digest import digest

ELEMENT = "curves"
STEPS_PER_OCTAVE, BANDWIDTH_STEPS_PER_OCTAVE = 2, 8
MIN_CHASE_BYTES = 2 * KIB
ALONE_BYTES = 256 * KIB  # from which on a chain may leave the private caches: others would evict its lines
L2_FACTOR = 3.0  # of the last footprint, relative to the L2
DEFAULT_L2_BYTES = 16 * MIB
DEFAULT_LINE = 128
LAPS = 2  # below ALONE_BYTES
LONG_LAP = 8192  # accesses from there on, which are enough for an average
SHAPES = tuple(Configuration(blocks_per_sm=2, threads=512, ilp=ilp, width=16) for ilp in (4, 2, 1))
"""64, 32 and 16 KiB of an SM in flight, which is also the smallest footprint of an SM."""
BANDWIDTH_PATHS = {"bandwidth": Path.GLOBAL, "l2_bandwidth": Path.GLOBAL_L2}
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
    chases = [_curve_chase(size, stride, bench) for size in sizes]
    traces = yield chases
    latencies = [float(trace.cycles.min()) / chase.order.count for trace, chase in zip(traces, chases, strict=True)]
    columns = {"footprint": tuple(map(float, sizes)), "latency": tuple(latencies)}
    units = {"footprint": "B", "latency": "cycles"}
    evidence = tuple(map(digest, chases))
    return Outcome(series=(Series(ELEMENT, "latency against footprint", columns, units, evidence),))


def _curve_chase(size: int, stride: int, bench: Bench) -> Chase:
    """Laps over a footprint; of a large one only the beginning, after many threads have visited all of it."""
    order = footprint(size, stride, bench.seed_for("curve", size, stride))
    chase = Chase(path=Path.GLOBAL, order=order, timing=Timing.LAP, warmup=1, laps=LAPS)
    if size < ALONE_BYTES:
        return chase
    prior = filled(Path.GLOBAL, order)
    return replace(chase, order=next_accesses(prior, LONG_LAP), warmup=0, laps=1, alone=True, before=(prior,))


def bandwidth_curve_plan(bench: Bench, known: Known) -> Plan:
    """Bytes per second that all SMs read, against the footprint of all of them together."""
    paths = {name: path for name, path in BANDWIDTH_PATHS.items() if why_no_streams(path, bench) is None}
    shape = _shape(known[capacity_of("l1")] or 0, bench)
    if Path.GLOBAL not in paths.values() or shape is None:
        return Outcome()
    blocks = shape.blocks_per_sm * bench.info.sm_count
    unit = blocks * shape.tile  # bytes that all SMs have in flight
    last = min(2 * _last_footprint(bench, known), *(bench.info.limit(path) for path in paths.values()))
    passes = dict.fromkeys(size // unit for size in footprints(unit, last, BANDWIDTH_STEPS_PER_OCTAVE))
    sizes = [tiles * unit for tiles in passes]
    streams = [
        replace(shape.stream(path, Transfer.READ, size, blocks, max(1, READ_BYTES // size)), runs=RUNS)
        for path in paths.values()
        for size in sizes
    ]
    traces = yield streams
    rates = [bytes_per_second(trace).rate for trace in traces]
    columns = {"footprint": tuple(map(float, sizes))}
    columns |= {name: tuple(rates[i * len(sizes) : (i + 1) * len(sizes)]) for i, name in enumerate(paths)}
    units = {"footprint": "B"} | dict.fromkeys(paths, "B/s")
    evidence = tuple(map(digest, streams))
    return Outcome(series=(Series(ELEMENT, "read bandwidth against footprint", columns, units, evidence),))


def footprints(first: int, last: int, steps_per_octave: int = STEPS_PER_OCTAVE) -> list[int]:
    """Footprints in bytes from `first` to `last`, `steps_per_octave` to a power of two."""
    steps = int(steps_per_octave * math.log2(max(1, last / first)) + 1e-9)
    return [round(first * 2 ** (step / steps_per_octave)) for step in range(steps + 1)]


def _last_footprint(bench: Bench, known: Known) -> int:
    return int(L2_FACTOR * max(l2_sizes(bench, known), default=DEFAULT_L2_BYTES))


def _shape(l1_bytes: int, bench: Bench) -> Configuration | None:
    """The configuration with most in flight that the L1 has room for, else that with least; None if none fits an SM."""
    fitting = [shape for shape in SHAPES if resident_blocks(shape, bench.info) >= shape.blocks_per_sm]
    return next((shape for shape in fitting if shape.in_flight <= l1_bytes), fitting[-1] if fitting else None)


NEEDS = (lines_of("l1"), lines_of("l2"), capacity_of("l2"))
EXPERIMENTS = (
    Experiment(Key(f"latency.{ELEMENT}"), latency_curve_plan, needs=NEEDS),
    Experiment(Key(f"bandwidth.{ELEMENT}"), bandwidth_curve_plan, needs=(capacity_of("l1"), capacity_of("l2"))),
)

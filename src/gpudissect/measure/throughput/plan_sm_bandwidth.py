"""Bandwidth of L1 and shared memory, bytes per cycle of one SM."""

from collections.abc import Callable
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.plan import Bench, Experiment, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.plan_shared import BANK_LAYOUT
from gpudissect.measure.throughput import stream_search
from gpudissect.measure.throughput.infer_throughput import TIMER_STEP_NS, Throughput, rate_per_sm
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded, plateau_estimate
from gpudissect.measure.throughput.stream_search import Bandwidth, Configuration, bandwidth_of, search, why_no_streams
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import MOVES, Path, Stream, Transfer

L1_FRACTION = 2  # of the L1, surely left beside the shared memory in the same array
SHARED_BYTES = 16 << 10  # footprint of a block, if it has no more in flight
RESERVED_BYTES = 1024  # of shared memory that the driver may keep of each block
ITERATIONS = 16384  # of a thread
MAX_RUN_BYTES = {Transfer.READ: 128 << 20, Transfer.WRITE: 32 << 20, Transfer.COPY: 128 << 20}
"""Of an SM. All SMs together write to the L2, which takes a few bytes per cycle from each."""
PER_SM = "per SM, with all SMs active"
NO_L1_BOUND = Unbounded("no published peak of the L1 to compare with")
NO_BANKS = Unbounded("not compared with the banks' bandwidth: they were not found")


def l1_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of an L1, B/cycle of one SM, all SMs at once."""
    attribute = f"{transfer}_rate"
    levels, capacity = known[levels_of("l1")], known[capacity_of("l1")]
    if levels.level("l1") is None:
        absence = levels.absent["l1"]
        return Outcome(without(absence.status, "l1", absence.reason, attribute))
    if (reason := why_no_streams(Path.GLOBAL, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "l1", reason, attribute))
    if capacity is None:
        return Outcome(without(Status.NOT_FOUND, "l1", "its capacity was not found", attribute))
    footprint = capacity // L1_FRACTION

    def make(shape: Configuration) -> Stream | None:
        tiles, blocks = footprint // shape.in_flight, shape.blocks_per_sm * bench.info.sm_count
        if tiles < 1:
            return None
        passes = _passes(tiles * shape.in_flight, shape, transfer)
        return shape.stream(Path.GLOBAL, transfer, tiles * blocks * shape.tile, blocks, passes)

    surface = yield from search(stream_search.resident_configurations(bench.info), make, bench, bytes_per_cycle(bench))
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "l1", stream_search.NO_CONFIGURATION, attribute))
    caveats = (f"over {format_bytes(footprint)} of each SM", PER_SM)
    found = plateau_estimate("l1", attribute, surface, NO_L1_BOUND, caveats)
    series = surface.series("l1", f"{transfer} rate by configuration", "B/cycle", {"width": "B"})
    return Outcome((found,), Bandwidth(found, surface, make), (series,))


def shared_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of shared memory, B/cycle of one SM; of copies bytes read and bytes written."""
    attribute = f"{transfer}_rate"
    reason = why_no_streams(Path.SHARED, bench)
    per_block, per_sm = (bench.info.facts.get(name) for name in ("shared_per_block", "shared_per_sm"))
    if reason is None and not isinstance(per_block, int):
        reason = "the device does not state how much shared memory a block may have"
    if reason is not None or not isinstance(per_block, int):
        return Outcome(without(Status.NOT_SUPPORTED, "shared", str(reason), attribute))
    limit = min(per_block, bench.info.limit(Path.SHARED))
    total = per_sm if isinstance(per_sm, int) else per_block
    buffers = 2 if transfer is Transfer.COPY else 1

    def make(shape: Configuration) -> Stream | None:
        room = min(limit, total // shape.blocks_per_sm - RESERVED_BYTES) // buffers
        tiles = min(room, max(SHARED_BYTES, shape.tile)) // shape.tile
        if tiles < 1:
            return None
        blocks, passes = shape.blocks_per_sm * bench.info.sm_count, _passes(tiles * shape.in_flight, shape, transfer)
        return shape.stream(Path.SHARED, transfer, tiles * shape.tile, blocks, passes)

    surface = yield from search(stream_search.resident_configurations(bench.info), make, bench, bytes_per_cycle(bench))
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", stream_search.NO_CONFIGURATION, attribute))
    layout = known[BANK_LAYOUT]
    bound = Bound(layout.banks * layout.width, "the banks") if layout is not None else NO_BANKS
    found = plateau_estimate("shared", attribute, surface, bound, (PER_SM,))
    series = surface.series("shared", f"{transfer} rate by configuration", "B/cycle", {"width": "B"})
    return Outcome((found,), Bandwidth(found, surface, make), (series,))


def _passes(footprint: int, shape: Configuration, transfer: Transfer) -> int:
    """Passes over an SM's footprint (bytes) for a run of sufficient length, whatever is in flight."""
    return max(1, min(ITERATIONS * shape.in_flight, shape.narrowed(MAX_RUN_BYTES[transfer])) // footprint)


def bytes_per_cycle(bench: Bench) -> Callable[[Trace], Throughput]:
    """Bytes per cycle of one SM, by the measured clock or else by the stated one."""
    stated = bench.info.facts.get("clock_hz")

    def read(trace: Trace) -> Throughput:
        clock = trace.context.clock_hz or (float(stated) if isinstance(stated, int | float) else None)
        elapsed = np.asarray(trace.nanoseconds * (clock / 1e9 if clock else np.nan), np.float64)
        step = TIMER_STEP_NS * clock / 1e9 if clock else 0.0
        return rate_per_sm(trace.bytes, trace.cycles, bench.info.sm_count, elapsed, step)

    return read


EXPERIMENTS = tuple(
    Experiment(bandwidth_of(element, transfer), partial(plan, transfer), (f"{transfer}_rate",), needs=needs)
    for element, plan, transfers, needs in (
        ("shared", shared_bandwidth_plan, MOVES, (BANK_LAYOUT,)),
        ("l1", l1_bandwidth_plan, (Transfer.READ, Transfer.WRITE), (levels_of("l1"), capacity_of("l1"))),
    )
    for transfer in transfers
)

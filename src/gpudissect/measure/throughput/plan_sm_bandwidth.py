"""Bandwidth inside an SM, bytes a cycle of one: of its L1, of its shared memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.plan import Bench, Experiment, Known, Outcome, Plan, without
from gpudissect.measure.shared_memory.plan_banks import BANK_LAYOUT
from gpudissect.measure.throughput.bandwidth import bandwidth_of, why_no_streams
from gpudissect.measure.throughput.bound import Bound, Unbounded
from gpudissect.measure.throughput.configurations import Configuration, resident, search
from gpudissect.measure.throughput.infer_throughput import CLOCK_STEP, Throughput, rate_of_one
from gpudissect.measure.throughput.surface import plateau_found
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Path, Stream, Transfer

WITHIN = 2  # a part of the L1 that is surely left beside what shared memory takes of it
OF_SHARED = 16 << 10  # bytes that a block goes through, if what it has in flight is no more
PER_BLOCK = 1024  # bytes of shared memory that the driver may keep of each block
ROUNDS = 16384  # times that a thread goes for what it has in flight
MOST_BYTES = 128 << 20  # that an SM moves in a run
OF_ONE = "of one SM, all SMs at once"
NO_BOUND = Unbounded("held against no bound: nobody states what an L1 can give")
NO_BANKS = Unbounded("not held against what the banks can give: they were not found")
NO_ROOM = "no configuration has room on this device"


def l1_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """What an L1 gives or takes, B/cycle of one SM, all SMs at once. Its knowledge is the estimate."""
    attribute = f"{transfer}_rate"
    levels = known[levels_of("l1")]
    capacity = known[capacity_of("l1")]
    if levels.level("l1") is None:
        absence = levels.absent["l1"]
        return Outcome(without(absence.status, "l1", absence.reason, attribute))
    reason = why_no_streams(Path.GLOBAL, bench)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "l1", reason, attribute))
    if capacity is None:
        return Outcome(without(Status.NOT_FOUND, "l1", "its capacity was not found", attribute))
    share = capacity // WITHIN

    def make(shape: Configuration) -> Stream | None:
        rounds = share // shape.in_flight
        blocks = shape.blocks_per_sm * bench.info.sm_count
        return None if rounds < 1 else Stream(
            path=Path.GLOBAL, transfer=transfer, footprint=rounds * blocks * shape.tile, blocks=blocks,
            threads=shape.threads, ilp=shape.ilp, width=shape.width,
            passes=_passes(rounds * shape.in_flight, shape),
        )  # fmt: skip

    surface = yield from search(resident(bench.info), make, _by_the_blocks(bench), bench)
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "l1", NO_ROOM, attribute))
    found = plateau_found("l1", attribute, surface, NO_BOUND, (f"over {format_bytes(share)} of each SM", OF_ONE))
    series = surface.series("l1", f"{transfer} rate by configuration", "B/cycle", {"width": "B"})
    return Outcome((found,), found, (series,))


def shared_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """What shared memory gives or takes, B/cycle of one SM; of copies bytes read and bytes written."""
    attribute = f"{transfer}_rate"
    reason = why_no_streams(Path.SHARED, bench)
    block, sm = (bench.info.facts.get(name) for name in ("shared_per_block", "shared_per_sm"))
    if reason is None and not isinstance(block, int):
        reason = "the device does not say how much shared memory a block may have"
    if reason is not None or not isinstance(block, int):
        return Outcome(without(Status.NOT_SUPPORTED, "shared", str(reason), attribute))
    most = min(block, bench.info.limit(Path.SHARED))
    whole = sm if isinstance(sm, int) else block
    buffers = 2 if transfer is Transfer.COPY else 1

    def make(shape: Configuration) -> Stream | None:
        room = min(most, whole // shape.blocks_per_sm - PER_BLOCK) // buffers
        tiles = min(room, max(OF_SHARED, shape.tile)) // shape.tile
        return None if tiles < 1 else Stream(
            path=Path.SHARED, transfer=transfer, footprint=tiles * shape.tile,
            blocks=shape.blocks_per_sm * bench.info.sm_count, threads=shape.threads, ilp=shape.ilp, width=shape.width,
            passes=_passes(tiles * shape.in_flight, shape),
        )  # fmt: skip

    surface = yield from search(resident(bench.info), make, _by_the_blocks(bench), bench)
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", NO_ROOM, attribute))
    layout = known[BANK_LAYOUT]
    bound = Bound(layout.banks * layout.width, "the banks") if layout is not None else NO_BANKS
    found = plateau_found("shared", attribute, surface, bound, (OF_ONE,))
    series = surface.series("shared", f"{transfer} rate by configuration", "B/cycle", {"width": "B"})
    return Outcome((found,), series=(series,))


def _passes(share: int, shape: Configuration) -> int:
    """Passes over an SM's share, bytes: as many as take long enough, for little in flight as for much."""
    return max(1, min(ROUNDS * shape.in_flight, MOST_BYTES) // share)


def _by_the_blocks(bench: Bench) -> Callable[[Trace], Throughput]:
    """Bytes a cycle of one SM, by the clock that was seen; where blocks did not tell it, by the one that is stated."""
    stated = bench.info.facts.get("clock_hz")

    def read(trace: Trace) -> Throughput:
        clock = trace.context.clock_hz or (float(stated) if isinstance(stated, int | float) else None)
        took = np.asarray(trace.nanoseconds * (clock / 1e9 if clock else np.nan), np.float64)
        step = CLOCK_STEP * clock / 1e9 if clock else 0.0
        return rate_of_one(trace.bytes, trace.cycles, bench.info.sm_count, took, step)

    return read


EXPERIMENTS = (
    *(
        Experiment(
            key=bandwidth_of("shared", transfer),
            element="shared",
            plan=partial(shared_bandwidth_plan, transfer),
            emits=(f"{transfer}_rate",),
            needs=(BANK_LAYOUT,),
        )
        for transfer in Transfer
    ),
    *(
        Experiment(
            key=bandwidth_of("l1", transfer),
            element="l1",
            plan=partial(l1_bandwidth_plan, transfer),
            emits=(f"{transfer}_rate",),
            needs=(levels_of("l1"), capacity_of("l1")),
        )
        for transfer in (Transfer.READ, Transfer.WRITE)
    ),
)

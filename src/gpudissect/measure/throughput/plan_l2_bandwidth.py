"""Bandwidth of the L2: over a part of it that is near to everybody, and over most of it.

Blocks that stay have the same tiles all the time, and the run lasts until the SM that has the longest way to its own is
done. Short blocks share the work out as it comes: an H200 reads 5 % more by them. But where blocks on several SMs read
the same lines at about the same time, requests are merged on the way to its L2, which then gives less than the SMs get:
9.5 to 10.3 TB/s, of which hardware counters find as little as 60 % in the L2. So whatever runs at once goes through
tiles of its own, and far enough apart.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Known, Outcome, Plan, without
from gpudissect.measure.throughput.bandwidth import bandwidth_of, why_no_streams
from gpudissect.measure.throughput.bound import Unbounded, said
from gpudissect.measure.throughput.configurations import (
    RUNS_AGAIN,
    Configuration,
    at_once,
    by_the_clock,
    configuration,
    oversubscribed,
    resident,
    search,
)
from gpudissect.measure.throughput.footprint import l2_sizes
from gpudissect.measure.throughput.surface import Surface, plateau_found
from gpudissect.units import format_bytes
from gpudissect.workload import Path, Stream, Transfer
from gpudissect.workload.digest import digest

WITHIN = 0.4  # a part of the L2, of which a near half still holds copies of everything
MOST_OF_IT = 0.8
MOST_OVER = 5  # configurations of the plateau that go over most of the L2, too
ROUNDS = 1024  # times that a thread goes for what it has in flight, at least, ...
LEAST_BYTES = 1 << 32  # ... and bytes that a run moves: so long that what it takes to begin and to end is little
APART = 1.4  # times what all blocks that run at once go through, at least, before others go through the same
LEAST_OF_SHORT = 1 << 28  # bytes that short blocks move in a run: far more than the timer's step
NO_BOUND = Unbounded("held against no bound: nobody states what an L2 can give")


def l2_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """What the L2 gives or takes, past the L1s, B/s. Its knowledge is the estimate."""
    attribute = f"{transfer}_bandwidth"
    reason = why_no_streams(Path.GLOBAL_L2, bench)
    sizes = l2_sizes(bench, known)
    if reason is None and not sizes:
        reason = "neither was the size of the L2 found, nor does the device state it"
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "l2", reason, attribute))
    size = min(sizes)

    def make(shape: Configuration) -> Stream | None:
        return _stream(shape, transfer, int(WITHIN * size), bench)

    shapes = [*resident(bench.info), *oversubscribed(bench.info)]
    surface = yield from search(shapes, make, by_the_clock, bench)
    if surface is None:
        reason = "no configuration has room on this device"
        return Outcome(without(Status.NOT_SUPPORTED, "l2", reason, attribute))
    wide, evidence = yield from _over_most(surface, transfer, int(MOST_OF_IT * size), bench)
    found = plateau_found("l2", attribute, surface, NO_BOUND, (f"over {format_bytes(int(WITHIN * size))}", *wide))
    found = replace(found, evidence=(*found.evidence, *evidence))
    series = surface.series("l2", f"{transfer} bandwidth by configuration", "B/s", {"width": "B"})
    return Outcome((found,), found, (series,))


def _stream(shape: Configuration, transfer: Transfer, target: int, bench: Bench) -> Stream | None:
    """A stream over about `target` bytes; None if such blocks have no room there."""
    staying = at_once(shape, bench.info)
    of_kind = _stays if shape.blocks_per_sm <= staying else _comes_and_goes
    return of_kind(shape, transfer, target, bench)


def _stays(shape: Configuration, transfer: Transfer, target: int, bench: Bench) -> Stream | None:
    blocks = shape.blocks_per_sm * bench.info.sm_count
    share = target // (blocks * shape.tile)
    if share < 1:
        return None
    footprint = share * blocks * shape.tile
    return Stream(
        path=Path.GLOBAL_L2, transfer=transfer, footprint=footprint, blocks=blocks, threads=shape.threads,
        ilp=shape.ilp, width=shape.width, passes=max(-(-ROUNDS // share), -(-LEAST_BYTES // footprint)),
    )  # fmt: skip


def _comes_and_goes(shape: Configuration, transfer: Transfer, target: int, bench: Bench) -> Stream | None:
    """Blocks that go through their share once, in as many waves as come to about the number of them."""
    sms = bench.info.sm_count
    share = int(target / (APART * at_once(shape, bench.info) * sms * shape.tile))
    if share < 1:
        return None
    around = target // (share * shape.tile)
    waves, footprint = round(shape.blocks_per_sm * sms / around), around * share * shape.tile
    if waves < 1 or waves * footprint < LEAST_OF_SHORT:
        return None
    return Stream(
        path=Path.GLOBAL_L2, transfer=transfer, footprint=footprint, blocks=waves * around, threads=shape.threads,
        ilp=shape.ilp, width=shape.width, waves=waves,
    )  # fmt: skip


def _over_most(
    surface: Surface, transfer: Transfer, target: int, bench: Bench
) -> Ask[tuple[tuple[str, ...], tuple[str, ...]]]:
    """The same configurations over most of the L2, in words; and the evidence."""
    shapes = [configuration(surface, index) for index in surface.counted[:MOST_OVER]]
    streams = [replace(stream, runs=RUNS_AGAIN) for each in shapes
               if (stream := _stream(each, transfer, target, bench)) is not None]  # fmt: skip
    if not streams:
        return (), ()
    traces = yield streams
    rate = float(np.median([by_the_clock(trace).rate for trace in traces]))
    words = f"the same over {format_bytes(target)}, most of the L2: {said(rate, 'B/s')}"
    return (words,), tuple(digest(stream) for stream in streams)


EXPERIMENTS = tuple(
    Experiment(
        key=bandwidth_of("l2", transfer),
        element="l2",
        plan=partial(l2_bandwidth_plan, transfer),
        emits=(f"{transfer}_bandwidth",),
        needs=(capacity_of("l2"),),
    )
    for transfer in (Transfer.READ, Transfer.WRITE)
)

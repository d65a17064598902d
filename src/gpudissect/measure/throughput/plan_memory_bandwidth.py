"""Bandwidth of memory: read, write and copy over far more than the L2 holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.plan import Bench, Experiment, Known, Outcome, Plan, without
from gpudissect.measure.throughput.bandwidth import bandwidth_of, why_no_streams
from gpudissect.measure.throughput.configurations import (
    Configuration,
    by_the_clock,
    configuration,
    oversubscribed,
    resident,
    search,
)
from gpudissect.measure.throughput.footprint import beyond, l2_sizes, past_the_l1
from gpudissect.measure.throughput.plan_peak import peak
from gpudissect.measure.throughput.surface import plateau_found
from gpudissect.units import MIB, format_bytes
from gpudissect.workload import Stream, Transfer

BEYOND_L2 = 128
"""Footprint, of both sides of a copy together, in L2 capacities. What stays in the L2 is then little, and thousands of
short blocks have a few tiles each: on an H200 stores do best so (one to three tiles each 4.67 TB/s, six 4.59, fifteen
4.54, blocks that stay 4.25), whatever their cache hint."""


def memory_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """What memory gives or takes, B/s; of copies bytes read and bytes written. Its knowledge is the estimate."""
    attribute = f"{transfer}_bandwidth"
    path = past_the_l1(bench.info)
    if (reason := why_no_streams(path, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "dram", reason, attribute))
    l2 = max(l2_sizes(bench, known), default=None)
    sides = 2 if transfer is Transfer.COPY else 1
    target = beyond(BEYOND_L2 // sides, l2, path, sides, bench)

    def make(shape: Configuration) -> Stream | None:
        blocks = shape.blocks_per_sm * bench.info.sm_count
        share = target // (blocks * shape.tile)  # tiles of each block: all get the same
        return None if share < 1 else Stream(
            path=path, transfer=transfer, footprint=share * blocks * shape.tile, blocks=blocks,
            threads=shape.threads, ilp=shape.ilp, width=shape.width,
        )  # fmt: skip

    shapes = [*resident(bench.info), *oversubscribed(bench.info)]
    surface = yield from search(shapes, make, by_the_clock, bench)
    if surface is None:
        reason = "no configuration has room on this device"
        return Outcome(without(Status.NOT_SUPPORTED, "dram", reason, attribute))
    spans = [stream.footprint for i in surface.counted if (stream := make(configuration(surface, i))) is not None]
    found = plateau_found("dram", attribute, surface, peak(bench.info), (_over(spans, l2),))
    found = _less_what_stayed(found, sides * min(spans), l2)
    series = surface.series("dram", f"{transfer} bandwidth by configuration", "B/s", {"width": "B"})
    return Outcome((found,), found, (series,))


def _over(spans: Sequence[int], l2: int | None) -> str:
    """Which footprints the configurations had whose rate counts: whole tiles for each block."""
    least, most = min(spans), max(spans)
    over = "over " + (format_bytes(least) if least == most else f"{least / MIB:.0f} to {most / MIB:.0f} MiB")
    return over + (f", at least {least / l2:.3g} times the L2" if l2 else "")


def _less_what_stayed(estimate: Estimate, footprint: int, l2: int | None) -> Estimate:
    """What the run before left in the L2 need not have come from memory, nor what is in it at the end gone there."""
    if estimate.status is not Status.FOUND or estimate.low is None or l2 is None:
        return estimate
    return replace(estimate, low=estimate.low * max(0.0, 1 - l2 / footprint))


EXPERIMENTS = tuple(
    Experiment(
        key=bandwidth_of("dram", transfer),
        element="dram",
        plan=partial(memory_bandwidth_plan, transfer),
        emits=(f"{transfer}_bandwidth",),
        needs=(capacity_of("l2"),),
    )
    for transfer in Transfer
)

"""Bandwidth of memory: read, write and copy over far more than the L2 holds."""

from __future__ import annotations

from dataclasses import replace

from gpudissect.device.base import DeviceInfo
from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.bandwidth import why_no_streams
from gpudissect.experiments.base import Bench, Known, Outcome, Plan, without
from gpudissect.experiments.configurations import Configuration, search
from gpudissect.experiments.peak import peak, peak_stated
from gpudissect.experiments.surface import plateau_found
from gpudissect.inference.throughput import Throughput, throughput
from gpudissect.series import Series
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Path, Stream, Transfer

ATTRIBUTES = ("peak_bandwidth", "read_bandwidth", "write_bandwidth", "copy_bandwidth")
BEYOND_L2 = 64  # footprint, in L2 capacities: what stays in it is then little
WITHOUT_L2 = 256 << 20  # and where nobody knows one
MOST = 0.4  # of the memory that there is, for all that a stream goes through
NO_PEAK = "not held against what the memory can give: the device does not say"


def memory_bandwidth_plan(bench: Bench, known: Known) -> Plan:
    """What memory gives and takes, B/s, of copies bytes read and bytes written; and its theoretical peak."""
    stated = peak_stated(bench.info)
    path = past_the_l1(bench.info)
    if (reason := why_no_streams(path, bench)) is not None:
        return Outcome((stated, *without(Status.NOT_SUPPORTED, "dram", reason, *ATTRIBUTES[1:])))
    l2 = max(l2_sizes(bench, known), default=None)
    found: list[Estimate] = []
    series: list[Series] = []
    for transfer in Transfer:
        buffers = 2 if transfer is Transfer.COPY else 1
        room = int(MOST * bench.info.limit(path)) // buffers
        target = min(BEYOND_L2 * l2 if l2 else WITHOUT_L2, room)

        def make(shape: Configuration, transfer: Transfer = transfer, target: int = target) -> Stream | None:
            blocks = shape.blocks_per_sm * bench.info.sm_count
            share = target // (blocks * shape.tile)  # tiles of each block: all get the same
            return None if share < 1 else Stream(
                path=path, transfer=transfer, footprint=share * blocks * shape.tile, blocks=blocks,
                threads=shape.threads, ilp=shape.ilp, width=shape.width,
            )  # fmt: skip

        surface = yield from search(make, by_the_clock, bench)
        attribute = f"{transfer}_bandwidth"
        if surface is None:
            found += without(Status.NOT_SUPPORTED, "dram", "no configuration has room on this device", attribute)
            continue
        caveat = f"over {format_bytes(target)}" + (f", {target / l2:.3g} times the L2" if l2 else "")
        estimate = plateau_found("dram", attribute, surface, peak(bench.info), (caveat,), unbounded=NO_PEAK)
        found.append(_less_what_stayed(estimate, target, l2))
        series.append(surface.series("dram", f"{transfer} bandwidth by configuration", "B/s", {"width": "B"}))
    return Outcome((stated, *found), series=tuple(series))


def _less_what_stayed(estimate: Estimate, footprint: int, l2: int | None) -> Estimate:
    """What the run before left in the L2 need not have come from memory, nor what is in it at the end gone there."""
    if estimate.status is not Status.FOUND or estimate.low is None or l2 is None:
        return estimate
    return replace(estimate, low=estimate.low * max(0.0, 1 - l2 / footprint))


def l2_sizes(bench: Bench, known: Known) -> list[int]:
    """Sizes of the L2 in bytes: as the device states it, as it was measured; those that there are."""
    return [
        size for size in (bench.info.facts.get("l2_size"), known.get("capacity.l2")) if isinstance(size, int) and size
    ]


def past_the_l1(info: DeviceInfo) -> Path:
    """The path to memory that takes no detour, if the device has it."""
    return Path.GLOBAL if not info.limit(Path.GLOBAL_L2) else Path.GLOBAL_L2


def by_the_clock(trace: Trace) -> Throughput:
    """Bytes a second of a stream."""
    return throughput(trace.bytes, trace.nanoseconds)

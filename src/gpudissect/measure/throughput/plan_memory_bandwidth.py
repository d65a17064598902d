"""Bandwidth of L2 and memory, and whether the path of stores to the L2 limits writes to other levels.

*L2.* With resident blocks the run lasts until the SM with the longest path is done. Short blocks balance the load: an
H200 reads 5 % more with them, and another 1 % if each reads some hundred kilobytes. But if blocks on several SMs read
the same lines at about the same time, requests are merged on the way to its L2, which then gives less than the SMs get
(10.7 to 10.9 TB/s where about 65 blocks do; with some patterns hardware counters find 60 % of the requests in the L2).
So blocks that run at the same time access tiles of their own, far enough apart. A caveat states the rate of blocks that
share lines.

*Stores.* An L1 that writes through passes on its stores, and memory is written through the L2. If a level takes as much
as the L2, the path to the L2 may limit both; if more, the L2 takes at least as much. Since Volta all stores cross the
L1, whether data stay there or not (Nsight Compute, "L1TEX"). So the write rate of an L1 is known only where it is less
than the share of the L2 that one SM gets; otherwise there is a lower bound.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.catalogue.compute_capability import stores_cross_l1
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, StopEarly, without
from gpudissect.measure.throughput import rate_estimates, stream_search
from gpudissect.measure.throughput.infer_throughput import MIN_WIDTH, Throughput
from gpudissect.measure.throughput.rate_estimates import (
    Surface,
    Unbounded,
    format_rate,
    peak_bandwidth,
    plateau_estimate,
)
from gpudissect.measure.throughput.stream_search import Bandwidth, Configuration, bandwidth_of, search, why_no_streams
from gpudissect.units import MIB, format_bytes
from gpudissect.workload import MOVES, Path, Stream, Transfer
from gpudissect.workload.digest import digest

L2_SHARE, LARGE_L2_SHARE = 0.4, 0.8  # of the smaller the near partition still holds copies of everything
MAX_LARGE = 4  # configurations of the plateau, and of resident blocks, that are run over the larger share too
MIN_ITERATIONS, MIN_RUN_BYTES = 1024, 1 << 32  # of a thread and a run: then starting and ending are negligible
ITERATIONS = 2048  # enough where little is in flight: with more, the slowest configurations take most of the time
MIN_DISTANCE = 1.4  # footprint before tiles are accessed again, relative to that of all resident blocks
MIN_WAVE_BYTES = 1 << 28  # of a run of short blocks: far more than the timer's step
LONG_BLOCK_BYTES, LONG_RUN_BYTES = 256 << 10, 1 << 33  # that a longer block accesses, and a run of them
MAX_LONG_BLOCKS = 1 << 19  # of such a run
SHARERS = (16, 64)  # resident blocks that read the same tiles
SHARING_KINDS = ((128, 2, 16), (128, 4, 8), (256, 2, 16))  # threads, loads in flight, bytes of each
MEMORY_FOOTPRINT = 128
"""Footprint of all buffers in capacities of the L2. Little stays in the L2, and thousands of short blocks have a few
tiles each: on an H200 the best for stores (one to three tiles each 4.67 TB/s, six 4.59, fifteen 4.54, resident blocks
4.25), whatever their cache hint."""
SMALL_MEMORY_FOOTPRINT = 8  # likewise, at least, of configurations with little in flight
WAVES, OWN_PARTS = "in waves of blocks", "each SM a part of its own"
NO_L2_BOUND = Unbounded("no published peak of the L2 to compare with")


def l2_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of the L2 past the L1s, B/s."""
    attribute = f"{transfer}_bandwidth"
    reason, sizes = why_no_streams(Path.GLOBAL_L2, bench), stream_search.l2_sizes(bench, known)
    if reason is None and not sizes:
        reason = "the size of the L2 was not found, and the device does not state it"
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "l2", reason, attribute))
    footprint, large = (int(share * min(sizes)) for share in (L2_SHARE, LARGE_L2_SHARE))

    def make(shape: Configuration) -> Stream | None:
        return _l2_stream(shape, transfer, footprint, bench)

    surface = yield from search(stream_search.all_configurations(bench.info), make, bench)
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "l2", stream_search.NO_CONFIGURATION, attribute))
    candidates = surface.counted[:MAX_LARGE], _resident(surface)[:MAX_LARGE]
    shapes = [stream_search.configuration_at(surface, index) for indices in candidates for index in indices]
    over_large = [_l2_stream(shape, transfer, large, bench) for shape in shapes]
    streams = [replace(stream, runs=stream_search.REPEAT_RUNS) for stream in over_large if stream is not None]
    caveats = [f"over {format_bytes(footprint)}"]
    rates = {}
    if streams:
        traces = yield streams
        measured: dict[str, list[float]] = {}
        for stream, trace in zip(streams, traces, strict=True):
            way = WAVES if stream.waves > 1 else OWN_PARTS
            measured.setdefault(way, []).append(stream_search.bytes_per_second(trace).rate)
        medians = {way: float(np.median(measured[way])) for way in (WAVES, OWN_PARTS) if way in measured}
        rates[large] = next(iter(medians.values()))
        texts = (f"{way} {format_rate(rate, 'B/s')}" for way, rate in medians.items())
        caveats.append(f"over {format_bytes(large)}, most of the L2: {', '.join(texts)}")
    found = plateau_estimate("l2", attribute, surface, NO_L2_BOUND, tuple(caveats))
    found = replace(found, evidence=(*found.evidence, *map(digest, streams)))
    try:
        if found.status is Status.FOUND:
            found = yield from _longer_blocks(found, shapes, transfer, footprint, tuple(caveats), bench)
        if transfer is Transfer.READ:
            found = yield from _shared_lines(found, footprint, bench)
    except StopEarly:  # both only add to what was found
        pass
    series = [surface.series("l2", f"{transfer} bandwidth by configuration", "B/s", {"width": "B"})]
    if rates and isinstance(found.value, int | float):
        points = {footprint: float(found.value)} | rates
        columns = {"footprint": tuple(map(float, points)), "bandwidth": tuple(points.values())}
        units = {"footprint": "B", "bandwidth": "B/s"}
        series.append(Series("l2", f"{transfer} bandwidth against footprint", columns, units, found.evidence))
    return Outcome((found,), Bandwidth(found, surface, make), tuple(series))


def _longer_blocks(
    found: Estimate,
    shapes: Sequence[Configuration],
    transfer: Transfer,
    target: int,
    caveats: tuple[str, ...],
    bench: Bench,
) -> Ask[Estimate]:
    """The bandwidth of longer blocks on tiles of their own, if it is more than what was found."""
    first = {shape.kind: shape for shape in shapes}.values()
    resident = ((shape, stream_search.resident_blocks(shape, bench.info)) for shape in first)
    waves = ((shape, int(MIN_DISTANCE * blocks * bench.info.sm_count)) for shape, blocks in resident)
    streams = [_block_waves(shape, transfer, target, blocks, LONG_BLOCK_BYTES) for shape, blocks in waves]
    if not (fitting := [stream for stream in streams if stream is not None]):
        return found
    best = yield from stream_search.measure_best(fitting)
    if best.second.rate <= (1 + MIN_WIDTH) * float(str(found.value)):
        return found
    stream = best.best
    size = format_bytes(stream.footprint // stream.blocks_per_wave * stream.passes)
    kind = f"{size} for each block of {stream.threads} threads, {stream.ilp} accesses of {stream.width} B in flight"
    longer = stream_search.bandwidth_estimate("l2", found.attribute, best, NO_L2_BOUND, (kind, *caveats))
    if longer.status is not Status.FOUND:  # it gave another rate when measured again
        return found
    return replace(longer, evidence=(*found.evidence, *longer.evidence))


def _shared_lines(found: Estimate, target: int, bench: Bench) -> Ask[Estimate]:
    """A caveat about the rate of blocks that read the same lines as others at about the same time."""
    kinds = [Configuration(1, *kind) for kind in SHARING_KINDS]
    resident = {kind: stream_search.resident_blocks(kind, bench.info) * bench.info.sm_count for kind in kinds}
    waves = ((kind, max(1, blocks // sharers)) for kind, blocks in resident.items() for sharers in SHARERS)
    streams = [_block_waves(kind, Transfer.READ, target, blocks, 0) for kind, blocks in waves]
    if not (fitting := [stream for stream in streams if stream is not None]):
        return found
    best = yield from stream_search.measure_best(fitting)
    sharers = resident[Configuration(1, best.best.threads, best.best.ilp, best.best.width)] // best.best.blocks_per_wave
    caveat = f"where about {sharers} blocks read the same lines at a time: {format_rate(best.second.rate, 'B/s')}"
    return replace(found, caveats=(*found.caveats, caveat), evidence=(*found.evidence, *best.evidence))


def _block_waves(shape: Configuration, transfer: Transfer, target: int, blocks: int, block_bytes: int) -> Stream | None:
    """Waves of so many blocks over about `target` bytes, each over its tiles until it has accessed `block_bytes`."""
    if (tiles := target // (blocks * shape.tile)) < 1:
        return None
    passes = max(1, block_bytes // (tiles * shape.tile))
    footprint = blocks * tiles * shape.tile
    waves = min(LONG_RUN_BYTES // (passes * footprint), MAX_LONG_BLOCKS // blocks)
    if waves < 1:
        return None
    return replace(shape.stream(Path.GLOBAL_L2, transfer, footprint, waves * blocks, passes), waves=waves)


def _resident(surface: Surface) -> list[int]:
    """Configurations whose blocks are all resident, fastest first: each SM reads a part of its own.

    Waves of short blocks give every line to SMs of both partitions in turn. Each keeps a copy, so the L2 holds half as
    many lines: an H200 reads 48 MiB at 5.5 TB/s in waves, at 8.9 with a part for each SM.
    """
    blocks = surface.columns["blocks_per_sm"]
    resident = [i for i in range(len(blocks)) if blocks[i] in stream_search.RESIDENT_BLOCKS]
    return sorted(resident, key=lambda i: -surface.first[i].rate)


def _l2_stream(shape: Configuration, transfer: Transfer, target: int, bench: Bench) -> Stream | None:
    """A stream over about `target` bytes, in resident blocks or in waves; None if they do not fit."""
    sms, resident = bench.info.sm_count, stream_search.resident_blocks(shape, bench.info)
    if shape.blocks_per_sm <= resident:
        blocks = shape.blocks_per_sm * sms
        tiles = target // (blocks * shape.tile)  # of each block
        if tiles < 1:
            return None
        footprint = tiles * blocks * shape.tile
        passes = max(-(-MIN_ITERATIONS // tiles), min(-(-MIN_RUN_BYTES // footprint), -(-ITERATIONS // tiles)))
        return shape.stream(Path.GLOBAL_L2, transfer, footprint, blocks, passes)
    tiles = int(target / (MIN_DISTANCE * resident * sms * shape.tile))
    if tiles < 1:
        return None
    blocks = target // (tiles * shape.tile)  # of a wave
    waves, footprint = round(shape.blocks_per_sm * sms / blocks), blocks * tiles * shape.tile
    if waves < 1 or waves * footprint < MIN_WAVE_BYTES:
        return None
    return replace(shape.stream(Path.GLOBAL_L2, transfer, footprint, waves * blocks), waves=waves)


def memory_bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of memory, B/s; of copies bytes read and bytes written."""
    attribute = f"{transfer}_bandwidth"
    path = Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL
    if (reason := why_no_streams(path, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "dram", reason, attribute))
    l2 = max(stream_search.l2_sizes(bench, known), default=None)
    buffers = 2 if transfer is Transfer.COPY else 1
    target = stream_search.footprint_beyond_l2(MEMORY_FOOTPRINT // buffers, l2, path, buffers, bench)

    small = stream_search.footprint_beyond_l2(SMALL_MEMORY_FOOTPRINT // buffers, l2, path, buffers, bench)

    def make(shape: Configuration) -> Stream | None:
        blocks = shape.blocks_per_sm * bench.info.sm_count
        size = min(target, max(small, ITERATIONS * blocks * shape.tile))
        tiles = shape.narrowed(size) // (blocks * shape.tile)  # of each block
        return shape.stream(path, transfer, tiles * blocks * shape.tile, blocks) if tiles else None

    surface = yield from search(stream_search.all_configurations(bench.info), make, bench)
    if surface is None:
        return Outcome(without(Status.NOT_SUPPORTED, "dram", stream_search.NO_CONFIGURATION, attribute))
    streams = [make(stream_search.configuration_at(surface, i)) for i in surface.counted]
    spans = [stream.footprint for stream in streams if stream is not None]
    low, high = min(spans), max(spans)
    over = "over " + (format_bytes(low) if low == high else f"{low / MIB:.0f} to {high / MIB:.0f} MiB")
    over += f", at least {low / l2:.3g} times the L2" if l2 else ""
    found = plateau_estimate("dram", attribute, surface, peak_bandwidth(bench.info), (over,))
    if found.status is Status.FOUND and found.low is not None and l2 is not None:
        # What stays in the L2 from run to run need not have been read from or written to memory.
        found = replace(found, low=found.low * max(0.0, 1 - l2 / (buffers * low)))
    series = surface.series("dram", f"{transfer} bandwidth by configuration", "B/s", {"width": "B"})
    return Outcome((found,), Bandwidth(found, surface, make), (series,))


def peak_plan(bench: Bench, known: Known) -> Plan:
    """Theoretical peak of the memory, stated and not measured."""
    yield from ()
    peak = peak_bandwidth(bench.info)
    if isinstance(peak, Unbounded):
        reason = "the device does not state the clock of its memory and the width of its bus"
        return Outcome(without(Status.NOT_FOUND, "dram", reason, "peak_bandwidth"))
    transfers = bench.info.facts.get("memory_data_rate", rate_estimates.DATA_RATE)
    method = f"memory clock x bus width x {transfers} transfers per cycle (MC16 s5.1), as stated"
    stated = partial(Estimate, element="dram", attribute="peak_bandwidth", status=Status.STATED, method=method)
    return Outcome((stated(value=peak.rate),))


def stores_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Writes to an element compared with those to the L2: a caveat, or the rate of an L1 that all stores cross."""
    yield from ()
    written, l2_written = known[bandwidth_of(element, Transfer.WRITE)], known[bandwidth_of("l2", Transfer.WRITE)]
    if written is None or l2_written is None:
        return Outcome()
    writes, l2_writes = written.estimate, l2_written.estimate
    level, l2 = _bracket(writes), _bracket(l2_writes)
    if level is None or l2 is None:
        return Outcome()
    scale, per_sm = 1.0, writes.unit == "B/cycle"
    if per_sm:
        clock = bench.info.facts.get("clock_hz")
        if not isinstance(clock, int | float):
            return Outcome()
        scale = clock * bench.info.sm_count  # B/s of all SMs
    found = writes.status is l2_writes.status is Status.FOUND
    crosses_l1 = element == "l1" and stores_cross_l1(bench.info.facts)
    if level.high * scale < l2.low and not crosses_l1:
        return Outcome()  # a limit of its own
    if element == "l1" and found:
        reason = (
            f"stores are written through to the L2, which takes {format_rate(l2.rate, 'B/s')} from all SMs: the L1 "
            "takes at least one SM's share of that; its own limit does not show"
        )
        low = max(level.low, l2.low / scale) if crosses_l1 else level.low
        evidence = tuple(dict.fromkeys((*writes.evidence, *l2_writes.evidence)))
        return Outcome(without(Status.NOT_FOUND, "l1", reason, "write_rate", low=low, evidence=evidence))
    rate = format_rate(l2.rate, "B/s")
    if l2.high < level.low * scale:
        caveat = f"more than the L2 took when written directly ({rate}): its limit is at least the rate measured here"
    else:
        caveat = (
            f"equal, within the brackets, to the write rate of the L2 ({rate}): the path of stores to it may limit both"
        )
    total = f"{format_rate(level.rate * scale, 'B/s')} of all SMs, " if per_sm else ""
    return Outcome((replace(writes, caveats=(*writes.caveats, total + caveat)),))


def _bracket(estimate: Estimate) -> Throughput | None:
    """Value and bracket of a rate, None without."""
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    return Throughput(float(str(estimate.value)), estimate.low, estimate.high)


EXPERIMENTS = (
    Experiment(Key("peak.dram"), peak_plan, ("peak_bandwidth",)),
    *(
        Experiment(
            bandwidth_of(level, each),
            partial(plan, each),
            (f"{each}_bandwidth",),
            (capacity_of("l2"),),
            quick=each is Transfer.READ,
        )
        for level, plan in (("l2", l2_bandwidth_plan), ("dram", memory_bandwidth_plan))
        for each in MOVES
        if level == "dram" or each is not Transfer.COPY
    ),
    *(
        Experiment(
            Key(f"stores.{element}"),
            partial(stores_plan, element),
            revises=(f"{element}.{attribute}",),
            needs=(bandwidth_of(element, Transfer.WRITE), bandwidth_of("l2", Transfer.WRITE)),
        )
        for element, attribute in (("dram", "write_bandwidth"), ("l1", "write_rate"))
    ),
)

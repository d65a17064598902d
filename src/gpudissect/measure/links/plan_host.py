"""Memory of the host, through the link to it: latency of a load; bandwidth of loads, of stores, and of both at once.

Page-locked memory of the host is mapped into the GPU's address space, so the chases and streams of device memory run on
it. No cache of the GPU may answer: chains are followed once after a flush, and streams run over several times the L2.
A recording without this memory was made before it was measured, and gives no findings.
"""

from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.catalogue.pcie import describe_pcie, pcie_bandwidth
from gpudissect.device_info import Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_latency import latency_estimate
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT, Latency, lap_latency, median_over_sms
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.rate_estimates import Unbounded, format_rate
from gpudissect.measure.throughput.stream_search import (
    Configuration,
    bandwidth_estimate,
    measure_best,
    resident_blocks,
    why_no_streams,
)
from gpudissect.units import KIB, MIB, format_bytes
from gpudissect.workload import Chase, Path, Shuffled, Timing, Transfer

CHAINS = 9  # each followed by another SM
SPANS = {"hit_latency": (256 * KIB, 256), "wide_latency": (256 * MIB, 64 * KIB)}
"""Bytes that chains span, and from one link to the next: 1024 links over few pages, 4096 each on a page of its own."""
LATENCY_METHOD = f"median over {CHAINS} SMs of one lap of a pure pointer chase after a flush, over"
SHAPES = (
    *(Configuration(1, 128, 4, 16), Configuration(1, 512, 4, 16)),
    *(Configuration(2, 1024, 4, 16), Configuration(4, 256, 2, 16)),
)
"""Blocks per SM, threads, accesses in flight, bytes: a link of 64 GB/s and 2 us has 128 KB under way, an SM more."""
FOOTPRINT, PASSES = 256 * MIB, 2
MAX_SPAN_SHARE = 0.4  # of the memory that may be locked, for each of two buffers


def latency_plan(bench: Bench, known: Known) -> Plan:
    """Latency of a load over few pages, in cycles and in ns, and over many pages."""
    if (absent := _absent(bench, "hit_latency", "link_latency", "wide_latency")) is not None:
        return absent
    estimates: list[Estimate] = []
    for attribute, (max_span, stride) in SPANS.items():
        links = min(max_span, bench.info.limit(Path.HOST)) // stride
        orders = [Shuffled(links, stride, bench.seed_for("host", attribute, i)) for i in range(CHAINS)]
        sms = bench.rng("host", attribute, "sms").permutation(bench.info.sm_count)
        cold = partial(Chase, path=Path.HOST, timing=Timing.LAP, warmup=0, flush=True, alone=True)
        traces = yield [cold(order=order, sm=int(sms[i % sms.size])) for i, order in enumerate(orders)]
        laps = [lap_latency(trace.cycles, links, min_error=1.0) for trace in traces]
        method, evidence = f"{LATENCY_METHOD} {format_bytes(links * stride)}", tuple(each.workload for each in traces)
        estimate = partial(latency_estimate, "host", method=method, evidence=evidence, confidence=TIMED)
        estimates.append(estimate(attribute, median_over_sms(laps)))
        if attribute == "hit_latency":
            clocks = [trace.context.clock_hz for trace in traces]
            times = [_nanoseconds(lap, clock) for lap, clock in zip(laps, clocks, strict=True) if clock]
            estimates += (
                [estimate("link_latency", median_over_sms(times))]
                if times
                else without(Status.NOT_FOUND, "host", "the SM clock is not known", "link_latency")
            )
    return Outcome(tuple(estimates))


def _nanoseconds(latency: Latency, clock_hz: float) -> Latency:
    """A latency in ns; the clock is known to `MAX_CLOCK_DRIFT`."""
    cycles = np.array([latency.cycles, latency.low, latency.high])
    value, low, high = (cycles * [1, 1 - MAX_CLOCK_DRIFT, 1 + MAX_CLOCK_DRIFT] / clock_hz * 1e9).tolist()
    return Latency(value, low, high)


def bandwidth_plan(transfer: Transfer, bench: Bench, known: Known) -> Plan:
    """Bandwidth of loads, of stores or, as a copy within the host's memory, of both directions at once, B/s."""
    attribute = f"{transfer}_bandwidth"
    if (absent := _absent(bench, attribute)) is not None:
        return absent
    if (reason := why_no_streams(Path.HOST, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "host", reason, attribute))
    room = min(FOOTPRINT, int(MAX_SPAN_SHARE * bench.info.limit(Path.HOST)))
    streams = []
    for shape in SHAPES:
        if shape.blocks_per_sm > resident_blocks(shape, bench.info):
            continue
        footprint, blocks = room // shape.tile * shape.tile, shape.blocks_per_sm * bench.info.sm_count
        streams.append(shape.stream(Path.HOST, transfer, footprint, blocks, PASSES))
    best = yield from measure_best(streams)
    moved, l2 = best.best.moved, bench.info.facts.get("l2_size")
    over = f"{best.best.blocks} blocks of {best.best.threads} threads, over {format_bytes(best.best.footprint)}"
    estimate = bandwidth_estimate(
        "host", attribute, best, Unbounded(_share_of_link(best.second.rate, transfer, bench)), (over,)
    )
    if estimate.low is not None and isinstance(l2, int):  # what the L2 may hold at the end has not crossed the link
        estimate = replace(estimate, low=estimate.low * max(0.0, 1 - l2 / moved))
    return Outcome((estimate,))


def _share_of_link(rate: float, transfer: Transfer, bench: Bench) -> str:
    """What share of the stated rate a rate is, as text. It may be more: not all memory of hosts is behind PCIe."""
    stated = pcie_bandwidth(bench.info.facts)
    if stated is None:
        return "not compared with the rate of the link: the device does not state it"
    directions = 2 if transfer is Transfer.COPY else 1
    total = format_rate(directions * stated, "B/s")
    share, link = rate / (directions * stated), describe_pcie(bench.info.facts)
    if share > 1:
        return f"more than {link} transfers ({total}): another link leads to the host's memory"
    return f"{share:.1%} of what {link} transfers, {total}{' in both directions' if directions > 1 else ''}"


def _absent(bench: Bench, *attributes: str) -> Outcome | None:
    """The outcome where the device has no memory of the host; None where it has."""
    info = bench.info
    if info.limit(Path.HOST) >= max(stride for _, stride in SPANS.values()):
        return None
    if info.origin is Origin.REPLAYED and Path.HOST not in info.unsupported:
        return Outcome()
    reason = info.unsupported.get(Path.HOST, "this device maps no memory of the host")
    return Outcome(without(Status.NOT_SUPPORTED, "host", reason, *attributes))


EXPERIMENTS = (
    Experiment(Key("latency.host"), latency_plan, ("hit_latency", "link_latency", "wide_latency"), last=True),
    *(
        Experiment(Key(f"bandwidth.host.{each}"), partial(bandwidth_plan, each), (f"{each}_bandwidth",), last=True)
        for each in Transfer
    ),
)

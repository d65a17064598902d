"""Chases and streams over one link: latency of a load; bandwidth of loads, of stores, and of both directions at once.

No cache of the GPU may answer: chains are followed once after a flush, and streams run over at least twice the L2.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_latency import latency_estimate
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT, Latency, lap_latency, median_over_sms
from gpudissect.measure.plan import Ask, Bench, without
from gpudissect.measure.throughput.infer_throughput import Throughput
from gpudissect.measure.throughput.rate_estimates import format_rate
from gpudissect.measure.throughput.stream_search import (
    BestStream,
    Configuration,
    bytes_per_second,
    measure_best,
    resident_blocks,
)
from gpudissect.trace import Trace
from gpudissect.units import KIB, MIB, format_bytes
from gpudissect.workload import Chase, Path, Shuffled, Stream, Timing, Transfer
from gpudissect.workload.stream import ADD_WIDTH

CHAINS = 9  # each followed by another SM
SPANS = {"wide_latency": (256 * MIB, 64 * KIB), "hit_latency": (256 * KIB, 256)}
"""Bytes that chains span, and from one link to the next: 4096 links 64 KiB apart, and 1024 over few pages."""
LATENCY_METHOD = f"median over {CHAINS} SMs of one lap of a pure pointer chase after a flush, over"
SHAPES = (
    *(Configuration(1, 128, 4, 16), Configuration(1, 512, 4, 16)),
    *(Configuration(2, 1024, 4, 16), Configuration(4, 256, 2, 16)),
)
"""Blocks per SM, threads, accesses in flight, bytes: a link of 450 GB/s and 2 us has 900 KB under way, 132 SMs more."""
FOOTPRINT, PASSES = 256 * MIB, 2
RUNS = (2, 4)  # of each stream; of the fastest, repeated. A run takes 10 ms over PCIe
MAX_SPAN_SHARE = 0.4  # of the memory that may be taken, for each of two buffers
MIN_L2_SIZES = 2  # of a footprint
MIN_SPAN = max(stride for _, stride in SPANS.values())


@dataclass(frozen=True)
class LinkLatency:
    """Latency of loads over a link; `nanoseconds` is None where the SM clock is not known."""

    cycles: Latency
    nanoseconds: Latency | None
    method: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Link:
    """The link on path HOST, or on path PEER to GPU number `peer`."""

    path: Path
    peer: int = 1

    def latency(self, attribute: str, bench: Bench) -> Ask[LinkLatency]:
        """Latency over the span of ``hit_latency`` or ``wide_latency``."""
        max_span, stride = SPANS[attribute]
        links = min(max_span, bench.info.limit(self.path)) // stride
        seed = partial(bench.seed_for, self.path.value, attribute)
        sms = bench.rng(self.path.value, attribute, "sms").permutation(bench.info.sm_count)
        cold = partial(Chase, path=self.path, peer=self.peer, timing=Timing.LAP, warmup=0, flush=True, alone=True)
        chases = [cold(order=Shuffled(links, stride, seed(i)), sm=int(sms[i % sms.size])) for i in range(CHAINS)]
        traces = yield chases
        laps = [lap_latency(trace.cycles, links, min_error=1.0) for trace in traces]
        clocks = [trace.context.clock_hz for trace in traces]
        times = [nanoseconds(lap, clock) for lap, clock in zip(laps, clocks, strict=True) if clock]
        return LinkLatency(
            median_over_sms(laps),
            median_over_sms(times) if times else None,
            f"{LATENCY_METHOD} {format_bytes(links * stride)}",
            tuple(trace.workload for trace in traces),
        )

    def latencies(self, element: str, bench: Bench) -> Ask[tuple[Estimate, ...]]:
        """Estimates of both latencies in cycles, and of that of ``hit_latency`` in ns as ``link_latency``."""
        estimates: list[Estimate] = []
        for attribute in SPANS:
            found = yield from self.latency(attribute, bench)
            make = partial(latency_estimate, element, method=found.method, evidence=found.evidence, confidence=TIMED)
            estimates.append(make(attribute, found.cycles))
            if attribute == "hit_latency" and found.nanoseconds is not None:
                estimates.append(make("link_latency", found.nanoseconds))
            elif attribute == "hit_latency":
                estimates += without(Status.NOT_FOUND, element, "the SM clock is not known", "link_latency")
        return tuple(estimates)

    def bandwidth(self, transfer: Transfer, bench: Bench) -> Ask[BestStream]:
        """Bandwidth of loads, of stores or, as a copy within the memory behind the link, of both directions."""
        return (yield from measure_best(self._streams(transfer, SHAPES, bench), runs=RUNS))

    def additions(self, bench: Bench) -> Ask[BestStream]:
        """Rate of atomic additions to words of the memory behind the link, per second."""
        streams = self._streams(Transfer.ADD, [replace(shape, width=ADD_WIDTH) for shape in SHAPES], bench)
        return (yield from measure_best(streams, _additions_per_second, RUNS))

    def _streams(self, transfer: Transfer, shapes: Sequence[Configuration], bench: Bench) -> list[Stream]:
        room = footprint_limit(self.path, bench)
        streams = []
        for shape in shapes:
            if shape.blocks_per_sm <= resident_blocks(shape, bench.info):
                footprint, blocks = room // shape.tile * shape.tile, shape.blocks_per_sm * bench.info.sm_count
                stream = shape.stream(self.path, transfer, footprint, blocks, PASSES)
                streams.append(replace(stream, peer=self.peer))
        return streams


def footprint_limit(path: Path, bench: Bench) -> int:
    """Bytes that a stream over a link traverses, at most."""
    return min(FOOTPRINT, int(MAX_SPAN_SHARE * bench.info.limit(path)))


def share_of_rate(rate: float, transfer: Transfer, stated: float | None, link: str) -> str:
    """What share of the stated rate of one direction of a link a rate is, as text; `link`: what transfers that."""
    if stated is None:
        return "not compared with the rate of the link: the device does not state it"
    directions = 2 if transfer is Transfer.COPY else 1
    share, total = rate / (directions * stated), format_rate(directions * stated, "B/s")
    if share > 1:
        return f"more than {link} ({total}): another link leads there"
    return f"{share:.1%} of what {link}, {total}{' in both directions' if directions > 1 else ''}"


def _additions_per_second(trace: Trace) -> Throughput:
    moved = bytes_per_second(trace)
    return Throughput(moved.rate / ADD_WIDTH, moved.low / ADD_WIDTH, moved.high / ADD_WIDTH)


def nanoseconds(latency: Latency, clock_hz: float) -> Latency:
    """A latency in ns; the clock is known to `MAX_CLOCK_DRIFT`."""
    cycles = np.array([latency.cycles, latency.low, latency.high])
    value, low, high = (cycles * [1, 1 - MAX_CLOCK_DRIFT, 1 + MAX_CLOCK_DRIFT] / clock_hz * 1e9).tolist()
    return Latency(value, low, high)

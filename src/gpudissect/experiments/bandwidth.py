"""Bandwidth where there are few configurations to choose from: the best of them, measured anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpudissect.device.base import Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.experiments.base import Ask, Bench
from gpudissect.inference.confidence import BANDWIDTH
from gpudissect.inference.throughput import Throughput, fastest, repeated, throughput
from gpudissect.trace import Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest

RUNS, RUNS_AGAIN = 4, 8  # even numbers: runs may alternate between two rates
METHOD = "bytes over the time from the first block's start to the last one's end; the best configuration, measured anew"


@dataclass(frozen=True)
class Measured:
    """What streams moved.

    Attributes:
        each: throughput of each configuration, in the order given.
        best: the best configuration; `again`: its trace when measured anew.
        first, second: its throughput both times.
        evidence: digests of all streams.
    """

    each: tuple[Throughput, ...]
    best: Stream
    again: Trace
    first: Throughput
    second: Throughput
    evidence: tuple[str, ...]


def best_of(streams: Sequence[Stream]) -> Ask[Measured]:
    """Run every configuration, and the one that moves most again."""
    streams = [replace(stream, runs=RUNS) for stream in streams]
    traces = yield streams
    each = tuple(throughput(trace.bytes, trace.nanoseconds) for trace in traces)
    best = fastest(each)
    anew = replace(streams[best], runs=RUNS_AGAIN, repetition=1)
    (again,) = yield [anew]
    second = throughput(again.bytes, again.nanoseconds)
    evidence = tuple(digest(stream) for stream in (*streams, anew))
    return Measured(each, anew, again, each[best], second, evidence)


def bandwidth_found(
    element: str, attribute: str, measured: Measured, most: float | None, bound: str, caveats: tuple[str, ...]
) -> Estimate:
    """The estimate of a bandwidth, in B/s.

    Nothing above `most` (B/s) is believed: that is what `bound` (in words) can move; None if nobody knows.
    """
    both = repeated(measured.first, measured.second)
    if most is not None and measured.second.rate > most:
        reason = f"{measured.second.rate / 1e12:.4g} TB/s were read, more than {bound} can give: {most / 1e12:.4g} TB/s"
        return Estimate(element=element, attribute=attribute, status=Status.NOT_FOUND, reason=reason, method=METHOD,
                        evidence=measured.evidence)  # fmt: skip
    if both is None:
        ends = sorted((measured.first.rate, measured.second.rate))
        return Estimate(element=element, attribute=attribute, status=Status.AMBIGUOUS, low=ends[0], high=ends[1],
                        reason="the best configuration moved another amount when it was measured anew",
                        method=METHOD, evidence=measured.evidence, caveats=caveats)  # fmt: skip
    unbounded = () if most is not None else (f"not held against what {bound} can give: the driver does not say",)
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=both.rate, low=both.low,
        high=both.high if most is None else min(both.high, most),
        confidence=BANDWIDTH, method=METHOD, evidence=measured.evidence, caveats=(*caveats, *unbounded),
    )  # fmt: skip


def why_no_streams(path: Path, bench: Bench) -> str | None:
    """Why no bandwidth can be measured on a path of this device; None if it can."""
    info = bench.info
    if not info.limit(path):
        return info.unsupported.get(path, "this device does not tell of such a path")
    if path in info.streams:
        return None
    if Origin.SIMULATED in (info.origin, info.recorded_origin):
        return "the file of this simulated GPU says nothing of bandwidths there"
    return "this device runs no streams there"

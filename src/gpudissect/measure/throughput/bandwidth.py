"""Bandwidth where there are few configurations to choose from: the best of them, measured anew."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import NoneType

from gpudissect.device_info import Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.plan import Ask, Bench, Key
from gpudissect.measure.throughput.bound import Bound, Unbounded, below, excess, refusal
from gpudissect.measure.throughput.infer_throughput import Throughput, fastest, repeated, throughput
from gpudissect.trace import Trace
from gpudissect.vocabulary import unit_of
from gpudissect.workload import Path, Stream, Transfer
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
    element: str, attribute: str, measured: Measured, bound: Bound | Unbounded, caveats: tuple[str, ...]
) -> Estimate:
    """The estimate of a bandwidth, in B/s: nothing above a bound is believed."""
    both = repeated(measured.first, measured.second)
    if (reason := refusal(measured.second.rate, bound, unit_of(attribute))) is not None:
        return Estimate(element=element, attribute=attribute, status=Status.NOT_FOUND, reason=reason, method=METHOD,
                        evidence=measured.evidence)  # fmt: skip
    if both is None:
        low, high = sorted(bound.end(each.rate) for each in (measured.first, measured.second))
        return Estimate(element=element, attribute=attribute, status=Status.AMBIGUOUS, low=low, high=high,
                        reason="the best configuration moved another amount when it was measured anew",
                        method=METHOD, evidence=measured.evidence, caveats=caveats)  # fmt: skip
    level = below(both, bound)
    words = (bound.why,) if isinstance(bound, Unbounded) else excess(both.rate, bound)
    return Estimate(
        element=element, attribute=attribute, status=Status.FOUND, value=level.rate, low=level.low, high=level.high,
        confidence=BANDWIDTH, method=METHOD, evidence=measured.evidence, caveats=(*caveats, *words),
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


def bandwidth_of(element: str, transfer: Transfer) -> Key[Estimate | None]:
    """Bandwidth of a level; None where it was not measured."""
    return Key(f"bandwidth.{element}.{transfer}", (Estimate, NoneType))

"""Bandwidth by the width of an access: what a level gives where each thread reads 1, 2, 4, 8 or 16 bytes at a time.

Widths from 4 bytes on are among the configurations that the search for the bandwidth has run. Narrower ones are run
here, with as many threads and accesses in flight as the fastest of these and as an SM can have: what limits them is the
number of accesses, of which more in flight never cost any.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from gpudissect.estimate import Series, Status
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.throughput import stream_search
from gpudissect.measure.throughput.infer_throughput import fastest
from gpudissect.measure.throughput.plan_sm_bandwidth import bytes_per_cycle
from gpudissect.measure.throughput.rate_estimates import Surface
from gpudissect.measure.throughput.stream_search import Bandwidth, Configuration, bandwidth_of, resident_blocks
from gpudissect.vocabulary import unit_of
from gpudissect.workload import Transfer
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import ACCESS_WIDTHS

ILPS = (4, 8)
METHOD = "bytes over time, the fastest of some configurations for each number of bytes that a thread reads at a time"


def widths_plan(element: str, attribute: str, bench: Bench, known: Known) -> Plan:
    """Rate of each width of an access, from 1 to 16 bytes."""
    level = known[bandwidth_of(element, Transfer.READ)]
    if level is None:
        return Outcome(without(Status.NOT_FOUND, element, "its bandwidth was not found", attribute))
    rates = _rates_of(level.surface)
    streams = {
        stream: width
        for width in ACCESS_WIDTHS
        if width not in rates
        for shape in _candidates(level, width, bench)
        if (stream := level.make(shape)) is not None
    }
    batch = [replace(stream, runs=stream_search.FEW_RUNS) for stream in streams]
    traces = yield batch
    read = bytes_per_cycle(bench) if unit_of(attribute) == "B/cycle" else stream_search.bytes_per_second
    for width, trace in zip(streams.values(), traces, strict=True):
        rates[width] = max(rates.get(width, 0.0), read(trace).rate)
    if missing := [width for width in ACCESS_WIDTHS if width not in rates]:
        reason = f"no configuration of {missing[0]} bytes for each access fits on this device"
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, attribute))
    return _outcome(element, attribute, rates, (*level.surface.evidence, *map(digest, batch)))


def _rates_of(surface: Surface) -> dict[int, float]:
    """The rate of the fastest configuration of each width that the search has run."""
    rates: dict[int, float] = {}
    for index, width in enumerate(surface.columns["width"]):
        rate = surface.again.get(index, surface.first[index]).rate
        rates[int(width)] = max(rates.get(int(width), 0.0), rate)
    return rates


def _candidates(level: Bandwidth, width: int, bench: Bench) -> list[Configuration]:
    """Configurations of a width: like the fastest of the search, and with as many threads as fit onto an SM."""
    best = stream_search.configuration_at(level.surface, fastest(level.surface.first))
    fullest = max(
        stream_search.resident_configurations(bench.info), key=lambda shape: shape.blocks_per_sm * shape.threads
    )
    shapes = [replace(shape, width=width, ilp=ilp) for shape in (best, fullest) for ilp in ILPS]
    waves = best.blocks_per_sm > resident_blocks(best, bench.info)
    limits = {shape: resident_blocks(shape, bench.info) for shape in dict.fromkeys(shapes)}
    return [shape for shape, limit in limits.items() if limit and (waves or shape.blocks_per_sm <= limit)]


def _outcome(element: str, attribute: str, rates: Mapping[int, float], evidence: tuple[str, ...]) -> Outcome:
    ordered = tuple(rates[width] for width in ACCESS_WIDTHS)
    estimate = found(element, attribute, ordered, None, None, BANDWIDTH, METHOD, evidence)
    unit = unit_of(attribute)
    columns = {"width": tuple(map(float, ACCESS_WIDTHS)), "rate": ordered}
    series = Series(element, "read rate by width", columns, {"width": "B", "rate": unit}, evidence)
    return Outcome((estimate,), series=(series,))


EXPERIMENTS = tuple(
    Experiment(
        Key(f"widths.{element}"),
        partial(widths_plan, element, attribute),
        (attribute,),
        needs=(bandwidth_of(element, Transfer.READ),),
    )
    for element, attribute in (
        ("l1", "read_rate_by_width"),
        ("shared", "read_rate_by_width"),
        ("l2", "read_bandwidth_by_width"),
        ("dram", "read_bandwidth_by_width"),
    )
)

"""Bandwidth by the width of an access: what a level gives where each thread reads 1, 2, 4, 8 or 16 bytes at a time.

Widths from 4 bytes on are among the configurations that the search for the bandwidth has run. Narrower ones are run
here, with as many threads and accesses in flight as the fastest of these and as an SM can have: what limits them is the
number of accesses, of which more in flight never cost any. Of the read-only and the texture cache, where an access is
one texel, every width is run so: a search would take long, and the read-only cache of most GPUs is their L1.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from gpudissect.estimate import Series, Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import PRIVATE_CACHES, absent, levels_of
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.throughput import stream_search
from gpudissect.measure.throughput.infer_throughput import fastest, is_rising
from gpudissect.measure.throughput.plan_sm_bandwidth import L1_FRACTION, NO_L1_BOUND, PER_SM, bytes_per_cycle
from gpudissect.measure.throughput.stream_search import Bandwidth, Configuration, bandwidth_of, resident_blocks
from gpudissect.units import format_bytes
from gpudissect.vocabulary import unit_of
from gpudissect.workload import Path, Stream, Transfer
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import ACCESS_WIDTHS

ILPS, PATH_ILPS = (4, 8), (1, 2, 4)
PATH_RUN_BYTES = 32 << 20  # of an SM and a run
BY_WIDTH = "read_rate_by_width"
METHOD = "bytes over time, the fastest of some configurations for each number of bytes that a thread reads at a time"


def widths_plan(element: str, attribute: str, bench: Bench, known: Known) -> Plan:
    """Rate of each width of an access, from 1 to 16 bytes."""
    if element in PRIVATE_CACHES and known[levels_of(element)].level(element) is None:
        return absent(element, known, attribute)
    level = known[bandwidth_of(element, Transfer.READ)]
    if level is None:
        return Outcome(without(Status.NOT_FOUND, element, "its bandwidth was not found", attribute))
    surface = level.surface
    read = bytes_per_cycle(bench) if unit_of(attribute) == "B/cycle" else stream_search.bytes_per_second
    widths = [width for width in ACCESS_WIDTHS if width not in surface.columns["width"]]
    shapes = [shape for width in widths for shape in _candidates(level, width, bench)]
    streams = [stream for stream in map(level.make, shapes) if stream is not None]
    traces = yield (batch := [replace(stream, runs=stream_search.FEW_RUNS) for stream in streams])
    searched = [surface.again.get(i, rate).rate for i, rate in enumerate(surface.first)]
    every = (*surface.columns["width"], *(stream.width for stream in streams))
    rates = _by_width(every, [*searched, *(read(trace).rate for trace in traces)])
    if missing := [width for width in ACCESS_WIDTHS if width not in rates]:
        reason = f"no configuration with accesses of {missing[0]} B fits on this device"
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, attribute))
    return _outcome(element, attribute, rates, (*level.surface.evidence, *map(digest, batch)))


def path_plan(element: str, path: Path, bench: Bench, known: Known) -> Plan:
    """Rate at which one SM reads its read-only or texture cache, all SMs at once, and that of each width."""
    levels, capacity = known[levels_of(element)], known[capacity_of(element)]
    attributes = ("read_rate", BY_WIDTH)
    if levels.level(element) is None:
        return absent(element, known, *attributes)
    if (reason := stream_search.why_no_streams(path, bench)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *attributes))
    footprint, streams = (capacity or 0) // L1_FRACTION, list[Stream]()
    for width in ACCESS_WIDTHS:
        for shape in _fullest(width, PATH_ILPS, bench, footprint):
            tiles, blocks = footprint // shape.in_flight, shape.blocks_per_sm * bench.info.sm_count
            passes = max(1, shape.narrowed(PATH_RUN_BYTES) // (tiles * shape.in_flight))
            streams.append(shape.stream(path, Transfer.READ, tiles * blocks * shape.tile, blocks, passes))
    if not streams:
        return Outcome(without(Status.NOT_FOUND, element, "its capacity was not found, or is small", *attributes))
    best = yield from stream_search.measure_best(streams, bytes_per_cycle(bench))
    rates = _by_width([stream.width for stream in streams], [rate.rate for rate in best.rates])
    caveats = (f"over {format_bytes(footprint)} of each SM", PER_SM, f"{best.best.width} bytes for each access")
    estimate = stream_search.bandwidth_estimate(element, "read_rate", best, NO_L1_BOUND, caveats)
    in_flight = [stream.blocks * stream.threads * stream.ilp * stream.width for stream in streams]
    if len(rates) < len(ACCESS_WIDTHS) or is_rising(in_flight, [rate.rate for rate in best.rates]):
        reason = f"at least {best.first.rate:.4g} B/cycle: so small a cache does not hold what is in flight"
        return Outcome(without(Status.NOT_FOUND, element, reason, *attributes, evidence=best.evidence))
    others = _outcome(element, BY_WIDTH, rates, best.evidence)
    return replace(others, estimates=(estimate, *others.estimates))


def _by_width(widths: Iterable[float], rates: Sequence[float]) -> dict[int, float]:
    """The highest rate of each width."""
    return dict(sorted(zip(map(int, widths), rates, strict=True)))


def _candidates(level: Bandwidth, width: int, bench: Bench) -> list[Configuration]:
    """Configurations of a width: like the fastest of the search, and with as many threads as fit onto an SM."""
    best = stream_search.configuration_at(level.surface, fastest(level.surface.first))
    shapes = [replace(best, width=width, ilp=ilp) for ilp in ILPS] + _fullest(width, ILPS, bench)
    waves = best.blocks_per_sm > resident_blocks(best, bench.info)
    limits = {shape: resident_blocks(shape, bench.info) for shape in dict.fromkeys(shapes)}
    return [shape for shape, limit in limits.items() if limit and (waves or shape.blocks_per_sm <= limit)]


def _fullest(width: int, ilps: tuple[int, ...], bench: Bench, max_in_flight: float = math.inf) -> list[Configuration]:
    """The configurations of a width with most threads on an SM, for each number of accesses of a thread in flight."""
    shapes = [replace(shape, width=width) for shape in stream_search.resident_configurations(bench.info)]
    fitting = [each for each in shapes if each.blocks_per_sm <= resident_blocks(each, bench.info)]
    rising = sorted(fitting, key=lambda shape: shape.blocks_per_sm * shape.threads)
    fullest = {shape.ilp: shape for shape in rising if shape.ilp in ilps and shape.in_flight <= max_in_flight}
    return list(fullest.values())


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
        needs=(bandwidth_of(element, Transfer.READ), *([levels_of(element)] if element in PRIVATE_CACHES else [])),
    )
    for element, attribute in (
        ("l1", BY_WIDTH),
        ("shared", BY_WIDTH),
        ("l2", "read_bandwidth_by_width"),
        ("dram", "read_bandwidth_by_width"),
    )
) + tuple(
    Experiment(
        bandwidth_of(element, Transfer.READ),
        partial(path_plan, element, path),
        ("read_rate", BY_WIDTH),
        needs=(levels_of(element), capacity_of(element)),
    )
    for element, path in (("readonly", Path.READONLY), ("texture", Path.TEXTURE))
)

"""Streams: what a device can run, over which footprints, and the search for the fastest configurations.

A surface is searched over a coarse grid first, then around the fastest until no neighbour is faster (MC16 s5.1). Where
there are few configurations all are run, and the fastest again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import combinations, product
from types import NoneType

from gpudissect.catalogue.compute_capability import allocated_registers, max_block_threads
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.infer_confidence import BANDWIDTH
from gpudissect.measure.plan import Ask, Bench, Key, Known, found
from gpudissect.measure.throughput import infer_throughput, rate_estimates
from gpudissect.measure.throughput.infer_throughput import NEAR, Throughput
from gpudissect.measure.throughput.rate_estimates import Bound, Surface, Unbounded
from gpudissect.trace import Trace
from gpudissect.vocabulary import unit_of
from gpudissect.workload import Path, Stream, Transfer
from gpudissect.workload.digest import digest

RESIDENT_BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
WAVES_OF_BLOCKS = (64, 128, 256, 512, 1024)
"""Blocks per SM of which only some are resident; when one ends, the next starts. Each is short, and those that run are
at different points in time: memory of an H200 takes more from them than from resident blocks."""
KINDS = {"threads": (32, 64, 128, 256, 512, 1024), "ilp": (1, 2, 4, 8), "width": (4, 8, 16)}
COARSE_BLOCKS, COARSE_THREADS, COARSE_ILPS, COARSE_WIDTH = (1, 4, 256, 1024), (128, 512), (1, 4), 16
MIN_GAIN, MAX_STEPS = 0.002, 8  # relative, from which a neighbour is faster; of the search around the fastest
SEARCH_RUNS, REPEAT_RUNS = 2, 6  # even: runs of some configurations alternate between two rates
FEW_RUNS, FEW_REPEAT_RUNS = 4, 8  # of each of a few configurations
DEFAULT_THREADS_PER_SM = 512  # if the device does not state its limit
EXTRA_REGISTERS = 24  # of a thread, beyond those that hold the data in flight
UNCACHED_BYTES = 256 << 20  # more than a cache holds, where the size of the L2 is not known
MAX_MEMORY_SHARE = 0.4  # of the memory, for all buffers together
NO_CONFIGURATION = "no configuration fits on this device"
WORD = 4  # bytes
METHOD = "bytes over the time from the first block's start to the last one's end; best configuration, measured again"


@dataclass(frozen=True)
class Bandwidth:
    """What is known of the bandwidth of a level, and how to make the stream of a configuration that measures it."""

    estimate: Estimate
    surface: Surface
    make: Callable[["Configuration"], Stream | None]


def bandwidth_of(element: str, transfer: Transfer) -> Key[Bandwidth | None]:
    """Bandwidth of a level; None where it was not measured."""
    return Key(f"bandwidth.{element}.{transfer}", (Bandwidth, NoneType))


def why_no_streams(path: Path, bench: Bench) -> str | None:
    """Why no bandwidth can be measured on a path of this device; None if it can."""
    info = bench.info
    if not info.limit(path):
        return info.unsupported.get(path, "this device has no such path")
    if path in info.streams:
        return None
    if Origin.SIMULATED in (info.origin, info.recorded_origin):
        return "the GPU file of this simulated GPU states no bandwidth for this path"
    if info.origin is Origin.REPLAYED:
        return "the recording was made before there were streams on this path"
    return "this device runs no streams on this path"


def l2_sizes(bench: Bench, known: Known) -> list[int]:
    """Known sizes of the L2 in bytes: as the device states it, as measured."""
    sizes = bench.info.facts.get("l2_size"), known.get(capacity_of("l2"))
    return [size for size in sizes if isinstance(size, int) and size]


def footprint_beyond_l2(times: int, l2: int | None, path: Path, buffers: int, bench: Bench) -> int:
    """Bytes of each buffer: `times` the L2, as far as the memory has room for all buffers."""
    room = int(MAX_MEMORY_SHARE * bench.info.limit(path)) // buffers
    return min(times * l2 if l2 else UNCACHED_BYTES, room)


@dataclass(frozen=True, order=True)
class Configuration:
    """Blocks per SM, threads per block, accesses of a thread in flight, bytes of an access."""

    blocks_per_sm: int
    threads: int
    ilp: int
    width: int

    @property
    def tile(self) -> int:
        """Bytes that a block has in flight."""
        return self.threads * self.ilp * self.width

    @property
    def in_flight(self) -> int:
        """Bytes that an SM has in flight if all of its blocks are resident."""
        return self.blocks_per_sm * self.tile

    def narrowed(self, size: int) -> int:
        """`size` bytes, fewer for accesses narrower than a word: as many accesses."""
        return size * min(self.width, WORD) // WORD

    @property
    def kind(self) -> tuple[int, int, int]:
        """The configuration without the number of blocks."""
        return self.threads, self.ilp, self.width

    def stream(self, path: Path, transfer: Transfer, footprint: int, blocks: int, passes: int = 1) -> Stream:
        """A stream of that many blocks in all."""
        make = partial(Stream, threads=self.threads, ilp=self.ilp, width=self.width)
        return make(path=path, transfer=transfer, footprint=footprint, blocks=blocks, passes=passes)


COLUMNS = tuple(field.name for field in fields(Configuration))


def bytes_per_second(trace: Trace) -> Throughput:
    """Throughput of a stream by the global timer."""
    return infer_throughput.throughput(trace.bytes, trace.nanoseconds)


def search(
    shapes: Iterable[Configuration],
    make: Callable[[Configuration], Stream | None],
    bench: Bench,
    read: Callable[[Trace], Throughput] = bytes_per_second,
) -> Ask[Surface | None]:
    """The surface of throughput over `shapes`, its top measured again; None if none of them can run.

    `make` gives the stream of a configuration, or None if it does not fit; `read` the throughput of a trace.
    """
    streams = {shape: stream for shape in shapes if (stream := make(shape)) is not None}
    rates: dict[Configuration, Throughput] = {}
    evidence: list[str] = []
    candidates = _coarse_grid(list(streams))
    for _ in range(1 + MAX_STEPS if candidates else 0):
        previous = max((each.rate for each in rates.values()), default=0.0)
        batch = [replace(streams[shape], runs=SEARCH_RUNS) for shape in candidates]
        traces = yield batch
        rates |= {shape: read(trace) for shape, trace in zip(candidates, traces, strict=True)}
        evidence += [digest(stream) for stream in batch]
        best = max(rates, key=lambda shape: rates[shape].rate)
        if rates[best].rate <= (1 + MIN_GAIN) * previous:
            break
        starts = [best] if previous else [best, *_second_start(best, rates)]
        around = dict.fromkeys(shape for start in starts for shape in _neighbours(start, list(streams)))
        if not (candidates := [shape for shape in around if shape not in rates]):
            break
    if not rates:
        return None
    shapes = sorted(rates)
    first = tuple(rates[shape] for shape in shapes)
    in_flight = (min(shape.blocks_per_sm, resident_blocks(shape, bench.info)) * shape.tile for shape in shapes)
    near = rate_estimates.members_to_repeat(first)
    batch = [replace(streams[shapes[i]], runs=REPEAT_RUNS, repetition=1) for i in near]
    traces = yield batch
    again = dict(zip(near, map(read, traces), strict=True))
    alternations = [infer_throughput.alternation(trace.bytes, trace.nanoseconds) for trace in traces]
    columns = {name: tuple(float(getattr(shape, name)) for shape in shapes) for name in COLUMNS}
    evidence += [digest(stream) for stream in batch]
    return Surface(
        columns, tuple(map(float, in_flight)), first, again, tuple(evidence), dict(zip(near, alternations, strict=True))
    )


def configuration_at(surface: Surface, index: int) -> Configuration:
    """One of the configurations of a searched surface."""
    return Configuration(**{name: int(column[index]) for name, column in surface.columns.items()})


def resident_configurations(info: DeviceInfo) -> list[Configuration]:
    """Those whose blocks are all resident: threads and registers of an SM suffice."""
    return [each for each in _product(RESIDENT_BLOCKS, info) if each.blocks_per_sm <= resident_blocks(each, info)]


def all_configurations(info: DeviceInfo) -> list[Configuration]:
    """These, and those with many more blocks than are resident."""
    waves = [each for each in _product(WAVES_OF_BLOCKS, info) if 1 <= resident_blocks(each, info) < each.blocks_per_sm]
    return resident_configurations(info) + waves


def _product(blocks: Sequence[int], info: DeviceInfo) -> Iterator[Configuration]:
    configurations = (Configuration(*values) for values in product(blocks, *KINDS.values()))
    return (each for each in configurations if each.threads <= max_block_threads(info.facts))


def resident_blocks(shape: Configuration, info: DeviceInfo) -> int:
    """Blocks that an SM runs at the same time, as limited by threads and registers."""
    threads, registers = (info.facts.get(name) for name in ("threads_per_sm", "registers_per_sm"))
    blocks = (threads if isinstance(threads, int) else DEFAULT_THREADS_PER_SM) // shape.threads
    if not isinstance(registers, int):
        return blocks
    per_thread = allocated_registers(shape.ilp * shape.width // 4 + EXTRA_REGISTERS)
    return min(blocks, registers // (shape.threads * per_thread))


def _coarse_grid(shapes: Sequence[Configuration]) -> list[Configuration]:
    """Configurations to begin with, among them the most resident blocks of every kind."""
    chosen: list[Configuration] = []
    for kind in product(COARSE_THREADS, COARSE_ILPS):
        of_kind = [shape for shape in shapes if shape.kind == (*kind, COARSE_WIDTH)]
        chosen += [shape for shape in of_kind if shape.blocks_per_sm in COARSE_BLOCKS]
        resident = [shape for shape in of_kind if shape.blocks_per_sm in RESIDENT_BLOCKS]
        if resident and max(resident) not in chosen:
            chosen.append(max(resident))
    return chosen or sorted(shapes, key=lambda shape: shape.in_flight)[-1:]


def _second_start(best: Configuration, rates: Mapping[Configuration, Throughput]) -> list[Configuration]:
    """The fastest with another number of threads, if about as fast: a coarse grid may mislead."""
    others = [shape for shape in rates if shape.threads != best.threads]
    other = max(others, key=lambda shape: rates[shape].rate, default=best)
    return [other] if others and rates[other].rate >= (1 - NEAR) * rates[best].rate else []


def _neighbours(best: Configuration, shapes: Sequence[Configuration]) -> list[Configuration]:
    """Configurations one step away in one or two of the four parameters.

    A step in the number of blocks leads to the nearest number of that kind: kinds differ in resident blocks.
    """
    blocks: dict[tuple[int, ...], list[int]] = {}
    for shape in shapes:
        blocks.setdefault(shape.kind, []).append(shape.blocks_per_sm)
    steps = {}
    for name, values in KINDS.items():
        at = values.index(getattr(best, name))
        steps[name] = (*values[:at][-1:], *values[at + 1 :][:1])
    single = [replace(best, **{name: value}) for name, values in steps.items() for value in values]
    stepped: list[Configuration] = []
    for shape in [best, *single]:
        counts = blocks.get(shape.kind, [])
        same = [best.blocks_per_sm] * (best.blocks_per_sm in counts)
        fewer = sorted(count for count in counts if count < best.blocks_per_sm)
        more = sorted(count for count in counts if count > best.blocks_per_sm)
        stepped += [replace(shape, blocks_per_sm=count) for count in (*same, *fewer[-1:], *more[:1])]
    pairs = [(one, other, a, b) for one, other in combinations(steps, 2) for a, b in product(steps[one], steps[other])]
    double = [replace(best, **{one: a, other: b}) for one, other, a, b in pairs]
    return stepped + [shape for shape in double if shape in shapes]


@dataclass(frozen=True)
class BestStream:
    """The fastest of a few streams."""

    rates: tuple[Throughput, ...]  # throughput of each, in the order given
    best: Stream  # the fastest; `first` and `second`: its throughput when measured twice
    first: Throughput
    second: Throughput
    evidence: tuple[str, ...]  # digests of all streams


def measure_best(
    streams: Sequence[Stream],
    read: Callable[[Trace], Throughput] = bytes_per_second,
    runs: tuple[int, int] = (FEW_RUNS, FEW_REPEAT_RUNS),
) -> Ask[BestStream]:
    """Run all streams `runs[0]` times, then the fastest `runs[1]` times; `read` gives the throughput of a trace."""
    streams = [replace(stream, runs=runs[0]) for stream in streams]
    traces = yield streams
    rates = tuple(map(read, traces))
    best = infer_throughput.fastest(rates)
    repeated = replace(streams[best], runs=runs[1], repetition=1)
    (trace,) = yield [repeated]
    evidence = tuple(digest(stream) for stream in (*streams, repeated))
    return BestStream(rates, repeated, rates[best], read(trace), evidence)


def bandwidth_estimate(
    element: str, attribute: str, stream: BestStream, bound: Bound | Unbounded, caveats: tuple[str, ...]
) -> Estimate:
    """The estimate of a bandwidth, B/s; not found if it exceeds the bound."""
    estimate = partial(Estimate, element=element, attribute=attribute, method=METHOD, evidence=stream.evidence)
    if (reason := rate_estimates.refusal(stream.second.rate, bound, unit_of(attribute))) is not None:
        return estimate(status=Status.NOT_FOUND, reason=reason)
    both = infer_throughput.combine_repeats(stream.first, stream.second)
    if both is None:
        low, high = sorted(bound.clip(each.rate) for each in (stream.first, stream.second))
        reason = "the best configuration gave another rate when measured again"
        return estimate(status=Status.AMBIGUOUS, low=low, high=high, reason=reason, caveats=caveats)
    rate = rate_estimates.clip_throughput(both, bound)
    caveats += (bound.why,) if isinstance(bound, Unbounded) else rate_estimates.excess_caveat(both.rate, bound)
    return found(element, attribute, rate.rate, rate.low, rate.high, BANDWIDTH, METHOD, stream.evidence, caveats)

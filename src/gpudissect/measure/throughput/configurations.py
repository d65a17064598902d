"""Configurations of a stream, searched: a coarse grid, then around the best until nothing is better (MC16 s5.1).

To begin with around two of the grid, of different numbers of threads, if both are good.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product

from gpudissect.catalogue.capabilities import max_block_threads
from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.instructions import allocated_registers
from gpudissect.measure.plan import Ask, Bench
from gpudissect.measure.throughput.infer_surface import NEAR
from gpudissect.measure.throughput.infer_throughput import Throughput, alternation, throughput
from gpudissect.measure.throughput.surface import Surface, members_to_repeat
from gpudissect.trace import Trace
from gpudissect.workload import Stream
from gpudissect.workload.digest import digest

BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
MANY_BLOCKS = (64, 128, 256, 512, 1024)
"""Blocks of an SM of which only some run at a time: when one ends, another takes its place. Each does little, and all
that run are somewhere else in time: on an H200 memory takes more from them than from blocks that stay."""
THREADS = (32, 64, 128, 256, 512, 1024)
ILPS = (1, 2, 4, 8)
WIDTHS = (4, 8, 16)
COARSE_BLOCKS, COARSE_THREADS, COARSE_ILPS, COARSE_WIDTHS = (1, 4, 256, 1024), (128, 512), (1, 4), (4, 16)
BETTER = 0.002  # relative, from which a neighbour counts as better
ROUNDS = 8  # of looking around the best, at most
RUNS = 2
RUNS_AGAIN = 6  # an even number: runs of some configurations alternate between two rates

FEWEST_THREADS = 512  # an SM of a GPU that does not say how many it has room for
BESIDE = 24  # registers of a thread beside those that hold what it moves


@dataclass(frozen=True, order=True)
class Configuration:
    """Blocks of an SM, threads of a block, accesses of a thread in flight, bytes of one."""

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
        """Bytes that an SM has in flight if it runs all of its blocks at once."""
        return self.blocks_per_sm * self.tile

    @property
    def kind(self) -> tuple[int, int, int]:
        """What a block does, however many there are."""
        return self.threads, self.ilp, self.width


COLUMNS = tuple(field.name for field in fields(Configuration))
Make = Callable[[Configuration], Stream | None]


def search(
    shapes: Iterable[Configuration], make: Make, read: Callable[[Trace], Throughput], bench: Bench
) -> Ask[Surface | None]:
    """The surface of throughput over `shapes`, and its top measured again; None if none of them can be run.

    `make` gives the stream of a configuration, or None where it has no room; `read` its throughput.
    """
    ready = {each: stream for each in shapes if (stream := make(each)) is not None}
    measured: dict[Configuration, Throughput] = {}
    evidence: list[str] = []
    wanted = _coarse(list(ready))
    for _ in range(1 + ROUNDS):
        before = max((each.rate for each in measured.values()), default=0.0)
        if not wanted:
            break
        streams = [replace(ready[each], runs=RUNS) for each in wanted]
        traces = yield streams
        measured |= {each: read(trace) for each, trace in zip(wanted, traces, strict=True)}
        evidence += [digest(stream) for stream in streams]
        best = max(measured, key=lambda each: measured[each].rate)
        if measured[best].rate <= (1 + BETTER) * before:
            break
        starts = [best] if before else [best, *_other_start(best, measured)]
        around = dict.fromkeys(each for start in starts for each in _around(start, list(ready)))
        wanted = [each for each in around if each not in measured]
    if not measured:
        return None
    chosen = sorted(measured)
    first = tuple(measured[each] for each in chosen)
    flying = tuple(float(min(each.blocks_per_sm, at_once(each, bench.info)) * each.tile) for each in chosen)
    near = members_to_repeat(first)
    streams = [replace(ready[chosen[i]], runs=RUNS_AGAIN, repetition=1) for i in near]
    traces = yield streams
    again = {i: read(trace) for i, trace in zip(near, traces, strict=True)}
    turns = {i: alternation(trace.bytes, trace.nanoseconds) for i, trace in zip(near, traces, strict=True)}
    columns = {name: tuple(float(getattr(each, name)) for each in chosen) for name in COLUMNS}
    evidence += [digest(stream) for stream in streams]
    return Surface(columns, flying, first, again, tuple(evidence), turns)


def by_the_clock(trace: Trace) -> Throughput:
    """Bytes a second of a stream."""
    return throughput(trace.bytes, trace.nanoseconds)


def configuration(surface: Surface, index: int) -> Configuration:
    """One of the configurations of a searched surface."""
    return Configuration(**{name: int(column[index]) for name, column in surface.columns.items()})


def resident(info: DeviceInfo) -> Iterator[Configuration]:
    """Those of which all blocks run at once: threads of an SM and registers are enough."""
    for each in _every(BLOCKS, info):
        if each.blocks_per_sm <= at_once(each, info):
            yield each


def oversubscribed(info: DeviceInfo) -> Iterator[Configuration]:
    """Those with many more blocks than run at once."""
    for each in _every(MANY_BLOCKS, info):
        if 1 <= at_once(each, info) < each.blocks_per_sm:
            yield each


def _every(blocks: Sequence[int], info: DeviceInfo) -> Iterator[Configuration]:
    threads = [each for each in THREADS if each <= max_block_threads(info.facts)]
    yield from (Configuration(*values) for values in product(blocks, threads, ILPS, WIDTHS))


def at_once(shape: Configuration, info: DeviceInfo) -> int:
    """Blocks that an SM can run at once, as far as its threads and registers tell."""
    threads, registers = (info.facts.get(name) for name in ("threads_per_sm", "registers_per_sm"))
    most = (threads if isinstance(threads, int) else FEWEST_THREADS) // shape.threads
    if not isinstance(registers, int):
        return most
    return min(most, registers // (shape.threads * allocated_registers(shape.ilp * shape.width // 4 + BESIDE)))


def _coarse(ready: Sequence[Configuration]) -> list[Configuration]:
    """The grid to begin with; of every kind of block the most of them that run at once, too."""
    chosen: list[Configuration] = []
    for kind in product(COARSE_THREADS, COARSE_ILPS, COARSE_WIDTHS):
        own = [each for each in ready if each.kind == kind]
        chosen += [each for each in own if each.blocks_per_sm in COARSE_BLOCKS]
        staying = [each for each in own if each.blocks_per_sm in BLOCKS]
        if staying and max(staying) not in chosen:
            chosen.append(max(staying))
    return chosen or sorted(ready, key=lambda each: each.in_flight)[-1:]


def _other_start(best: Configuration, measured: Mapping[Configuration, Throughput]) -> list[Configuration]:
    """The best of those with another number of threads, if it is about as good: a coarse grid may mislead by luck."""
    others = [each for each in measured if each.threads != best.threads]
    other = max(others, key=lambda each: measured[each].rate, default=best)
    return [other] if others and measured[other].rate >= (1 - NEAR) * measured[best].rate else []


def _around(best: Configuration, ready: Sequence[Configuration]) -> list[Configuration]:
    """Those that differ from it by a step of one or of two of the four.

    A step in the number of blocks leads to the nearest number that there is for such blocks: not of every kind as many
    run at once.
    """
    blocks: dict[tuple[int, int, int], list[int]] = {}
    for each in ready:
        blocks.setdefault(each.kind, []).append(each.blocks_per_sm)
    axes = ((best.threads, THREADS), (best.ilp, ILPS), (best.width, WIDTHS))
    steps = [_steps(values, value) for value, values in axes]
    single = [_with(best.kind, {axis: value}) for axis in range(3) for value in steps[axis]]
    double = [_with(best.kind, {one: a, other: b})
              for one, other in combinations(range(3), 2) for a, b in product(steps[one], steps[other])]  # fmt: skip
    found: list[Configuration] = []
    for kind in [best.kind, *single]:
        there = blocks.get(kind, [])
        fewer = [each for each in there if each < best.blocks_per_sm]
        more = [each for each in there if each > best.blocks_per_sm]
        near = [each for each in there if each == best.blocks_per_sm]
        near += [max(fewer)] if fewer else []
        near += [min(more)] if more else []
        found += [Configuration(each, *kind) for each in near]
    found += [Configuration(best.blocks_per_sm, *kind) for kind in double
              if best.blocks_per_sm in blocks.get(kind, [])]  # fmt: skip
    return found


def _with(kind: tuple[int, int, int], other: dict[int, int]) -> tuple[int, int, int]:
    threads, ilp, width = (other.get(axis, value) for axis, value in enumerate(kind))
    return threads, ilp, width


def _steps(values: Sequence[int], value: int) -> list[int]:
    at = values.index(value)
    return [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]

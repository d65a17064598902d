"""Configurations of a stream, searched: a coarse grid, then around the best until nothing is better (MC16 s5.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations, product

from gpudissect.experiments.base import Ask, Bench
from gpudissect.experiments.surface import Surface, members_to_repeat
from gpudissect.inference.throughput import Throughput
from gpudissect.trace import Trace
from gpudissect.workload import Stream
from gpudissect.workload.digest import digest

BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16)
THREADS = (128, 256, 512, 1024)
ILPS = (1, 2, 4, 8)
WIDTHS = (4, 8, 16)
COARSE_BLOCKS, COARSE_THREADS, COARSE_ILPS, COARSE_WIDTHS = (1, 4), (128, 512), (1, 4), (4, 16)
BETTER = 0.002  # relative, from which a neighbour counts as better
ROUNDS = 8  # of looking around the best, at most
RUNS = 2
RUNS_AGAIN = 5

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
        """Bytes that an SM has in flight."""
        return self.blocks_per_sm * self.tile


AXES = dict(zip((field.name for field in fields(Configuration)), (BLOCKS, THREADS, ILPS, WIDTHS), strict=True))
Make = Callable[[Configuration], Stream | None]


def search(make: Make, read: Callable[[Trace], Throughput], bench: Bench) -> Ask[Surface | None]:
    """The surface of throughput, and its top measured again; None if no configuration can be run.

    `make` gives the stream of a configuration, or None where it has no room; `read` its throughput.
    """
    ready = {each: stream for each in _all(bench) if (stream := make(each)) is not None}
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
        wanted = [each for each in _around(best) if each in ready and each not in measured]
    if not measured:
        return None
    chosen = sorted(measured)
    first = tuple(measured[each] for each in chosen)
    flying = tuple(float(each.in_flight) for each in chosen)
    near = members_to_repeat(flying, first)
    streams = [replace(ready[chosen[i]], runs=RUNS_AGAIN, repetition=1) for i in near]
    traces = yield streams
    again = {i: read(trace) for i, trace in zip(near, traces, strict=True)}
    columns = {name: tuple(float(getattr(each, name)) for each in chosen) for name in AXES}
    evidence += [digest(stream) for stream in streams]
    return Surface(columns, flying, first, again, tuple(evidence))


def configuration(surface: Surface, index: int) -> Configuration:
    """One of the configurations of a searched surface."""
    return Configuration(**{name: int(column[index]) for name, column in surface.columns.items()})


def _all(bench: Bench) -> Iterator[Configuration]:
    """Those of which all blocks run at once: threads of an SM and registers are enough."""
    threads, registers = (bench.info.facts.get(name) for name in ("threads_per_sm", "registers_per_sm"))
    most = threads if isinstance(threads, int) else FEWEST_THREADS
    for each in (Configuration(*values) for values in product(*AXES.values())):
        running = each.blocks_per_sm * each.threads
        needed = running * (each.ilp * each.width // 4 + BESIDE)
        if running <= most and (not isinstance(registers, int) or needed <= registers):
            yield each


def _coarse(ready: Sequence[Configuration]) -> list[Configuration]:
    """The grid to begin with; of every kind of block the most of them, too."""
    kinds = product(COARSE_THREADS, COARSE_ILPS, COARSE_WIDTHS)
    chosen: list[Configuration] = []
    for threads, ilp, width in kinds:
        own = [each for each in ready if (each.threads, each.ilp, each.width) == (threads, ilp, width)]
        if own:
            most = max(own)
            chosen += [each for each in own if each.blocks_per_sm in COARSE_BLOCKS and each != most] + [most]
    return chosen or sorted(ready, key=lambda each: each.in_flight)[-1:]


def _around(best: Configuration) -> list[Configuration]:
    """Those that differ from it by a step of one or of two of the four."""
    steps = {name: _steps(values, getattr(best, name)) for name, values in AXES.items()}
    single = [replace(best, **{name: value}) for name, values in steps.items() for value in values]
    double = [replace(best, **{one: a, other: b})
              for one, other in combinations(steps, 2) for a, b in product(steps[one], steps[other])]  # fmt: skip
    return [*single, *double]


def _steps(values: Sequence[int], value: int) -> list[int]:
    at = values.index(value)
    return [values[i] for i in (at - 1, at + 1) if 0 <= i < len(values)]

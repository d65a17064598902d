"""`Trace`: the raw, immutable result of one workload, with its context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.workload import Chase, Timing, Workload
from gpudissect.workload.order import narrowed

Array = NDArray[np.int64]
FRACTION = 1 << 48
"""Integers that stand for fractions are multiples of 1 / FRACTION."""
LIFETIME = ("sm", "block", "begin", "end")
"""Arrays of a mix, shape (warps,)."""
TOTALS = ("sm", "warps", "span", "duration", "pace", "full_cycles", "full_warps")
"""Arrays of a mix with one entry for each SM, shape (SMs,)."""
OTHER_PROCESSES = "other_processes"  # note of a context: how many use the GPU too


def _rebuild(record: object) -> tuple[type, tuple[object, ...]]:
    """How to make a record again, for pickle: read-only mappings as dicts."""
    values = (getattr(record, field.name) for field in fields(record))  # type: ignore[arg-type]
    return type(record), tuple(dict(each) if isinstance(each, MappingProxyType) else each for each in values)


@dataclass(frozen=True)
class Context:
    """The circumstances of a trace.

    Attributes:
        device: the name of the GPU.
        clock_hz: SM clock rate while the workload ran, None if it could not be read.
        sm: number of the SM that ran it, None if several did or it is not known.
        address: virtual address of byte offset 0, None if it is not known or several chases ran at once.
        notes: other observations: throttle reasons, other users of the GPU, the requested and preferred carve-out (the
            one in force cannot be read), ``windows`` if the trace was joined from several runs of the whole workload,
            ``prior_access_sms``, the SM of each of the prior accesses of a chase.
    """

    device: str
    clock_hz: float | None = None
    sm: int | None = None
    address: int | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", MappingProxyType(dict(self.notes)))

    __reduce__ = _rebuild


class Planned(NamedTuple):
    """An array that follows from the workload: it is computed when it is read."""

    size: int
    compute: Callable[[], Array]


def planned_arrays(workload: Workload) -> dict[str, Planned]:
    """What a trace holds besides measurements: the offsets of a chase, otherwise most of it."""
    if not isinstance(workload, Chase) or workload.timing is not Timing.EACH:
        return {}
    return {"offsets": Planned(workload.records, workload.visited)}


class _Arrays(Mapping[str, Array]):
    """Read-only int64 arrays by name, held in narrower types, or planned."""

    def __init__(self, arrays: Mapping[str, Array | Planned]) -> None:
        self._held: dict[str, Array | Planned] = {}
        for name, array in arrays.items():
            self._held[name] = array if isinstance(array, Planned) else _narrow_copy(array)

    def __getitem__(self, name: str) -> Array:
        held = self._held[name]
        array = held.compute() if isinstance(held, Planned) else held.astype(np.int64)
        array.flags.writeable = False
        return array

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(8 * array.size for array in self._held.values())

    def measured(self) -> _Arrays:
        """Those that are not planned."""
        return self._of({name: array for name, array in self._held.items() if not isinstance(array, Planned)})

    def completed(self, planned: Mapping[str, Planned]) -> _Arrays:
        """These after planned ones."""
        return self._of({**planned, **self._held})

    def __reduce__(self) -> tuple[Callable[..., _Arrays], tuple[object, ...]]:
        return self._of, (
            {name: self[name] if isinstance(each, Planned) else each for name, each in self._held.items()},
        )

    @classmethod
    def _of(cls, held: dict[str, Array | Planned]) -> _Arrays:
        arrays = cls({})
        arrays._held = held
        return arrays


def _narrow_copy(array: Array) -> Array:
    narrow = narrowed(np.asarray(array, dtype=np.int64))
    return narrow.copy() if np.may_share_memory(narrow, array) else narrow


class _NamedArray:
    """The array of a trace that has the name of the attribute."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, trace: Trace, owner: type) -> Array:
        if self._name not in trace.arrays:
            raise KeyError(f"this trace has no {self._name!r}, only {sorted(trace.arrays)}")
        return trace.arrays[self._name]


@dataclass(frozen=True, eq=False)
class Trace:
    """Named int64 arrays and their context. They are copied into narrower types, and widened when they are read.

    A chase has, by its timing: EACH `offsets` (n,) and `cycles` (n,), lap after lap; LAP `cycles` (laps,); COUNT
    `counts` (laps, 3). A stream has `nanoseconds` and `bytes` (runs,), and in most cases `cycles` (runs, blocks). A
    launch has `nanoseconds` (runs,). A mix has `begin`, `end`, `sm` and `block` (warps,), or `totals_by_sm` (SMs,), and
    with timed single loads `latency` and `count` (latencies,), `overhead` and `overflow_count` (1,).
    A missing array raises `KeyError` with the names that the trace has.
    """

    workload: str
    arrays: Mapping[str, Array]
    context: Context

    cycles = _NamedArray()
    """Cycles of each timed access (EACH) or lap (LAP) of a chase, of each run and block of a stream."""
    offsets = _NamedArray()
    """Byte offsets visited by a chase (EACH)."""
    counts = _NamedArray()
    """Hits, misses and unknown accesses of each lap of a chase (COUNT), shape (laps, 3)."""
    nanoseconds = _NamedArray()
    """Duration of each run, of a stream from the start of its first block to the end of its last."""
    bytes = _NamedArray()
    """Bytes moved by each run of a stream."""
    begin = _NamedArray()
    """Begin of each warp of a mix, in cycles of its own SM's clock."""
    end = _NamedArray()
    """End of each warp of a mix."""
    sm = _NamedArray()
    """SM of each warp of a mix."""
    block = _NamedArray()
    """Block of each warp of a mix."""
    latency = _NamedArray()
    """Different latencies of single loads of a mix in cycles, rising, timer included."""
    count = _NamedArray()
    """Number of single loads with each `latency`."""
    overhead = _NamedArray()
    """Cycles between two readings of the clock without a load, shape (1,)."""

    def __post_init__(self) -> None:
        if not isinstance(self.arrays, _Arrays):
            object.__setattr__(self, "arrays", _Arrays(self.arrays))

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays as they are read; it takes less memory."""
        assert isinstance(self.arrays, _Arrays)
        return self.arrays.nbytes

    def measured(self) -> Trace:
        """The trace without planned arrays."""
        assert isinstance(self.arrays, _Arrays)
        return replace(self, arrays=self.arrays.measured())

    def completed(self, workload: Workload) -> Trace:
        """The trace of measured arrays with the planned ones of its workload."""
        assert isinstance(self.arrays, _Arrays)
        return replace(self, arrays=self.arrays.completed(planned_arrays(workload)))

    @property
    def overflow_count(self) -> int:
        """Number of single loads with the longest `latency` or a longer one; 0 if the trace does not have it."""
        return int(self.arrays["overflow_count"][0]) if "overflow_count" in self.arrays else 0


def totals_by_sm(begin: Array, end: Array, sm: Array) -> dict[str, Array]:
    """Sums over the warps of each SM, which give its rates; `begin` and `end` in cycles, shape (warps,).

    By name, shape (SMs,): `sm`; `warps`; `span`, cycles from the first begin to the last end; `duration`, cycles of all
    warps; `pace`, the sum of 1 / duration, times `FRACTION`; `full_cycles`, from the end of the last warp of the first
    wave to the begin of the last of all, while occupancy is full, 0 if there is no such time; `full_warps`, the shares
    of warps that ran in it, times `FRACTION`. Every warp took at least one cycle.
    """
    order = np.argsort(sm.astype(np.int16), kind="stable")  # numpy sorts 16 bits several times as fast
    begin, end, counts = begin[order], end[order], np.bincount(sm)
    numbers, warps = np.flatnonzero(counts), counts[counts > 0]
    starts = np.cumsum(warps) - warps
    durations = end - begin
    last_end, until = np.maximum.reduceat(end, starts), np.maximum.reduceat(begin, starts)
    first_end, span = np.minimum.reduceat(end, starts), last_end - np.minimum.reduceat(begin, starts)
    sums = [np.add.reduceat(1 / durations, starts), np.zeros(numbers.size)]
    full_cycles = np.zeros(numbers.size, np.int64)
    if (until >= first_end).any():  # there is more than one wave
        of_first_wave = begin < np.repeat(first_end, warps)
        since = np.maximum.reduceat(np.where(of_first_wave, end, end.min()), starts)
        inside = np.minimum(end, np.repeat(until, warps)) - np.maximum(begin, np.repeat(since, warps))
        full_cycles = np.maximum(until - since, 0)
        sums[1] = np.add.reduceat(np.maximum(inside, 0) / durations, starts)
    pace, full_warps = (np.rint(each * FRACTION).astype(np.int64) for each in sums)
    columns = (numbers, warps, span, np.add.reduceat(durations, starts), pace, full_cycles, full_warps)
    return dict(zip(TOTALS, columns, strict=True))

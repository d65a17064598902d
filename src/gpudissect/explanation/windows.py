"""Traces of sampled warps from the arrays of traced launches; of long warps, the first, middle and last accesses.

A launch records at most as many accesses of a warp as the arrays hold. Warps that make more are traced in three
launches, which skip different numbers of accesses.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation import jobs
from gpudissect.explanation.instrument import ACCESSES_PER_WARP, Events, Traced
from gpudissect.explanation.jobs import Measured
from gpudissect.explanation.packing import Trace, pack_trace, relative_trace
from gpudissect.explanation.profile import Warp

MAX_TRACE_CHARACTERS = 1_500_000
"""Of all packed traces of a profile; beyond, fewer accesses of each warp are kept."""
TRACE_ARRAYS = ("cursors", "accesses", "visits", "addresses", "skips")
"""Arrays of a traced launch, each of so many bytes per warp."""
END_SHARE = 16
"""One of so many kept accesses is at the start of a warp, as many are at its end."""


class _Recorded(NamedTuple):
    """The trace of a warp, the number of each access of it, and how many accesses and more visits the warp has made."""

    block: int
    warp: int
    trace: Trace
    numbers: NDArray[np.int64]
    accesses: int
    more_visits: int


def windows(total: int, count: int) -> tuple[range, ...]:
    """Numbers of the `count` accesses to keep of a warp that makes `total`: first, middle, and last ones; or all."""
    if total <= count:
        return (range(total),)
    end = count // END_SHARE
    middle = count - 2 * end
    start = (total - middle) // 2
    return range(end), range(start, start + middle), range(total - end, total)


def skips(totals: NDArray[np.int64], count: int) -> list[NDArray[np.uint64]]:
    """Accesses to skip in each launch after the first one, shape (warps,); none if no warp makes more than `count`."""
    parts = [windows(total, count) for total in totals.tolist()]
    if max(map(len, parts), default=1) == 1:
        return []
    return [np.array([each[n].start if n < len(each) else 0 for each in parts], np.uint64) for n in (1, 2)]


def read_warps(folder: Path, measured: Measured, tracing: Traced, sizes: Sequence[int]) -> tuple[Warp, ...]:
    """The traced warps of a job, with so few accesses of each warp that all fit into the profile.

    `sizes`: bytes of the arrays among the arguments.
    """
    spaces = [access.space for access in tracing.accesses]
    found = []
    for number, plan in enumerate(measured.traces):
        launches = [_load(path) for path in jobs.trace_files(folder, number)]
        for slot, (block, warp) in enumerate(plan.places()):
            visits = tracing.read_visits(launches[0], slot)
            accesses, numbers = _joined([tracing.read_accesses(each, slot) for each in launches])
            trace = relative_trace(visits, accesses, spaces, measured.addresses, sizes)
            total = len(numbers) + accesses.overflow_count
            recorded = _Recorded(block, warp, trace, numbers, total, visits.overflow_count)
            found.append(_thinned(recorded, plan.accesses, in_order=tracing.has_barriers))
    return tuple(_warps(found, in_order=tracing.has_barriers))


def _load(path: Path) -> dict[str, Any]:
    with np.load(path, allow_pickle=False) as file:
        return {name: file[name].tobytes() for name in file.files}


def _joined(parts: Sequence[Events]) -> tuple[Events, NDArray[np.int64]]:
    """The accesses of all launches, each once, with their numbers; `overflow_count` of them no launch has recorded."""
    numbers = np.concatenate([part.first + np.arange(len(part.index)) for part in parts])
    total = len(parts[0].index) + parts[0].overflow_count
    numbers, at = np.unique(numbers, return_index=True)
    index, lanes = (np.concatenate([getattr(part, name) for part in parts])[at] for name in ("index", "lanes"))
    addresses = np.concatenate([part.addresses for part in parts if part.addresses is not None])[at]
    return Events(index, lanes, addresses, max(0, total - len(numbers))), numbers


def _thinned(recorded: _Recorded, count: int, *, in_order: bool) -> _Recorded:
    """The trace with `count` accesses at most; the first ones if it has to be `in_order`."""
    parts: Iterable[range] = (range(count),) if in_order else windows(recorded.accesses, count)
    kept = np.zeros(len(recorded.numbers), np.bool_)
    for part in parts:
        kept |= (recorded.numbers >= part.start) & (recorded.numbers < part.stop)
    return recorded._replace(trace=recorded.trace.select(kept), numbers=recorded.numbers[kept])


def _warps(found: Sequence[_Recorded], *, in_order: bool) -> list[Warp]:
    """Warps whose packed traces have `MAX_TRACE_CHARACTERS` at most."""
    limit, kept = ACCESSES_PER_WARP, list(found)
    while True:
        packed = [pack_trace(each.trace) for each in kept]
        characters = sum(map(len, packed))
        if characters <= MAX_TRACE_CHARACTERS or limit <= 1:
            break
        longest = max(len(each.numbers) for each in kept)
        limit = max(1, int(min(limit, longest) * min(0.8, 0.95 * MAX_TRACE_CHARACTERS / characters)))
        kept = [_thinned(each, limit, in_order=in_order) for each in found]
    return [
        Warp(
            block=each.block,
            warp=each.warp,
            visits=len(each.trace.visited),
            accesses=len(each.numbers),
            more_visits=each.more_visits,
            more_accesses=max(0, each.accesses - len(each.numbers)),
            packed=text,
        )
        for each, text in zip(kept, packed, strict=True)
    ]

"""From what the blocks of a stream tell to its trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.clocks import clock_rate
from gpudissect.errors import KernelFailed
from gpudissect.trace import Array, Context, Trace
from gpudissect.workload import Path, Stream
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

_TELLING = 20_000
"""Nanoseconds that a block must take, on average, to tell the clock. Its two clocks are read one after the other, and
where blocks begin and end beside others that run, what lies between is not always the same: by such blocks an H200
seemed to run at 1.90 to 2.10 GHz. So only those tell that stay, and do not come and go."""
_SHARE = 0.25  # of a run that blocks take on average, at least, to tell the clock
_OF_BLOCKS = (Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED)  # paths whose traces tell the cycles of every block


@dataclass(frozen=True)
class StreamRun:
    """What the blocks of one run told.

    Attributes:
        nanoseconds: from the first one's begin to the last one's end.
        lived: nanoseconds of all blocks together.
        cycles: of each block, by its SM's clock, shape (blocks,).
        by_sm: blocks of each SM that ran any.
        at_once: whether there was a moment at which all of them ran.

    """

    nanoseconds: int
    lived: int
    cycles: NDArray[np.int64]
    by_sm: NDArray[np.int64]
    at_once: bool


def read(stream: Stream, reports: NDArray[Any]) -> StreamRun:
    """What a run's reports come to. Raises `KernelFailed` if not every block ran.

    (Columns are copied first: of a hundred thousand records each look at one in place takes longer than all of this.)
    """
    begin, end, cycles, sm = (reports[name].astype(np.int64) for name in ("begin", "end", "cycles", "sm"))
    if not (begin.all() and cycles.all() and (end >= begin).all()):  # one with nothing to do may end as it begins
        raise KernelFailed(f"a stream on path {stream.path.value}: not every block ran")
    counts = np.bincount(sm)
    return StreamRun(
        nanoseconds=int(end.max() - begin.min()), lived=int((end - begin).sum()), cycles=cycles,
        by_sm=counts[counts > 0], at_once=bool(begin.max() < end.min()),
    )  # fmt: skip


def trace(stream: Stream, runs: Sequence[StreamRun], device: str, shared: int) -> Trace:
    """The trace of a stream's timed runs on a device of this name; each block had `shared` bytes of shared memory."""
    fewest, most = min(int(run.by_sm.min()) for run in runs), max(int(run.by_sm.max()) for run in runs)
    lived = [run.lived for run in runs]
    telling = all(run.lived >= max(_TELLING, _SHARE * run.nanoseconds) * stream.blocks for run in runs)
    context = Context(
        device=device,
        clock_hz=clock_rate([int(run.cycles.sum()) for run in runs], lived) if telling else None,
        notes={
            "shared_bytes": str(shared),
            "sms": str(runs[0].by_sm.size),
            "blocks_per_sm": str(most) if fewest == most else f"{fewest} to {most}",
            "all_at_once": "yes" if all(run.at_once for run in runs) else "no",
        },
    )
    arrays: dict[str, Array] = {
        "nanoseconds": np.array([run.nanoseconds for run in runs], np.int64),
        "bytes": np.full(len(runs), stream.moved, np.int64),
    }
    if stream.path in _OF_BLOCKS and stream.blocks <= MAX_TIMED_BLOCKS:
        arrays["cycles"] = np.stack([run.cycles for run in runs])
    return Trace(workload=digest(stream), arrays=arrays, context=context)

"""First touches of chosen lines, again and again, in other orders: what tells near lines from far ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.plan import Bench
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Explicit, Path, Timing

TOUCHES = 4  # one in ten comes late, by a refresh of the memory


def first_touches(path: Path, offsets: NDArray[np.int64], bench: Bench, *parts: int | str) -> list[Chase]:
    """Chases that touch `offsets` (bytes, distinct lines) for the first time after a flush, each in another order.

    On a device that places its memory anew when a larger chase comes, they must follow the chase whose lines they are
    about in the same batch: it makes the room that they use.
    """
    chases = []
    for turn in range(TOUCHES):
        order = bench.rng("touch", path, turn, *parts).permutation(np.unique(offsets))
        chases.append(Chase(path=path, order=Explicit(order), timing=Timing.EACH, warmup=0, flush=True, alone=True))
    return chases


def touches_of(offsets: NDArray[np.int64], traces: Sequence[Trace]) -> NDArray[np.int64]:
    """Cycles of the first touches of `offsets`, in their order, from the traces of `first_touches`; (TOUCHES, n)."""
    rows = []
    for trace in traces:
        order = np.argsort(trace.offsets)
        rows.append(trace.cycles[order][np.searchsorted(trace.offsets[order], offsets)])
    return np.stack(rows)

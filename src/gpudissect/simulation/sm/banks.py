"""Bank conflicts: how often the banks of shared memory must be asked for what the lanes of a warp want (VV16 s2.6)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.sm.description import SharedMemory
from gpudissect.units import WARP_SIZE


def addresses(stride: int) -> NDArray[np.int64]:
    """Byte addresses of the operands of a warp's lanes that lie `stride` 4-byte words apart, shape (32,)."""
    return np.arange(WARP_SIZE, dtype=np.int64) * 4 * stride


def passes(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
    """How many rounds of the banks one access of a warp takes.

    Each round a bank reads one row of `SharedMemory.width` bytes. Lanes are served in groups: no more of them than all
    banks together can serve. A row that several lanes of a group want is read once, if accesses are `merged`; atomic
    ones are not.

    Args:
        shared: the banks.
        lanes: byte address of each lane's operand, shape (32,), multiples of `width`.
        width: bytes of one operand.
        merged: whether one reading serves all lanes that want it.

    """
    group = _served_at_once(shared, width)
    return sum(_rounds(shared, lanes[first : first + group], width, merged) for first in range(0, lanes.size, group))


def ways(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> float:
    """Rounds over those of an access of 4-byte words without a conflict: 2.0 for what is called a 2-way conflict."""
    return passes(shared, lanes, width, merged=merged) / _fewest(shared)


def further_turns(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
    """Rounds beyond those of an access of 4-byte words without a conflict: each costs `conflict_latency` more.

    Of a 2-way conflict one, or, where a warp is served by halves, two: one of each half (VV16 s2.6, s6.2).
    """
    return passes(shared, lanes, width, merged=merged) - _fewest(shared)


def _served_at_once(shared: SharedMemory, width: int) -> int:
    """Lanes of a warp that are looked at together: no more than all banks have words for."""
    return min(shared.lanes, max(1, shared.banks * shared.width // width))


def _fewest(shared: SharedMemory) -> int:
    """Rounds that a warp's access takes without a conflict."""
    return -(-WARP_SIZE // _served_at_once(shared, 4))


def _rounds(shared: SharedMemory, lanes: NDArray[np.int64], width: int, merged: bool) -> int:
    """The most that is asked of one bank: rows, or accesses where they are not merged."""
    word = shared.interleave
    asked: dict[int, list[int]] = {}
    for start in lanes.tolist():
        for piece in _pieces(start, width, word):
            row = piece // shared.banks // (shared.width // word)
            asked.setdefault(piece % shared.banks, []).append(row)
    return max(len(set(rows)) if merged else len(rows) for rows in asked.values())


def _pieces(start: int, width: int, word: int) -> Iterable[int]:
    """Numbers of the words of `word` bytes that an operand touches."""
    return range(start // word, (start + width - 1) // word + 1)

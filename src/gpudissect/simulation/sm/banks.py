"""Bank conflicts: how many passes the banks of shared memory need for the accesses of a warp (VV16 s2.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.sm.description import SharedMemory
from gpudissect.units import WARP_SIZE


def addresses(stride: int) -> NDArray[np.int64]:
    """Byte addresses of the operands of a warp's lanes, `stride` 4-byte words apart, shape (32,)."""
    return np.arange(WARP_SIZE, dtype=np.int64) * 4 * stride


def bank_passes(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
    """Passes of the banks for one access of a warp.

    In each pass a bank reads one row of `SharedMemory.width` bytes. Lanes are served in groups: at most as many as all
    banks together can serve.

    Args:
        shared: the banks.
        lanes: byte address of each lane's operand, shape (32,), multiples of `width`.
        width: bytes of one operand.
        merged: whether a row is read once for all lanes of a group that access it; atomics are not merged.
    """
    group = _group_size(shared, width)
    groups = (lanes[first : first + group] for first in range(0, lanes.size, group))
    return sum(_group_passes(shared, lanes, width, merged) for lanes in groups)


def conflict_ways(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> float:
    """Passes relative to an access of 4-byte words without a conflict: 2.0 for a 2-way conflict."""
    return bank_passes(shared, lanes, width, merged=merged) / _min_passes(shared)


def extra_passes(shared: SharedMemory, lanes: NDArray[np.int64], width: int = 4, *, merged: bool = True) -> int:
    """Passes beyond those of an access of 4-byte words without a conflict; each costs `conflict_latency` more.

    One for a 2-way conflict, or two where a warp is served by halves: one of each half (VV16 s2.6, s6.2).
    """
    return bank_passes(shared, lanes, width, merged=merged) - _min_passes(shared)


def _group_size(shared: SharedMemory, width: int) -> int:
    """Lanes served together: at most as many as all banks have words for."""
    return min(shared.lanes, max(1, shared.banks * shared.width // width))


def _min_passes(shared: SharedMemory) -> int:
    """Passes of a warp's access without a conflict."""
    return -(-WARP_SIZE // _group_size(shared, 4))


def _group_passes(shared: SharedMemory, lanes: NDArray[np.int64], width: int, merged: bool) -> int:
    """Largest number of rows (of accesses, if not merged) in one bank."""
    word = shared.interleave
    rows_by_bank: dict[int, list[int]] = {}
    for start in lanes.tolist():
        for piece in range(start // word, (start + width - 1) // word + 1):
            row = piece // shared.banks // (shared.width // word)
            rows_by_bank.setdefault(piece % shared.banks, []).append(row)
    return max(len(set(rows)) if merged else len(rows) for rows in rows_by_bank.values())

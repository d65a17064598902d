"""Index functions from lines that are known to share a set.

XORs of lines of one set lie in the null space of a linear index; enough of them span it, and what is orthogonal to it
are the rows, up to the numbering of the sets (FGPU, Jain et al. 2019, reverse engineering of L2 hashes, does the same
with physical addresses). An index that is a remainder shows as a period instead. Everything here counts in lines, not
in bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import matrix, reduced, set_numbers


def rows_from(null: Iterable[int], bits: int) -> tuple[int, ...]:
    """Rows of the linear index over `bits` bits whose null space is spanned by `null`, in reduced form."""
    pivots = {vector.bit_length() - 1: vector for vector in _by_leading_bit(null)}
    free = [bit for bit in range(bits) if bit not in pivots]
    rows = [(1 << f) | sum(1 << p for p, vector in pivots.items() if vector >> f & 1) for f in free]
    return reduced(rows)


def null_space(members: NDArray[np.int64], count: int) -> tuple[int, ...] | None:
    """Null vectors of a linear index, from all lines below `count` of one set; None if these lines are not of one.

    They are one to each leading bit, which no other has.
    """
    first = int(members[0])
    basis = _by_leading_bit(int(each) ^ first for each in members[1:])
    rest = np.arange(count, dtype=np.int64) ^ first
    for vector in basis:
        rest = np.where(rest >> (vector.bit_length() - 1) & 1, rest ^ vector, rest)
    return tuple(basis) if np.array_equal(np.flatnonzero(rest == 0), members) else None


def _by_leading_bit(vectors: Iterable[int]) -> list[int]:
    """A basis of what some vectors span, no leading bit of one in another."""
    basis: list[int] = []
    for vector in vectors:
        for other in basis:
            vector = min(vector, vector ^ other)
        if vector:
            top = vector.bit_length() - 1
            basis = [other ^ vector if other >> top & 1 else other for other in basis] + [vector]
    return basis


def linear_index(set_of: NDArray[np.int64], line: int) -> Index | None:
    """The linear index that puts lines 0, 1, ... into sets as given, but for their numbering; None if none does.

    Only whole powers of two of lines are looked at.
    """
    bits = set_of.size.bit_length() - 1
    block = set_of[: 1 << bits]
    null = null_space(np.flatnonzero(block == block[0]), block.size)
    if null is None:
        return None
    index = as_index(rows_from(null, bits), line)
    numbers = set_numbers(index, line, 1 << len(matrix(index)), np.arange(block.size, dtype=np.int64) * line)
    pairs = np.unique(np.stack([numbers, block]), axis=1)
    return index if pairs.shape[1] == np.unique(numbers).size == np.unique(block).size else None


def period(members: NDArray[np.int64], count: int) -> tuple[int, int] | None:
    """Smallest period of one set's lines below `count`, and how many neighbours go together; None without one."""
    present = np.zeros(count, dtype=bool)
    present[members] = True
    first = int(members[0])
    runs = np.flatnonzero(~present[first:])
    together = int(runs[0]) if runs.size else count - first
    for distance in np.unique(members[members > first]) - first:
        shift = int(distance)
        if shift > together and np.array_equal(present[shift:], present[:-shift]):
            whole = first % together == 0 and shift % together == 0
            return shift, together if whole else 1
    return None


def as_index(rows: Sequence[int], line: int) -> Index:
    """The index function over byte addresses with these rows over line numbers."""
    masks = tuple(row * line for row in rows)
    if all(mask & (mask - 1) == 0 for mask in masks):
        return Index(IndexKind.BITS, bits=tuple(mask.bit_length() - 1 for mask in masks))
    return Index(IndexKind.XOR, masks=masks)

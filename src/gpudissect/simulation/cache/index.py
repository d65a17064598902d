"""Index functions: from byte addresses to set numbers.

This module evaluates an `Index` for arrays of addresses. BITS and XOR are linear over GF(2): `matrix` gives them one
form. The simulator's compiled loop has a faster evaluation, built from this one (`_pack`).
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Index, IndexKind


def set_numbers(index: Index, line: int, sets: int, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Set number, in [0, sets), of each byte address; shape of `offsets`. Raises `UsageError` as `check_index` does."""
    check_index(index, line, sets)
    addresses = np.asarray(offsets, dtype=np.int64)
    if index.kind is IndexKind.MODULO:
        return addresses // (index.granule or line) % sets
    if index.kind is IndexKind.TABLE:
        table = np.array(index.table, dtype=np.int64)
        return table[addresses // (index.granule or line) % table.size]
    numbers = np.zeros_like(addresses)
    for bit, mask in enumerate(matrix(index)):
        numbers |= (np.bitwise_count(addresses & mask) & 1).astype(np.int64) << bit
    return numbers


def matrix(index: Index) -> tuple[int, ...]:
    """Rows of a GF(2)-linear index: set bit i is the parity of address & row i. Raises `UsageError` for other kinds."""
    if index.kind is IndexKind.BITS:
        return tuple(1 << bit for bit in index.bits)
    if index.kind is IndexKind.XOR:
        return index.masks
    raise UsageError(f"index {index.kind.value!r} is not linear over GF(2)")


def check_index(index: Index, line: int, sets: int) -> None:
    """Raise `UsageError` unless `index` maps all bytes of a line to one of the `sets`."""
    if index.kind in (IndexKind.BITS, IndexKind.XOR):
        rows = matrix(index)
        if len(rows) > 31 or 1 << len(rows) != sets:
            raise UsageError(f"index {index.kind.value!r} with {len(rows)} bits has {2 ** len(rows)} sets, not {sets}")
        if any(not 0 < row < 2**63 for row in rows):
            raise UsageError(f"index {index.kind.value!r} needs address bits in [0, 63) in every row, got {rows}")
        if line & (line - 1):
            raise UsageError(f"index {index.kind.value!r} needs lines of a power of two of bytes, not of {line}")
        if any(row % line for row in rows):
            raise UsageError(f"index {index.kind.value!r} uses address bits inside a line of {line} bytes")
        return
    if index.granule % line:
        raise UsageError(f"index granule must be a multiple of the line, got {index.granule} and {line} bytes")
    if index.kind is IndexKind.TABLE:
        if not index.table:
            raise UsageError("index 'table' has an empty table")
        if min(index.table) < 0 or max(index.table) >= sets:
            raise UsageError(f"index 'table' must hold set numbers in [0, {sets})")


def reduced(rows: Iterable[int]) -> tuple[int, ...]:
    """Reduced row echelon form over GF(2), pivots at the lowest bit of each row, rows rising by pivot.

    Two linear indices distinguish the same lines exactly if their reduced rows are equal.
    """
    basis: list[int] = []
    for row in rows:
        for other in basis:
            if row & lowest_bit(other):
                row ^= other
        if row:
            basis = [other ^ row if other & lowest_bit(row) else other for other in basis] + [row]
    return tuple(sorted(basis, key=lowest_bit))


def canonical(index: Index, line: int, sets: int) -> str:
    """An index function as text, the same for all that group lines in the same way.

    ``one set``; ``bits 7 8``; ``xor 7^13 8^14 9 10 11`` (each group one bit of the set number, in reduced form);
    ``line mod 1792``; ``(address / 128) mod 7``; ``not linear, table of 66``.
    """
    if sets == 1:
        return "one set"
    granule = index.granule or line
    if index.kind is IndexKind.MODULO and sets & (sets - 1) == 0 and granule & (granule - 1) == 0:
        low = granule.bit_length() - 1
        index = Index(IndexKind.BITS, bits=tuple(range(low, low + sets.bit_length() - 1)))
    if index.kind is IndexKind.MODULO:
        return f"line mod {sets}" if granule == line else f"(address / {granule}) mod {sets}"
    if index.kind is IndexKind.TABLE:
        return f"not linear, table of {len(index.table)}"
    rows = reduced(matrix(index))
    groups = ["^".join(str(bit) for bit in range(row.bit_length()) if row >> bit & 1) for row in rows]
    return f"{'xor' if any('^' in group for group in groups) else 'bits'} {' '.join(groups)}"


def lowest_bit(row: int) -> int:
    """The lowest set bit of a row, as a mask."""
    return row & -row

"""Packs a geometry into the flat arrays of the compiled loop."""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache import _kernel as kernel
from gpudissect.simulation.cache import _replacement as replacement
from gpudissect.simulation.cache.compiled import Arrays
from gpudissect.simulation.cache.geometry import Cache, Fill, Index, IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers

POLICIES = {kind: int(getattr(replacement, kind.name)) for kind in PolicyKind}


def pack(caches: Sequence[Cache], views: Sequence[tuple[int, Index]] = ()) -> Arrays:
    """Pack checked caches (and TLBs, as caches of pages) one after the other, all empty.

    `views` (number of a cache, index function) are further arrays: the lines of that cache, accessed by that function.
    """
    shape = np.zeros((len(caches) + len(views), replacement.COLUMNS), dtype=np.int64)
    tables: list[int] = []
    odds: list[float] = []
    lines = sets = 0
    for row, cache in zip(shape, caches, strict=False):
        row[replacement.LINE_SHIFT] = -1 if cache.line & (cache.line - 1) else cache.line.bit_length() - 1
        row[replacement.LINE], row[replacement.SECTOR] = cache.line, cache.sector
        row[replacement.HOLES] = cache.fill is Fill.EXCLUSIVE
        row[replacement.SECTOR_SHIFT] = cache.sector.bit_length() - 1
        row[replacement.SECTORS] = cache.line // cache.sector
        row[replacement.POLICY] = POLICIES[cache.policy.kind]
        row[replacement.ODDS] = len(odds)
        if cache.policy.kind is PolicyKind.WEIGHTED:
            odds += _cumulative(cache.policy.weights)
        row[replacement.ORDERS] = len(tables)
        if cache.policy.kind is PolicyKind.ORDER:
            tables += [len(cache.policy.order), *(way - 1 for way in cache.policy.order)]
        row[replacement.TABLE] = len(tables)
        tables += _index(row, cache.index, cache.line, cache.sets)
        row[replacement.FIRST] = lines
        if len(set(cache.ways)) == 1:
            row[replacement.WAYS] = cache.ways[0]
        else:
            row[replacement.STARTS] = len(tables)
            tables += np.cumsum([0, *cache.ways]).tolist()
        row[replacement.TOUCHED] = sets
        row[replacement.SETS] = cache.sets
        if cache.room is not None:
            row[replacement.ROOM] = cache.room.lines
            row[replacement.HOLES] |= row[replacement.POLICY] > replacement.BIP
        lines += sum(cache.ways)
        sets += cache.sets
    for row, (number, index) in zip(shape[len(caches) :], views, strict=True):
        row[:] = shape[number]
        row[replacement.TABLE] = len(tables)
        tables += _index(row, index, caches[number].line, caches[number].sets)
        row[replacement.TOUCHED] = sets
        sets += caches[number].sets
    sectored = any(cache.sector < cache.line for cache in caches)
    return Arrays(
        shape=shape,
        tables=np.array([*tables, 0], dtype=np.int32),
        odds=np.array([*odds, 1.0], dtype=np.float64),
        tags=np.full(lines, replacement.EMPTY, dtype=np.int32),
        marks=np.zeros(lines, dtype=np.int8),
        sectors=np.zeros(lines if sectored else 1, dtype=np.int32),
        touched=np.zeros(sets, dtype=np.int32),
        filled=np.zeros(len(shape), dtype=np.int64),
        draws=np.zeros(len(shape), dtype=np.uint64),
        used=np.zeros(len(shape), dtype=np.int64),
        turns=np.zeros(len(shape), dtype=np.int64),
        lost=np.full((len(shape), 2), -1, dtype=np.int64),
    )


def _cumulative(weights: Sequence[float]) -> list[float]:
    """Cumulative probabilities, ending in exactly 1."""
    total = sum(weights)
    return [*(partial / total for partial in accumulate(weights[:-1])), 1.0]


def seed_draws(arrays: Arrays, seed: int) -> None:
    """Restart the random stream of every array: array i from seed + i, modulo 2^64."""
    arrays.draws[:] = [(seed + array) % 2**64 for array in range(arrays.draws.size)]


def _index(row: NDArray[np.int64], index: Index, line: int, sets: int) -> list[int]:
    """Fill in the index columns of a row and return its table."""
    if index.kind in (IndexKind.BITS, IndexKind.XOR):
        row[replacement.INDEX] = kernel.LINEAR
        return _linear_tables(index, line, sets)
    row[replacement.PER] = (index.granule or line) // line
    if index.kind is IndexKind.MODULO:
        row[replacement.INDEX], row[replacement.PERIOD] = kernel.MODULO, sets
        return []
    row[replacement.INDEX], row[replacement.PERIOD] = kernel.LOOKUP, len(index.table)
    return list(index.table)


def _linear_tables(index: Index, line: int, sets: int) -> list[int]:
    """Set numbers of every value of each of the four bytes of a line number; their XOR is that of the line."""
    values = np.arange(256, dtype=np.int64)
    bytes_ = [values, values << 8, values << 16, (values & 127) << 24]
    return [int(number) for part in bytes_ for number in set_numbers(index, line, sets, part * line)]

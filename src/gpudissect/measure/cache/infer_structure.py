"""Structure of a cache: its sets, their ways, and the index function, from lines known to share a set.

XORs of lines of one set lie in the null space of a linear index; enough of them span it, and what is orthogonal to it
are the rows, up to the numbering of the sets (FGPU, Jain et al. 2019, does the same with physical addresses to reverse
engineer L2 hashes). An index that is a remainder shows as a period instead. Index functions are inferred over line
numbers, not bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpudissect.simulation.cache.geometry import ROOM_POLICIES, Cache, Index, IndexKind, Policy, Room
from gpudissect.simulation.cache.index import matrix, reduced, set_numbers
from gpudissect.trace import Array


@dataclass(frozen=True)
class Structure:
    """Sets, ways and index function of a cache."""

    line: int  # bytes
    index: Index  # from byte offsets to set numbers; the numbering itself is arbitrary
    ways: tuple[int, ...]  # of each set
    lines: int  # line numbers below this were tested
    evidence: tuple[str, ...] = ()
    room: Room | None = None  # for data; None: for every way
    guaranteed_lines: int | None = None  # that find room together; None: as many as there are tags

    def set_of(self, lines: Array) -> Array:
        """Set numbers of lines (numbers, not bytes)."""
        return set_numbers(self.index, self.line, len(self.ways), lines * self.line)

    def sample(self, quotas: Sequence[int] | Array, rng: np.random.Generator) -> Array:
        """Distinct random lines, `quotas[s]` of each set s; fewer where a set has fewer. Sorted by set."""
        return self._lines_by_set.sample(quotas, rng)

    def cache(self, fetch: int, policy: Policy) -> Cache:
        """The cache with this policy, of which a miss fetches `fetch` bytes; its room only where that is simulated."""
        cache = Cache(self.ways, self.line, fetch, self.index, policy)
        is_simulated = self.room is not None and policy.kind in ROOM_POLICIES
        return replace(cache, room=self.room) if is_simulated else cache

    def predictable_lines(self, policy: Policy) -> int | None:
        """Lines up to which `cache` behaves as the real one; None without limit."""
        is_simulated = self.cache(self.line, policy).room is not None
        return None if is_simulated else self.guaranteed_lines

    @cached_property
    def _lines_by_set(self) -> LinesBySet:
        numbers = self.set_of(np.arange(self.lines, dtype=np.int64))
        return LinesBySet(numbers, len(self.ways), np.random.default_rng(0))


class LinesBySet:
    """Lines by their sets, shuffled once: cheap to sample repeatedly. `set_of` are the sets of lines 0, 1, ..."""

    def __init__(self, set_of: Array, sets: int, rng: np.random.Generator) -> None:
        self.set_of = set_of.astype(np.min_scalar_type(sets))  # of few bytes, which are sorted ten times faster
        self.sizes: Array = np.bincount(self.set_of, minlength=sets)
        shuffled = rng.permutation(set_of.size)
        self._lines = shuffled[np.argsort(self.set_of[shuffled], kind="stable")].astype(np.uint32)
        self._first = np.cumsum(self.sizes) - self.sizes

    def sample(self, quotas: Sequence[int] | Array, rng: np.random.Generator) -> Array:
        """Distinct random lines, `quotas[s]` of each set s or all it has; sorted by set.

        They are consecutive in the shuffled order of their set, from a random start.
        """
        taken = np.minimum(np.asarray(quotas, dtype=np.int64), self.sizes)
        sets = np.repeat(np.arange(taken.size), taken)
        rank = np.arange(sets.size) - (np.cumsum(taken) - taken)[sets]
        start = rng.integers(0, np.maximum(self.sizes, 1))
        return np.asarray(self._lines[self._first[sets] + (start[sets] + rank) % self.sizes[sets]], dtype=np.int64)


def rows_from(null: Iterable[int], bits: int) -> tuple[int, ...]:
    """Rows of the linear index over `bits` bits whose null space is spanned by `null`, in reduced form."""
    pivots = {vector.bit_length() - 1: vector for vector in _echelon_basis(null)}
    free = [bit for bit in range(bits) if bit not in pivots]
    return reduced([(1 << f) | sum(1 << p for p, vector in pivots.items() if vector >> f & 1) for f in free])


def null_space(members: Array, count: int) -> tuple[int, ...] | None:
    """Basis of the null space of a linear index, from all lines below `count` of one set; None if it is not linear."""
    first = int(members[0])
    basis = _echelon_basis(int(line) ^ first for line in members[1:])
    rest = np.arange(count, dtype=np.int64) ^ first
    for vector in basis:
        rest = np.where(rest >> (vector.bit_length() - 1) & 1, rest ^ vector, rest)
    return tuple(basis) if np.array_equal(np.flatnonzero(rest == 0), members) else None


def _echelon_basis(vectors: Iterable[int]) -> list[int]:
    """A basis of the span of vectors; no leading bit of a vector occurs in another."""
    basis: list[int] = []
    for vector in vectors:
        for other in basis:
            vector = min(vector, vector ^ other)
        if vector:
            top = vector.bit_length() - 1
            basis = [other ^ vector if other >> top & 1 else other for other in basis] + [vector]
    return basis


def linear_index(set_of: Array, line: int) -> Index | None:
    """The linear index that maps the first lines, a power of two, to these sets, up to their numbering; or None."""
    bits = set_of.size.bit_length() - 1
    block = set_of[: 1 << bits]
    null = null_space(np.flatnonzero(block == block[0]), block.size)
    if null is None:
        return None
    index = index_from_rows(rows_from(null, bits), line)
    numbers = set_numbers(index, line, 1 << len(matrix(index)), np.arange(block.size, dtype=np.int64) * line)
    pairs = np.unique(np.stack([numbers, block]), axis=1)
    return index if pairs.shape[1] == np.unique(numbers).size == np.unique(block).size else None


def period(members: Array, count: int) -> tuple[int, int] | None:
    """Smallest period of the lines of one set below `count`, and its run of adjacent lines; None without a period."""
    present = np.zeros(count, dtype=bool)
    present[members] = True
    first = int(members[0])
    gaps = np.flatnonzero(~present[first:])
    run = int(gaps[0]) if gaps.size else count - first
    for shift in (np.unique(members[members > first]) - first).tolist():
        if shift > run and np.array_equal(present[shift:], present[:-shift]):
            return shift, run if first % run == 0 and shift % run == 0 else 1
    return None


def index_from_rows(rows: Sequence[int], line: int) -> Index:
    """The index function over byte addresses with these rows over line numbers."""
    masks = tuple(row * line for row in rows)
    if all(mask & (mask - 1) == 0 for mask in masks):
        return Index(IndexKind.BITS, bits=tuple(mask.bit_length() - 1 for mask in masks))
    return Index(IndexKind.XOR, masks=masks)

"""Sampled loads of the warps that share an SM, as the lines and sectors that the simulated L1 looks up."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation import _lru as lru
from gpudissect.explanation.model.phases import Events, no_events
from gpudissect.explanation.rows import distinct_rows, numbered, row_keys

MIN_SHARED, MAX_RETURNS = 0.5, 0.05  # shares of the lines of an access that sweeps shared lines
TOGETHER = 2  # requests by which warps of a block are apart if they request about at the same time
RECENT = 64  # requests of a warp after which what it requested may have left the L2
FULL_SETS = (0.65, 0.85, 1.05)  # of the L2: parts of the capacity at which a third of the sets each are full
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Loads of sampled warps: warps of a block side by side, blocks in the order in which they run on the SM.

    Requests of access `a` of warp `w` are ``begins[w, a]`` to ``ends[w, a]``, in the order of the warp; if it has none,
    those of another warp. The lines of request `r` are ``lines[r]`` to ``lines[r + 1]``. Of each line: its number, the
    bits of its touched sectors, bits of those that are new to its block, and whether warps of several blocks touch it
    (0 or 1). New is what no warp of the block requested within `RECENT` requests of a warp.
    """

    begins: Ints = field(repr=False)  # (warps, accesses)
    ends: Ints = field(repr=False)
    lines: Ints = field(repr=False)  # (requests + 1,)
    number: Ints = field(repr=False)  # (lines of requests,)
    sectors: Ints = field(repr=False)
    new: Ints = field(repr=False)
    is_shared: Ints = field(repr=False)

    is_alone: NDArray[np.bool_] = field(repr=False)  # no other block of the sample, also on other SMs, touches the line
    access: Ints = field(repr=False)  # index of the access
    block: Ints = field(repr=False)  # number of the block on the SM
    position: Ints = field(repr=False)  # of the request in its warp
    is_swept: NDArray[np.bool_] = field(repr=False)  # (accesses,): see `_swept`
    events: Events = field(default_factory=no_events, repr=False)  # on barriers in memory, of the same warps

    @property
    def accesses(self) -> frozenset[int]:
        """Accesses with requests."""
        return frozenset(np.flatnonzero((self.ends > self.begins).any(axis=0)).tolist())

    @cached_property
    def arriving(self) -> Ints:
        """Bits of the sectors of each row: new, or requested by another warp of the block at about the same time.

        Whichever warp is first waits for memory.
        """
        found = np.zeros_like(self.new)
        line = numbered(row_keys(self.block, self.number)) * (int(self.position.max(initial=0)) + 1)
        for bit in 1 << np.arange(int(self.sectors.max(initial=0)).bit_length()):
            is_new, rows = self.new & bit > 0, np.flatnonzero(self.sectors & bit)
            if not is_new.any():
                continue
            at = np.sort(line[is_new] + self.position[is_new])
            mine = line[rows] + self.position[rows]
            before = at[np.maximum(np.searchsorted(at, mine, side="right") - 1, 0)]
            found[rows[(before >= line[rows]) & (mine >= before) & (mine - before <= TOGETHER)]] |= bit
        return found

    def new_share(self, access: int) -> float:
        """Share of the sectors of an access that are new to their block, 1 if it only writes parts of sectors."""
        of = self.access == access
        new, all_sectors = (int(np.bitwise_count(bits[of]).sum()) for bits in (self.new, self.sectors))
        return new / all_sectors if all_sectors else 1.0

    def mean_requests(self, access: int) -> float:
        """Requests of an access by a warp that makes any."""
        return float((self.ends[:, access] - self.begins[:, access]).mean())

    def replaced(self, lines: float) -> NDArray[np.bool_]:
        """Lines of requests that the L2 has replaced since their block touched them, shape (lines of requests,).

        It holds at most `lines` of those of each block that no other block touches; its sets are not equally full.
        """
        own = np.flatnonzero(self.is_alone)
        nodes, node = np.unique(row_keys(self.block[own], self.number[own]), return_inverse=True)
        found = np.zeros(self.number.size, dtype=bool)
        if nodes.size <= lines * FULL_SETS[0]:
            return found
        order = np.lexsort((self.position[own], self.block[own]))
        columns = np.stack([self.block[own], node.ravel(), np.zeros_like(own)], axis=1)[order]
        is_first = np.zeros(own.size, dtype=bool)
        is_first[np.unique(columns[:, 1], return_index=True)[1]] = True
        for number, share in enumerate(FULL_SETS):
            is_hit, caches = np.zeros(own.size, dtype=np.int64), lru.lists(nodes.size, int(self.block.max()) + 1)
            lru.fill_l1(np.ascontiguousarray(columns), max(1, int(lines * share)), caches, is_hit)
            found[own[order]] |= (is_hit == 0) & ~is_first & (columns[:, 1] % len(FULL_SETS) == number)
        return found

    def written_back(self, replaced: NDArray[np.bool_], stores: Collection[int]) -> NDArray[np.bool_]:
        """Requests of stores, by line, that are the first to write a line before the L2 replaces it."""
        own, ends = self._by_line
        before = np.cumsum(replaced[own], dtype=np.int64)
        rows = np.flatnonzero(np.isin(self.access[own], list(stores)) & (before < before[ends]))
        found = np.zeros(self.number.size, dtype=bool)
        found[own[rows[np.diff(ends[rows], prepend=-1) + np.diff(before[rows], prepend=-1) > 0]]] = True
        return found

    @cached_property
    def _by_line(self) -> tuple[Ints, Ints]:
        """Lines of requests that one block alone touches, by line and time, and the place of the last of each."""
        own = np.flatnonzero(self.is_alone)
        own = own[np.lexsort((self.position[own], self.number[own], self.block[own]))]
        is_last = np.ones(own.size, dtype=bool)
        is_last[:-1] = (self.block[own[1:]] != self.block[own[:-1]]) | (self.number[own[1:]] != self.number[own[:-1]])
        return own, np.repeat(np.flatnonzero(is_last), np.diff(np.flatnonzero(is_last), prepend=-1))

    def share_of(self, access: int, lines: NDArray[np.bool_]) -> float:
        """Share of the sectors of an access that are in some of the lines of its requests."""
        of = self.access == access
        those, every = (int(np.bitwise_count(self.sectors[rows]).sum()) for rows in (of & lines, of))
        return those / every if every else float(lines[of].mean()) if of.any() else 0.0

    def restrict_to_unshared_lines(self, memory: Mapping[int, float]) -> "Sample":
        """Sample in which only lines used by one block count as new, where their number matches the `memory` share.

        `memory`: share of the sectors of each access. Lines that several blocks touch are in the L2 already.
        """
        alone = replace(self, new=np.where(self.is_alone, self.new, 0))
        chosen = [index for index in self.accesses if 0 < memory.get(index, 0.0) <= alone.new_share(index)]
        return replace(self, new=np.where(np.isin(self.access, chosen), alone.new, self.new))


def empty_sample() -> Sample:
    """A sample without loads."""
    none, no_access = np.zeros(0, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    return Sample(
        no_access,
        no_access,
        np.zeros(1, dtype=np.int64),
        *(none,) * 4,
        none.astype(bool),
        *(none,) * 3,
        none.astype(bool),
    )


def sample_of(rows: Ints, blocks: Ints, accesses: int, sectors_per_line: int) -> Sample:
    """The sample of rows of access, request, warp, position, sector and validity, shape (sectors, 6).

    `blocks`: of each warp, numbered in order on the SM, negative for a warp that runs elsewhere.
    """
    on_sm = np.flatnonzero(blocks >= 0)
    warps = on_sm[np.argsort(blocks[on_sm], kind="stable")]
    line, sector = np.divmod(rows[:, 4], sectors_per_line)
    shared = _shared_lines(line, rows[:, 2], blocks)
    place = np.full(len(blocks), -1, dtype=np.int64)
    place[warps] = np.arange(warps.size)
    chosen = place[rows[:, 2]] >= 0
    if not chosen.any():
        return empty_sample()
    keys = np.stack([place[rows[:, 2]], rows[:, 0], rows[:, 3], rows[:, 1], line], axis=1)[chosen]
    first, of = distinct_rows(*keys.T)
    found = keys[first]
    bits = np.zeros(len(found), dtype=np.int64)
    np.bitwise_or.at(bits, of, np.left_shift(rows[chosen, 5], sector[chosen]))
    is_first = np.ones(len(found), dtype=bool)
    is_first[1:] = (found[1:, :4] != found[:-1, :4]).any(axis=1)
    starts = np.flatnonzero(is_first)
    edges = np.searchsorted(found[starts, 0] * accesses + found[starts, 1], np.arange(warps.size * accesses + 1))
    begins, ends = (each.reshape(warps.size, accesses) for each in (edges[:-1], edges[1:]))
    donor = _donors(ends > begins)
    return Sample(
        begins=np.take_along_axis(begins, donor, axis=0),
        ends=np.take_along_axis(ends, donor, axis=0),
        lines=np.append(starts, len(found)),
        number=np.ascontiguousarray(found[:, 4]),
        sectors=bits,
        new=_new_sectors(blocks[warps][found[:, 0]], found, bits, sectors_per_line),
        is_shared=np.isin(found[:, 4], shared).astype(np.int64),
        is_alone=~np.isin(found[:, 4], _lines_of_several_blocks(line, blocks[rows[:, 2]])),
        access=np.ascontiguousarray(found[:, 1]),
        block=blocks[warps][found[:, 0]],
        position=np.ascontiguousarray(found[:, 2]),
        is_swept=_swept(found, np.cumsum(is_first), np.isin(found[:, 4], shared), accesses),
    )


def _swept(found: Ints, request: Ints, is_shared: NDArray[np.bool_], accesses: int) -> NDArray[np.bool_]:
    """Accesses that sweep lines shared by several blocks and rarely return to one, shape (accesses,).

    `request`: number of the request of each row.
    """
    order = np.lexsort((request, found[:, 4], found[:, 1], found[:, 0]))
    key, number = found[order][:, [0, 1, 4]], request[order]
    returns = np.zeros(len(found), dtype=bool)
    returns[1:] = (key[1:] == key[:-1]).all(axis=1) & (np.diff(number) > 1)
    rows, returned, shared = (
        np.bincount(found[:, 1], weights, accesses) for weights in (None, returns[np.argsort(order)], is_shared)
    )
    return np.asarray((shared > MIN_SHARED * rows) & (returned <= MAX_RETURNS * rows))


def _new_sectors(block: Ints, found: Ints, bits: Ints, sectors_per_line: int) -> Ints:
    """The bits of each row's sectors that are new: no recent row of the block has one of the pair that is fetched."""
    first = np.zeros_like(bits)
    order = np.lexsort((found[:, 0], found[:, 2], found[:, 4], block))
    for start in range(0, sectors_per_line, 2):
        pair = 3 << start
        rows = order[bits[order] & pair > 0]
        is_new = np.ones(len(rows), dtype=bool)
        is_new[1:] = (block[rows[1:]] != block[rows[:-1]]) | (found[rows[1:], 4] != found[rows[:-1], 4])
        is_new[1:] |= found[rows[1:], 2] - found[rows[:-1], 2] > RECENT
        first[rows[is_new]] |= bits[rows[is_new]] & pair
    return first


def _shared_lines(line: Ints, warp: Ints, blocks: Ints) -> Ints:
    """Lines that several blocks of the SM touch; if only one of its blocks is known, several blocks of any SM."""
    block = blocks[warp]
    if blocks.max(initial=-1) < 1:
        block = np.where(block >= 0, block, 1 + warp)
    return _lines_of_several_blocks(line[block >= 0], block[block >= 0])


def _lines_of_several_blocks(line: Ints, block: Ints) -> Ints:
    """Lines in rows of several blocks."""
    numbers, touched = np.unique(line[distinct_rows(line, block)[0]], return_counts=True)
    return np.asarray(numbers[touched > 1])


def _donors(has: NDArray[np.bool_]) -> Ints:
    """For each warp and access the next warp that has requests, shape (warps, accesses); arbitrary if none has."""
    warps = len(has)
    after = np.where(np.concatenate([has, has]), np.arange(2 * warps)[:, None], 2 * warps)
    found = np.minimum.accumulate(after[::-1], axis=0)[::-1][:warps]
    return np.asarray(np.where(found < 2 * warps, found % warps, 0))

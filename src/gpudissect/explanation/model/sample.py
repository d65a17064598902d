"""Sampled loads of the warps that share an SM, as the lines and sectors that the simulated L1 looks up."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Sample:
    """Loads of sampled warps: warps of a block side by side, blocks in the order in which they run on the SM.

    Requests of access `a` of warp `w` are ``begins[w, a]`` to ``ends[w, a]``, in the order of the warp; if it has none,
    those of another warp. The lines of request `r` are ``lines[r]`` to ``lines[r + 1]``. Of each line: its number, the
    bits of its touched sectors, and whether warps of several blocks touch it (0 or 1).
    """

    begins: Ints = field(repr=False)  # (warps, accesses)
    ends: Ints = field(repr=False)
    lines: Ints = field(repr=False)  # (requests + 1,)
    number: Ints = field(repr=False)  # (lines of requests,)
    sectors: Ints = field(repr=False)
    is_shared: Ints = field(repr=False)

    @property
    def accesses(self) -> frozenset[int]:
        """Accesses with requests."""
        return frozenset(np.flatnonzero((self.ends > self.begins).any(axis=0)).tolist())


def empty_sample() -> Sample:
    """A sample without loads."""
    none, no_access = np.zeros(0, dtype=np.int64), np.zeros((1, 0), dtype=np.int64)
    return Sample(no_access, no_access, np.zeros(1, dtype=np.int64), none, none, none)


def sample_of(rows: Ints, blocks: Ints, accesses: int, sectors_per_line: int) -> Sample:
    """The sample of rows of access, request, warp, position and sector, shape (sectors, 5).

    `blocks`: of each warp, numbered in order on the SM, -1 for a warp that runs elsewhere.
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
    found, of = np.unique(keys, axis=0, return_inverse=True)
    bits = np.zeros(len(found), dtype=np.int64)
    np.bitwise_or.at(bits, of.ravel(), np.left_shift(1, sector[chosen]))
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
        is_shared=np.isin(found[:, 4], shared).astype(np.int64),
    )


def _shared_lines(line: Ints, warp: Ints, blocks: Ints) -> Ints:
    """Lines that several blocks of the SM touch; if only one of its blocks is known, several blocks of any SM."""
    block = blocks[warp]
    if blocks.max(initial=-1) < 1:
        block = np.where(block >= 0, block, 1 + warp)
    pairs = np.unique(np.stack([line, block], axis=1)[block >= 0], axis=0)
    numbers, touched = np.unique(pairs[:, 0], return_counts=True)
    return np.asarray(numbers[touched > 1])


def _donors(has: NDArray[np.bool_]) -> Ints:
    """For each warp and access the next warp that has requests, shape (warps, accesses); any if none has."""
    warps = len(has)
    after = np.where(np.concatenate([has, has]), np.arange(2 * warps)[:, None], 2 * warps)
    found = np.minimum.accumulate(after[::-1], axis=0)[::-1][:warps]
    return np.asarray(np.where(found < 2 * warps, found % warps, 0))

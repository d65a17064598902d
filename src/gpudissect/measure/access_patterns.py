"""Rings that experiments build: chases over footprints, scattered elements with probes, pairs of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_granularity import Seconds
from gpudissect.trace import Trace
from gpudissect.workload import Explicit, Path, Shuffled

THINNED = 24  # one probe for so many elements: more would wear out an LRU cache faster than the ring alone
MOST_PROBES = 4096  # of one lap: more would only cost room
FEW = 1024  # below so many blocks several sets of them share a ring


def footprint(size: int, stride: int, seed: int) -> Shuffled:
    """One visit every `stride` bytes of `size` bytes, in random order."""
    return Shuffled(count=max(1, size // stride), stride=stride, seed=seed)


@dataclass(frozen=True)
class Blocks:
    """What a probed ring cycles through: `count` aligned blocks of `size` bytes scattered over `span`.

    In each block the words at `members` (byte offsets) are visited, one after the other; a probe asks for the word
    behind the first of them.
    """

    count: int
    size: int
    members: tuple[int, ...]
    span: int


@dataclass(frozen=True)
class Probed:
    """A ring that cycles through scattered blocks, and the positions `picks` at which it asks for one at random.

    `warmup` is the number of laps needed before the answers mean anything.
    """

    order: Explicit
    picks: tuple[int, ...]
    warmup: int


def probed(blocks: Blocks, fetch: int, word: int, rng: np.random.Generator, most: int = MOST_PROBES) -> Probed:
    """Rings over scattered blocks with probes at random moments.

    A probe visits another word of its granule of `fetch` bytes, so that the ring stays a ring. Many blocks: a lap over
    them, and one over other words of them, with probes; if granules have too few words for that, one lap with probes,
    gone round twice. (Then the same lines are probed twice, and a cache that protects what is asked for again holds
    them for just that: of a segmented LRU nearly twice too many seem to be held.) Few: as many sets of them as make a
    long ring, each cycled through three times before the next takes over, for one set would answer one probe only. A
    lap has at most `most` probes.
    """
    count = blocks.count
    inner = max(member % fetch for member in blocks.members)
    shift = inner + 2 * word  # behind the last word visited there is one for the probe
    if count >= FEW and shift + inner + 2 * word <= fetch:
        bases = scattered(count, blocks.size, blocks.span, rng)
        lap = _visits(bases, blocks.members)
        last, picks = _with_probes(bases + shift, blocks.members, word, rng, most)
        return Probed(Explicit(np.concatenate([lap, last])), tuple((picks + lap.size).tolist()), 0)
    if count >= FEW or fetch < 4 * word:
        bases = scattered(count, blocks.size, blocks.span, rng)
        sequence, picks = _with_probes(bases, blocks.members, word, rng, most)
        return Probed(Explicit(sequence), tuple(picks.tolist()), 1)
    sets = min(blocks.span // blocks.size // count, -(-FEW * 8 // count))
    parts: list[NDArray[np.int64]] = []
    picks_of_parts: list[NDArray[np.int64]] = []
    length = 0
    for first_word in range(0, fetch - 3 * word, 4 * word):
        for bases in scattered(sets * count, blocks.size, blocks.span, rng).reshape(sets, count) + first_word:
            lap = _visits(bases, blocks.members)
            last, picks = _with_probes(bases + 2 * word, blocks.members, word, rng, most)
            parts += [lap, lap + word, last]
            picks_of_parts.append(picks + length + 2 * lap.size)
            length += 2 * lap.size + last.size
    return Probed(Explicit(np.concatenate(parts)), tuple(np.concatenate(picks_of_parts).tolist()), 0)


def _visits(bases: NDArray[np.int64], members: tuple[int, ...]) -> NDArray[np.int64]:
    return np.add.outer(bases, np.array(members, np.int64)).ravel()


def _with_probes(
    bases: NDArray[np.int64], members: tuple[int, ...], word: int, rng: np.random.Generator, most: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """A lap over the blocks with probes of some, one word further on, and the positions of the probes."""
    probes = max(1, min(bases.size // THINNED, most))
    lap = _visits(bases, members)
    chosen = rng.choice(bases, size=probes, replace=False) + members[0] + word
    after = np.sort(rng.choice(bases.size, size=probes, replace=False)) * len(members) + len(members)
    return np.insert(lap, after, chosen), after + np.arange(probes)


def scattered(count: int, granule: int, span: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` distinct multiples of `granule` below `span`, in random order."""
    available = span // granule
    if count * 4 > available:
        return rng.permutation(available)[:count].astype(np.int64) * granule
    drawn = np.sort(rng.integers(0, available, size=count + count // 2 + 16))
    distinct = drawn[np.flatnonzero(np.diff(drawn, prepend=-1))]  # sorting is much faster than np.unique
    return rng.permutation(distinct)[:count].astype(np.int64) * granule


@dataclass(frozen=True)
class Pairs:
    """Cold pairs: positions in the ring of the accesses `d` bytes after a first touch, and of those `d` before one."""

    order: Explicit
    after: dict[int, NDArray[np.int64]]
    before: dict[int, NDArray[np.int64]]

    def cycles(self, trace: Trace) -> Seconds:
        """Cycles of the second accesses of a trace of this ring (every access timed), by distance."""
        return Seconds(
            {d: trace.cycles[positions] for d, positions in self.after.items()},
            {d: trace.cycles[positions] for d, positions in self.before.items()},
        )


def pairs(path: Path, limit: int, rng: np.random.Generator) -> Pairs:
    """Touch a word of a fresh aligned block, then one at a doubling distance d, in random order of blocks.

    Half of the pairs go from the block's start on, half back to it.
    """
    block = 4096 if limit >= 1 << 20 else 1024
    distances = [d for d in (path.word << i for i in range(12)) if path.word < d < block]
    each = max(1, min(16, limit // block // len(distances) // 2))
    plan = rng.permutation(np.repeat([*distances, *(-d for d in distances)], each))
    places = rng.permutation(min(limit // block, 4 * plan.size))[: plan.size].astype(np.int64) * block
    sequence = np.empty(2 * plan.size, np.int64)
    sequence[0::2] = places + np.maximum(-plan, 0)
    sequence[1::2] = places + np.maximum(plan, 0)
    after, before = ({d: 2 * np.flatnonzero(plan == sign * d) + 1 for d in distances} for sign in (1, -1))
    return Pairs(Explicit(sequence), after, before)

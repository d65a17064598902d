"""Rings that experiments build: chases over footprints, scattered elements with probes, pairs of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.workload import Explicit, Path, Shuffled

THINNED = 24  # one probe for so many elements: more would wear out an LRU cache faster than the ring alone
MOST_PROBES = 4096  # of one lap: more would only cost room
FEW = 2048  # below so many elements several sets of them share a ring


def footprint(size: int, stride: int, seed: int) -> Shuffled:
    """One visit every `stride` bytes of `size` bytes, in random order."""
    return Shuffled(count=max(1, size // stride), stride=stride, seed=seed)


@dataclass(frozen=True)
class Probed:
    """A ring that cycles through scattered elements, and the positions `picks` at which it asks for one at random.

    `elements` is how many are cycled through at any one time; `warmup` the laps needed before the answers mean
    anything.
    """

    order: Explicit
    picks: tuple[int, ...]
    elements: int
    warmup: int


def probed(count: int, granule: int, word: int, span: int, rng: np.random.Generator) -> Probed:
    """Rings over `count` elements, one a granule (bytes) scattered over `span`, with probes at random moments.

    A probe visits another word of the element, so that the ring stays a ring. Many elements: one set of them, lap
    after lap. Few: as many sets as make a long ring, each cycled through three times before the next takes over,
    for one set would answer one probe only.
    """
    if count >= FEW or granule < 4 * word:
        elements = scattered(count, granule, span, rng)
        sequence, picks = _with_probes(elements, word, rng)
        return Probed(Explicit(sequence), tuple(int(p) for p in picks), count, 2)
    word_groups = max(1, granule // (4 * word))
    sets = min(span // granule // count, -(-FEW * 8 // count))
    elements = scattered(sets * count, granule, span, rng).reshape(sets, count)
    parts, picks_of_parts, length = [], [], 0
    for group in range(word_groups):
        for base in elements + group * 4 * word:
            last, picks = _with_probes(base + 2 * word, word, rng)
            parts += [base, base + word, last]
            picks_of_parts.append(picks + length + 2 * count)
            length += 2 * count + last.size
    return Probed(Explicit(np.concatenate(parts)), tuple(int(p) for p in np.concatenate(picks_of_parts)), count, 0)


def _with_probes(
    lap: NDArray[np.int64], word: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """`lap` over the elements with probes of some, one word further on, and the positions of the probes."""
    probes = max(1, min(lap.size // THINNED, MOST_PROBES))
    chosen = rng.choice(lap, size=probes, replace=False) + word
    after = np.sort(rng.choice(lap.size, size=probes, replace=False))
    return np.insert(lap, after + 1, chosen), after + 1 + np.arange(probes)


def scattered(count: int, granule: int, span: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """`count` distinct multiples of `granule` below `span`, in random order."""
    available = span // granule
    if count * 4 > available:
        return rng.permutation(available)[:count].astype(np.int64) * granule
    drawn = np.unique(rng.integers(0, available, size=count + count // 2 + 16))
    return rng.permutation(drawn)[:count].astype(np.int64) * granule


@dataclass(frozen=True)
class Pairs:
    """Cold pairs: position i of `seconds[d]` in the ring is the access `d` bytes after a first touch."""

    order: Explicit
    seconds: dict[int, NDArray[np.int64]]


def pairs(path: Path, limit: int, rng: np.random.Generator) -> Pairs:
    """Touch a fresh block, then the word `d` bytes further in it, for doubling distances d, blocks in random order."""
    block = 4096 if limit >= 1 << 20 else 1024
    distances = [d for d in (path.word << i for i in range(12)) if path.word < d < block]
    each = min(16, limit // block // len(distances))
    plan = rng.permutation(np.repeat(distances, each))
    places = rng.permutation(min(limit // block, 4 * plan.size))[: plan.size].astype(np.int64) * block
    sequence = np.empty(2 * plan.size, np.int64)
    sequence[0::2], sequence[1::2] = places, places + plan
    seconds = {int(d): 2 * np.flatnonzero(plan == d) + 1 for d in distances}
    return Pairs(Explicit(sequence), seconds)

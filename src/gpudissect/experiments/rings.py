"""Rings that experiments build: chases over footprints, scattered elements with probes, pairs of accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.workload import Explicit, Path, Shuffled


def footprint(size: int, stride: int, seed: int) -> Shuffled:
    """One visit every `stride` bytes of `size` bytes, in random order."""
    return Shuffled(count=max(1, size // stride), stride=stride, seed=seed)


@dataclass(frozen=True)
class Probed:
    """A ring of `elements` distinct elements with extra visits of some of them: the probes, at `picks`."""

    order: Explicit
    picks: tuple[int, ...]
    elements: NDArray[np.int64]


def probed(elements: NDArray[np.int64], word: int, probes: int, rng: np.random.Generator) -> Probed:
    """Cycle through `elements` (byte offsets, in this order) and probe `probes` of them at random moments.

    A probe visits the next word of the element, so that the ring stays a ring.
    """
    chosen = rng.choice(elements, size=probes, replace=False)
    after = np.sort(rng.choice(elements.size, size=probes, replace=False))
    sequence = np.insert(elements, after + 1, chosen + word)
    picks = after + 1 + np.arange(probes)
    return Probed(Explicit(sequence), tuple(int(p) for p in picks), elements)


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

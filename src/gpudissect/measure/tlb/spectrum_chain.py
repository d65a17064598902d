"""The chain behind the latency spectrum: one ring of non-uniform steps, in which every pattern arises (MC16 s5.2).

A ring holds every word once; a line is visited again through its next word. In this order:

1. Lines within a few pages, then again: whether the cache keeps so many.
2. As many lines, one a page, on more pages than the second TLB keeps, if the cache has room. Then block by block, a
   block being more pages than the first TLB keeps and fewer than the second: each line again (both TLBs lost its page),
   and at once again (everything is at hand), then each line of the block again (the first TLB lost its page).
3. A fresh line in each of more pages than the second TLB keeps, so that both lose what they held: on a GPU laying the
   ring has visited its pages, too.
4. First touches in pages not visited before, in pairs: one page far from the one before, the next one near. Each is
   followed by the first touch of another line in the same page.

Four rings with pages and lines of the pairs changing places touch every line in every role: what it takes longer than
another then is no difference between roles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.tlb.infer_spectrum import FirstTouches
from gpudissect.trace import Trace
from gpudissect.units import MIB
from gpudissect.workload import Explicit

Offsets = NDArray[np.int64]
GRAIN = 256  # bytes between places for a line that is visited once
NEAR = 32 * MIB  # distance of pages that are near to each other (s1 in MC16 s5.2)
SAMPLES = 512  # lines at most of which hits are reported
MOST_PAIRS = 200


@dataclass(frozen=True)
class Shape:
    """Sizes of the chain.

    Attributes:
        spacing: bytes between pages, so that either TLB needs an entry for each.
        together: bytes at the start of a page that one entry of either TLB covers.
        step: bytes between lines that the cache must keep, so that they spread evenly over its sets.
        block: pages of a block.
        resident: lines that the cache must keep, one a page.
        worn: pages by which both TLBs are worn out.
        pages: pages that memory has.

    """

    spacing: int
    together: int
    step: int
    block: int
    resident: int
    worn: int
    pages: int

    @property
    def packed_pages(self) -> int:
        """Pages, at the start of memory, that the packed lines lie in."""
        return -(-self.resident * self.step // self.spacing)

    @property
    def half(self) -> int:
        """Bytes of a page in which one of its lines lies, the other in as many behind."""
        return self.together // 2 // GRAIN * GRAIN

    @property
    def fresh(self) -> range:
        """Pages left for first touches."""
        return range(self.packed_pages + self.worn, self.pages)


@dataclass(frozen=True)
class Pairs:
    """Pages near to each other and two lines in each.

    Attributes:
        pages: numbers of pages, shape (pairs, 2).
        lines: byte offsets, shape (pairs, 2 pages, 2 lines).

    """

    pages: NDArray[np.int64]
    lines: Offsets


@dataclass(frozen=True)
class Role:
    """Which page of every pair is visited first, far from what was visited before, and which line of a page."""

    page: int
    line: int


ROLES = tuple(Role(page, line) for page in (0, 1) for line in (0, 1))


@dataclass(frozen=True)
class SpectrumRing:
    """A ring and where in it each kind of access stands.

    Attributes:
        order: the ring.
        picks: positions to report, rising.
        places: positions of each kind, arrays of equal length for kinds that are compared line by line.
        role: of the first touches.

    """

    order: Explicit
    picks: tuple[int, ...]
    places: dict[str, NDArray[np.int64]]
    role: Role

    def cycles(self, trace: Trace, kind: str) -> NDArray[np.int64]:
        """Cycles of one kind of access, in the order of its places."""
        return trace.cycles[np.searchsorted(np.array(self.picks), self.places[kind])]


def pairs_of_pages(shape: Shape, rng: np.random.Generator) -> Pairs:
    """Pairs of pages for first touches, in random order."""
    fresh = shape.fresh
    near = max(1, min(NEAR // shape.spacing, len(fresh) // 4))
    starts = np.arange(fresh.start, fresh.stop - 2 * near + 1, 2 * near)
    one = (starts[:, None] + np.arange(near)).ravel()
    pages = rng.permutation(np.stack([one, one + near], axis=1))[:MOST_PAIRS]
    half = shape.half
    lines = pages[..., None] * shape.spacing + _places((*pages.shape, 2), half, rng) + np.array([0, half])
    return Pairs(pages, lines)


def spectrum_ring(shape: Shape, pairs: Pairs, role: Role, word: int, rng: np.random.Generator) -> SpectrumRing:
    """The ring; `word` is the bytes of a link."""
    track = _Track()
    sampled = np.sort(rng.permutation(shape.resident)[:SAMPLES])
    slots = rng.permutation(shape.resident) * shape.step
    track.visit(slots)
    again = track.visit(np.stack([slots + word, slots + 2 * word], axis=1))
    track.places |= {"packed": again[sampled, 0], "packed_at_hand": again[sampled, 1]}

    lines = (shape.packed_pages + np.arange(shape.resident)) * shape.spacing + slots % shape.half
    parts = np.array_split(np.arange(shape.resident), max(1, round(shape.resident / shape.block)))
    blocks = [rng.permutation(part) for part in parts]
    track.visit(lines[np.concatenate(blocks)])
    at = np.empty((3, shape.resident), dtype=np.int64)
    for block in blocks:
        at[:2, block] = track.visit(np.stack([lines[block] + word, lines[block] + 2 * word], axis=1)).T
        at[2, block] = track.visit(lines[block] + 3 * word)
    kinds = ("both_missed", "at_hand", "first_missed")
    track.places |= dict(zip(kinds, at[:, sampled], strict=True))

    worn = shape.packed_pages + rng.permutation(shape.worn)
    track.visit(worn * shape.spacing + shape.half + _places(worn.shape, shape.half, rng))
    fresh = track.visit(pairs.lines[:, [role.page, 1 - role.page]][..., [role.line, 1 - role.line]])
    track.places |= {"far": fresh[:, 0, 0], "near": fresh[:, 1, 0], "fresh_at_hand": fresh[:, 0, 1]}
    return track.ring(role)


def first_touches(shape: Shape, pairs: Pairs, rings: Sequence[SpectrumRing], traces: Sequence[Trace]) -> FirstTouches:
    """First touches line by line, from rings of all `ROLES`."""
    far, near, at_hand, distances = (np.empty(pairs.lines.shape, dtype=np.int64) for _ in range(4))
    for ring, trace in zip(rings, traces, strict=True):
        page, line = ring.role.page, ring.role.line
        far[:, page, line] = ring.cycles(trace, "far")
        near[:, 1 - page, line] = ring.cycles(trace, "near")
        at_hand[:, page, 1 - line] = ring.cycles(trace, "fresh_at_hand")
        distances[1:, page, line] = np.abs(pairs.pages[1:, page] - pairs.pages[:-1, 1 - page]) * shape.spacing
    # Before the first pair stands something else.
    return FirstTouches(at_hand[1:].ravel(), near[1:].ravel(), far[1:].ravel(), distances[1:].ravel())


def _places(shape: tuple[int, ...], room: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Where within `room` bytes of its page a line lies: scattered."""
    return rng.integers(0, room // GRAIN, size=shape) * GRAIN


class _Track:
    """Offsets in the order of their visits, and the positions of those to report."""

    def __init__(self) -> None:
        self.places: dict[str, NDArray[np.int64]] = {}
        self._parts: list[Offsets] = []
        self._length = 0

    def visit(self, offsets: Offsets) -> NDArray[np.int64]:
        """Visit these, row by row; gives their positions in the ring, in the same shape."""
        self._parts.append(offsets.ravel())
        positions = self._length + np.arange(offsets.size)
        self._length += offsets.size
        return positions.reshape(offsets.shape)

    def ring(self, role: Role) -> SpectrumRing:
        picks = np.unique(np.concatenate(list(self.places.values())))
        return SpectrumRing(Explicit(np.concatenate(self._parts)), tuple(picks.tolist()), self.places, role)

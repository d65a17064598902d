"""Patterns of access and what each costs: the spectrum P1 to P6 (MC16 s5.2, fig 14; MC14 table 3).

The chain makes a pattern arise; here it is held against what must be slower in it. Hits are compared line by line, and
so are first touches near to the access before and far from it: what one line takes longer than another cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.measure.infer_bimodal import in_two
from gpudissect.measure.infer_latency import Latency, middle
from gpudissect.measure.tlb.infer_translation import Stair

Cycles = NDArray[np.int64]
Typical = Callable[[Cycles, Latency], Latency]
"""One latency from single accesses (cycles) and what timing one adds."""

SOME = 0.4  # share of accesses that must be slower to call them a pattern ...
NONE = 0.1  # ... and at most to say that there is none
PACKED = 0.25  # share of lines within a few pages that may be slow
FAR = 0.5  # of the largest distance: accesses beyond are far
FEWEST = 8  # accesses that may speak for a pattern
WINDOW_STEP = 0.05  # of the latency: by so much an access must be slower to tell of page-table windows
DEVIATIONS = 3.0
MISTAKEN, SWITCHED = 0.02, 0.88  # shares of slow accesses: within a window, and further apart than one
MARGIN = 3.0  # nats by which a window's size must fit better than any other

NO_TLB = "no TLB was found: nothing is slower for the page it is in"
ONE_TLB = "no second TLB was found: what misses the first may be translated by anything behind it"
CONFLICTS = "as many lines within a few pages are slow, too: the cache does not keep them all"


@dataclass(frozen=True)
class Pattern:
    """One pattern: its latency, or the status and reason of having none.

    `latency` of what is ambiguous is that of the accesses that may be it.
    """

    latency: Latency | None
    status: Status = Status.FOUND
    reason: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hits:
    """Second and later visits to lines that the cache keeps; single accesses, cycles, timer included, shape (lines,).

    Attributes:
        at_hand: right after another visit.
        first_missed: with more pages in between than the first TLB keeps, but fewer than the second.
        both_missed: with more pages in between than either keeps; None if the cache has no room for so many lines.
        packed, packed_at_hand: as many lines within a few pages, after all others and right after another visit.

    """

    at_hand: Cycles
    first_missed: Cycles
    both_missed: Cycles | None
    packed: Cycles
    packed_at_hand: Cycles


@dataclass(frozen=True)
class FirstTouches:
    """First touches of the same lines in several roles; single accesses, cycles, timer included, shape (lines,).

    Attributes:
        at_hand: in a page that was visited right before.
        near: in a page that neither TLB keeps, near to the page before.
        far: the same, far from the page before.
        distances: bytes to the page before that.

    """

    at_hand: Cycles
    near: Cycles
    far: Cycles
    distances: NDArray[np.int64]


def of_hits(
    hits: Hits, first: Stair | None, second: Stair | None, overhead: Latency
) -> tuple[Pattern, Pattern, Pattern]:
    """P1, P2 and P3: the line is cached, and its translation is at hand, in the second TLB, or in neither.

    `first` and `second` are what misses of the TLBs add to hits in the L2, None for a TLB that was not found. Cycles
    are given without `overhead`, what timing one access adds. P2 and P3 are P1 and what the same lines take
    longer: lines lie nearer or farther, and those that miss a TLB may be others than those that do not.
    """
    cached = Pattern(middle(hits.at_hand, overhead))
    if first is None:
        absent = Pattern(None, Status.NOT_FOUND, NO_TLB)
        return cached, absent, absent
    if np.mean(hits.packed - hits.packed_at_hand >= first.threshold) > PACKED:
        unclear = Pattern(None, Status.AMBIGUOUS, CONFLICTS)
        return cached, unclear, unclear
    slower = hits.first_missed - hits.at_hand
    missed = slower >= first.threshold
    if missed.mean() < SOME:
        absent = _not_slower(float(missed.mean()))
        return cached, absent, absent
    usual = int(np.median(hits.at_hand))
    latency = middle(usual + slower[missed], overhead)
    if second is None:
        return cached, Pattern(latency, Status.AMBIGUOUS, ONE_TLB), Pattern(None, Status.NOT_FOUND, ONE_TLB)
    return (
        cached,
        Pattern(latency),
        _walked(hits, float(np.median(slower[missed])), second.cycles - first.cycles, overhead),
    )


def _not_slower(share: float) -> Pattern:
    if share < NONE:
        return Pattern(None, Status.NOT_FOUND, "hits are no slower for the page they are in: no TLB is asked for them")
    return Pattern(None, Status.AMBIGUOUS, f"only {share:.0%} of the hits are slower for the page they are in")


def _walked(hits: Hits, known: float, further: float, overhead: Latency) -> Pattern:
    """P3: hits that take `further` cycles longer than those which miss the first TLB alone, at `known` above P1."""
    if hits.both_missed is None:
        reason = "the cache keeps fewer lines than the second TLB keeps translations"
        return Pattern(None, Status.NOT_SUPPORTED, reason)
    slower = hits.both_missed - hits.at_hand
    missed = slower >= known + further / 2
    if missed.mean() < SOME:
        reason = f"only {missed.mean():.0%} of the hits on more pages than the second TLB keeps are slower yet"
        return Pattern(None, Status.NOT_FOUND if missed.mean() < NONE else Status.AMBIGUOUS, reason)
    return Pattern(middle(int(np.median(hits.at_hand)) + slower[missed], overhead))


def of_first_touches(
    touches: FirstTouches, first: Stair | None, second: Stair | None, typical: Typical, overhead: Latency
) -> tuple[Pattern, Pattern, Pattern]:
    """P4, P5 and P6: memory answers, the translation is at hand, in neither TLB, or behind another page-table window.

    `typical` makes one latency of many: `middle`, or `middle_half` where memory is near and far.
    Raises `ValueError` without touches.
    """
    at_hand = Pattern(typical(touches.at_hand, overhead))
    if first is None or second is None:
        absent = Pattern(None, Status.NOT_FOUND, NO_TLB if first is None else ONE_TLB)
        return at_hand, absent, absent
    slower = float(np.median(touches.near - touches.at_hand))
    if slower < second.cycles / 2:
        reason = f"first touches in pages that both TLBs lost take {slower:.0f} cycles longer, less than a miss costs"
        absent = Pattern(None, Status.NOT_FOUND, reason)
        return at_hand, absent, absent
    return at_hand, Pattern(typical(touches.near, overhead)), _switched(touches, typical, overhead)


def by_home(touches: FirstTouches, overhead: Latency) -> tuple[tuple[float, float], ...] | None:
    """Cycles of near and of far lines among those at hand, those near to the page before and those far from it.

    Which lines are near shows over several roles of the same lines, and without `overhead`, what timing one access
    adds. None if they do not fall into two groups.
    """
    far = in_two((touches.at_hand + touches.near) / 2)
    if far is None:
        return None
    return tuple(
        (float(np.median(role[~far])) - overhead.cycles, float(np.median(role[far])) - overhead.cycles)
        for role in (touches.at_hand, touches.near, touches.far)
    )


def _switched(touches: FirstTouches, typical: Typical, overhead: Latency) -> Pattern:
    """P6, if the very same lines take longer when touched far from the access before."""
    slower = touches.far - touches.near
    far = np.sort(slower[touches.distances >= FAR * touches.distances.max()])
    span = int(touches.distances.max())
    below = far.size // 2 - int(DEVIATIONS / 2 * np.sqrt(far.size))
    if far.size < FEWEST or below < 0:
        return Pattern(None, Status.NOT_FOUND, "too few pages far from each other to look for page-table windows")
    if far[below] < WINDOW_STEP * np.median(touches.near):
        said = f"first touches up to {span >> 20} MiB from the access before take no longer than near ones"
        return Pattern(None, Status.NOT_FOUND, f"{said}: no page-table window within that")
    switched = slower >= np.median(far) / 2
    latency = typical(touches.far[switched], overhead)
    window = window_size(touches.distances, switched)
    said = "the size of the windows did not come out" if window is None else f"windows of {window >> 20} MiB"
    return Pattern(latency, caveats=(f"page-table {said}",))


def window_size(distances: NDArray[np.int64], switched: NDArray[np.bool_]) -> int | None:
    """Size in bytes of aligned windows of pages, a power of two, from which accesses went to another window.

    Two accesses a distance d apart lie in different windows of W bytes with probability min(1, d / W), wherever windows
    begin. The likeliest W, None unless it is much likelier than any other (`MARGIN`) and within the distances seen.
    """
    sizes = [1 << bits for bits in range(20, int(distances.max()).bit_length() + 2)]
    scores = []
    for size in sizes:
        odds = MISTAKEN + SWITCHED * np.minimum(1.0, distances / size)
        scores.append(float(np.sum(np.log(np.where(switched, odds, 1 - odds)))))
    best = int(np.argmax(scores))
    others = [score for i, score in enumerate(scores) if i != best]
    if sizes[best] > distances.max() or (others and scores[best] - max(others) < MARGIN):
        return None
    return sizes[best]

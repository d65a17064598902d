"""Latencies of the access patterns P1 to P6 from single accesses (MC16 s5.2, fig 14; MC14 table 3).

The chain (`plan_spectrum`) makes every pattern occur; here each is compared with accesses to the same lines that must
be faster, so that the distance of a line from the SM cancels.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.estimate import Status
from gpudissect.measure.infer_bimodal import split_bimodal
from gpudissect.measure.infer_latency import Latency, median_with_ranks
from gpudissect.measure.tlb.infer_miss_penalty import MissPenalty

Cycles = NDArray[np.int64]
Summary = Callable[[Cycles, Latency], Latency]
"""One latency from single accesses (cycles) and the overhead of timing one."""

MIN_SLOW_SHARE = 0.4  # of accesses that must be slower for a pattern to exist ...
MAX_ABSENT_SHARE = 0.1  # ... and at most for it not to exist
MAX_CONFLICT_SHARE = 0.25  # of lines within a few pages that may be slow
FAR_SHARE = 0.5  # of the largest distance, from which accesses are far
MIN_FAR_ACCESSES = 8
MIN_WINDOW_SHARE = 0.05  # of the latency, by which an access to another page-table window must be slower
DEVIATIONS = 3.0
FALSE_SLOW_SHARE, TRUE_SLOW_SHARE = 0.02, 0.88  # of accesses within a window, and further apart than one
MIN_LEAD_NATS = 3.0  # by which a window size must fit better than any other

NO_TLB = "no TLB was found: no access is slower because of its page"
ONE_TLB = "no second TLB was found: what translates misses of the first is unknown"
SMALL_CACHE = "the cache holds fewer lines than the second TLB holds translations"
CONFLICTS = "as many lines within a few pages are slow too: the cache does not keep all of them"


@dataclass(frozen=True)
class Pattern:
    """Latency of one pattern, or the status and reason of having none."""

    latency: Latency | None  # if ambiguous, of the accesses that may have the pattern
    status: Status = Status.FOUND
    reason: str = ""
    caveats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Hits:
    """Second and later visits to resident lines; cycles of single accesses, timer included, shape (lines,)."""

    translated: Cycles  # immediately after another visit
    first_missed: Cycles  # after visits to more pages than the first TLB holds, but fewer than the second
    both_missed: Cycles | None  # after more pages than either holds; None if the cache cannot hold so many lines
    packed: Cycles  # as many lines within a few pages, after all others
    packed_translated: Cycles  # these immediately after a visit


@dataclass(frozen=True)
class FirstTouches:
    """First touches of the same lines in several roles; cycles of single accesses, timer included, shape (lines,)."""

    translated: Cycles  # in the page of the previous access
    near: Cycles  # in a page in neither TLB, near the previous page
    far: Cycles  # the same, far from the previous page
    distances: NDArray[np.int64]  # bytes from the previous page


def classify_hits(
    hits: Hits, first: MissPenalty | None, second: MissPenalty | None, overhead: Latency
) -> tuple[Pattern, Pattern, Pattern]:
    """P1, P2 and P3: hits whose translation is in the first TLB, in the second, or in neither.

    `first` and `second` are the penalties in hits of the L2, None for a TLB that was not found; `overhead` is the cost
    of timing an access. P2 and P3 are P1 plus the difference on the same lines (those that miss may be nearer), with
    the errors of both.
    """
    p1 = Pattern(median_with_ranks(hits.translated, overhead))
    if first is None:
        absent = Pattern(None, Status.NOT_FOUND, NO_TLB)
        return p1, absent, absent
    if np.mean(hits.packed - hits.packed_translated >= first.threshold) > MAX_CONFLICT_SHARE:
        unclear = Pattern(None, Status.AMBIGUOUS, CONFLICTS)
        return p1, unclear, unclear
    penalties = hits.first_missed - hits.translated
    missed = penalties >= first.threshold
    if missed.mean() < MIN_SLOW_SHARE:
        absent = _too_few(missed)
        return p1, absent, absent
    latency = _above(p1, penalties[missed])
    if second is None:
        return p1, Pattern(latency, Status.AMBIGUOUS, ONE_TLB), Pattern(None, Status.NOT_FOUND, ONE_TLB)
    threshold = float(np.median(penalties[missed])) + (second.cycles - first.cycles) / 2
    return p1, Pattern(latency), _page_walk(hits, threshold, p1)


def _too_few(missed: NDArray[np.bool_]) -> Pattern:
    status = Status.NOT_FOUND if missed.mean() < MAX_ABSENT_SHARE else Status.AMBIGUOUS
    return Pattern(None, status, f"only {missed.mean():.0%} of these hits are slower because of their page")


def _above(p1: Pattern, penalties: Cycles) -> Latency:
    """P1 plus the median penalty, with the errors of both. Raises `ValueError` without penalties or P1."""
    if p1.latency is None:
        raise ValueError("P1 has no latency")
    penalty = median_with_ranks(penalties, Latency(0.0, 0.0, 0.0))
    base = p1.latency
    return Latency(base.cycles + penalty.cycles, base.low + penalty.low, base.high + penalty.high)


def _page_walk(hits: Hits, threshold: float, p1: Pattern) -> Pattern:
    """P3: hits slower than P1 by at least `threshold` cycles."""
    if hits.both_missed is None:
        return Pattern(None, Status.NOT_SUPPORTED, SMALL_CACHE)
    penalties = hits.both_missed - hits.translated
    missed = penalties >= threshold
    if missed.mean() < MIN_SLOW_SHARE:
        return _too_few(missed)
    return Pattern(_above(p1, penalties[missed]))


def classify_first_touches(
    touches: FirstTouches, first: MissPenalty | None, second: MissPenalty | None, summary: Summary, overhead: Latency
) -> tuple[Pattern, Pattern, Pattern]:
    """P4, P5 and P6: misses whose translation is in the first TLB, in neither, or in another page-table window.

    `summary` is `middle`, or `middle_half` where memory has two partitions. Raises `ValueError` without touches.
    """
    p4 = Pattern(summary(touches.translated, overhead))
    if first is None or second is None:
        absent = Pattern(None, Status.NOT_FOUND, NO_TLB if first is None else ONE_TLB)
        return p4, absent, absent
    penalty = float(np.median(touches.near - touches.translated))
    if penalty < second.cycles / 2:
        slower = f"first touches in pages evicted from both TLBs are {penalty:.0f} cycles slower"
        absent = Pattern(None, Status.NOT_FOUND, f"{slower}, less than a miss costs")
        return p4, absent, absent
    return p4, Pattern(summary(touches.near, overhead)), _window_switch(touches, summary, overhead)


def latency_by_partition(touches: FirstTouches, overhead: Latency) -> tuple[tuple[float, float], ...] | None:
    """Cycles of lines in the near and far partition, by role (translated, near, far); None if there is one group."""
    in_far = split_bimodal((touches.translated + touches.near) / 2)
    if in_far is None:
        return None
    roles = (touches.translated, touches.near, touches.far)
    medians = ((float(np.median(role[~in_far])), float(np.median(role[in_far]))) for role in roles)
    return tuple((near - overhead.cycles, far - overhead.cycles) for near, far in medians)


def _window_switch(touches: FirstTouches, summary: Summary, overhead: Latency) -> Pattern:
    """P6, if the same lines are slower when far from the previous access."""
    penalties = touches.far - touches.near
    span = int(touches.distances.max())
    far = np.sort(penalties[touches.distances >= FAR_SHARE * span])
    rank = far.size // 2 - int(DEVIATIONS / 2 * np.sqrt(far.size))  # lower bound of the median
    if far.size < MIN_FAR_ACCESSES or rank < 0:
        return Pattern(None, Status.NOT_FOUND, "too few pages far apart to look for page-table windows")
    if far[rank] < MIN_WINDOW_SHARE * np.median(touches.near):
        reason = f"first touches {span >> 20} MiB from the previous access are no slower than near ones"
        return Pattern(None, Status.NOT_FOUND, f"{reason}: no page-table window within that distance")
    switched = penalties >= np.median(far) / 2
    window = window_size(touches.distances, switched)
    size = "page-table windows of unknown size" if window is None else f"page-table windows of {window >> 20} MiB"
    return Pattern(summary(touches.far[switched], overhead), caveats=(size,))


def window_size(distances: NDArray[np.int64], switched: NDArray[np.bool_]) -> int | None:
    """Size in bytes, a power of two, of the aligned windows of pages between which accesses `switched`.

    Two accesses a distance d apart lie in different windows of W bytes with probability min(1, d / W). The likeliest W,
    None unless it leads any other by `MIN_LEAD_NATS` and is within the distances.
    """
    sizes = 1 << np.arange(20, int(distances.max()).bit_length() + 2)
    odds = FALSE_SLOW_SHARE + TRUE_SLOW_SHARE * np.minimum(1.0, distances / sizes[:, None])
    scores = np.log(np.where(switched, odds, 1 - odds)).sum(axis=1)
    best, *others = np.argsort(-scores, kind="stable")
    clear = not others or scores[best] - scores[others[0]] >= MIN_LEAD_NATS
    return int(sizes[best]) if clear and sizes[best] <= distances.max() else None

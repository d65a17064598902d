"""How many lines each set holds, all sets at once: so many of each, drawn at random, and who misses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.conflict_groups import Conflicts, Unclear
from gpudissect.measure.cache.infer_first_miss import Fit, decide_each
from gpudissect.measure.cache.infer_structure import Deck, Lines
from gpudissect.measure.cache.residency_test import TOP_UPS, WARMUP
from gpudissect.measure.plan import Ask
from gpudissect.trace import Trace
from gpudissect.workload import Bounds, Chase, Timing

LAPS = 4
MOST_STEPS = 64  # of a set's ways away from the first guess
MOST_RECORDS = 1 << 22


def ways_of(deck: Deck, guess: int, room: int, conflicts: Conflicts) -> Ask[tuple[int, ...] | None]:
    """Ways of every set, from a deck of lines; None if some set has no such number.

    Begins with `guess` lines in each set; a set that overflows gets one less, one that does not gets one more. No more
    than about `room` lines are asked for at once: a cache may have tags for more lines than it has room for.
    """
    sets, available = deck.sizes.size, deck.sizes
    least = np.zeros(sets, dtype=np.int64)  # so many fit
    most = np.full(sets, np.iinfo(np.int64).max)  # so many do not
    if available.min() <= guess:
        return None
    tried = np.full(sets, guess, dtype=np.int64)
    for _ in range(MOST_STEPS):
        still = most - least > 1
        if not still.any():
            return tuple(int(each) for each in least)
        fits = np.ones(sets, dtype=bool)
        for portion in portions(np.where(still, tried, 0), room):
            fits &= yield from of_each_set(deck, portion, conflicts)
        least = np.where(still & fits, tried, least)
        most = np.where(still & ~fits, tried, most)
        tried = np.where(fits, tried + 1, tried - 1)
        if (tried[most - least > 1] > available[most - least > 1]).any():
            return None
    return None


def portions(quotas: Sequence[int] | Lines, room: int) -> Iterator[Lines]:
    """The quotas of some sets at a time, others 0, so that no portion is of more than `room` lines, or of one set."""
    own = np.asarray(quotas, dtype=np.int64)
    asked = np.flatnonzero(own)
    count = max(1, -(-int(own.sum()) // max(room, 1)))
    for first in range(min(count, asked.size)):
        portion = np.zeros_like(own)
        portion[asked[first::count]] = own[asked[first::count]]
        yield portion


def of_each_set(deck: Deck, quotas: Lines, conflicts: Conflicts) -> Ask[NDArray[np.bool_]]:
    """Whether each set holds as many lines as its quota (0: not asked, True)."""
    fits = np.ones(quotas.size, dtype=bool)
    open_sets = quotas > 0
    seen = np.empty((0, quotas.size, 3), dtype=np.int64)
    for turn in range(TOP_UPS):
        lines = deck.draw(np.where(open_sets, quotas, 0), conflicts.rng("ways"))
        laps = LAPS << turn
        if lines.size * laps > MOST_RECORDS:
            break
        ring = conflicts.ring(lines)
        level = conflicts.fitting.level
        chase = Chase(path=level.path, order=ring, timing=Timing.EACH, warmup=WARMUP, laps=laps, alone=level.alone)
        yield from conflicts.fitting.known_for(lines.size * laps)
        (trace,) = yield [chase]
        assert level.bounds is not None
        counts = _by_set(trace, deck.labels[ring.offsets() // conflicts.line], quotas.size, laps, level.bounds)
        seen = np.concatenate([seen, counts])
        asked = np.flatnonzero(open_sets)
        for number, fit in zip(asked, decide_each(seen[:, asked], conflicts.fitting.control), strict=True):
            if fit is not Fit.UNDECIDED:
                fits[number], open_sets[number] = fit is Fit.FITS, False
        if not open_sets.any():
            return fits
    raise Unclear(f"of {quotas.size} sets {int(open_sets.sum())} neither clearly hold so many lines nor miss")


def _by_set(trace: Trace, sets: Lines, count: int, laps: int, bounds: Bounds) -> NDArray[np.int64]:
    """Hits, misses and unknown accesses, shape (laps, sets, 3)."""
    cycles = trace.cycles.reshape(laps, sets.size)
    kinds = np.where(
        cycles <= bounds.hit_max, 0, np.where((cycles >= bounds.miss_min) & (cycles <= bounds.miss_max), 1, 2)
    )
    places = (np.arange(laps)[:, None] * count + sets[None, :]) * 3 + kinds
    return np.bincount(places.ravel(), minlength=laps * count * 3).reshape(laps, count, 3)

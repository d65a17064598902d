"""Number of schedulers of an SM from the time of equal warps against their number.

Warps are distributed evenly over schedulers, and all have the same work. So the time is that of the scheduler with most
warps: once a scheduler is busy all the time, it rises with the first warp of every further round, and stays the same
until all schedulers have one more. The distance of two rises is the number of schedulers, whatever the interval of an
instruction, and however many warps it takes to keep a scheduler busy (issue interval, dual issue, latency: VV16 s3.7).

This holds if a scheduler serves its warps alike. If it prefers some, it runs as many as keep it busy to their end, then
as many others: rounds may be several times as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

MAX_FLAT_RISE = 0.012  # relative, of the time between two numbers of warps with equally many on the busiest scheduler
MIN_RISE = 0.025  # relative, by one more warp on it: a 24th at least
MIN_RISES = 3
MIN_EQUAL_DURATION = 0.8  # a quarter of the warps may be faster than this share of the slowest one
MAX_STEP_ERROR = 0.03  # relative, of the time compared with the number of warps of a scheduler


@dataclass(frozen=True)
class Rounds:
    """How the time of warps rises with their number."""

    count: int | None  # warps from one rise to the next; None if the rises are not even
    reason: str = ""  # why there is no count


@dataclass(frozen=True)
class Schedulers:
    """Schedulers of an SM that work independently of one another."""

    count: int | None
    at_least: int | None  # if the count is not known
    by: tuple[str, ...] = ()  # instructions that show this count
    reason: str = ""  # why there is no count


def rounds_of(times: Sequence[float], durations: Sequence[float]) -> Rounds:
    """Warps of a round from the times of 1, 2, 3, ... warps, cycles, shape (warps,).

    `durations`: the lower quartile of the durations of these warps relative to the longest one, shape (warps,). Raises
    `ValueError` for times that are not positive, and for different shapes.
    """
    if any(time <= 0 for time in times) or len(times) != len(durations):
        raise ValueError("times of warps must be positive, and each needs the durations of its warps")
    steps = {warps: after / before - 1 for warps, (before, after) in enumerate(pairwise(times), start=1)}
    unclear = [warps for warps, step in steps.items() if step < -MAX_FLAT_RISE or MAX_FLAT_RISE < step < MIN_RISE]
    if unclear:
        warps = unclear[0]
        return Rounds(None, f"from {warps} to {warps + 1} warps the time changes by {steps[warps]:.1%}")
    rises = [warps for warps, step in steps.items() if step >= MIN_RISE]
    if len(rises) < MIN_RISES:
        return Rounds(None, f"up to {len(times)} warps the time rises {len(rises)} times: too few for rounds")
    count = rises[-1] - rises[-2]
    even = all(after - before == count for before, after in pairwise(rises))
    if not even or rises[0] % count or len(times) - rises[-1] > count:
        return Rounds(None, f"the time rises after {', '.join(map(str, rises))} warps: not in even rounds")
    for warps in rises[1:]:  # by then schedulers are busy all the time
        expected = 1 + count / warps
        if abs((1 + steps[warps]) / expected - 1) > MAX_STEP_ERROR:
            return Rounds(None, f"after {warps} warps the time rises by {steps[warps]:.1%}, not by {expected - 1:.1%}")
    shortest = min((durations[warps - 1] for warps in range(2 * count, len(times) + 1, count)), default=1.0)
    if count > 1 and shortest < MIN_EQUAL_DURATION:
        return Rounds(None, f"rounds of {count} warps, but a quarter of the warps takes {shortest:.0%} of the longest")
    return Rounds(count)


def schedulers_of(rounds: Mapping[str, Rounds]) -> Schedulers:
    """The number of schedulers from the rounds of several instructions, by name.

    Rounds of one warp count nothing: the unit may be one that all schedulers share. Schedulers that share a unit in
    equal groups have fewer rounds than others, a divisor.
    """
    counts = {name: each.count for name, each in rounds.items() if each.count is not None}
    if not counts:
        return Schedulers(None, None, reason="; ".join(f"{name}: {each.reason}" for name, each in rounds.items()))
    largest = max(counts.values())
    by = tuple(name for name, count in counts.items() if count == largest)
    if largest == 1:
        reason = "each further warp takes the same time: one scheduler, or units that all schedulers share"
        return Schedulers(None, 1, by, reason)
    if others := [f"{name}: {count}" for name, count in counts.items() if largest % count]:
        return Schedulers(None, largest, by, f"rounds of {largest} warps by {', '.join(by)}, but {', '.join(others)}")
    return Schedulers(largest, largest, by)

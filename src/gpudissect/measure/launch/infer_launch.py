"""The cost of starting kernels, and how long an SM waits for the next block (VV16 s3.7).

Runs are measured in several repetitions over time, because a host's pace drifts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.infer_latency import Latency

Ints = NDArray[np.int64]

MIN_REPLACEMENTS = 8
CLOCK_STEP = 1.0  # cycles: error of the difference of two readings
WAITING_QUANTILE = 0.25  # blocks must have waited from this quantile of the waits on
WAIT_QUANTILES = (0.025, 0.5, 0.975)
"""Bracket and value of a replacement: 95 of 100 more lie within. The error of the median would be far smaller, and of
no use to whoever waits for a block."""
QUICK, SLOW = 0.25, 0.75
"""Quantiles of the runs of a host. Delays only add: the quick ones show the cost of a start."""
PROCESS_FACTOR = 1.35
"""Bracket, either way, of times that involve the host, for other processes. On H200s the interval of kernels that are
called one by one was 1.25 to 1.67 us by process, context and stream, each steady to a thousandth; a start took 7.4 to
8.3 us by process, card and day (from Python 7.9 to 11.2), that of a graph 5.6 to 6.1."""
MIN_ERROR = 0.005  # relative, of a time by the host's clock


@dataclass(frozen=True)
class Duration:
    """A time and its bracket, ns."""

    value: float
    low: float
    high: float


def undelayed_duration(repetitions: Sequence[Ints]) -> Duration:
    """Time of a run that nothing delays, from repetitions of shape (runs,).

    The lower quartile of a repetition, median of the repetitions. The bracket reaches from the fastest run to the upper
    quartile of the slowest repetition: a host's pace differs more between repetitions than within one. Raises
    `ValueError` without runs.
    """
    if not repetitions or any(runs.size == 0 for runs in repetitions):
        raise ValueError("a time needs runs")
    value = float(np.median([np.quantile(runs, QUICK) for runs in repetitions]))
    low = min(float(runs.min()) for runs in repetitions)
    high = max(float(np.quantile(runs, SLOW)) for runs in repetitions)
    return Duration(value, low * (1 - MIN_ERROR), max(high, value * (1 + MIN_ERROR)))


def kernel_interval(kernels: Sequence[int], repetitions: Sequence[Sequence[Ints]]) -> Duration | None:
    """Time that each further kernel adds: median slope over all pairs of kernel counts, median of the repetitions.

    `repetitions[r][i]` are the runs with `kernels[i]` kernels; their lower quartile counts. The slope is robust (Theil
    1950, Sen 1968), pairs weighted by distance. The cost may depend on the count, so the bracket holds the slopes
    between neighbouring counts, those of each repetition, and the slope of the fastest runs. None if more kernels take
    no longer. Raises `ValueError` for fewer than two counts.
    """
    if len(set(kernels)) < 2 or not repetitions or any(len(kernels) != len(runs) for runs in repetitions):
        raise ValueError(f"an interval needs several numbers of kernels, got {list(kernels)}")
    quick = [_by_count(kernels, [float(np.quantile(runs, QUICK)) for runs in row]) for row in repetitions]
    columns = zip(*repetitions, strict=True)
    fastest = _by_count(kernels, [min(float(runs.min()) for runs in column) for column in columns])
    values = [_slope(times) for times in quick]
    value = float(np.median(values))
    times = {count: float(np.median([row[count] for row in quick])) for count in quick[0]}
    neighbours = [(times[more] - times[few]) / (more - few) for few, more in pairwise(times)]
    slopes = (*neighbours, *values, _slope(fastest))
    low, high = min(slopes) * (1 - MIN_ERROR), max(*slopes, value * (1 + MIN_ERROR))
    return Duration(value, max(0.0, low), high) if value > 0 else None


def kernel_interval_by_run(kernels: Sequence[int], repetitions: Sequence[Sequence[Ints]]) -> NDArray[np.float64]:
    """Time that each further kernel adds in each run, ns, shape (repetitions * runs,).

    For the arguments see `kernel_interval`.
    """
    runs = (run for row in repetitions for run in zip(*row, strict=True))
    return np.array([_slope(_by_count(kernels, list(map(float, run)))) for run in runs])


def widened_for_processes(duration: Duration) -> Duration:
    """The same with a bracket that also holds for other processes (`PROCESS_FACTOR`)."""
    low, high = duration.value / PROCESS_FACTOR, duration.value * PROCESS_FACTOR
    return Duration(duration.value, min(duration.low, low), max(duration.high, high))


def _by_count(kernels: Sequence[int], times: Sequence[float]) -> dict[int, float]:
    return dict(sorted(zip(kernels, times, strict=True)))


def _slope(times: Mapping[int, float]) -> float:
    """Median slope over all pairs of kernel counts, weighted by their distance."""
    pairs = sorted(((times[more] - times[few]) / (more - few), more - few) for few, more in combinations(times, 2))
    weights = np.cumsum([weight for _, weight in pairs]) / sum(weight for _, weight in pairs)
    return pairs[int(np.searchsorted(weights, 0.5))][0]


def block_replacement(begin: Ints, end: Ints, sm: Ints, block: Ints, resident: int) -> Latency | None:
    """Cycles from the end of a block to the begin of its successor: median; 95 % lie in the bracket.

    Arrays hold one value for each warp: cycles of its own SM's clock, its SM, its block. An SM runs `resident` blocks
    at a time. None with fewer than `MIN_REPLACEMENTS`, or if blocks did not wait for one another.
    """
    waits = replacement_waits(begin, end, sm, block, resident)
    if waits.size < MIN_REPLACEMENTS or float(np.quantile(waits, WAITING_QUANTILE)) <= 0:
        return None
    low, median, high = (float(wait) for wait in np.quantile(waits, WAIT_QUANTILES))
    return Latency(median, max(low - CLOCK_STEP, 0.0), high + CLOCK_STEP)


def replacement_waits(begin: Ints, end: Ints, sm: Ints, block: Ints, resident: int) -> Ints:
    """Cycles of every replacement, SM by SM, empty if no SM ran more than `resident` blocks; see `block_replacement`.

    A block begins with its first warp and ends with its last. On each SM the first `resident` blocks begin at once;
    after that the k-th to begin replaces the k-th that ended.
    """
    by_block = np.lexsort((block, sm))
    sm, block = sm[by_block], block[by_block]
    starts = np.flatnonzero((np.diff(sm, prepend=-1) != 0) | (np.diff(block, prepend=-1) != 0))
    first, last = np.minimum.reduceat(begin[by_block], starts), np.maximum.reduceat(end[by_block], starts)
    _, firsts, blocks = np.unique(sm[starts], return_index=True, return_counts=True)
    rank, blocks = np.arange(starts.size) - np.repeat(firsts, blocks), np.repeat(blocks, blocks)
    first, last = (times[np.lexsort((times, sm[starts]))] for times in (first, last))
    return np.asarray(first[rank >= resident] - last[rank < blocks - resident])

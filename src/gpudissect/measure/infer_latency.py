"""Latency from whole laps of a pure pointer chase, or from single timed accesses."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.trace import Array

MAX_CLOCK_DRIFT = 0.002  # of the clock, relative to the cycles that it counts
MIN_CHASE_ERROR = 0.25  # cycles of a load, beside clock drift
MAX_LAP_COST = 50  # cycles of a lap beside its loads
APART = 4.0  # interquartile ranges from the median
TRIMMED_SHARE = 0.01  # of samples, at either end
SIGMAS = 3  # of a mean or a rank, on either side


@dataclass(frozen=True)
class Latency:
    """Cycles of one load and its bracket."""

    cycles: float
    low: float
    high: float


def lap_latency(
    laps: Array, links: int, short_laps: Array | None = None, short_links: int = 0, min_error: float = 0.5
) -> Latency:
    """Cycles per load from `laps` (cycles of whole laps) of `links` loads each.

    Delays only ever add, so the undisturbed laps are the fast ones: the value is the lower quartile, bracketed by
    the fastest and the median, and by at least `min_error` cycles (rounding) and `MAX_CLOCK_DRIFT` to either side. The
    constant cost of a lap cancels if laps of a shorter chain are given too; the drift during these does not. Raises
    `ValueError` without laps.
    """
    if laps.size == 0 or (short_laps is not None and short_laps.size == 0):
        raise ValueError("latency needs at least one lap")
    short = 0.0 if short_laps is None else float(np.quantile(short_laps, 0.25))
    low, value, high = np.quantile((laps - short) / (links - short_links), [0, 0.25, 0.5])
    low -= min(MIN_CHASE_ERROR, min_error)
    min_error += MAX_CLOCK_DRIFT * (float(value) + 2 * short / (links - short_links))
    return Latency(float(value), float(min(low, value - min_error)), float(max(high, value + min_error)))


def chase_latency(laps: Array, links: int, short_laps: Array, short_links: int) -> Latency:
    """Cycles per load from laps of two chains over the same span.

    If the cost of a lap that follows is impossible, the lines of one chain are faster than those of the other: then the
    longer chain gives the value, and the bracket holds both. Raises `ValueError` without laps.
    """
    min_error = max(MIN_CHASE_ERROR, 1 / (links - short_links))  # the clock counts whole cycles of two laps
    latency = lap_latency(laps, links, short_laps, short_links, min_error)
    whole, short = (float(np.quantile(each, 0.25)) for each in (laps, short_laps))
    error = (latency.cycles - latency.low) * short_links
    if -error <= short - latency.cycles * short_links <= MAX_LAP_COST + error:
        return latency
    mean = whole / links
    return Latency(mean, min(latency.low, mean - 0.5), max(latency.high, mean + 0.5))


def median_latency(chains: Sequence[Latency]) -> Latency:
    """Median latency of chains, bracketed by the extremes of all. Raises `ValueError` without chains."""
    if not chains:
        raise ValueError("latency needs at least one chain")
    median = float(np.median([chain.cycles for chain in chains]))
    return Latency(median, min(chain.low for chain in chains), max(chain.high for chain in chains))


def median_over_sms(chains: Sequence[Latency]) -> Latency:
    """Median of chains that different SMs followed, between the ranks three standard deviations from the middle.

    The bracket is of the median over all SMs; single SMs lie outside. Raises `ValueError` without chains.
    """
    if not chains:
        raise ValueError("latency needs at least one chain")
    reach = SIGMAS / 2 / float(np.sqrt(len(chains)))  # the rank of a median is binomial
    low = np.quantile([chain.low for chain in chains], max(0.0, 0.5 - reach), method="lower")
    high = np.quantile([chain.high for chain in chains], min(1.0, 0.5 + reach), method="higher")
    return Latency(float(np.median([chain.cycles for chain in chains])), float(low), float(high))


def deviation_over_sms(chains: Sequence[Latency]) -> float:
    """Standard deviation in cycles over chains that different SMs followed; 0 for fewer than two."""
    return float(np.std([chain.cycles for chain in chains], ddof=1)) if len(chains) > 1 else 0.0


def widened(latency: Latency, deviation: float, sms: int = 1) -> Latency:
    """A latency from `sms` SMs, widened by three standard errors; `deviation`: of single SMs, in cycles."""
    error = SIGMAS * deviation / float(np.sqrt(sms))
    return Latency(latency.cycles, latency.low - error, latency.high + error)


def median_with_error(samples: Array, overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less the timing overhead, with three standard errors to either side.

    For memory, which a refresh delays now and then. Raises `ValueError` without samples.
    """
    if samples.size == 0:
        raise ValueError("latency needs at least one access")
    median = float(np.median(samples))
    deviation = 1.4826 * float(np.median(np.abs(samples - median)))  # standard deviation, if normal
    return _subtract_overhead(median, SIGMAS * 1.2533 * deviation / float(np.sqrt(samples.size)), overhead)


def median_with_ranks(samples: Array, overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less the timing overhead, between ranks three standard deviations away.

    Valid for any distribution of samples. Raises `ValueError` without samples.
    """
    reach = SIGMAS / 2 / float(np.sqrt(samples.size)) if samples.size else 0.0  # the rank of a median is binomial
    return _median_between(samples, max(0.0, 0.5 - reach), min(1.0, 0.5 + reach), overhead)


def median_with_quartiles(samples: Array, overhead: Latency) -> Latency:
    """Median of single accesses (cycles) less the timing overhead, between the quartiles.

    For mixtures such as near and far lines. Raises `ValueError` without samples.
    """
    return _median_between(samples, 0.25, 0.75, overhead)


def _median_between(samples: Array, low: float, high: float, overhead: Latency) -> Latency:
    """Median of single accesses between two quantiles, with half a cycle and drift, less an overhead."""
    if samples.size == 0:
        raise ValueError("latency needs at least one access")
    value = float(np.median(samples)) - overhead.cycles
    error = 0.5 + MAX_CLOCK_DRIFT * value
    bottom = float(np.quantile(samples, low, method="lower")) - overhead.high - error
    return Latency(value, bottom, float(np.quantile(samples, high, method="higher")) - overhead.low + error)


def trimmed_mean(samples: Array, overhead: Latency) -> Latency:
    """Mean of single accesses (cycles) less the timing overhead, with three standard errors to either side.

    For latencies that differ from line to line; the slowest and fastest hundredth are left out.
    """
    kept = _trim(samples)
    return _subtract_overhead(float(kept.mean()), SIGMAS * float(kept.std() / np.sqrt(kept.size)), overhead)


def timing_overhead(samples: Array, chase: Latency) -> Latency:
    """Cycles that timing a single access adds: accesses timed one by one, less the same in a pure pointer chase."""
    mean = float(_trim(samples).mean())
    return Latency(mean - chase.cycles, mean - chase.high, mean - chase.low)


def _subtract_overhead(cycles: float, error: float, overhead: Latency) -> Latency:
    """A latency with its error, half a cycle and drift, less an overhead with its bracket."""
    value = cycles - overhead.cycles
    error += 0.5 + MAX_CLOCK_DRIFT * value
    return Latency(value, cycles - overhead.high - error, cycles - overhead.low + error)


def miss_penalty(hits: Array, misses: Array) -> Latency:
    """Cycles that a miss adds, from single accesses (cycles, timer included) on both plateaus: the timer cancels.

    The difference of the trimmed means, with three standard errors, a quarter of a cycle (the clock counts whole ones)
    and clock drift to either side. Where more hits than are trimmed take about as long as misses, they are left out: a
    footprint near the capacity misses now and then. Longer ones are delays, which misses have too: they cancel.

    Where a few misses take longer than most (lines in the far partition of the L2), the value is that of most, and the
    bracket includes the mean of all.
    """
    are_misses = np.abs(hits - np.median(misses)) <= (np.median(misses) - np.median(hits)) / 2
    if np.mean(are_misses) > TRIMMED_SHARE:
        hits = np.compress(~are_misses, hits)
    hit, miss = _trim(hits), _trim(misses)
    value = float(miss.mean() - hit.mean())
    error = SIGMAS * float(np.sqrt(hit.var() / hit.size + miss.var() / miss.size)) + 0.25
    error += MAX_CLOCK_DRIFT * float(hit.mean() + miss.mean())
    of_most = float(_most(miss).mean() - _most(hit).mean())
    if abs(value - of_most) <= error:
        return Latency(value, value - error, value + error)
    return Latency(of_most, min(value, of_most) - error, max(value, of_most) + error)


def _most(samples: Array) -> Array:
    """Samples near the median, if half of all samples are so close together that the others stand apart."""
    low, median, high = np.quantile(samples, [0.25, 0.5, 0.75])
    return np.compress(np.abs(samples - median) <= APART * (high - low + 1), samples)


def _trim(samples: Array) -> Array:
    """Samples without the fastest and slowest hundredth."""
    low, high = np.quantile(samples, [TRIMMED_SHARE, 1 - TRIMMED_SHARE])
    return np.compress((samples >= low) & (samples <= high), samples)

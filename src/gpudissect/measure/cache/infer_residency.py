"""Capacity of a cache: whether a footprint fits, by its misses, and how many lines are resident at any one time.

First miss. If a chain of distinct lines overflows even one set, every lap in steady state misses at least once: a lap
without a miss would need more lines of that set to be resident at its start than the set has ways. If the chain fits,
misses are only misread hits, at the rate observed on a control that certainly fits. So one lap without a miss all but
proves that a chain fits, whatever the policy, the index function or the order of accesses; where misreading is
frequent, laps add up until one of the two is certain (in the spirit of Wald 1945).

By line. Misread hits fall on any line; the misses of a set that overflows fall on its own few lines. How often two
misses fall on one line needs no control and far fewer laps: one miss per lap among twenty misread ones shows within
some thirty laps, by counting within some hundreds.

Residency. While M distinct elements are visited in turn, M well above what fits, an element chosen at random hits with
probability (lines the cache holds) / M, whatever the policy, the index function or the sizes of the sets. No element is
probed twice, so with one probe for d elements the share is too low by the factor 1 + (1 - share) / d: corrected.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from math import inf, lgamma, log, log1p

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_l2_partitions import partition_count
from gpudissect.trace import Array

Mask = NDArray[np.bool_]

SHORT_LAP_PROBABILITY = 1e-3  # that a lap with true misses shows fewer of them
PARTIAL_PRIOR, MIN_PARTIAL_LAPS = 1e-5, 16  # prior probability of overflows in some laps only; laps to find them
ERROR_ODDS = 1e-4  # at which a decision is made
MIN_MISSING_LAPS = 0.25  # share of laps with misses, if a chain overflows in some laps only
MIN_KNOWN_SHARE = 0.5  # of the accesses of a chain
EXCESSES = np.array((1, 2, 4, 8, 16, 32, 64, 256, 1024, 4096, 65536))[:, None, None]
"""True misses per lap that are considered, shape (excesses, 1, 1)."""
MAX_OVERFLOW_LINES = 64  # of a set that overflows, which share its misses
MAX_SIZES_PER_BATCH = 15
SIZE_TOLERANCE = 0.03  # random lines leave some sets unfilled, and other data than the chain takes some lines


class Fit(Enum):
    """Whether a footprint stays resident."""

    FITS = "fits"
    OVERFLOWS = "overflows"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Control:
    """Misses and accesses of a footprint that certainly fits: the rate of misread hits."""

    misses: int
    accesses: int


def overflow_log_odds(counts: Array, control: Control) -> NDArray[np.float64]:
    """Log odds (nats) of "overflows" against "fits", shape (chains,), from hits, misses and unknown accesses of laps.

    `counts` is (laps, chains, 3). Misread hits are Poisson at a rate known from the control (gamma posterior, so the
    total is negative binomial); an overflow adds at least one miss to every lap, but for few: behind a nearer cache,
    which keeps some of the lines, a lap may show less. Less likely, it adds any number of misses to some laps only:
    where few lines exceed the data storage. That is considered from `MIN_PARTIAL_LAPS` laps on.
    """
    missed = counts[:, :, 1]
    total, exposure = missed.sum(axis=0), counts.sum(axis=(0, 2)).astype(np.float64)
    short_laps = np.sum(missed < EXCESSES, axis=1)  # (excesses, chains)
    rest = np.maximum(total - EXCESSES[:, 0] * (len(counts) - short_laps), 0)
    fits, *terms = _log_misread(np.vstack([total, rest]), exposure, control)
    overflows = np.logaddexp.reduce(terms + short_laps * log(SHORT_LAP_PROBABILITY), axis=0) - log(len(terms))
    in_some_laps = (len(counts) >= MIN_PARTIAL_LAPS) & (short_laps[0] <= (1 - MIN_MISSING_LAPS) * len(counts))
    partial = np.where(in_some_laps, log(PARTIAL_PRIOR) - np.log1p(exposure), -np.inf)  # any number is as likely
    overflows = np.logaddexp(overflows, partial)
    return np.asarray(overflows - fits)


def _log_misread(misses: Array, exposure: NDArray[np.float64], control: Control) -> NDArray[np.float64]:
    """Log probability of `misses` misread hits in `exposure` accesses, given the control; shape (.., chains)."""
    shape, known = control.misses + 0.5, control.accesses + 1.0
    ways = {count: lgamma(count + shape) - lgamma(shape) - lgamma(count + 1) for count in set(misses.ravel().tolist())}
    chance = shape * np.log1p(exposure / known) + misses * np.log1p(known / exposure)
    return np.array([ways[count] for count in misses.ravel().tolist()]).reshape(misses.shape) - chance


def decide(counts: Array, control: Control) -> Fit:
    """The verdict on counts (laps, 3) of one chain."""
    return decide_each(counts[:, None, :], control)[0]


def decide_each(counts: Array, control: Control) -> list[Fit]:
    """The verdict on each chain of counts (laps, chains, 3): undecided on thin evidence or mostly unknown accesses."""
    return [_fit(fits, overflows) for fits, overflows in zip(*verdicts(counts, control), strict=True)]


def verdicts(counts: Array, control: Control) -> tuple[Mask, Mask]:
    """The same as masks, shape (chains,): which fit, which overflow."""
    known = counts[:, :, :2].sum(axis=(0, 2)) >= MIN_KNOWN_SHARE * counts.sum(axis=(0, 2))
    odds = overflow_log_odds(counts, control)
    return known & (odds <= log(ERROR_ODDS)), known & (odds >= -log(ERROR_ODDS))


def _fit(fits: bool, overflows: bool) -> Fit:
    return Fit.FITS if fits else Fit.OVERFLOWS if overflows else Fit.UNDECIDED


def overflow_log_odds_by_line(misses: Array, laps: int) -> float:
    """Log odds (nats) of "overflows" against "fits", from pairs of misses on one line; `misses` (lines,) in all laps.

    Pairs are Poisson: misread hits alone give C(total misses, 2) / lines; one true miss per lap, spread over
    `MAX_OVERFLOW_LINES` lines, gives C(laps, 2) / MAX_OVERFLOW_LINES more. Fewer lines or more misses give more.
    """
    pairs = float(np.sum(misses * (misses - 1)) / 2)
    total = int(misses.sum())
    by_chance = total * (total - 1) / 2 / misses.size + 0.5
    excess = laps * (laps - 1) / 2 / MAX_OVERFLOW_LINES
    return pairs * log1p(excess / by_chance) - excess


def excess_fit(excess: float, expected: float, laps: int) -> Fit:
    """The verdict on misses in excess of the `expected` misread hits, if an overflow may add misses to some laps only.

    It then adds misses to at least a quarter of the laps. Undecided if chance (four standard deviations of the
    difference between two Poisson counts) may hide these.
    """
    chance = 4 * (2 * expected + 1) ** 0.5
    if excess > max(MIN_MISSING_LAPS * laps, chance):
        return Fit.OVERFLOWS
    return Fit.FITS if chance <= MIN_MISSING_LAPS * laps else Fit.UNDECIDED


def decide_by_line(misses: Array, laps: int) -> Fit:
    """The verdict on misses of each line of a chain in a number of laps, undecided on thin evidence."""
    odds = overflow_log_odds_by_line(misses, laps)
    return _fit(odds <= log(ERROR_ODDS), odds >= -log(ERROR_ODDS))


def probe_sizes(low: int, high: int, step: int, max_count: int = MAX_SIZES_PER_BATCH) -> list[int]:
    """Up to `max_count` multiples of `step` strictly between `low` (fits) and `high` (overflows), evenly spread."""
    first, inner = low // step, high // step - low // step - 1
    count = max(0, min(inner, max_count))
    return [step * (first + (i + 1) * (inner + 1) // (count + 1)) for i in range(count)]


def narrowed(low: int, high: int, fits: Mapping[int, bool]) -> tuple[int, int]:
    """The largest size that fits and the smallest that does not, after tests of sizes between `low` and `high`."""
    high = min([high, *(size for size, fit in fits.items() if not fit)])
    return max([low, *(size for size, fit in fits.items() if fit and size < high)]), high


@dataclass(frozen=True)
class Residency:
    """Elements resident at any one time: estimate and standard error."""

    elements: float
    error: float


def estimate_residency(hits: int, probes: int, elements: int, between: float) -> Residency:
    """Resident elements, from hits of random probes while `elements` of them are visited in turn.

    `between` elements are visited between two probes. Raises `ValueError` without probes.
    """
    if probes < 1:
        raise ValueError("residency needs at least one probe")
    share = hits / probes
    smoothed = (hits + 1) / (probes + 2)  # Laplace: the error of 0 or all hits is not zero
    total = elements * (1 + (1 - share) / between)
    return Residency(share * total, total * float(np.sqrt(smoothed * (1 - smoothed) / probes)))


def residency_after_laps(hits: int, probes: int, elements: int, probed: int) -> Residency:
    """Resident elements, from hits of probes of random elements after laps over all of them.

    A chase probes `probed` elements, each once; `probes` are those of all chases. Of R of N elements resident, k probes
    leave fewer among the N - k others: what hit is no longer one of them, and what missed displaces one. If it only
    displaces what missed before (insertion at the LRU position), the share of hits remains R / N; else it falls to
    (R - k) / (N - k), which the middle of a chase stands for. The estimate lies between, its error covers both.
    Raises `ValueError` without probes.
    """
    found = estimate_residency(hits, probes, elements, inf)
    displaced = (1 - hits / probes) * probed / 2
    return Residency(found.elements + displaced / 2, found.error + displaced / 6)


@dataclass(frozen=True)
class ResidentBytes:
    """Bytes resident at any one time: estimate, standard error, and bracket."""

    size: float
    error: float
    low: float
    high: float


def partition_sizes(
    near: Mask, far_lines: Mask, found: Mask, total: int, probed: int
) -> tuple[ResidentBytes, ResidentBytes]:
    """Sizes of the near partition of a cache and of all partitions together, from probes of random lines.

    `near` are probes that hit in the near partition, `far_lines` probes of lines whose home is far, `found` probes that
    hit in either partition (counts for far lines only). Each chase probes lines of `probed` bytes after laps over
    `total` bytes.

    The sum is read in two ways: as a multiple of the near partition, for all are taken to be equal; and as the near
    partition plus what far ones hold, if they hold what the near one fetched last from them. The bracket covers both,
    the value is the first. Raises `ValueError` without probes.
    """
    local = residency_after_laps(int(near.sum()), near.size, total, probed)
    probes, remote_hits = int(far_lines.sum()), int((far_lines & (near | found)).sum())
    share = probes / near.size
    remote = residency_after_laps(remote_hits, probes, round(share * total), round(share * probed))
    error = float(np.hypot(local.error, remote.error))
    count = partition_count(int((~far_lines).sum()), far_lines.size)
    whole, both = count * local.elements, local.elements + remote.elements
    near_size = _resident_bytes(local.elements, local.elements, local.elements, local.error)
    return near_size, _resident_bytes(whole, min(both, whole), max(both, whole), max(error, count * local.error))


def _resident_bytes(size: float, low: float, high: float, error: float) -> ResidentBytes:
    margin = 3 * error
    return ResidentBytes(size, error, low - margin - SIZE_TOLERANCE * low, high + margin + SIZE_TOLERANCE * high)

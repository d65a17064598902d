"""Rates and latencies of instructions from when warps began and ended, and how many warps a rate needs (VV16 ch 5-6).

Clocks of two SMs are not compared: every SM is evaluated by itself (VV16 s5.5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_l2_partitions import MIN_RELATIVE_DISTANCE
from gpudissect.measure.infer_bimodal import split_bimodal
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT, Latency
from gpudissect.measure.throughput.infer_throughput import Throughput
from gpudissect.trace import FRACTION, Trace, totals_by_sm

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SHARE_ERROR = 0.01  # of a rate: error of a share of it
MIN_RATE_ERROR = 0.002  # relative
MAX_LIMITED_SHARE = 0.7  # of the largest number of chains: with more loads in flight no limit is reported
MAX_DIFFERENCE = 0.1  # relative, of the loads in flight with the two largest numbers of chains, to report a limit
IN_FLIGHT_ERROR = 0.05  # relative, of the loads in flight


@dataclass(frozen=True)
class Occupancy:
    """Warps of one SM against time."""

    cycles: Ints  # since its first warp began, rising, shape (steps,)
    warps: Ints  # from then on, shape (steps,); the last is 0

    @property
    def max(self) -> int:
        """The largest number of warps at a time: the attained occupancy (VV16 s5.7)."""
        return int(self.warps.max())

    @property
    def mean(self) -> float:
        """Mean from the first begin to the last end."""
        return float((self.warps[:-1] * np.diff(self.cycles)).sum() / (self.cycles[-1] - self.cycles[0]))

    def share_below(self, warps: float) -> float:
        """Share of the time with fewer warps (VV16 s5.8)."""
        return float(np.diff(self.cycles)[self.warps[:-1] < warps].sum() / (self.cycles[-1] - self.cycles[0]))


@dataclass(frozen=True)
class SmTotals:
    """Sums over the warps of each SM, shape (SMs,): see `gpudissect.trace.totals_by_sm`.

    Rates are of one SM per cycle, given the `work` of one warp. Raises `ValueError` for an SM without warps or time.
    """

    warps: Ints
    spans: Ints  # cycles from the first warp's begin to the last one's end (VV16 s5.5)
    durations: Ints  # cycles, total of all warps
    paces: Floats  # total of 1 / duration
    full_warps: Floats  # warps that ran while occupancy was full, in parts of a whole warp
    full_cycles: Ints  # how long that was; 0 if there was no such time

    def __post_init__(self) -> None:
        positive = (self.warps, self.spans, self.durations, self.paces)
        parts = ((self.full_cycles, self.spans), (self.full_warps, self.warps + 1e-6))
        is_impossible = any(((part < 0) | (part > whole)).any() for part, whole in parts)
        if not self.warps.size or is_impossible or any(each.min() <= 0 for each in positive):
            raise ValueError("an SM ran no warps, they took no cycles, or more ran at full occupancy than in all")

    @classmethod
    def of(cls, trace: Trace) -> SmTotals:
        """Those of a mix."""
        return cls.of_arrays(trace.arrays) if "span" in trace.arrays else Lifetimes.of(trace).totals

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, Ints]) -> SmTotals:
        """The sums as a trace holds them."""
        paces, full_warps = arrays["pace"] / FRACTION, arrays["full_warps"] / FRACTION
        return cls(arrays["warps"], arrays["span"], arrays["duration"], paces, full_warps, arrays["full_cycles"])

    @property
    def imbalance(self) -> float:
        """The longest span of an SM over the mean span."""
        return float(self.spans.max() / self.spans.mean())

    @property
    def mean_duration(self) -> float:
        """Cycles from begin to end, mean over warps (VV16 s5.5)."""
        return float(self.durations.sum() / self.warps.sum())

    def overall_rate(self, work: float) -> float:
        """Rate by the longest span of any SM (VV16 s5.5): includes losses by imbalance."""
        return work * float(self.warps.mean()) / float(self.spans.max())

    def attained_rate(self, work: float) -> float:
        """Rate by each SM's span, mean over SMs: includes losses while warps end and blocks are replaced."""
        return float((work * self.warps / self.spans).mean())

    def steady_rate(self, work: float) -> float:
        """Rate while all warps run, mean over SMs, if all began together and take about equally long.

        Too high where schedulers prefer some warps to others, because the last ones speed up: see `rate_uncertainty`.
        """
        return work * float(self.paces.mean())

    @property
    def rate_uncertainty(self) -> float:
        """`steady_rate`, which may be too high, over `attained_rate`, which may be too low, less 1.

        0 if all warps of an SM begin and end together.
        """
        return self.steady_rate(1.0) / self.attained_rate(1.0) - 1

    def rate_between_waves(self, work: float) -> float | None:
        """Rate while blocks replace others, however unequal the pace of warps is; None if there is no such time.

        Mean over SMs. A warp that began before that time or ends after it counts by the share of its time within; the
        errors at both ends cancel.
        """
        if not self.full_cycles.all():
            return None
        return work * float((self.full_warps / self.full_cycles).mean())


@dataclass(frozen=True)
class Lifetimes:
    """When and where warps ran.

    Raises `ValueError` without warps, for shapes that differ, or for a warp that took no time.
    """

    begin: Ints  # cycles of its own SM's clock, shape (warps,)
    end: Ints
    sm: Ints

    def __post_init__(self) -> None:
        if not self.begin.size or not self.begin.shape == self.end.shape == self.sm.shape:
            shapes = (self.begin.shape, self.end.shape, self.sm.shape)
            raise ValueError(f"lifetimes need begin, end and SM of every warp, got shapes {shapes}")
        if (self.end <= self.begin).any():
            raise ValueError("a warp took no cycles")

    @classmethod
    def of(cls, trace: Trace) -> Lifetimes:
        """Those of a mix."""
        return cls(trace.begin, trace.end, trace.sm)

    @property
    def totals(self) -> SmTotals:
        """Sums over the warps of each SM."""
        return SmTotals.of_arrays(totals_by_sm(self.begin, self.end, self.sm))

    def occupancy(self, sm: int) -> Occupancy:
        """Warps of an SM against time (VV16 s5.6). Raises `ValueError` for an SM without warps."""
        selected = self.sm == sm
        if not selected.any():
            raise ValueError(f"SM {sm} ran no warps")
        times = np.concatenate([self.begin[selected], self.end[selected]])
        steps = np.repeat([1, -1], selected.sum())
        cycles, index = np.unique(times, return_inverse=True)
        return Occupancy(cycles - cycles[0], np.cumsum(np.bincount(index, weights=steps).astype(np.int64)))


def median_duration(begin: Ints, end: Ints) -> float:
    """Cycles from begin to end, median over warps. Raises `ValueError` without warps."""
    if begin.size == 0 or begin.shape != end.shape:
        raise ValueError(f"a duration needs begin and end of every warp, got {begin.shape} and {end.shape}")
    return float(np.median(end - begin))


def issue_rate(totals: SmTotals, operations: float, idle: float = 0.0) -> Throughput:
    """Operations per cycle of one SM by its span, median over SMs; the bracket holds the middle half.

    `operations` are those of one warp. The bracket extends to the rate without the `idle` cycles before the first
    result, which a longer run would not have.
    """
    work, spans = operations * totals.warps, totals.spans
    rates = np.sort(work / spans)
    low, middle, high = (_quantile(rates, share) for share in (0.25, 0.5, 0.75))
    if idle:
        high = _quantile(np.sort(work / np.where(spans > idle, spans - idle, spans)), 0.75)
    return Throughput(middle, low, high)


def issue_rate_difference(long: SmTotals, short: SmTotals, operations: float) -> Throughput | None:
    """The same from two mixes that differ by `operations` of a warp: the cost of loops and of the start cancels.

    None if the long one takes no longer. Raises `ValueError` if they do not have equally many warps.
    """
    if long.warps.sum() != short.warps.sum():
        raise ValueError(f"mixes of {long.warps.sum()} and {short.warps.sum()} warps cannot be compared")
    spans, others, warps = (_quantile(np.sort(each), 0.5) for each in (long.spans, short.spans, long.warps))
    if (cycles := spans - others) <= 0:
        return None
    value = operations * warps / cycles
    return Throughput(value, value * (1 - MIN_RATE_ERROR), value * (1 + MIN_RATE_ERROR))


def _quantile(ordered: Ints | Floats, share: float) -> float:
    """A quantile of values in rising order, as of ``np.quantile``, which takes ten times as long for one per SM."""
    position = share * (ordered.size - 1)
    below = int(position)
    low, high = float(ordered[below]), float(ordered[min(below + 1, ordered.size - 1)])
    part = position - below
    return low + (high - low) * part if part < 0.5 else high - (high - low) * (1 - part)


@dataclass(frozen=True)
class NearFarLatency:
    """Latency of an address that is nearer to some SMs than to others."""

    latency: Latency  # half way between two groups, else the median over SMs; the bracket holds every SM
    near: float | None = None  # medians of the groups, cycles; None without two groups
    far: float | None = None
    near_share: float = 1.0  # of the SMs


def near_far_latency(runs: Sequence[Lifetimes], instructions: int) -> NearFarLatency:
    """Cycles of one instruction, one warp on each of many SMs, each at an address of its own.

    With two groups a median over SMs would depend on which SM got which address; half way between the groups does not.
    The bracket holds every SM's median over the runs, and `DRIFT` more. The cost of loops is included: it is small
    relative to the differences. Raises `ValueError` without runs.
    """
    if not runs:
        raise ValueError("latencies by SM need runs")
    by_sm: dict[int, list[float]] = {}
    for run in runs:
        for cycles, sm in zip((run.end - run.begin).tolist(), run.sm.tolist(), strict=True):
            by_sm.setdefault(sm, []).append(cycles / instructions)
    latencies = np.array([float(np.median(cycles)) for cycles in by_sm.values()])
    low, high = float(latencies.min()) * (1 - MAX_CLOCK_DRIFT), float(latencies.max()) * (1 + MAX_CLOCK_DRIFT)
    is_far = split_bimodal(latencies)
    if is_far is not None:
        near, far = float(np.median(latencies[~is_far])), float(np.median(latencies[is_far]))
        if far - near >= MIN_RELATIVE_DISTANCE * near:
            return NearFarLatency(Latency((near + far) / 2, low, high), near, far, 1 - float(is_far.mean()))
    return NearFarLatency(Latency(float(np.median(latencies)), low, high))


@dataclass(frozen=True)
class WarpsNeeded:
    """How many warps reach a share of a rate.

    `low` is at most what would reach the share in proportion: where schedulers cannot have equally many warps, 31 of 32
    warps gave 92 % of an H200's L1 hits in most processes, and 96 % in others.
    """

    warps: int | None  # the minimum; None if no measured number does
    low: int  # the minimum for `SHARE_ERROR` less
    high: int | None  # and more; None if no number reaches that
    best: float  # the largest share that was reached
    nearest: int  # the minimum number of warps that reached it


def warps_needed(rates: Mapping[int, float], plateau: float, share: float) -> WarpsNeeded:
    """The minimum number of warps whose rate is `share` of the plateau. Raises `ValueError` without rates."""
    if not rates or plateau <= 0:
        raise ValueError("warps needed for a rate need rates, and a plateau above zero")
    shares = {warps: rate / plateau for warps, rate in sorted(rates.items())}

    def minimum(required: float) -> int | None:
        return next((warps for warps, reached in shares.items() if reached >= required), None)

    warps, low = minimum(share), minimum(share - SHARE_ERROR)
    nearest = max(shares, key=lambda warps: shares[warps])  # the first of equals: the smallest
    if low is None:
        low = max(shares)
    if warps is not None:  # in proportion fewer suffice: whether they do depends on their distribution over schedulers
        low = min(low, math.ceil(warps * share / min(1.0, shares[warps])))
    return WarpsNeeded(warps, low, minimum(share + SHARE_ERROR), shares[nearest], nearest)


@dataclass(frozen=True)
class LoadsInFlight:
    """The limit of a warp and its bracket. If no limit was found: None, a lower bound (`low`), and the reason."""

    limit: int | None
    low: float
    high: float | None
    reason: str = ""


def in_flight(cycles: Mapping[int, float]) -> dict[int, float]:
    """Mean number of loads in flight by number of chains, from the cycles in which each chain makes one load.

    By Little's law: loads per cycle times the latency, the time of one chain alone. Raises `ValueError` if that time is
    missing, and for times that are not positive.
    """
    if 1 not in cycles or min(cycles.values()) <= 0:
        raise ValueError("loads in flight need the time of one chain, and positive times")
    return {chains: chains * cycles[1] / time for chains, time in cycles.items()}


def loads_in_flight(cycles: Mapping[int, float]) -> LoadsInFlight:
    """The limit from the cycles in which each chain of a warp makes one load, by number of chains (at least three)."""
    loads = in_flight(cycles)
    *_, before, most = sorted(loads)
    highest = max(loads.values())
    is_constant = abs(loads[most] / loads[before] - 1) <= MAX_DIFFERENCE
    if highest > MAX_LIMITED_SHARE * most or not is_constant:
        reason = f"up to {highest:.1f} loads of a warp are in flight at once, with {most} chains: no limit up to there"
        return LoadsInFlight(None, highest, None, reason)
    limit = max(1, round(loads[most]))
    return LoadsInFlight(
        limit, min(limit, loads[most] * (1 - IN_FLIGHT_ERROR)), max(limit, loads[most] * (1 + IN_FLIGHT_ERROR))
    )

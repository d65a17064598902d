"""From throughput at many occupancies to what latency hiding needs: latencies, peaks, warps (VV16 ch 4, 6)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from gpudissect.measure.instructions.infer_issue import SmTotals

SHARE_ERROR = 0.02  # of a peak: error of a share of it
PLATEAU_WIDTH = 0.01  # relative, below the fastest
MIN_PLATEAU_POINTS = 3
RATE_ERROR, SINGLE_RATE_ERROR = 0.005, 0.01  # relative; of a rate that a single point reached
CUSP_SHARE = 0.90  # of the peaks, as in VV16 figure 4.6


@dataclass(frozen=True)
class Pace:
    """How fast accesses and additions go, as far as known: cycles, and instructions per cycle of an SM."""

    access_latency: float = 500.0
    access_rate: float = 0.05
    arithmetic_latency: float = 6.0
    arithmetic_rate: float = 4.0


@dataclass(frozen=True)
class Point:
    """One mix, measured. Rates are instructions of all kinds per cycle of one SM."""

    alpha: float  # additions per access; infinite without accesses
    warps: int  # of an SM
    block: int  # threads
    chains: int  # of a warp
    rate: float  # while all warps run
    overall: float  # rate by the longest span of an SM
    latency: float  # mean cycles of a warp between two instructions of a chain
    imbalance: float  # longest span of an SM over the mean one
    clock_hz: float | None = None  # of the SM; None if not observed
    source: str = ""  # digest of the mix

    @property
    def accesses(self) -> float:
        """Accesses per cycle of one SM."""
        return self.rate / (self.alpha + 1)


def loop_rate(totals: SmTotals, waves: int, instructions: int) -> float:
    """Instructions per cycle of one SM while all its warps run; `instructions` are those of one warp."""
    if waves == 1:
        return totals.steady_rate(instructions)
    return totals.rate_between_waves(instructions) or totals.attained_rate(instructions)


@dataclass(frozen=True)
class Plateau:
    """The maximum rate of several points, with its bracket, in instructions per cycle of one SM."""

    rate: float
    low: float
    high: float
    members: int  # points that reach it
    bound: str = ""  # what limits it; empty if unknown
    excess: float = 0.0  # of the measured rate over the bound, relative


def plateau_of(points: Sequence[Point], schedulers: int, limit: float = math.inf, bound: str = "") -> Plateau:
    """The median of the points near the fastest one, as the fastest of many is in part the luckiest.

    Occupancies that give each scheduler equally many warps are used if there are any: with few large blocks that do
    not, rates between waves of blocks come out up to 1.3 % too high. The rate is cut off at `limit`, which `bound`
    names. With fewer than `MIN_PLATEAU_POINTS` points it is the fastest. Raises `ValueError` without points.
    """
    rates = [point.rate for point in points if point.warps % schedulers == 0] or [point.rate for point in points]
    fastest = max(rates)
    near = sorted(rate for rate in rates if rate >= (1 - PLATEAU_WIDTH) * fastest)
    single = len(near) < MIN_PLATEAU_POINTS
    rate, lowest, error = (fastest, fastest, SINGLE_RATE_ERROR) if single else (median(near), near[0], RATE_ERROR)
    low, high = min(lowest * (1 - error), limit), min(fastest * (1 + error), limit)
    return Plateau(min(rate, limit), low, high, len(near), bound, max(0.0, rate / limit - 1))


@dataclass(frozen=True)
class WarpRange:
    """The minimum number of warps that reach a share of a peak, None if none do, and for a little less and more."""

    warps: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Cusp:
    """Where the maximum number of warps is needed (VV16 s4.5)."""

    alpha: float  # the middle of several that need equally many, or that no number of warps suffices for
    low: float  # neighbouring alphas that need fewer warps
    high: float
    warps: int | None  # None if all warps of an SM do not suffice


@dataclass(frozen=True)
class LoopData:
    """Latency hiding of one kind of access, as measured."""

    points: tuple[Point, ...]
    access_bytes: int  # that one access of a warp reads; 0 if it stays in the SM
    width: int  # bytes of a lane's operand
    pace: Pace  # for further mixes of this kind
    access_latency: float  # cycles, unloaded
    arithmetic_latency: float
    dependent_latency: float  # of an access whose result an addition needs
    accesses: Plateau  # accesses alone
    arithmetic: Plateau  # additions alone
    issue: Plateau  # all mixes

    @cached_property
    def alphas(self) -> list[float]:
        """Of the points, rising."""
        return sorted({point.alpha for point in self.points})

    def curve(self, alpha: float) -> dict[int, Point]:
        """The fastest point with one chain at each occupancy, by warps, rising (VV16 s5.8)."""
        best: dict[int, Point] = {}
        for point in points_of(self.points, alpha):
            if point.warps not in best or point.rate > best[point.warps].rate:
                best[point.warps] = point
        return dict(sorted(best.items()))

    def peak(self, alpha: float) -> float:
        """Upper bound of instructions per cycle of one SM at any number of warps (VV16 s4.1)."""
        bounds = [self.issue.rate]
        if alpha < math.inf:
            bounds.append(self.accesses.rate * (alpha + 1))
        if alpha > 0:
            share = 1.0 if math.isinf(alpha) else alpha / (alpha + 1)
            bounds.append(self.arithmetic.rate / share)
        return min(bounds)

    def warps_needed(self, alpha: float, share: float) -> WarpRange:
        """The minimum number of warps with one chain each that reach `share` of the peak (VV16 table 6.4)."""
        curve, peak = self.curve(alpha), self.peak(alpha)

        def minimum(required: float) -> int | None:
            return next((warps for warps in curve if curve[warps].rate >= required * peak * (1 - 1e-9)), None)

        return WarpRange(minimum(share), minimum(share - SHARE_ERROR), minimum(share + SHARE_ERROR))

    @cached_property
    def cusp(self) -> Cusp | None:
        """The cusp at `CUSP_SHARE` of the peaks; see `cusp_of`."""
        return cusp_of({alpha: self.warps_needed(alpha, CUSP_SHARE).warps for alpha in self.alphas})

    def evidence(self, *alphas: float) -> tuple[str, ...]:
        """Digests of the mixes of some alphas; of all without any."""
        return tuple(dict.fromkeys(point.source for point in self.points if not alphas or point.alpha in alphas))


def points_of(points: Sequence[Point], alpha: float) -> list[Point]:
    """The points of one alpha with one chain a warp."""
    return [point for point in points if point.alpha == alpha and point.chains == 1]


def unloaded_latency(points: Sequence[Point]) -> float:
    """The smallest mean latency at any occupancy (VV16 table 6.2); cycles. Raises `ValueError` without points."""
    return min(point.latency for point in points if point.chains == 1)


def cusp_of(needed: dict[float, int | None]) -> Cusp | None:
    """The alpha that needs the most warps, from the warps that each needs (None: more than there are).

    None where the warps needed only fall or only rise from the smallest to the largest alpha.
    """
    alphas = sorted(alpha for alpha in needed if 0 < alpha < math.inf)
    if len(alphas) < 3:
        return None
    warps = [math.inf if (count := needed[alpha]) is None else count for alpha in alphas]
    most = max(warps)
    first, last = warps.index(most), len(warps) - 1 - warps[::-1].index(most)
    if first == 0 or last == len(alphas) - 1:
        return None
    middle = math.sqrt(alphas[first] * alphas[last])
    return Cusp(middle, alphas[first - 1], alphas[last + 1], None if math.isinf(most) else int(most))

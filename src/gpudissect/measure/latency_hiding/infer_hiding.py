"""From throughput at many occupancies to what latency hiding needs: latencies, peaks, warps (VV16 ch 4, 6)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

NEAR = 0.02  # of a share of a peak: by so much it may be misread
NEAR_BEST = 0.01  # below the fastest, relative: what belongs to its plateau
FEWEST = 3  # points of a plateau
READ = 0.005  # relative: by so much a rate may be misread
LONELY = 0.01  # the same of one that a single point reached


@dataclass(frozen=True)
class Point:
    """One mix, measured.

    Attributes:
        alpha: additions per access; infinite without accesses.
        warps: of an SM.
        block: threads of a block.
        ilp: chains of a warp.
        rate: instructions a cycle of one SM, all kinds, while all warps run.
        overall: the same by the longest time of an SM.
        latency: mean cycles of a warp from one instruction of a chain to the next, all kinds.
        imbalance: longest time of an SM over the mean one.
        clock_hz: of the SM, while it ran; None if not seen.
        source: digest of the mix.

    """

    alpha: float
    warps: int
    block: int
    ilp: int
    rate: float
    overall: float
    latency: float
    imbalance: float
    clock_hz: float | None = None
    source: str = ""

    @property
    def accesses(self) -> float:
        """Accesses a cycle of one SM."""
        return self.rate / (self.alpha + 1)


@dataclass(frozen=True)
class Level:
    """How fast something goes at most, by several points.

    Attributes:
        rate, low, high: instructions a cycle of one SM, and between what it lies.
        members: points that are as fast.
        bound: what cannot do more, in words; empty if that is not known.
        over: by how much more was measured than that can do, relative; 0 if not.

    """

    rate: float
    low: float
    high: float
    members: int
    bound: str = ""
    over: float = 0.0


@dataclass(frozen=True)
class Reached:
    """How many warps reach a share of a peak: the fewest, None if none do; the fewest for a little less and more."""

    share: float
    warps: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Cusp:
    """Where most warps are needed (VV16 s4.5).

    Attributes:
        alpha: there; where several alphas need equally many, or none suffices, the middle of them.
        low, high: the alphas beside which fewer warps are needed.
        warps: how many; None if the most that an SM holds do not suffice.

    """

    alpha: float
    low: float
    high: float
    warps: int | None


def best(points: Iterable[Point]) -> dict[int, Point]:
    """Of points of one alpha, the fastest at each occupancy with one chain a warp, by warps (VV16 s5.8)."""
    found: dict[int, Point] = {}
    for point in points:
        if point.ilp == 1 and (point.warps not in found or point.rate > found[point.warps].rate):
            found[point.warps] = point
    return dict(sorted(found.items()))


def level(points: Sequence[Point], schedulers: int, most: float = math.inf, bound: str = "") -> Level:
    """The plateau of points: the fastest of many is in part the luckiest.

    Of occupancies that give each scheduler equally many warps, if there are any: with few large blocks that do not,
    rates between rounds of blocks come out up to 1.3 % too high. Nothing is above `most`, what `bound` can do. Where
    fewer than `FEWEST` points are that fast, it is the fastest of them. Raises `ValueError` without points.
    """
    even = [point.rate for point in points if point.warps % schedulers == 0] or [point.rate for point in points]
    fastest = max(even)
    near = sorted(rate for rate in even if rate >= (1 - NEAR_BEST) * fastest)
    found, error = (median(near), READ) if len(near) >= FEWEST else (fastest, LONELY)
    low = (near[0] if len(near) >= FEWEST else fastest) * (1 - error)
    return Level(
        min(found, most), min(low, most), min(fastest * (1 + error), most), len(near), bound,
        max(0.0, found / most - 1),
    )  # fmt: skip


def reached(curve: Mapping[int, Point], peak: float, share: float) -> Reached:
    """The fewest warps at which `share` of `peak` (instructions a cycle) is attained (VV16 table 6.4)."""

    def fewest(least: float) -> int | None:
        return next((warps for warps in sorted(curve) if curve[warps].rate >= least * peak * (1 - 1e-9)), None)

    return Reached(share, fewest(share), fewest(share - NEAR), fewest(share + NEAR))


def unloaded(points: Sequence[Point]) -> float:
    """The smallest mean latency of any occupancy (VV16 table 6.2); cycles. Raises `ValueError` without points."""
    return min(point.latency for point in points if point.ilp == 1)


def cusp(needed: Mapping[float, int | None]) -> Cusp | None:
    """Of alphas, that which needs most warps, given how many each needs (None: more than there are).

    None where warps needed only fall or only rise from the least alpha to the largest: there is no cusp between them.
    """
    alphas = sorted(alpha for alpha in needed if 0 < alpha < math.inf)
    if len(alphas) < 3:
        return None
    wanted = {alpha: math.inf if (warps := needed[alpha]) is None else warps for alpha in alphas}
    most = max(wanted.values())
    at = [alpha for alpha in alphas if wanted[alpha] == most]
    first, last = alphas.index(at[0]), alphas.index(at[-1])
    if first == 0 or last == len(alphas) - 1:
        return None
    middle = math.sqrt(at[0] * at[-1])
    return Cusp(middle, alphas[first - 1], alphas[last + 1], None if math.isinf(most) else int(most))

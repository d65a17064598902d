"""Warps needed and the cusp, from points made by hand."""

from __future__ import annotations

import math

import pytest

from gpudissect.measure.latency_hiding.infer_loops import (
    LoopData,
    Pace,
    Plateau,
    Point,
    cusp_of,
    plateau_of,
    unloaded_latency,
)


def point(warps: int, rate: float, block: int = 32, chains: int = 1, latency: float = 300.0) -> Point:
    return Point(0.0, warps, block, chains, rate, rate, latency, 1.0)


def loops_of(points: list[Point], peak: float = 1.0) -> LoopData:
    plateau = Plateau(peak, peak, peak, 1)
    return LoopData(tuple(points), 128, 4, Pace(), 300.0, 6.0, 300.0, plateau, plateau, plateau)


def test_the_fastest_block_size_counts_and_several_chains_do_not() -> None:
    points = [point(4, 1.0), point(4, 2.0, 128), point(2, 0.5), point(4, 9.0, chains=4)]
    curve = loops_of(points).curve(0.0)
    assert list(curve) == [2, 4] and curve[4].block == 128
    latencies = [point(4, 1.0), point(1, 0.5, latency=290.0), point(4, 2.0, chains=2, latency=10.0)]
    assert unloaded_latency(latencies) == 290.0


def test_a_plateau_is_what_several_points_reach() -> None:
    rates = enumerate((1.0, 3.95, 3.94, 3.93, 3.92, 3.6), 1)
    found = plateau_of([point(34, 3.99), *(point(4 * n, rate) for n, rate in rates)], 4)
    assert found.rate == pytest.approx(3.935) and found.members == 4, "34 warps are not equally many for 4 schedulers"
    assert found.low < 3.92 and 3.95 < found.high < 3.99
    single = plateau_of([point(8, 2.0), point(16, 1.5)], 4)
    assert (single.rate, single.members) == (2.0, 1) and single.low < 2.0 < single.high
    assert plateau_of([point(3, 1.0)], 4).rate == 1.0, "no occupancy is even"
    cut = plateau_of([point(4 * n, 1.002) for n in range(1, 6)], 4, 1.0, "the banks")
    assert (cut.rate, cut.high) == (1.0, 1.0) and cut.low < 1.0
    assert cut.excess == pytest.approx(0.002) and cut.bound == "the banks"
    with pytest.raises(ValueError):
        plateau_of([], 4)


@pytest.mark.parametrize(("peak", "expected"), [(1.0, (24, 16, 32)), (1.2, (None, None, None)), (0.5, (8, 8, 8))])
def test_the_minimum_warps_that_reach_a_share(peak: float, expected: tuple[int | None, ...]) -> None:
    """The rate falls again at 40 warps, which does not matter."""
    points = [point(n, rate) for n, rate in [(8, 0.5), (16, 0.89), (24, 0.91), (32, 0.99), (40, 0.85)]]
    found = loops_of(points, peak).warps_needed(0.0, 0.90)
    assert (found.warps, found.low, found.high) == expected


def test_the_cusp_is_where_the_most_warps_are_needed() -> None:
    found = cusp_of({0.0: 40, 1.0: 44, 16.0: 52, 32.0: 60, 64.0: 56, 128.0: 40, math.inf: 24})
    assert found is not None and (found.alpha, found.low, found.high, found.warps) == (32.0, 16.0, 64.0, 60)
    short = cusp_of({1.0: 44, 16.0: None, 64.0: None, 128.0: 40})
    assert short is not None and (short.alpha, short.warps) == (32.0, None)


@pytest.mark.parametrize("needed", [{1.0: 10, 2.0: 20, 4.0: 30}, {1.0: 30, 2.0: 20, 4.0: 10}, {1.0: 30, 2.0: 20}])
def test_warps_that_only_rise_or_fall_have_no_cusp(needed: dict[float, int]) -> None:
    assert cusp_of(needed) is None

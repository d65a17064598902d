"""Warps needed and the cusp, from points made by hand."""

from __future__ import annotations

import math

import pytest

from gpudissect.measure.latency_hiding.infer_hiding import Point, best, cusp, level, reached, unloaded


def point(warps: int, rate: float, block: int = 32, ilp: int = 1, latency: float = 300.0) -> Point:
    return Point(0.0, warps, block, ilp, rate, rate, latency, 1.0)


def test_the_best_of_several_blocks_counts_and_chains_do_not() -> None:
    found = best([point(4, 1.0), point(4, 2.0, 128), point(2, 0.5), point(4, 9.0, ilp=4)])
    assert list(found) == [2, 4] and found[4].block == 128
    assert unloaded([point(4, 1.0), point(1, 0.5, latency=290.0), point(4, 2.0, ilp=2, latency=10.0)]) == 290.0


def test_a_peak_is_what_several_reach() -> None:
    lucky = [point(34, 3.99), *(point(4 * n, rate) for n, rate in enumerate((1.0, 3.95, 3.94, 3.93, 3.92, 3.6), 1))]
    found = level(lucky, 4)
    assert found.rate == pytest.approx(3.935) and found.members == 4, "34 warps are not equally many for 4 schedulers"
    assert found.low < 3.92 and 3.95 < found.high < 3.99
    alone = level([point(8, 2.0), point(16, 1.5)], 4)
    assert (alone.rate, alone.members) == (2.0, 1) and alone.low < 2.0 < alone.high
    assert level([point(3, 1.0)], 4).rate == 1.0, "no occupancy is even"
    cut = level([point(4 * n, 1.002) for n in range(1, 6)], 4, 1.0, "the banks")
    assert (cut.rate, cut.high) == (1.0, 1.0) and cut.low < 1.0
    assert cut.over == pytest.approx(0.002) and cut.bound == "the banks"
    with pytest.raises(ValueError):
        level([], 4)


def test_the_fewest_warps_that_reach_a_share() -> None:
    curve = {n: point(n, rate) for n, rate in [(8, 0.5), (16, 0.89), (24, 0.91), (32, 0.99)]}
    found = reached(curve, 1.0, 0.90)
    assert (found.warps, found.low, found.high) == (24, 16, 32)
    assert reached(curve, 1.2, 0.90).warps is None
    assert reached(curve, 0.5, 0.90).warps == 8
    falling = {**curve, 40: point(40, 0.85)}
    assert reached(falling, 1.0, 0.90).warps == 24, "attained, though not where the SM is full"


def test_the_cusp_is_where_most_are_needed() -> None:
    found = cusp({0.0: 40, 1.0: 44, 16.0: 52, 32.0: 60, 64.0: 56, 128.0: 40, math.inf: 24})
    assert found is not None and (found.alpha, found.low, found.high, found.warps) == (32.0, 16.0, 64.0, 60)
    short = cusp({1.0: 44, 16.0: None, 64.0: None, 128.0: 40})
    assert short is not None and (short.alpha, short.warps) == (32.0, None)
    assert cusp({1.0: 10, 2.0: 20, 4.0: 30}) is None
    assert cusp({1.0: 30, 2.0: 20, 4.0: 10}) is None
    assert cusp({1.0: 30, 2.0: 20}) is None

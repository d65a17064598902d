"""Warps needed and the cusp, from points made by hand."""

from __future__ import annotations

import math

from gpudissect.inference.hiding import Point, best, cusp, reached, unloaded


def point(warps: int, rate: float, block: int = 32, ilp: int = 1, latency: float = 300.0) -> Point:
    return Point(0.0, warps, block, ilp, rate, rate, latency, 1.0)


def test_the_best_of_several_blocks_counts_and_chains_do_not() -> None:
    found = best([point(4, 1.0), point(4, 2.0, 128), point(2, 0.5), point(4, 9.0, ilp=4)])
    assert list(found) == [2, 4] and found[4].block == 128
    assert unloaded([point(4, 1.0), point(1, 0.5, latency=290.0), point(4, 2.0, ilp=2, latency=10.0)]) == 290.0


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

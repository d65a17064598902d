"""Occupancy, spans, latency and throughput from when warps began and ended: by hand, and against a model of turns."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.latency_hiding.infer_warps import (
    Lifetimes,
    attained,
    between_rounds,
    imbalance,
    mean_latency,
    occupancy,
    overall,
    spans,
    steady,
    unsteadiness,
)


def lifetimes(*warps: tuple[int, int, int]) -> Lifetimes:
    begin, end, sm = np.array(warps, np.int64).T
    return Lifetimes(begin, end, sm)


TWO = lifetimes((0, 100, 0), (0, 50, 0), (50, 100, 0), (1000, 1200, 7))


def test_occupancy_against_time() -> None:
    seen = occupancy(TWO, 0)
    assert seen.at.tolist() == [0, 50, 100] and seen.warps.tolist() == [2, 2, 0]
    assert seen.most == 2 and seen.mean == 2.0 and seen.below(2) == 0.0
    alone = occupancy(lifetimes((10, 30, 0), (10, 20, 0)), 0)
    assert alone.warps.tolist() == [2, 1, 0] and alone.mean == 1.5 and alone.below(2) == 0.5
    with pytest.raises(ValueError, match="ran no warps"):
        occupancy(TWO, 3)


def test_each_sm_has_a_clock_of_its_own() -> None:
    assert spans(TWO).tolist() == [100, 200]
    assert imbalance(TWO) == pytest.approx(200 / 150)
    assert mean_latency(TWO) == 100.0
    assert overall(TWO, 10) == pytest.approx(10 * 2 / 200)
    assert attained(TWO, 10) == pytest.approx((30 / 100 + 10 / 200) / 2)


@given(st.integers(1, 64), st.integers(1, 8), st.floats(1.0, 1e4))
def test_equal_warps_go_at_one_rate(warps: int, sms: int, each: float) -> None:
    seen = lifetimes(*((5 * sm, 5 * sm + 400, sm) for sm in range(sms) for _ in range(warps)))
    assert unsteadiness(seen) == pytest.approx(0.0, abs=1e-9)
    for rate in (overall(seen, each), attained(seen, each), steady(seen, each)):
        assert rate == pytest.approx(warps * each / 400)
    assert between_rounds(seen, each) is None


@pytest.mark.parametrize("served", [1, 3, 8])
def test_rounds_of_warps_that_are_served_in_order(served: int) -> None:
    """8 at a time are there and the `served` oldest of them run, 100 cycles each: the rate is theirs."""
    there, total = 8, 80
    end = [100 * (n // served + 1) for n in range(total)]
    begin = [0 if n < there else end[n - there] for n in range(total)]
    seen = lifetimes(*((a, b, 0) for a, b in zip(begin, end, strict=True)))
    assert between_rounds(seen, 50.0) == pytest.approx(served * 50 / 100, rel=0.06)
    first = lifetimes(*((0, b, 0) for b in end[:there]))
    if served < there:
        assert unsteadiness(first) > 0.05 and steady(first, 50.0) > 1.05 * served * 50 / 100, "which is why"


@pytest.mark.parametrize("warps", [[], [(0, 0, 0)], [(5, 3, 0)]])
def test_lifetimes_that_are_none(warps: list[tuple[int, int, int]]) -> None:
    with pytest.raises(ValueError):
        lifetimes(*warps) if warps else Lifetimes(*[np.zeros(0, np.int64)] * 3)

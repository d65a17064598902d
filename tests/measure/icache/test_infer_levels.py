"""Levels of instruction caches from synthetic curves: steps are found, and only these."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gpudissect.measure.icache.infer_levels import (
    Curve,
    CurveLevels,
    curve_of,
    find_levels,
    lap_overhead,
    narrow_onset,
    skip_fixed_penalty,
)
from gpudissect.measure.icache.plan_levels import SHORT_LOOPS, sweep

Cost = Callable[[int], float]
"""Cycles per line of a loop of so many KiB."""
KIB, LINES = 1024, 8  # bytes and lines of a unit
SIZES = sweep(512)
OVERHEAD = 37  # cycles of a lap


def laps_of(units: int, cost: Cost, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """Cycles of 16 laps, each off by a share `noise`."""
    return np.rint((OVERHEAD + LINES * units * cost(units)) * (1 + noise * np.ones(16))).astype(np.int64)


def measured(sizes: Sequence[int], cost: Cost) -> Curve:
    """The curve without noise."""
    overhead = lap_overhead([LINES, 2 * LINES], [laps_of(1, cost), laps_of(2, cost)])
    return curve_of([units * KIB for units in sizes], 128, [laps_of(units, cost) for units in sizes], overhead)


def found_in(cost: Cost, noise: float = 0.0) -> CurveLevels:
    """Levels found in laps with noise."""
    rng = np.random.default_rng(1)
    laps = [laps_of(units, cost, noise * rng.standard_normal(16)) for units in (*SHORT_LOOPS, *SIZES)]
    count = len(SHORT_LOOPS)
    overhead = lap_overhead([LINES * units for units in SHORT_LOOPS], laps[:count])
    return find_levels(curve_of([units * KIB for units in SIZES], 128, laps[count:], overhead))


def cliffs(*steps: tuple[int, float]) -> Cost:
    """8.7 cycles up to the first size in KiB, then the cost that comes with it up to the next."""
    return lambda units: [8.7, *(cost for capacity, cost in steps if units > capacity)][-1]


def random_replacement(capacity: int, hit: float, miss: float) -> Cost:
    """A share m of lines misses, and survives as many misses as m of a lap: 1 - m = exp(-m r)."""

    def cost(units: int) -> float:
        share = 0.0 if units <= capacity else 1.0
        for _ in range(100):
            share = 1 - np.exp(-share * units / capacity)
        return hit + share * (miss - hit)

    return cost


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
@pytest.mark.parametrize(
    "steps", [((16, 11.0),), ((7, 40.0),), ((33, 12.0), (129, 50.0)), ((12, 16.0), (32, 24.0), (128, 64.0))]
)
def test_cliffs_are_found(steps: tuple[tuple[int, float], ...], noise: float) -> None:
    found = found_in(cliffs(*steps), noise)
    assert len(found.rises) == len(steps)
    before = 8.7
    for rise, (capacity, cost) in zip(found.rises, steps, strict=True):
        assert rise.fits - rise.slack <= capacity * KIB < rise.overflows
        assert not rise.wide
        assert rise.after.low - rise.before.high <= cost - before <= rise.after.high - rise.before.low
        assert noise or rise.slack <= 4 * KIB * 0.1 * (1 + capacity / 16)
        before = cost
    assert found.end and found.fits is None


def test_a_ramp_of_random_replacement_begins_at_the_capacity() -> None:
    (rise,) = found_in(random_replacement(48, 8.7, 30)).rises
    assert rise.fits <= 48 * KIB < rise.overflows
    assert rise.wide
    assert rise.step == pytest.approx(21.3, rel=0.1)


def test_every_size_between_narrows_the_onset() -> None:
    cost = cliffs((100, 20.0))
    (rise,) = found_in(cost).rises
    assert rise.overflows - rise.fits > 4 * KIB
    between = range(rise.fits // KIB + 1, rise.overflows // KIB)
    exact = narrow_onset(measured(between, cost), rise)
    assert (exact.fits, exact.overflows) == (100 * KIB, 101 * KIB)
    bracket = narrow_onset(measured(between, lambda units: 8.7 if units == 104 else cost(units)), rise)
    assert (bracket.fits, bracket.overflows) == (100 * KIB, 105 * KIB), "alternating sizes are all in the bracket"


CONTROLS = {
    "flat": lambda units: 8.7,
    "logarithmic": lambda units: 9 * (1 + 0.3 * np.log2(units)),
    "gently logarithmic": lambda units: 100 + 20 * np.log2(128 * units),
    "power": lambda units: 9 * units**0.3,
    "steep power": lambda units: 9.0 * units,
    "linear": lambda units: 9 * (1 + 0.003 * units),
    "falling": lambda units: 9 + 100 / units,
    "a slow swing": lambda units: 9 + 3 * np.sin(np.log2(units)),
    "one odd size": lambda units: 30 if units == SIZES[20] else 9,
    "two odd sizes": lambda units: 30 if units in SIZES[20:22] else 9,
    "a step too small": cliffs((32, 9.5)),
}


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01, 0.05, 0.3])
@pytest.mark.parametrize("name", CONTROLS)
def test_no_level_where_there_is_none(name: str, noise: float) -> None:
    found = found_in(CONTROLS[name], noise)
    assert found.rises == ()
    assert found.end


def test_noise_of_every_kind_has_no_levels() -> None:
    rng = np.random.default_rng(3)
    for spread in (0.01, 0.03, 0.1, 0.3):
        for _ in range(50):
            white = dict(zip([*SHORT_LOOPS, *SIZES], 9 * np.exp(spread * rng.standard_normal(200)), strict=False))
            assert found_in(white.__getitem__).rises == ()


def test_a_step_within_the_noise_is_not_claimed() -> None:
    assert found_in(cliffs((32, 12.0)), noise=0.3).rises == ()


def test_of_a_rise_without_end_the_last_fitting_size_is_known() -> None:
    found = found_in(lambda units: 8.7 if units <= 200 else 8.7 * units / 200)
    assert found.rises == ()
    assert found.fits is not None and found.fits <= 240 * KIB


def test_too_few_loops_and_laps_are_refused() -> None:
    with pytest.raises(ValueError, match="two loops"):
        lap_overhead([8], [np.array([100])])
    with pytest.raises(ValueError, match="at least one lap"):
        lap_overhead([8, 16], [np.array([100]), np.array([], dtype=np.int64)])


def test_a_fixed_penalty_of_the_lap_is_no_end_of_a_cache():
    """An H200: from 24 KiB a lap takes a fixed time longer, whatever its length; lines miss from 32 KiB."""

    def cost(units: int) -> float:
        fixed = 220 / (LINES * units) if units >= 24 else 0.0
        return 8.8 + fixed + (9.0 * min(1.0, 3 * (units - 31) / units) if units > 31 else 0.0)

    curve = measured(SIZES, cost)
    (rise,) = find_levels(curve).rises
    rise = narrow_onset(measured(range(rise.fits // KIB + 1, rise.overflows // KIB), cost), rise)
    assert rise.overflows <= 25 * KIB
    found = skip_fixed_penalty(curve, 128, rise)
    assert found.fits - found.slack <= 31 * KIB <= found.overflows
    assert found.fits >= 28 * KIB
    assert found.penalty_from == rise.overflows
    assert found.fixed_penalty == pytest.approx(220, rel=0.1)


def test_a_cliff_is_no_fixed_penalty():
    curve = measured(SIZES, cliffs((32, 18.0)))
    (rise,) = find_levels(curve).rises
    assert skip_fixed_penalty(curve, 128, rise) == rise

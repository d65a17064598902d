"""Levels of instruction caches, read from made curves: steps are found, and nothing is where there are none."""

from collections.abc import Callable

import numpy as np
import pytest

from gpudissect.measure.icache.infer_levels import Stairs, curve, onset, own_cost, past_a_stumble, stairs
from gpudissect.measure.icache.plan_icache import SHORT, sweep

KIB = 1024
SIZES = sweep(512)
OWN = 37  # cycles that a lap costs beside its code


def seen(cycles: Callable[[int], float], noise: float = 0.0, laps: int = 16) -> Stairs:
    """What is read from laps whose lines take `cycles` (of the loop's KiB), each lap off by a share `noise`."""
    rng = np.random.default_rng(1)

    def timed(units: int) -> np.ndarray:
        lap = OWN + 8 * units * cycles(units)
        return np.rint(lap * (1 + noise * rng.standard_normal(laps))).astype(np.int64)

    own = own_cost([8 * units for units in SHORT], [timed(units) for units in SHORT])
    return stairs(curve([units * KIB for units in SIZES], 128, [timed(units) for units in SIZES], own))


def cliffs(*steps: tuple[int, float]) -> Callable[[int], float]:
    """8.7 cycles up to the first size in KiB, then what comes with it up to the next."""

    def cycles(units: int) -> float:
        return [8.7, *(cost for capacity, cost in steps if units > capacity)][-1]

    return cycles


def random_replacement(capacity: int, hit: float, miss: float) -> Callable[[int], float]:
    """A share m of lines misses, and survives as many misses as m of a lap: 1 - m = exp(-m r)."""

    def cycles(units: int) -> float:
        share = 0.0 if units <= capacity else 1.0
        for _ in range(100):
            share = 1 - np.exp(-share * units / capacity)
        return hit + share * (miss - hit)

    return cycles


@pytest.mark.parametrize("noise", [0.0, 0.001, 0.01])
@pytest.mark.parametrize("steps", [
    ((16, 11.0),), ((7, 40.0),), ((33, 12.0), (129, 50.0)), ((12, 16.0), (32, 24.0), (128, 64.0)),
])  # fmt: skip
def test_cliffs_are_found(steps: tuple[tuple[int, float], ...], noise: float) -> None:
    found = seen(cliffs(*steps), noise)
    assert len(found.rises) == len(steps)
    before = 8.7
    for rise, (capacity, cost) in zip(found.rises, steps, strict=True):
        assert rise.fits - rise.slack <= capacity * KIB < rise.overflows
        assert not rise.wide
        assert rise.after.low - rise.before.high <= cost - before <= rise.after.high - rise.before.low
        assert noise or rise.slack <= 4 * KIB * 0.1 * (1 + capacity / 16)
        before = cost
    assert found.end.startswith("no level shows beyond") and found.fits is None


def test_a_ramp_of_random_replacement_begins_at_the_capacity() -> None:
    (rise,) = seen(random_replacement(48, 8.7, 30)).rises
    assert rise.fits <= 48 * KIB < rise.overflows
    assert rise.wide
    assert rise.step == pytest.approx(21.3, rel=0.1)


def test_a_step_at_every_size_between_narrows_it_down() -> None:
    cycles = cliffs((100, 20.0))
    (rise,) = seen(cycles).rises
    assert rise.overflows - rise.fits > 4 * KIB
    between = list(range(rise.fits // KIB + 1, rise.overflows // KIB))
    laps = [np.full(9, round(OWN + 8 * units * cycles(units))) for units in between]
    own = own_cost([8, 16], [np.array([OWN + 70]), np.array([OWN + 139])])
    sizes = [units * KIB for units in between]
    exact = onset(curve(sizes, 128, laps, own), rise)
    assert (exact.fits, exact.overflows) == (100 * KIB, 101 * KIB)
    misread = [laps[0] * units // 100 if units == 104 else lap for units, lap in zip(between, laps, strict=True)]
    bracket = onset(curve(sizes, 128, misread, own), rise)
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
    found = seen(CONTROLS[name], noise)
    assert found.rises == ()
    assert found.end


def test_noise_of_every_kind_has_no_levels() -> None:
    rng = np.random.default_rng(3)
    for spread in (0.01, 0.03, 0.1, 0.3):
        for _ in range(50):
            white = dict(zip([*SHORT, *SIZES], 9 * np.exp(spread * rng.standard_normal(200)), strict=False))
            assert seen(white.__getitem__).rises == ()


def test_a_step_in_the_noise_is_not_claimed() -> None:
    assert seen(cliffs((32, 12.0)), noise=0.3).rises == ()


def test_a_rise_that_ends_nowhere_is_told_as_such() -> None:
    found = seen(lambda units: 8.7 if units <= 200 else 8.7 * units / 200)
    assert found.rises == ()
    assert found.fits is not None and found.fits <= 240 * KIB


def test_too_little_to_go_by() -> None:
    with pytest.raises(ValueError, match="two loops"):
        own_cost([8], [np.array([100])])
    with pytest.raises(ValueError, match="at least one lap"):
        own_cost([8, 16], [np.array([100]), np.array([], dtype=np.int64)])


def test_a_step_of_the_whole_lap_is_no_end_of_a_cache():
    """An H200: from 24 KiB on a lap takes as much longer whatever its length; lines are missing from 32 KiB on."""

    def cycles(units: int) -> float:
        stumble = 220 / (8 * units) if units >= 24 else 0.0
        return 8.8 + stumble + (9.0 * min(1.0, 3 * (units - 31) / units) if units > 31 else 0.0)

    def measured(sizes):
        times = [np.full(16, round(OWN + 8 * units * cycles(units))) for units in sizes]
        return curve([units * KIB for units in sizes], 128, times, own_cost([8, 16], [
            np.full(16, round(OWN + 8 * cycles(1))), np.full(16, round(OWN + 16 * cycles(2)))]))  # fmt: skip

    whole = measured(SIZES)
    (rise,) = stairs(whole).rises
    rise = onset(measured(range(rise.fits // KIB + 1, rise.overflows // KIB)), rise)
    assert rise.overflows <= 25 * KIB
    told = past_a_stumble(whole, 128, rise)
    assert told.fits - told.slack <= 31 * KIB <= told.overflows
    assert told.fits >= 28 * KIB
    assert told.stumbles == rise.overflows
    assert told.stumble == pytest.approx(220, rel=0.1)


def test_a_cliff_is_no_stumble():
    whole = curve([units * KIB for units in SIZES], 128,
                  [np.full(16, round(8 * units * cliffs((32, 18.0))(units))) for units in SIZES],
                  own_cost([8, 16], [np.full(16, 70), np.full(16, 139)]))  # fmt: skip
    (rise,) = stairs(whole).rises
    assert past_a_stumble(whole, 128, rise) == rise

"""The simulated clock's noise: as much as was asked for, the same every time, and gone when not wanted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.device.simulated.noise import DRIFT_PERIOD, OUTLIER_MEAN
from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Hierarchy, Route
from gpudissect.workload import Chase, Path, Sequential, Timing

FLAT = Hierarchy(caches={}, routes={Path.SHARED: Route((), (1000.0,), None)}, limits={Path.SHARED: 1 << 30})
MANY = Chase(path=Path.SHARED, order=Sequential(100, 4), timing=Timing.EACH, laps=4000)


def deviations(noise: Noise, chase: Chase = MANY) -> np.ndarray:
    [trace] = SimulatedGpu(FLAT, spec="sim:flat", name="Flat", noise=noise).run([chase])
    return trace.cycles - 1000


def test_none_is_none() -> None:
    assert not deviations(Noise.none()).any()


def test_jitter_is_one_cycle_either_way() -> None:
    seen = deviations(Noise(jitter=0.1, outliers=0, drift=0))
    assert set(seen.tolist()) == {-1, 0, 1}
    assert np.mean(seen != 0) == pytest.approx(0.1, abs=0.003)
    assert np.mean(seen) == pytest.approx(0.0, abs=0.003)


def test_outliers_come_at_their_rate_and_mean() -> None:
    seen = deviations(Noise(jitter=0, outliers=0.01, drift=0))
    assert np.mean(seen > 0) == pytest.approx(0.01, abs=0.001)
    assert seen[seen > 0].mean() == pytest.approx(OUTLIER_MEAN, rel=0.06)
    assert not np.any(seen < 0)


def test_drift_swings_once_a_period() -> None:
    lap = 1 << 12
    chase = replace(MANY, order=Sequential(lap, 4), timing=Timing.LAP, laps=DRIFT_PERIOD // lap)
    [trace] = SimulatedGpu(
        FLAT, spec="sim:flat", name="Flat", noise=Noise(jitter=0, outliers=0, drift=1e-3)
    ).run([chase])  # fmt: skip
    relative = trace.cycles / (1000 * lap) - 1
    assert relative.max() == pytest.approx(1e-3, rel=0.01)
    assert relative.min() == pytest.approx(-1e-3, rel=0.01)
    assert np.count_nonzero(np.diff(np.sign(relative))) <= 2


def test_what_ran_before_does_not_matter() -> None:
    one, two = MANY, replace(MANY, repetition=1)
    forth = SimulatedGpu(FLAT, spec="", name="", noise=Noise()).run([one, two])
    back = SimulatedGpu(FLAT, spec="", name="", noise=Noise()).run([two, one])
    assert forth[0].cycles.tolist() == back[1].cycles.tolist()
    assert forth[1].cycles.tolist() == back[0].cycles.tolist()


def test_repetitions_differ() -> None:
    assert deviations(Noise()).tolist() != deviations(Noise(), replace(MANY, repetition=1)).tolist()


def test_seeds_differ() -> None:
    assert deviations(Noise(seed=1)).tolist() != deviations(Noise(seed=2)).tolist()


def test_repetitions_are_not_correlated() -> None:
    noise = Noise(jitter=1, outliers=0, drift=0)
    one, two = deviations(noise), deviations(noise, replace(MANY, repetition=1))
    assert np.corrcoef(one, two)[0, 1] == pytest.approx(0, abs=5 / np.sqrt(one.size))


@pytest.mark.parametrize("wrong", [{"jitter": 1.5}, {"outliers": -0.1}, {"jitter": 0.6, "outliers": 0.6}, {"drift": 1}])
def test_impossible_noise(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError):
        Noise(**wrong)

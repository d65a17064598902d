"""The noise of the simulated clock: of the configured amount, reproducible, and absent on request."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.device.simulated.noise import DRIFT_PERIOD, OUTLIER_MEAN
from gpudissect.errors import UsageError
from gpudissect.simulation.cache.geometry import Hierarchy, Route
from gpudissect.workload import Chase, Path, Sequential, Timing

FLAT = Hierarchy(caches={}, routes={Path.SHARED: Route((), (1000.0,), None)}, limits={Path.SHARED: 1 << 30})
CHASE = Chase(path=Path.SHARED, order=Sequential(100, 4), timing=Timing.EACH, laps=4000)
OTHER = replace(CHASE, repetition=1)


def run(noise, *chases):
    return [trace.cycles for trace in SimulatedGpu(FLAT, spec="", name="", noise=noise).run(chases)]


def deviations(noise, chase=CHASE):
    return run(noise, chase)[0] - 1000


def test_none_changes_nothing():
    assert not deviations(Noise.none()).any()


def test_jitter_is_one_cycle_either_way():
    cycles = deviations(Noise(jitter=0.1, outliers=0, drift=0))
    assert set(cycles.tolist()) == {-1, 0, 1}
    assert np.mean(cycles != 0) == pytest.approx(0.1, abs=0.003)
    assert np.mean(cycles) == pytest.approx(0.0, abs=0.003)


def test_outliers_have_their_rate_and_mean():
    cycles = deviations(Noise(jitter=0, outliers=0.01, drift=0))
    assert np.mean(cycles > 0) == pytest.approx(0.01, abs=0.001)
    assert cycles[cycles > 0].mean() == pytest.approx(OUTLIER_MEAN, rel=0.06)
    assert not np.any(cycles < 0)


def test_drift_oscillates_once_per_period():
    count = 1 << 12
    laps = replace(CHASE, order=Sequential(count, 4), timing=Timing.LAP, laps=DRIFT_PERIOD // count)
    relative = run(Noise(jitter=0, outliers=0, drift=1e-3), laps)[0] / (1000 * count) - 1
    assert relative.max() == pytest.approx(1e-3, rel=0.01) == -relative.min()
    assert np.count_nonzero(np.diff(np.sign(relative))) <= 2


def test_noise_depends_on_seed_and_workload_only():
    first, second = run(Noise(), CHASE, OTHER)
    assert [cycles.tolist() for cycles in run(Noise(), OTHER, CHASE)] == [second.tolist(), first.tolist()]
    assert first.tolist() != second.tolist()
    assert deviations(Noise(seed=1)).tolist() != deviations(Noise(seed=2)).tolist()


def test_repetitions_are_not_correlated():
    first, second = run(Noise(jitter=1, outliers=0, drift=0), CHASE, OTHER)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(0, abs=5 / np.sqrt(first.size))


@pytest.mark.parametrize("wrong", [{"jitter": 1.5}, {"outliers": -0.1}, {"jitter": 0.6, "outliers": 0.6}, {"drift": 1}])
def test_impossible_noise_is_refused(wrong):
    with pytest.raises(UsageError):
        Noise(**wrong)

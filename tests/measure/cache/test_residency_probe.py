"""Group tests find the one overfull set, whatever the index and the ways."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.cache import residency_probe
from gpudissect.measure.cache.infer_residency import Fit
from gpudissect.measure.cache.infer_structure import LinesBySet
from gpudissect.measure.cache.residency_probe import ConflictTests, Inconclusive, ResidencyTest, fits_by_set
from gpudissect.measure.plan import Bench
from gpudissect.trace import Context, Trace
from gpudissect.workload import Explicit, Path, Sequential
from tests.support.driving import outcome
from tests.support.one_cache import HIT, MISS, ScriptedGpu, level


class KnownConflicts(ConflictTests):
    """Answers from known sets: a group of lines fits if no set gets more of them than it has ways."""

    def __init__(self, set_of, ways, seed):
        info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, {Path.GLOBAL: 1 << 30})
        super().__init__(ResidencyTest(level(32), Explicit([0])), 32, Bench(info, seed))
        self.set_of, self.ways, self.tests = set_of, ways, 0

    def fit(self, groups):
        self.tests += len(groups)
        counts = (np.bincount(self.set_of[lines], minlength=self.ways.size) for lines in groups)
        return [bool(np.all(count <= self.ways)) for count in counts]
        yield


@settings(max_examples=150)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(0, 9999))
def test_exactly_the_overfull_set_is_left(ways, seed):
    """Lines come in any order until the first set has one too many."""
    rng = np.random.default_rng(seed)
    ways = np.array(ways)
    set_of = rng.choice(ways.size, size=2 * ways.sum() + 2, p=rng.dirichlet(np.ones(ways.size) * 5))
    filled = np.cumsum(set_of[:, None] == np.arange(ways.size), axis=0)
    overfull = np.flatnonzero(np.any(filled > ways, axis=1))
    assume(overfull.size)
    end = int(overfull[0])
    lines = rng.permutation(end + 1)
    conflicts = KnownConflicts(set_of, ways, seed)
    found = outcome(conflicts.minimal_conflict(lines), None)
    assert found.tolist() == np.flatnonzero(set_of[: end + 1] == set_of[end]).tolist()
    assert conflicts.tests < 150 + 12 * (ways[set_of[end]] + 1) * max(1.0, np.log2(lines.size))


@pytest.mark.parametrize(("missing", "tests"), [(17, 60), (2, 2000)])
def test_of_many_lines_those_that_miss_again_and_again_are_tried_first(missing, tests):
    """With LRU insertion only two lines of a set miss: then all lines are tried."""
    lines = np.random.default_rng(5).permutation(8000)
    set_of, ways = np.where(np.arange(8000) < 17, 0, 1), np.array([16, 8000])

    def cycles(chase, rng, shape):
        line = chase.order.offsets() // 32
        share = np.where(line < missing, 0.2, 0.001)
        return np.where(rng.random(shape) < share, MISS, HIT)

    conflicts = KnownConflicts(set_of, ways, 0)
    found = outcome(conflicts.minimal_conflict(lines), ScriptedGpu(cycles))
    assert found.tolist() == list(range(17))
    assert conflicts.tests <= tests


def test_lines_that_overflow_two_sets_are_inconclusive():
    conflicts = KnownConflicts(np.array([0, 0, 0, 1, 1, 1]), np.array([2, 2]), 0)
    with pytest.raises(Inconclusive):
        outcome(conflicts.minimal_conflict(np.arange(6)), None)


@pytest.mark.parametrize("lines", [1 << 16, 98000])
def test_laps_by_line_are_split_among_traces_that_a_device_can_return(lines, monkeypatch):
    monkeypatch.setattr(residency_probe, "MAX_RECORDS", 1 << 19)
    plan = ResidencyTest(level(32), Explicit([0]))._decide_by_line([Sequential(lines, 32)])
    requested = []
    try:
        (chase,) = next(plan)
        while True:
            requested.append(chase)
            hits = np.zeros(chase.records, dtype=np.int64)
            (chase,) = plan.send([Trace("", {"cycles": hits}, Context(device="fake", clock_hz=None, sm=0))])
    except StopIteration as stop:
        assert stop.value == [Fit.FITS]
    assert max(chase.records for chase in requested) <= 1 << 19
    assert sum(chase.laps for chase in requested) == 16 + 32
    assert len({chase.repetition for chase in requested}) == len(requested) > 2


def test_sets_that_are_decided_in_the_last_round_are_decided(monkeypatch):
    """Even lines, of set 0, always miss; those of set 1 hit."""
    monkeypatch.setattr(residency_probe, "MAX_ROUNDS", 1)
    set_of = np.arange(64) % 2

    def cycles(chase, rng, shape):
        return np.where(np.broadcast_to(chase.order.offsets() // 32 % 2 == 0, shape), MISS, HIT)

    info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, {Path.GLOBAL: 1 << 30})
    tests = ConflictTests(ResidencyTest(level(32), Explicit([32])), 32, Bench(info, 0))
    lines = LinesBySet(set_of, 2, np.random.default_rng(0))
    (fits,) = outcome(fits_by_set(lines, [np.array([8, 8])], tests), ScriptedGpu(cycles))
    assert fits.tolist() == [False, True]

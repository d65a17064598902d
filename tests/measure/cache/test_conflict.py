"""Group tests find the one overfull set, whatever the index and the ways."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.cache.conflict_groups import Conflicts, Unclear
from gpudissect.measure.cache.residency_test import Fitting
from gpudissect.measure.plan import Bench
from gpudissect.workload import Explicit, Path
from tests.support.driving import outcome
from tests.support.one_cache import level


class Told(Conflicts):
    """Answers by itself: a set of lines fits if no label is there more often than it has ways."""

    def __init__(self, labels, ways, seed):
        info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, {Path.GLOBAL: 1 << 30})
        super().__init__(Fitting(level(32), Explicit([0])), 32, Bench(info, seed))
        self.labels, self.ways, self.asked = labels, ways, 0

    def fit(self, sets_of_lines):
        self.asked += len(sets_of_lines)
        return [bool(np.all(np.bincount(self.labels[lines], minlength=self.ways.size) <= self.ways))
                for lines in sets_of_lines]  # fmt: skip
        yield


def minimal(conflicts, lines):
    return outcome(conflicts.minimal(lines), None)


@settings(max_examples=150)
@given(st.lists(st.integers(1, 20), min_size=1, max_size=40), st.integers(0, 9999))
def test_exactly_the_overfull_set_is_left(ways, seed):
    """Lines come in any order until the first set has one too many."""
    rng = np.random.default_rng(seed)
    ways = np.array(ways)
    labels = rng.choice(ways.size, size=2 * ways.sum() + 2, p=rng.dirichlet(np.ones(ways.size) * 5))
    seen = np.cumsum(labels[:, None] == np.arange(ways.size), axis=0)
    overfull = np.flatnonzero(np.any(seen > ways, axis=1))
    assume(overfull.size)
    end = int(overfull[0])
    label = labels[end]
    lines = rng.permutation(end + 1)
    conflicts = Told(labels, ways, seed)
    assert minimal(conflicts, lines).tolist() == np.flatnonzero(labels[: end + 1] == label).tolist()
    most = ways[label] + 1
    assert conflicts.asked < 150 + 12 * most * max(1.0, np.log2(lines.size))


def test_lines_that_overflow_two_sets_are_unclear_not_answered():
    labels = np.array([0, 0, 0, 1, 1, 1])
    with pytest.raises(Unclear):
        minimal(Told(labels, np.array([2, 2]), 0), np.arange(6))

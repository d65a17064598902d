"""What an L2 fetches ahead of a run of misses, on simulated GPUs with a known prefetcher or none."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.base import Device
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Absence, Levels
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Prefetch, Route, Scope, Tlb
from gpudissect.trace import Trace
from gpudissect.workload import Path
from tests.support.driving import estimates
from tests.support.geometries import LRU, MODULO
from tests.support.one_cache import HIT, MISS, levels

LINE, PAGE, CAPACITY = 128, 256 << 10, 512 << 10
REACH, RUN = ("l2", "prefetch_reach"), ("l2", "prefetch_run")


class Translations:
    page_size = PAGE


class IncompleteFlush(Device):
    """A device on which a share of the lines survives each flush."""

    def __init__(self, device, share, seed):
        self.device, self.share, self.rng = device, share, np.random.default_rng(seed)

    @property
    def info(self):
        return self.device.info

    def run(self, batch):
        def changed(trace):
            left = self.rng.random(trace.cycles.size) < self.share
            return Trace(trace.workload, {**trace.arrays, "cycles": np.where(left, HIT, trace.cycles)}, trace.context)

        return [changed(trace) for trace in self.device.run(batch)]


def prefetch(prefetcher, levels_of_l2=None, noise=Noise(seed=1), leftovers=0.0, seed=0):  # noqa: B008
    l2 = Cache((16,) * (CAPACITY // LINE // 16), LINE, LINE, MODULO, LRU, scope=Scope.GPU)
    routes = {Path.GLOBAL_L2: Route(("l2",), (HIT,), MISS)}
    tlbs = (Tlb((64,), PAGE, MODULO, LRU, penalty=60.0),)
    limits = {Path.GLOBAL_L2: 1 << 28}
    gpu = Hierarchy({"l2": l2}, routes, tlbs, prefetch=prefetcher, sm_count=2, limits=limits)
    known = {
        "levels.l2": levels_of_l2 or levels(LINE, "l2", Path.GLOBAL_L2),
        "tlb.tlb_l1": Translations(),
        "capacity.l2": CAPACITY,
    }
    device = SimulatedGpu(gpu, spec="sim:test", name="test", noise=noise)
    return estimates(IncompleteFlush(device, leftovers, seed) if leftovers else device, ["prefetch.l2"], known=known)


@settings(max_examples=25, deadline=None)
@given(lines=st.integers(1, 1900), run=st.integers(1, 7))
def test_reach_and_run_are_those_of_the_prefetcher(lines, run):
    found = prefetch(Prefetch("l2", lines * LINE, run))
    reach, needed = found[REACH], found[RUN]
    assert reach.low <= lines * LINE <= reach.high and reach.value == pytest.approx(lines * LINE, rel=0.01)
    assert needed.value == run + 1


@pytest.mark.parametrize("next_lines", [1, 3])
def test_next_lines_of_every_miss_need_no_run(next_lines):
    found = prefetch(Prefetch("l2", next_lines * LINE, 0))
    assert (found[REACH].value, found[RUN].value) == (next_lines * LINE, 1)


@pytest.mark.parametrize("outliers", [0.0, 0.01])
def test_without_a_prefetcher_there_is_none(outliers):
    found = prefetch(None, noise=Noise(seed=3, outliers=outliers))
    assert (found[REACH].value, found[REACH].low, found[REACH].high) == (0, 0, 0)
    assert found[RUN].status is Status.NOT_FOUND and "32 misses" in found[REACH].caveats[0]


@pytest.mark.parametrize("seed", range(6))
def test_lines_that_survive_a_flush_are_not_taken_for_prefetches(seed):
    for prefetcher in (None, Prefetch("l2", 8 * LINE, 2)):
        found = prefetch(prefetcher, leftovers=0.15, seed=seed)
        assert found[RUN].value == (3 if prefetcher else None)
        assert found[REACH].value == (pytest.approx(8 * LINE, abs=2 * LINE) if prefetcher else 0)


def test_a_reach_beyond_the_page_is_a_lower_bound():
    found = prefetch(Prefetch("l2", 2 * PAGE, 2))[REACH]
    assert found.value > 0.9 * PAGE and found.high is None


def test_without_an_l2_there_is_nothing_to_find():
    none = Levels(Path.GLOBAL_L2, (), {"l2": Absence("no L2", Status.NOT_SUPPORTED)})
    assert {each.status for each in prefetch(None, none).values()} == {Status.NOT_SUPPORTED}

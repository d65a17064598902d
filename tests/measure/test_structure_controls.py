"""Traces of no cache, set, policy or TLB that there could be: sets, policy and TLB plans claim none of them."""

import numpy as np
import pytest

from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Level, Levels
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_line import Lines
from gpudissect.measure.cache.plan_policy import policy_plan
from gpudissect.measure.cache.plan_sets import sets_plan
from gpudissect.measure.plan import Bench, Known
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_plan
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.trace import Context, Trace
from gpudissect.workload import Path, Timing
from gpudissect.workload.digest import digest
from tests.support.driving import outcome
from tests.support.one_cache import HIT, MISS, level, levels

HITS, MISSES = float(HIT), float(MISS)


class Scripted:
    """Answers every access with the cycles that a function of the chase gives, shape (laps, count)."""

    def __init__(self, cycles, limit=1 << 28):
        self.cycles = cycles
        self.info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, dict.fromkeys(Path, limit))

    def run(self, batch):
        return [Trace(digest(chase), self._arrays(chase), Context("fake")) for chase in batch]

    def _arrays(self, chase):
        rng = np.random.default_rng(int(digest(chase)[:8], 16))
        shape = (chase.laps, chase.order.count)
        given = np.broadcast_to(np.rint(self.cycles(chase, rng, shape)), shape).astype(np.int64)
        if chase.timing is Timing.COUNT:
            hit, miss = given <= chase.bounds.hit_max, given >= chase.bounds.miss_min
            return {"counts": np.stack([hit.sum(1), miss.sum(1), (~hit & ~miss).sum(1)], axis=1)}
        return {"offsets": np.tile(chase.order.offsets(), chase.laps), "cycles": given.ravel()}


def all_hit(chase, rng, shape):
    return HITS


def all_miss(chase, rng, shape):
    return MISSES


def coin(chase, rng, shape):
    """Every access hits or misses by chance."""
    return rng.choice([HITS, MISSES], size=shape)


def likelier(chase, rng, shape):
    """The more lines, the more of them miss, with no edge anywhere."""
    return np.where(rng.random(shape) < shape[1] / (shape[1] + 300), MISSES, HITS)


def whim(chase, rng, shape):
    """Each chase hits or misses as a whole."""
    return rng.choice([HITS, MISSES])


def ramp(chase, rng, shape):
    return 20.0 * np.log2(chase.order.span)


def drift(chase, rng, shape):
    return np.linspace(HITS, MISSES, shape[0] * shape[1]).reshape(shape)


def one_outlier(chase, rng, shape):
    """All hits but one access of each chase."""
    cycles = np.full(shape, HITS)
    cycles[rng.integers(shape[0]), rng.integers(shape[1])] = MISSES
    return cycles


def one_bad_line(chase, rng, shape):
    """The line at offset 4096 misses always, and so do all far beyond a megabyte."""
    offsets = chase.order.offsets()
    return np.where((offsets == 4096) | (offsets >= 1 << 20), MISSES, HITS)


TRACES = [all_hit, all_miss, coin, likelier, whim, ramp, drift, one_outlier, one_bad_line]


@pytest.mark.parametrize("cycles", TRACES, ids=lambda cycles: cycles.__name__)
@pytest.mark.parametrize("lines", [1, 16, 512])
def test_no_sets_are_claimed(cycles, lines):
    known = {"levels.global": levels(32), "line.l1": Lines(32, None), "capacity.l1": lines * 32}
    device = Scripted(cycles)
    found = outcome(sets_plan("l1", Bench(device.info), Known(known)), device).estimates
    assert {each.status for each in found} <= {Status.AMBIGUOUS, Status.NOT_FOUND}
    assert all(each.reason for each in found)


@pytest.mark.parametrize("cycles", TRACES, ids=lambda cycles: cycles.__name__)
@pytest.mark.parametrize("ways", [2, 4, 16])
def test_no_policy_is_claimed(cycles, ways):
    sets = Structure(32, Index(IndexKind.MODULO), (ways,) * 4, 1 << 14)
    known = {"levels.global": levels(32), "sets.l1": sets, "capacity.l1": 4 * ways * 32}
    device = Scripted(cycles)
    policy = outcome(policy_plan("l1", Bench(device.info), Known(known)), device).estimates[0]
    assert policy.status in (Status.AMBIGUOUS, Status.NOT_FOUND), policy.value
    assert policy.reason


def of_pages(slower):
    """Latencies of an L2 hit, `slower` cycles more where a function of the offsets says so."""
    return lambda chase, rng, shape: 230.0 + slower(chase.order.offsets(), rng, shape)


PAGES = {
    "nothing": of_pages(lambda offsets, rng, shape: 0.0),
    "jitter": of_pages(lambda offsets, rng, shape: rng.integers(-3, 4, shape)),
    "delays": of_pages(lambda offsets, rng, shape: np.where(rng.random(shape) < 0.02, 300, 0)),
    "one page": of_pages(lambda offsets, rng, shape: np.where(offsets >> 24 == 9, 60, 0)),
    "far lines": of_pages(lambda offsets, rng, shape: np.where(np.bitwise_count(offsets & 0x91A60000) & 1, 180, 0)),
    "upper half": of_pages(lambda offsets, rng, shape: np.where(offsets >= 1 << 33, 40, 0)),
    "drift": of_pages(lambda offsets, rng, shape: np.linspace(0, 2, shape[0])[:, None]),
    "span": of_pages(lambda offsets, rng, shape: 4 * np.log2(np.ptp(offsets) + 1)),
    "count": of_pages(lambda offsets, rng, shape: 6 * np.log2(offsets.size)),
    "spread": of_pages(lambda offsets, rng, shape: 60.0 if np.ptp(offsets) >= 1 << 30 else 0.0),
    "many lines": of_pages(lambda offsets, rng, shape: 270.0 if offsets.size > 300 else 0.0),
    "coin": of_pages(lambda offsets, rng, shape: rng.choice([0, 60], size=shape)),
}


@pytest.mark.parametrize("shape", PAGES)
def test_no_tlb_is_claimed(shape, monkeypatch):
    # Nearer pages would only take longer.
    monkeypatch.setattr("gpudissect.measure.tlb.plan_entries_and_page_size.MIN_PAGE_SIZE", 8 << 20)
    device = Scripted(PAGES[shape], limit=16 << 30)
    near = level(32)
    l2 = Level("l2", Path.GLOBAL_L2, True, near.hit, near.behind, near.bounds, near.fetch, ())
    known = {"levels.l2": Levels(Path.GLOBAL_L2, (l2,), {})}
    found = outcome(tlb_plan("tlb_l1", Bench(device.info), Known(known)), device).estimates
    assert {each.status for each in found} <= {Status.AMBIGUOUS, Status.NOT_FOUND}, [each.value for each in found]
    assert all(each.reason for each in found)

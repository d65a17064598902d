"""Traces without a cache, set, policy or TLB: no survey and no plan may claim one."""

import numpy as np
import pytest

from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_line import Lines
from gpudissect.measure.cache.plan_policy import policy_plan
from gpudissect.measure.cache.plan_sets import sets_plan
from gpudissect.measure.plan import Bench, Known
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_plan
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.support.driving import outcome
from tests.support.one_cache import HIT, MISS, NO_CACHE, ScriptedGpu, levels, linear

SIZES = (
    *("capacity", "segment_size", "line_size", "fetch_granularity", "sets", "ways", "index_function"),
    *("replacement_policy", "max_miss_rate", "entries", "page_size", "reach"),
)


@pytest.mark.parametrize("cycles", NO_CACHE.values(), ids=NO_CACHE)
def test_no_size_is_claimed_where_there_is_no_cache(cycles):
    survey = run_survey(ScriptedGpu(cycles))
    assert survey.failures == ()
    found = [finding for finding in survey.findings if finding.status is Status.FOUND]
    assert [(each.element, each.attribute, each.value) for each in found if each.attribute in SIZES] == []
    assert all(each.reason for each in survey.findings if not each.status.has_value)


def one_outlier(chase, rng, shape):
    """All hits but one access of each chase."""
    cycles = np.full(shape, HIT)
    cycles[rng.integers(shape[0]), rng.integers(shape[1])] = MISS
    return cycles


def one_bad_line(chase, rng, shape):
    """The line at offset 4096 always misses, and so do all far beyond a megabyte."""
    offsets = chase.order.offsets()
    return np.where((offsets == 4096) | (offsets >= 1 << 20), MISS, HIT)


HITS_AND_MISSES = {
    "all hit": lambda chase, rng, shape: HIT,
    "all miss": lambda chase, rng, shape: MISS,
    "random accesses": lambda chase, rng, shape: rng.choice([HIT, MISS], size=shape),
    "more lines miss more": lambda chase, rng, shape: np.where(
        rng.random(shape) < shape[1] / (shape[1] + 300), MISS, HIT
    ),
    "random chases": lambda chase, rng, shape: rng.choice([HIT, MISS]),
    "ramp": lambda chase, rng, shape: 20 * np.log2(chase.order.span),
    "drift": linear(HIT, MISS),
    "one outlier": one_outlier,
    "one bad line": one_bad_line,
}


def assert_nothing_found(estimates):
    assert {each.status for each in estimates} <= {Status.AMBIGUOUS, Status.NOT_FOUND}, [
        each.value for each in estimates
    ]
    assert all(each.reason for each in estimates)


def run_on(cycles, plan, element, knowledge, limit=1 << 28):
    device = ScriptedGpu(cycles, dict.fromkeys(Path, limit))
    return outcome(plan(element, Bench(device.info), Known(knowledge)), device).estimates


@pytest.mark.parametrize("cycles", HITS_AND_MISSES.values(), ids=HITS_AND_MISSES)
@pytest.mark.parametrize("lines", [1, 16, 512])
def test_no_sets_are_claimed(cycles, lines):
    known = {"levels.global": levels(32), "line.l1": Lines(32, None), "capacity.l1": lines * 32}
    assert_nothing_found(run_on(cycles, sets_plan, "l1", known, limit=1 << 22))  # the more lines, the slower


@pytest.mark.parametrize("cycles", HITS_AND_MISSES.values(), ids=HITS_AND_MISSES)
@pytest.mark.parametrize("ways", [2, 4, 16])
def test_no_policy_is_claimed(cycles, ways):
    sets = Structure(32, Index(IndexKind.MODULO), (ways,) * 4, 1 << 14)
    known = {"levels.global": levels(32), "sets.l1": sets, "capacity.l1": 4 * ways * 32}
    assert_nothing_found(run_on(cycles, policy_plan, "l1", known)[:1])


DELAYS = {
    "nothing": lambda offsets, rng, shape: 0.0,
    "jitter": lambda offsets, rng, shape: rng.integers(-3, 4, shape),
    "delays": lambda offsets, rng, shape: np.where(rng.random(shape) < 0.02, 300, 0),
    "one page": lambda offsets, rng, shape: np.where(offsets >> 24 == 9, 60, 0),
    "far lines": lambda offsets, rng, shape: np.where(np.bitwise_count(offsets & 0x91A60000) & 1, 180, 0),
    "upper half": lambda offsets, rng, shape: np.where(offsets >= 1 << 33, 40, 0),
    "drift": lambda offsets, rng, shape: np.linspace(0, 2, shape[0])[:, None],
    "span": lambda offsets, rng, shape: 4 * np.log2(np.ptp(offsets) + 1),
    "count": lambda offsets, rng, shape: 6 * np.log2(offsets.size),
    "spread": lambda offsets, rng, shape: 60.0 if np.ptp(offsets) >= 1 << 30 else 0.0,
    "many lines": lambda offsets, rng, shape: 270.0 if offsets.size > 300 else 0.0,
    "random": lambda offsets, rng, shape: rng.choice([0, 60], size=shape),
}


@pytest.mark.parametrize("delay", DELAYS.values(), ids=DELAYS)
def test_no_tlb_is_claimed(delay, monkeypatch):
    # Smaller pages would only take longer.
    monkeypatch.setattr("gpudissect.measure.tlb.plan_entries_and_page_size.MIN_PAGE_SIZE", 8 << 20)
    known = {"levels.l2": levels(32, "l2", Path.GLOBAL_L2)}

    def cycles(chase, rng, shape):
        return 230.0 + delay(chase.order.offsets(), rng, shape)

    assert_nothing_found(run_on(cycles, tlb_plan, "tlb_l1", known, limit=16 << 30))

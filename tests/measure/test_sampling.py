"""How sampling stops: at the requested width of the bracket, or with the last sample."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.device.queue import Deferred
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.measure.cache.plan_latency import L2_CHAINS, LAPS
from gpudissect.measure.infer_latency import Latency
from gpudissect.measure.plan import Bench, StopEarly
from gpudissect.measure.sampling import until_precise
from gpudissect.simulation.cache.geometry import Distance, PolicyKind
from gpudissect.survey.run import run_survey
from gpudissect.workload import Shuffled
from tests.measure.cache.test_l2_partitions import FAR, FAR_MEMORY, MEMORY, NEAR, two_partitions

SMS, SPREAD = 48, 40.0
NARROWED = ("hit_latency", "far_latency", "miss_penalty")


def bracket(width):
    return Latency(100.0, 100 - width / 2, 100 + width / 2)


def taken(precision, first, most, width_of):
    """Numbers of the samples taken and sizes of the rounds; a bracket of n samples is `width_of(n)` percent wide."""
    rounds = []

    def sample(numbers):
        rounds.append(len(numbers))
        return (yield list(numbers))

    plan = until_precise(
        Bench(None, precision=precision), range(first), most, sample, lambda each: bracket(width_of(len(each)))
    )
    try:
        batch = next(plan)
        while True:
            batch = plan.send(batch)
    except StopIteration as end:
        return end.value, rounds


@given(st.floats(0.1, 100), st.integers(1, 20), st.integers(1, 200))
def test_samples_end_with_a_narrow_bracket_or_the_last_one(precision, first, most):
    samples, _ = taken(precision, first, most, lambda count: 60 / count**0.5)
    count = len(samples)
    assert samples == list(range(count))
    assert count == first or count <= most
    assert 60 / count**0.5 <= precision or count >= most
    assert count == first or 60 / first**0.5 > precision


def test_without_a_requested_precision_no_sample_is_added():
    assert taken(None, 5, 100, lambda count: 1e9) == (list(range(5)), [])


def test_each_round_doubles_the_samples():
    assert taken(1, 5, 30, lambda count: 10)[1] == [5, 10, 10]


def test_an_interrupt_keeps_the_rounds_before_it():
    def sample(numbers):
        return (yield list(numbers))

    plan = until_precise(Bench(None, precision=1), range(5), 100, sample, lambda each: bracket(50))
    plan.send(None)
    plan.send([5, 6, 7, 8, 9])
    with pytest.raises(StopIteration) as end:
        plan.throw(StopEarly())
    assert end.value.value == list(range(10))


class Interrupted(SimulatedGpu):
    """Ctrl-C at the first batch on which only chases of the extra rounds for the L2 run."""

    def run(self, batch):
        if len(batch) == SMS - L2_CHAINS and all(
            isinstance(each.order, Shuffled) and each.laps == LAPS for each in batch
        ):
            raise KeyboardInterrupt
        return super().run(batch)

    def queue(self):
        """One that runs each batch whole."""
        return Deferred(self.run, 0)


def test_an_interrupted_survey_keeps_what_the_default_samples_show(hierarchy):
    options = {"elements": ["l2"], "quick": True}
    default = run_survey(gpu_of(hierarchy, SimulatedGpu), **options).findings
    survey = run_survey(gpu_of(hierarchy, Interrupted), **options, precision=0.5)
    kept = {each.attribute: each for each in survey.findings}
    assert survey.interrupted
    for each in default:
        if each.attribute in ("hit_latency", "miss_penalty"):
            found = kept[each.attribute]
            assert (found.value, found.low, found.high) == (each.value, each.low, each.high)
            assert "requested 0.5 %" in " ".join(found.caveats)


def gpu_of(hierarchy, kind):
    return kind(hierarchy, spec="sim:test", name="test", noise=Noise(seed=1))


@pytest.fixture(scope="module")
def hierarchy():
    """An L2 of two partitions, and SMs at different distances from it."""
    by_sm = tuple(np.random.default_rng(4).uniform(0, SPREAD, SMS).tolist())
    return replace(two_partitions(PolicyKind.LRU), sm_count=SMS, distance=Distance("l2", by_sm))


@pytest.fixture(scope="module")
def surveys(hierarchy):
    """Estimates of the L2 and of memory by the requested precision, and the distances of the SMs, cycles."""
    found = {}
    for precision in (None, 2.0):
        findings = run_survey(gpu_of(hierarchy, SimulatedGpu), elements=["l2", "dram"], precision=precision).findings
        found[precision] = {(each.element, each.attribute): each for each in findings}
    return found, hierarchy.distance.by_sm


@pytest.mark.parametrize("name", [("l2", each) for each in NARROWED] + [("dram", "hit_latency")])
def test_more_sms_narrow_the_bracket(surveys, name):
    found, _ = surveys
    default, precise = (found[precision][name] for precision in (None, 2.0))
    assert precise.high - precise.low < 0.8 * (default.high - default.low)
    assert max(precise.low, default.low) <= min(precise.high, default.high)


@pytest.mark.parametrize(
    ("name", "cycles", "mean"),
    [
        (("l2", "hit_latency"), NEAR, np.median),
        (("l2", "far_latency"), FAR, np.mean),
        (("dram", "hit_latency"), (MEMORY + FAR_MEMORY) / 2, np.mean),
        (("l2", "miss_penalty"), (MEMORY + FAR_MEMORY) / 2 - NEAR, None),
    ],
)
def test_the_narrower_bracket_holds_the_true_value(surveys, name, cycles, mean):
    found, by_sm = surveys
    each, truth = found[2.0][name], cycles + (mean(by_sm) if mean else 0)
    assert each.low <= truth <= each.high

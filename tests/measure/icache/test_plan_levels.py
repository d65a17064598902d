"""Instruction caches of simulated GPUs are found, whatever their sizes and policies, and only these."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.icache.plan_levels import ELEMENTS
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import KIB, plain_l2
from tests.support.one_cache import NO_CACHE, ScriptedGpu

LATENCY = (8.7, 20.0, 42.0, 90.0)
policies = st.sampled_from([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.SRRIP])


def cache(kib, policy=PolicyKind.LRU, ways=8, line=128):
    return Cache((ways,) * (kib * KIB // line // ways), line, line, Index(IndexKind.MODULO), Policy(policy))


def findings(*levels, noise=None, caches=None, routes=None, elements=()):
    """Findings by element and attribute on a GPU with these instruction caches, nearest first."""
    names = [f"level{number}" for number in range(len(levels))]
    code = Route((*names, "l2"), LATENCY[: len(levels) + 1], 200.0, translated_from=9)
    hierarchy = Hierarchy(
        caches=dict(zip(names, levels, strict=True)) | {"l2": plain_l2()} | (caches or {}),
        routes={Path.CODE: code, Path.GLOBAL_L2: Route(("l2",), (230,), 500, timer=12)} | (routes or {}),
        limits={Path.CODE: 512 * KIB, Path.CONSTANT: 64 * KIB},
    )
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))
    survey = run_survey(device, elements=[*ELEMENTS, *elements])
    assert survey.failures == ()
    return {(each.element, each.attribute): each for each in survey.findings}


@given(
    first=st.integers(6, 32),
    times=st.integers(3, 8),
    policies=st.tuples(policies, policies),
    ways=st.sampled_from([2, 4, 8]),
    seed=st.integers(0, 1000),
)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
def test_two_levels_are_found(first, times, policies, ways, seed):
    near, far = cache(first, policies[0], ways), cache(first * times, policies[1], ways)
    found = findings(near, far, noise=Noise(seed=seed))
    for number, (element, truth) in enumerate(zip(ELEMENTS, (near, far), strict=False)):
        capacity, penalty = found[element, "capacity"], found[element, "miss_penalty"]
        assert capacity.low <= truth.capacity <= capacity.high
        assert capacity.value == truth.capacity
        assert penalty.low <= LATENCY[number + 1] - LATENCY[number] <= penalty.high
    last = found["icache_l15", "capacity"]
    assert last.status is Status.NOT_FOUND and last.reason


def test_a_random_policy_is_bracketed():
    found = findings(cache(24, PolicyKind.RANDOM), cache(192, PolicyKind.LRU))
    first = found["icache_l0", "capacity"]
    assert first.low <= 24 * KIB <= first.high
    assert found["icache_l1", "capacity"].value == 192 * KIB


def test_an_l2_alone_has_no_level_before_it():
    assert {each.status for each in findings().values()} == {Status.NOT_FOUND}


@pytest.mark.parametrize("together", [True, False])
def test_code_and_constants_in_one_array(together):
    constants = {"constant_l1": cache(2, line=64, ways=4), "apart": cache(32, line=256)}
    path = Route(("constant_l1", "level1" if together else "apart", "l2"), (30, 100, 250), 500, timer=12)
    found = findings(cache(12), cache(64), caches=constants, routes={Path.CONSTANT: path}, elements=["constant_l15"])
    assert found["icache_l0", "shared_with"].value == "nothing"
    assert found["icache_l1", "shared_with"].value == ("constant_l15" if together else "nothing")
    if not together:  # then constants reach beyond their cache
        assert found["constant_l15", "shared_with"].value == "nothing"


class ScriptedCode(ScriptedGpu):
    def __init__(self, cycles):
        super().__init__(cycles)
        self.info.span_limits[Path.CODE] = 512 * KIB


@pytest.mark.parametrize("cycles", NO_CACHE.values(), ids=NO_CACHE)
def test_no_level_is_claimed_where_there_is_no_cache(cycles):
    survey = run_survey(ScriptedCode(cycles), elements=list(ELEMENTS))
    assert survey.failures == ()
    assert {each.status for each in survey.findings} == {Status.NOT_FOUND}
    assert all(each.reason for each in survey.findings)


def test_a_gpu_without_the_path_is_not_measured():
    survey = run_survey(ScriptedGpu(NO_CACHE["flat"]), elements=list(ELEMENTS))
    assert {each.status for each in survey.findings} == {Status.NOT_SUPPORTED}
    assert survey.workloads == 0 or not np.any([each.evidence for each in survey.findings])

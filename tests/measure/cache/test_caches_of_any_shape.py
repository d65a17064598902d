"""Size, line, fetch granularity and latency of random caches come out exactly, whatever policy and index."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import CONFLICTED
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import plain_l2

PATIENT = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def caches(draw):
    sector = draw(st.sampled_from([32, 64, 128]))
    line = sector * draw(st.sampled_from([1, 2, 4]))
    set_bits = draw(st.integers(0, 6))
    ways = draw(st.sampled_from([4, 6, 8, 16, 24]))
    kind = draw(st.sampled_from(["bits", "xor", "modulo"]))
    low = line.bit_length() - 1
    sets = 1 << set_bits
    if kind == "bits":
        index = Index(IndexKind.BITS, bits=tuple(range(low, low + set_bits)))
    elif kind == "xor":
        index = Index(
            IndexKind.XOR, masks=tuple((1 << (low + i)) | (1 << (low + set_bits + i)) for i in range(set_bits))
        )
    else:
        sets = draw(st.sampled_from([1, 3, 5, 12, 48]))
        index = Index(IndexKind.MODULO)
    policy = draw(
        st.sampled_from([PolicyKind.LRU, PolicyKind.FIFO, PolicyKind.NRU, PolicyKind.SRRIP, PolicyKind.RANDOM])
    )
    return Cache(ways=(ways,) * sets, line=line, sector=sector, index=index, policy=Policy(policy))


@given(cache=caches(), seed=st.integers(0, 1000))
@PATIENT
def test_a_random_l1_is_found_exactly(gpu_with, cache, seed):
    survey = run_survey(gpu_with(cache, plain_l2(), Noise(seed=seed)), elements=["l1"], seed=seed, quick=True)
    found = {each.attribute: each for each in survey.findings}
    assert survey.failures == ()
    assert found["capacity"].value == cache.capacity
    if cache.policy.kind is not PolicyKind.SRRIP or found["line_size"].status is not Status.AMBIGUOUS:
        assert found["line_size"].value == cache.line  # SRRIP favours lines that are visited twice
    assert found["fetch_granularity"].value == cache.sector
    assert abs(found["hit_latency"].value - 40) <= 1
    assert abs(found["miss_penalty"].value - 190) <= 1


@given(kib=st.sampled_from([512, 768, 1024, 1536]), line=st.sampled_from([32, 64, 128]), seed=st.integers(0, 1000),
       policy=st.sampled_from([PolicyKind.LRU, PolicyKind.NRU, PolicyKind.RANDOM]))  # fmt: skip
@settings(PATIENT, max_examples=6)
def test_an_l2_is_found_exactly(gpu_with, kib, line, policy, seed):
    survey = run_survey(gpu_with(None, plain_l2(kib, line, policy), Noise(seed=seed)), elements=["l2"], seed=seed)
    found = {each.attribute: each.value for each in survey.findings}
    assert found["capacity"] == kib * 1024
    assert (found["line_size"], found["fetch_granularity"]) == (line, line)


def test_unequal_sets_are_found_and_the_conflict_onset_is_said(gpu_with):
    """One set of 17 ways and six of 8: a footprint in one piece conflicts at 57 of 65 lines, as it must."""
    cache = Cache(
        ways=(17, *[8] * 6), line=128, sector=128, index=Index(IndexKind.MODULO), policy=Policy(PolicyKind.LRU)
    )
    survey = run_survey(gpu_with(cache, plain_l2()), elements=["l1"])
    found = {each.attribute: each for each in survey.findings}
    assert found["capacity"].value == 65 * 128
    assert "7.125 KiB in one piece" in found["capacity"].caveats[0]
    assert sorted(found["ways"].value) == [8] * 6 + [17]


def test_in_a_hurry_unequal_sets_give_the_conflict_onset_and_say_so(gpu_with):
    cache = Cache(
        ways=(17, *[8] * 6), line=128, sector=128, index=Index(IndexKind.MODULO), policy=Policy(PolicyKind.LRU)
    )
    survey = run_survey(gpu_with(cache, plain_l2()), elements=["l1"], quick=True)
    capacity = next(each for each in survey.findings if each.attribute == "capacity")
    assert capacity.value == 57 * 128
    assert capacity.high >= 65 * 128
    assert capacity.confidence == CONFLICTED
    assert capacity.caveats


def test_no_cache_at_all_is_said_not_guessed(gpu_with):
    survey = run_survey(gpu_with(None, None), elements=["l1", "l2", "dram"])
    status = {(each.element, each.attribute): each.status for each in survey.findings}
    assert {status["l1", "capacity"], status["l2", "capacity"]} == {Status.NOT_SUPPORTED}
    assert status["dram", "hit_latency"] is Status.FOUND


def test_loads_that_pass_by_the_l1_are_not_supported_and_say_why(gpu_with):
    survey = run_survey(gpu_with(None, plain_l2()), elements=["l1"])
    assert {each.status for each in survey.findings} == {Status.NOT_SUPPORTED}
    assert all("L2" in each.reason for each in survey.findings)


@pytest.mark.parametrize(("lines", "behind"), [(8, 32), (8, 20), (32, 256), (4, 16)])
def test_the_second_of_two_levels_is_not_answered_by_the_first(lines, behind):
    def cache(ways):
        return Cache((ways,), 64, 64, Index(IndexKind.MODULO), Policy(PolicyKind.LRU))

    routes = {
        Path.CONSTANT: Route(("near", "next", "l2"), (40, 100, 240), 500, timer=12),
        Path.GLOBAL_L2: Route(("l2",), (230,), 500, timer=12),
    }
    caches = {"near": cache(lines), "next": cache(behind), "l2": plain_l2()}
    hierarchy = Hierarchy(caches=caches, routes=routes, limits={Path.CONSTANT: 1 << 16})
    survey = run_survey(SimulatedGpu(hierarchy, spec="sim:test", name="test"), elements=["constant_l1", "constant_l15"])
    found = {(each.element, each.attribute): each for each in survey.findings}
    assert found["constant_l1", "hit_latency"].value == pytest.approx(40, abs=1)
    second = found["constant_l15", "hit_latency"]
    assert second.low <= 100 <= second.high
    assert second.value == pytest.approx(100, abs=3)
    assert found["constant_l1", "capacity"].value == lines * 64
    assert found["constant_l15", "capacity"].value == behind * 64

"""Size, line, fetch granularity and latency of random caches are found exactly, for any policy and index."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import CONFLICTED
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Room, Route
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import bits, plain_l2
from tests.support.driving import estimates

SUPPRESSED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PATIENT = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=SUPPRESSED)
MODULO, LRU = Index(IndexKind.MODULO), Policy(PolicyKind.LRU)


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
        index = bits(low, set_bits)
    elif kind == "xor":
        masks = ((1 << (low + i)) | (1 << (low + set_bits + i)) for i in range(set_bits))
        index = Index(IndexKind.XOR, masks=tuple(masks))
    else:
        sets, index = draw(st.sampled_from([1, 3, 5, 12, 48])), MODULO
    policy = draw(st.sampled_from(["lru", "fifo", "nru", "srrip", "random"]))
    return Cache((ways,) * sets, line, sector, index, Policy(PolicyKind(policy)))


def survey(gpu, *elements, **options):
    """Findings by attribute, of several elements by element and attribute."""
    result = run_survey(gpu, elements=elements, **options)
    assert result.failures == ()
    if len(elements) > 1:
        return {(each.element, each.attribute): each for each in result.findings}
    return {each.attribute: each for each in result.findings}


@given(cache=caches(), seed=st.integers(0, 1000))
@PATIENT
def test_a_random_l1_is_found_exactly(gpu_with, cache, seed):
    found = survey(gpu_with(cache, plain_l2(), Noise(seed=seed)), "l1", seed=seed, quick=True)
    assert found["capacity"].value == cache.capacity
    if cache.policy.kind is not PolicyKind.SRRIP or found["line_size"].status is not Status.AMBIGUOUS:
        assert found["line_size"].value == cache.line  # SRRIP favours lines that are visited twice
    assert found["fetch_granularity"].value == cache.sector
    assert abs(found["hit_latency"].value - 40) <= 1
    assert abs(found["miss_penalty"].value - 190) <= 1


sizes, line_sizes = st.sampled_from([512, 768, 1024, 1536]), st.sampled_from([32, 64, 128])
l2_policies = st.sampled_from([PolicyKind.LRU, PolicyKind.NRU, PolicyKind.RANDOM])


@given(kib=sizes, line=line_sizes, seed=st.integers(0, 1000), policy=l2_policies)
@settings(PATIENT, max_examples=6)
def test_an_l2_is_found_exactly(gpu_with, kib, line, policy, seed):
    found = estimates(gpu_with(None, plain_l2(kib, line, policy), Noise(seed=seed)), ["capacity.l2"], seed)
    values = [found["l2", attribute].value for attribute in ("capacity", "line_size", "fetch_granularity")]
    assert values == [kib * 1024, line, line]


ONE_LARGE_SET = Cache((17, *[8] * 6), 128, 128, MODULO, LRU)
"""One set of 17 ways and six of 8: a footprint in one piece conflicts from the 58th of 65 lines on."""


def test_a_capacity_beside_other_processes_is_no_more_than_bracketed(gpu_with):
    """Sets x ways are 224 lines; what other processes evict hides that fewer have room."""
    cache = Cache((8,) * 24 + (4,) * 8, 128, 128, MODULO, LRU, room=Room(218))
    capacity = survey(gpu_with(cache, plain_l2(), Noise(seed=1, other_users=256)), "l1")["capacity"]
    assert capacity.low <= 218 * 128 <= capacity.high or capacity.confidence < 0.95


def test_unequal_sets_are_found_and_the_first_conflict_is_a_caveat(gpu_with):
    found = survey(gpu_with(ONE_LARGE_SET, plain_l2()), "l1")
    assert found["capacity"].value == 65 * 128
    assert "fits up to 7.125 KiB" in found["capacity"].caveats[0]
    assert sorted(found["ways"].value) == [8] * 6 + [17]


def test_a_quick_survey_reports_the_first_conflict_with_less_confidence(gpu_with):
    capacity = survey(gpu_with(ONE_LARGE_SET, plain_l2()), "l1", quick=True)["capacity"]
    assert capacity.value == 57 * 128
    assert capacity.high >= 65 * 128
    assert capacity.confidence == CONFLICTED
    assert capacity.caveats


def test_no_cache_is_reported_as_such(gpu_with):
    found = survey(gpu_with(None, None), "l1", "l2", "dram")
    assert found["l1", "capacity"].status is found["l2", "capacity"].status is Status.NOT_SUPPORTED
    assert found["dram", "hit_latency"].status is Status.FOUND


def test_loads_that_bypass_the_l1_are_not_supported(gpu_with):
    found = survey(gpu_with(None, plain_l2()), "l1")
    assert {estimate.status for estimate in found.values()} == {Status.NOT_SUPPORTED}
    assert all("L2" in estimate.reason for estimate in found.values())


@pytest.mark.parametrize(("lines", "lines_behind"), [(8, 32), (8, 20), (32, 256), (4, 16)])
def test_the_second_of_two_levels_is_not_served_by_the_first(lines, lines_behind):
    routes = {
        Path.CONSTANT: Route(("near", "next", "l2"), (40, 100, 240), 500, timer=12),
        Path.GLOBAL_L2: Route(("l2",), (230,), 500, timer=12),
    }
    near, behind = (Cache((ways,), 64, 64, MODULO, LRU) for ways in (lines, lines_behind))
    arrays = {"near": near, "next": behind, "l2": plain_l2()}
    hierarchy = Hierarchy(caches=arrays, routes=routes, limits={Path.CONSTANT: 1 << 16})
    names = [f"{what}.{element}" for what in ("capacity", "latency") for element in ("constant_l1", "constant_l15")]
    found = estimates(SimulatedGpu(hierarchy, spec="sim:test", name="test"), names)
    assert found["constant_l1", "hit_latency"].value == pytest.approx(40, abs=1)
    second = found["constant_l15", "hit_latency"]
    assert second.low <= 100 <= second.high
    assert second.value == pytest.approx(100, abs=3)
    assert found["constant_l1", "capacity"].value == lines * 64
    assert found["constant_l15", "capacity"].value == lines_behind * 64

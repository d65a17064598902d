"""Which SMs share the second TLB: found on simulated GPUs whatever the groups, and refused where it cannot show."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.cache.geometry import Policy, PolicyKind
from tests.measure.conftest import plain_l2
from tests.measure.tlb.test_plan_entries_and_page_size import gpu, tlb
from tests.support.driving import estimates

PAGE, GIB, SMS = 32 << 20, 1 << 30, 8


def found(by_sm, second=None, limit=40 * GIB, third=()):
    """The finding about a GPU whose SMs use these second TLBs, by number."""
    tlbs = [tlb(16, PAGE // 2, 10.0), second or tlb(128, PAGE, 100.0)]
    hierarchy = replace(gpu(tlbs, walk=150.0, limit=limit, l2=plain_l2(8192, 128)).hierarchy, sm_count=SMS)
    if by_sm:
        numbers = tuple(range(SMS)), by_sm
        tlbs = [replace(each, by_sm=own) for each, own in zip(tlbs, numbers, strict=True)]
    hierarchy = replace(hierarchy, tlbs=(*tlbs, *third), tlb_walk_penalty=300.0 if third else 150.0)
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=3, jitter=0.1, outliers=0.005))
    return estimates(device, ["sharing.tlb_l2"])["tlb_l2", "tlb_by_sm"]


@st.composite
def numberings(draw):
    """The TLB of each SM, numbered in the order of their first SM."""
    groups = draw(st.lists(st.integers(0, SMS - 1), min_size=SMS, max_size=SMS))
    numbers = {each: number for number, each in enumerate(dict.fromkeys(groups))}
    return tuple(numbers[each] for each in groups)


@settings(max_examples=10)
@given(by_sm=numberings())
def test_any_groups_of_sms_are_found(by_sm):
    assert found(by_sm).value == tuple(map(float, by_sm))


def test_pages_that_a_third_tlb_holds_are_not_shared():
    by_sm, second = (0, 0, 1, 1, 0, 1, 2, 2), tlb(128, PAGE, 60.0)
    assert found(by_sm, second=second, third=(tlb(200, PAGE, 300.0),)).value == tuple(map(float, by_sm))


def test_one_tlb_for_all_sms_is_found():
    estimate = found(())
    assert estimate.value == (0.0,) * SMS and "number of TLBs: 1; SMs of each: 8" in estimate.caveats


def test_a_caveat_states_the_penalty_of_misses():
    assert any("a miss adds 140 to 14" in each for each in found((0, 0, 1, 1, 0, 1, 2, 2)).caveats)


def test_memory_that_cannot_evict_all_entries_is_a_reason():
    estimate = found((), limit=5 * GIB)
    assert estimate.status is Status.NOT_FOUND and "too few to evict all 128 entries" in estimate.reason


@pytest.mark.parametrize("kind", [PolicyKind.FIFO, PolicyKind.LRU])
def test_the_policy_of_the_tlb_does_not_matter(kind):
    second = replace(tlb(128, PAGE, 100.0), policy=Policy(kind))
    assert found((0, 1, 0, 1, 2, 2, 0, 1), second=second).value == (0.0, 1.0, 0.0, 1.0, 2.0, 2.0, 0.0, 1.0)

"""An L2 in two parts, with memory behind each: both sizes and all four latencies come out, whatever the policy."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.infer_home_partition import find_homes
from gpudissect.measure.cache.plan_capacity import no_more_than_stated
from gpudissect.measure.plan import Bench
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    Partition,
    Policy,
    PolicyKind,
    Route,
    Scope,
    Tlb,
)
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path
from tests.measure.conftest import plain_l2

KIB, MIB = 1 << 10, 1 << 20
HOME = sum(1 << bit for bit in (9, 12, 14, 17, 20, 23))
NEAR, FAR, MEMORY, FAR_MEMORY = 280, 457, 540, 720


def in_parts(policy: PolicyKind, ways: int = 16, part: int = 2 * MIB, **changed) -> Hierarchy:
    sets = part // 128 // ways
    cache = Cache((ways,) * sets, 128, 32, Index(IndexKind.MODULO), Policy(policy), scope=Scope.GPU)
    partition = Partition("l2", HOME, FAR - NEAR, FAR_MEMORY - MEMORY)
    routes = {Path.GLOBAL_L2: Route(("l2",), (NEAR,), MEMORY, timer=21)}
    return Hierarchy(caches={"l2": cache}, routes=routes, partition=partition, sm_count=8, **changed)


def found_on(hierarchy: Hierarchy, noise: Noise | None = None, elements=("l2", "dram")):
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))
    survey = run_survey(device, elements=elements)
    assert survey.failures == ()
    return {(each.element, each.attribute): each for each in survey.findings}


@pytest.mark.parametrize(
    "policy", [PolicyKind.LRU, PolicyKind.RANDOM, PolicyKind.PLRU, PolicyKind.NRU, PolicyKind.FIFO]
)
def test_both_parts_come_out(policy):
    found = found_on(in_parts(PolicyKind(policy)))
    size, whole = found["l2", "segment_size"], found["l2", "capacity"]
    assert size.low <= 2 * MIB <= size.high
    assert size.high - size.low < 0.2 * 2 * MIB
    assert whole.low <= 4 * MIB <= whole.high
    assert found["l2", "line_size"].value == 128
    for name, cycles in (("near", NEAR), ("far", FAR)):
        assert found["l2", f"{name}_latency"].value == pytest.approx(cycles, abs=1)
    for name, cycles in (("near", MEMORY), ("far", FAR_MEMORY), ("hit", (MEMORY + FAR_MEMORY) / 2)):
        assert found["dram", f"{name}_latency"].value == pytest.approx(cycles, abs=2)


def test_homes_must_be_the_lines_own():
    rng = np.random.default_rng(3)
    lines = rng.permutation(np.repeat([540, 720], 500))
    steady = lines + rng.integers(-20, 20, (4, 1000))
    found = find_homes(steady)
    assert found is not None
    assert np.array_equal(found.are_far(steady), lines == 720)
    assert find_homes(rng.permuted(steady, axis=1)) is None  # as many slow ones, but not the same ones
    assert find_homes(600 + rng.integers(-100, 100, 1000) + rng.integers(-5, 5, (4, 1000))) is None  # no gap
    assert find_homes(np.full((4, 1000), 600)) is None


def test_late_accesses_do_not_hide_the_parts():
    found = found_on(in_parts(PolicyKind.LRU), Noise(seed=2, outliers=0.01, jitter=0.3))
    assert found["l2", "segment_size"].low <= 2 * MIB <= found["l2", "segment_size"].high
    assert found["l2", "far_latency"].value == pytest.approx(FAR, abs=2)


def test_one_part_with_two_memories_is_one_part():
    """Near and far lines, but nothing between a hit and memory."""
    hierarchy = in_parts(PolicyKind.LRU)
    hierarchy = replace(hierarchy, partition=replace(hierarchy.partition, far_penalty=FAR_MEMORY - NEAR))
    found = found_on(hierarchy)
    assert found["dram", "far_latency"].value == pytest.approx(FAR_MEMORY, abs=2)
    assert found["l2", "far_latency"].status is Status.NOT_FOUND


def test_the_reach_of_a_tlb_is_no_far_part():
    """Translations run out at 256 KiB, long before the L2 does; pages are all the lines have in common."""
    tlb = Tlb((16,), 16 * KIB, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), penalty=0.0)
    routes = {Path.GLOBAL_L2: Route(("l2",), (200,), 450, timer=21)}
    hierarchy = Hierarchy(
        caches={"l2": plain_l2(2048, 128)}, routes=routes, tlbs=(tlb,), tlb_walk_penalty=60, sm_count=8
    )
    found = found_on(hierarchy)
    assert found["l2", "capacity"].value == 2 * MIB
    assert found["l2", "hit_latency"].value == pytest.approx(200, abs=1)
    for attribute in ("segment_size", "near_latency", "far_latency"):
        assert found["l2", attribute].status is Status.NOT_FOUND
    assert found["dram", "near_latency"].status is Status.NOT_FOUND


@pytest.mark.parametrize(
    ("stated", "parts", "high"),
    [
        (60 * MIB, 1, 60 * MIB),
        (60 * MIB, 2, 63 * MIB),
        (64 * MIB, 1, 63 * MIB),
        (50 * MIB, 1, 63 * MIB),
        (None, 1, 63 * MIB),
    ],
)
def test_no_more_than_the_driver_states(stated, parts, high):
    """The bracket ends there, unless what was found lies above it already."""
    facts = {} if stated is None else {"l2_size": stated}
    bench = Bench(DeviceInfo(spec="a", name="b", origin=Origin.SIMULATED, sm_count=1, span_limits={}, facts=facts))
    found = Estimate(element="l2", attribute="capacity", status=Status.FOUND, value=58 * MIB, low=54 * MIB,
                     high=63 * MIB, confidence=0.9)  # fmt: skip
    cut = no_more_than_stated(found, parts, bench)
    assert (cut.value, cut.low, cut.high) == (58 * MIB, 54 * MIB, high)
    assert bool(cut.caveats) is (high != found.high)

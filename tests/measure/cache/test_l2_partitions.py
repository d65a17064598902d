"""An L2 of two partitions, with memory behind each: both sizes and all four latencies are found for any policy."""

from dataclasses import replace

import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
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
from gpudissect.workload import Path
from tests.measure.conftest import plain_l2
from tests.support.driving import estimates

KIB, MIB = 1 << 10, 1 << 20
HOME = sum(1 << bit for bit in (9, 12, 14, 17, 20, 23))
NEAR, FAR, MEMORY, FAR_MEMORY = 280, 457, 540, 720
MODULO = Index(IndexKind.MODULO)


def two_partitions(policy: PolicyKind, ways: int = 16, size: int = 2 * MIB, **changed) -> Hierarchy:
    """A hierarchy whose L2 has two partitions of `size` bytes."""
    cache = Cache((ways,) * (size // 128 // ways), 128, 32, MODULO, Policy(policy), scope=Scope.GPU)
    partition = Partition("l2", HOME, FAR - NEAR, FAR_MEMORY - MEMORY)
    routes = {Path.GLOBAL_L2: Route(("l2",), (NEAR,), MEMORY, timer=21)}
    return Hierarchy(caches={"l2": cache}, routes=routes, partition=partition, sm_count=8, **changed)


def survey(hierarchy: Hierarchy, noise: Noise | None = None):
    device = SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))
    return estimates(device, ["capacity.l2", "latency.dram"])


POLICIES = ("lru", "random", "plru", "nru", "fifo")


@pytest.mark.parametrize("policy", POLICIES)
def test_both_partitions_are_found(policy):
    found = survey(two_partitions(PolicyKind(policy)))
    size, whole = found["l2", "segment_size"], found["l2", "capacity"]
    assert size.low <= 2 * MIB <= size.high
    assert size.high - size.low < 0.2 * 2 * MIB
    assert whole.low <= 4 * MIB <= whole.high
    assert found["l2", "line_size"].value == 128
    for name, cycles in (("near", NEAR), ("far", FAR)):
        assert found["l2", f"{name}_latency"].value == pytest.approx(cycles, abs=1)
    for name, cycles in (("near", MEMORY), ("far", FAR_MEMORY), ("hit", (MEMORY + FAR_MEMORY) / 2)):
        assert found["dram", f"{name}_latency"].value == pytest.approx(cycles, abs=2)


def test_delayed_accesses_do_not_hide_the_partitions():
    found = survey(two_partitions(PolicyKind.LRU), Noise(seed=2, outliers=0.01, jitter=0.3))
    assert found["l2", "segment_size"].low <= 2 * MIB <= found["l2", "segment_size"].high
    assert found["l2", "far_latency"].value == pytest.approx(FAR, abs=2)


def test_one_partition_with_two_memories():
    """Near and far lines, but nothing between a hit and memory."""
    hierarchy = two_partitions(PolicyKind.LRU)
    hierarchy = replace(hierarchy, partition=replace(hierarchy.partition, far_penalty=FAR_MEMORY - NEAR))
    found = survey(hierarchy)
    assert found["dram", "far_latency"].value == pytest.approx(FAR_MEMORY, abs=2)
    assert found["l2", "far_latency"].status is Status.NOT_FOUND


def test_the_reach_of_a_tlb_is_no_far_partition():
    """Translations miss from 256 KiB on, long before the L2 does; the slow lines share only their pages."""
    tlb = Tlb((16,), 16 * KIB, MODULO, Policy(PolicyKind.LRU), penalty=0.0)
    routes = {Path.GLOBAL_L2: Route(("l2",), (200,), 450, timer=21)}
    caches = {"l2": plain_l2(2048, 128)}
    found = survey(Hierarchy(caches=caches, routes=routes, tlbs=(tlb,), tlb_walk_penalty=60, sm_count=8))
    assert found["l2", "capacity"].value == 2 * MIB
    assert found["l2", "hit_latency"].value == pytest.approx(200, abs=1)
    for attribute in ("segment_size", "near_latency", "far_latency"):
        assert found["l2", attribute].status is Status.NOT_FOUND
    assert found["dram", "near_latency"].status is Status.NOT_FOUND

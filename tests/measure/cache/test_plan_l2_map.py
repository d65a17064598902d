"""The map of simulated GPUs whose SMs and slices lie at known distances."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.base import Device
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Absence, Levels
from gpudissect.measure.cache.plan_l2_map import LAPS, LINES, REPEATED_SMS, l2_map_plan
from gpudissect.measure.cache.plan_levels import l2_plan
from gpudissect.measure.infer_confidence import BRACKETED
from gpudissect.measure.plan import Bench, Known
from gpudissect.simulation.cache.geometry import Distance, Hierarchy, Index, IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path, Timing
from tests.measure.cache.test_l2_partitions import FAR, FAR_MEMORY, MEMORY, NEAR, two_partitions
from tests.support.driving import outcome

SLICES = 8
INDEX = Index(IndexKind.XOR, masks=(0x4080, 0x8100, 0x10200))
PARTITIONED = two_partitions(PolicyKind.LRU)
UNIFORM = replace(PARTITIONED, partition=None)


def gpu_of(hierarchy: Hierarchy, noise: Noise | None = None) -> SimulatedGpu:
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))


class Recorder(Device):
    """Keeps the batches that a device runs; `change` may replace a workload."""

    info = None  # set below

    def __init__(self, device, change=lambda workload: workload):
        self.device, self.info, self.change, self.batches = device, device.info, change, []

    def run(self, batch):
        self.batches.append(batch)
        return self.device.run([self.change(workload) for workload in batch])


def map_of(device, change=lambda workload: workload):
    """Estimates of latency and partition by SM, and their workloads, which are one batch."""
    latency, partition, _, workloads = estimates_of(device, change)
    return latency, partition, workloads


def estimates_of(device, change=lambda workload: workload):
    """Estimates of latency and partition by SM, those of memory from all SMs, and their workloads."""
    recorder = Recorder(device, change)
    levels = outcome(l2_plan(Bench(device.info), Known({})), device).knowledge
    known = Known({"levels.l2": levels})
    latency, partition, *memory = outcome(l2_map_plan(Bench(device.info), known), recorder).estimates
    assert (latency.attribute, partition.attribute) == ("latency_by_sm", "partition_by_sm")
    assert len(recorder.batches) <= 1
    return latency, partition, memory, [chase for batch in recorder.batches for chase in batch]


def true_latencies(hierarchy: Hierarchy, offsets) -> np.ndarray:
    """Mean hit latency over these lines of every SM."""
    distance = hierarchy.distance
    partitions = 1 if hierarchy.partition is None else 2
    slices = len(distance.by_slice) // partitions
    numbers = set_numbers(distance.index, 128, slices, offsets)
    by_slice = np.array(distance.by_slice)
    return np.array(
        [NEAR + far + by_slice[sm % partitions * slices + numbers].mean() for sm, far in enumerate(distance.by_sm)]
    )


def claimed_error(latency) -> float:
    return float(re.search(r"error of each: ([0-9.]+) cycles", latency.caveats[0])[1])


distances = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(max_examples=8)
@given(distances, st.integers(8, 40), st.booleans(), st.sampled_from([0.0, 0.002, 0.01]))
def test_distances_and_partitions_are_found(rng, sms, partitioned, outliers):
    by_sm, by_slice = rng.uniform(0, 50, sms), rng.uniform(0, 40, SLICES * (1 + partitioned))
    distance = Distance("l2", tuple(by_sm.tolist()), tuple(by_slice.tolist()), INDEX)
    hierarchy = replace(PARTITIONED if partitioned else UNIFORM, sm_count=sms, distance=distance)
    latency, partition, batch = map_of(gpu_of(hierarchy, Noise(seed=sms, outliers=outliers)))
    expected = true_latencies(hierarchy, batch[0].order.offsets())
    assert latency.status is Status.FOUND and len(latency.value) == sms
    assert np.abs(np.array(latency.value) - expected).max() <= claimed_error(latency) < 4
    if partitioned:
        assert partition.status is Status.FOUND
        assert partition.value == tuple(float(sm % 2) for sm in range(sms))
    else:
        assert partition.status is Status.NOT_FOUND


def test_caveats():
    rng = np.random.default_rng(3)
    by_sm, by_slice = tuple(rng.uniform(0, 30, 12).tolist()), tuple(rng.uniform(0, 40, 2 * SLICES).tolist())
    hierarchy = replace(PARTITIONED, sm_count=12, distance=Distance("l2", by_sm, by_slice, INDEX))
    latency, partition, batch = map_of(gpu_of(hierarchy))
    text = " | ".join(latency.caveats)
    assert "12 SMs measured again at the end: within 0." in text
    assert "99.9%" in text and f"{SLICES} different patterns" in text
    extra = np.mean(by_sm) + np.mean(by_slice)
    for start, cycles in (("memory from all SMs: near ", MEMORY), ("hits from all SMs: near ", NEAR)):
        (caveat,) = (caveat for caveat in partition.caveats if caveat.startswith(start))
        assert float(caveat.removeprefix(start).split(",")[0]) == pytest.approx(cycles + extra, abs=8)
        assert "one SM alone" in caveat
    assert partition.confidence == BRACKETED and "equally" in partition.caveats[-1]
    assert len(latency.evidence) == len(set(latency.evidence)) == len(batch)


def test_memory_latency_is_the_median_over_all_sms():
    by_sm = tuple(float(n) for n in range(0, 24, 2))
    hierarchy = replace(PARTITIONED, sm_count=12, distance=Distance("l2", by_sm, (0.0,) * 2 * SLICES, INDEX))
    _, _, (near, far), _ = estimates_of(gpu_of(hierarchy))
    assert (near.element, near.attribute, far.attribute) == ("dram", "near_latency", "far_latency")
    assert near.value == pytest.approx(MEMORY + 11, abs=3) and near.low <= MEMORY + 11 <= near.high
    assert far.value == pytest.approx(FAR_MEMORY + 11, abs=3) and far.low <= FAR_MEMORY + 11 <= far.high


def test_hits_alone_can_show_the_partitions():
    """Two partitions, but uniform memory."""
    rng = np.random.default_rng(2)
    partition = replace(PARTITIONED.partition, far_memory_penalty=0.0)
    distance = Distance("l2", by_slice=tuple(rng.uniform(0, 40, 2 * SLICES).tolist()), index=INDEX)
    _, found, _ = map_of(gpu_of(replace(PARTITIONED, partition=partition, distance=distance, sm_count=16)))
    assert found.value == (0.0, 1.0) * 8
    assert found.confidence == 0.9
    assert "by hits alone" in found.caveats[0]


@pytest.mark.parametrize("noise", [Noise.none(), Noise(seed=5, jitter=0.5, outliers=0.01, drift=0.01)])
def test_one_partition(noise):
    latency, partition, _ = map_of(gpu_of(UNIFORM, noise))
    assert partition.status is Status.NOT_FOUND and "one partition" in partition.reason
    assert latency.value == pytest.approx([NEAR] * 8, abs=claimed_error(latency))
    assert claimed_error(latency) < (1.5 if noise.drift == 0 else 12)


def test_few_sms():
    latency, partition, _ = map_of(gpu_of(replace(UNIFORM, sm_count=1)))
    assert len(latency.value) == 1
    assert partition.status is Status.NOT_FOUND and "too few" in partition.reason


def test_workloads():
    """Every SM once, in random order, then some again; one batch, one chain, all alone; bounded records."""
    _, _, batch = map_of(gpu_of(replace(PARTITIONED, sm_count=132)))
    timed = [chase for chase in batch if chase.timing is Timing.EACH]
    assert sorted(chase.sm for chase in timed if chase.repetition == 0) == list(range(132))
    assert [chase.sm for chase in timed[:132]] != list(range(132))
    assert sum(chase.repetition for chase in timed) == REPEATED_SMS
    assert len({chase.order for chase in batch}) == 1 and batch[0].order.count == LINES
    assert all(chase.alone and chase.path is Path.GLOBAL_L2 for chase in batch)
    assert sum(chase.records for chase in batch) == LINES * LAPS * (132 + REPEATED_SMS) + 63 <= 150_000


def test_lines_that_do_not_stay_are_no_hits():
    """An L2 so small that the lines evict each other."""
    latency, partition, _ = map_of(gpu_of(two_partitions(PolicyKind.LRU, size=16 << 10)))
    assert not latency.status.has_value and not partition.status.has_value
    assert latency.reason and partition.reason


def test_without_an_l2_there_is_no_map():
    absent = Levels(Path.GLOBAL_L2, (), {"l2": Absence("nothing is cached")})
    plan = l2_map_plan(Bench(gpu_of(PARTITIONED).info), Known({"levels.l2": absent}))
    assert {estimate.reason for estimate in outcome(plan, None).estimates} == {"nothing is cached"}


def test_another_partition_in_the_second_measurement_is_ambiguous():
    def swap_partition(chase):
        return replace(chase, sm=chase.sm ^ 1) if chase.repetition else chase

    _, partition, _ = map_of(gpu_of(PARTITIONED), swap_partition)
    assert partition.status is Status.AMBIGUOUS
    assert "SM 0, 1, 2, 3, 4, 5, 6, 7 into the other" in partition.reason


def test_a_quick_survey_skips_the_map():
    device = gpu_of(PARTITIONED)
    full = {each.attribute: each for each in run_survey(device, elements=["l2"]).findings}
    quick = {each.attribute: each for each in run_survey(device, elements=["l2"], quick=True).findings}
    assert full["partition_by_sm"].value == (0.0, 1.0) * 4
    assert full["latency_by_sm"].value == pytest.approx([NEAR] * 8, abs=0.5)
    assert quick["latency_by_sm"].status is quick["partition_by_sm"].status is Status.SKIPPED
    assert full["far_latency"].value == pytest.approx(FAR, abs=1) and FAR_MEMORY > FAR

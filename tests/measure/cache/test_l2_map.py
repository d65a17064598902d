"""The map of simulated GPUs whose SMs and slices lie at known distances."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.cache.infer_level import Absence, Levels
from gpudissect.measure.cache.plan_l2 import l2_plan
from gpudissect.measure.cache.plan_l2_map import AGAIN, LAPS, LINES, l2_map_plan
from gpudissect.measure.plan import Bench, Known
from gpudissect.simulation.cache.geometry import Distance, Hierarchy, Index, IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.survey.run import run_survey
from gpudissect.workload import Path, Timing
from tests.measure.cache.test_l2_in_parts import FAR, FAR_MEMORY, MEMORY, NEAR, in_parts

SLICES = 8
INDEX = Index(IndexKind.XOR, masks=(0x4080, 0x8100, 0x10200))


def gpu_of(hierarchy: Hierarchy, noise: Noise | None = None) -> SimulatedGpu:
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=noise or Noise(seed=1))


def drive(plan, device):
    """Run a plan to its end; its outcome and the batches it asked for."""
    batches, traces = [], None
    while True:
        try:
            batches.append(next(plan) if traces is None else plan.send(traces))
        except StopIteration as stop:
            return stop.value, batches
        traces = device.run(batches[-1])


def mapped(device, seed=0):
    bench = Bench(device.info, seed)
    levels, _ = drive(l2_plan(bench, Known({})), device)
    outcome, (batch,) = drive(l2_map_plan(bench, Known({"levels.l2": levels.knowledge})), device)
    latency, part = outcome.estimates
    assert (latency.attribute, part.attribute) == ("latency_by_sm", "partition_by_sm")
    return latency, part, batch


def plain(hierarchy: Hierarchy) -> Hierarchy:
    return replace(hierarchy, partition=None)


def truth(hierarchy: Hierarchy, offsets) -> np.ndarray:
    """Mean hit latency over these lines of every SM."""
    distance = hierarchy.distance
    parts = 1 if hierarchy.partition is None else 2
    per_part = len(distance.by_slice) // parts
    numbers = set_numbers(distance.index, 128, per_part, offsets)
    return np.array([
        NEAR + far + np.array(distance.by_slice)[sm % parts * per_part + numbers].mean()
        for sm, far in enumerate(distance.by_sm)
    ])  # fmt: skip


def claimed_error(latency) -> float:
    return float(re.search(r"each to within ([0-9.]+) cycles", latency.caveats[0])[1])


distances = st.integers(0, 2**32 - 1).map(np.random.default_rng)


@settings(max_examples=8)
@given(distances, st.integers(8, 40), st.booleans(), st.sampled_from([0.0, 0.002, 0.01]))
def test_distances_and_parts_come_out(rng, sms, split, outliers):
    by_sm, by_slice = rng.uniform(0, 50, sms), rng.uniform(0, 40, SLICES * (1 + split))
    hierarchy = in_parts(PolicyKind.LRU)
    hierarchy = hierarchy if split else plain(hierarchy)
    distance = Distance("l2", tuple(by_sm.tolist()), tuple(by_slice.tolist()), INDEX)
    hierarchy = replace(hierarchy, sm_count=sms, distance=distance)
    latency, part, batch = mapped(gpu_of(hierarchy, Noise(seed=sms, outliers=outliers)))
    expected = truth(hierarchy, batch[0].order.offsets())
    assert latency.status is Status.FOUND and len(latency.value) == sms
    assert np.abs(np.array(latency.value) - expected).max() <= claimed_error(latency) < 4
    if split:
        assert part.status is Status.FOUND
        assert part.value == tuple(float(sm % 2) for sm in range(sms))
    else:
        assert part.status is Status.NOT_FOUND


def test_what_the_findings_say():
    rng = np.random.default_rng(3)
    by_sm, by_slice = tuple(rng.uniform(0, 30, 12).tolist()), tuple(rng.uniform(0, 40, 2 * SLICES).tolist())
    hierarchy = replace(in_parts(PolicyKind.LRU), sm_count=12, distance=Distance("l2", by_sm, by_slice, INDEX))
    latency, part, batch = mapped(gpu_of(hierarchy))
    told = " | ".join(latency.caveats)
    assert "12 of them measured again at the end: within 0." in told
    assert "latency = SM + line explains" in told and "with lines of its own for each part 99.9%" in told
    assert f"{SLICES} different patterns" in told
    told = " | ".join(part.caveats)
    extra = np.mean(by_sm) + np.mean(by_slice)
    for what, cycles in (("memory from all SMs: near", MEMORY), ("hits once the lines are there: near", NEAR)):
        (seen,) = (float(text.removeprefix(what).split(",")[0]) for text in part.caveats if text.startswith(what))
        assert seen == pytest.approx(cycles + extra, abs=8)
    assert "one SM alone, far ones beyond what the near part holds" in told
    assert part.confidence == 0.995 and "alike" in told
    assert len(latency.evidence) == len(set(latency.evidence)) == len(batch)


def test_hits_alone_may_tell_the_parts():
    """Two parts, but one memory."""
    rng = np.random.default_rng(2)
    hierarchy = in_parts(PolicyKind.LRU)
    partition = replace(hierarchy.partition, far_memory_penalty=0.0)
    distance = Distance("l2", by_slice=tuple(rng.uniform(0, 40, 2 * SLICES).tolist()), index=INDEX)
    _, part, _ = mapped(gpu_of(replace(hierarchy, partition=partition, distance=distance, sm_count=16)))
    assert part.value == (0.0, 1.0) * 8
    assert part.confidence == 0.9
    assert "by hits alone" in part.caveats[0]


@pytest.mark.parametrize("noise", [Noise.none(), Noise(seed=5, jitter=0.5, outliers=0.01, drift=0.01)])
def test_one_part_is_one_part(noise):
    latency, part, _ = mapped(gpu_of(plain(in_parts(PolicyKind.LRU)), noise))
    assert part.status is Status.NOT_FOUND and "one part" in part.reason
    assert latency.value == pytest.approx([NEAR] * 8, abs=claimed_error(latency))
    assert claimed_error(latency) < (1.5 if noise.drift == 0 else 12)


def test_few_sms_are_too_few():
    latency, part, _ = mapped(gpu_of(replace(plain(in_parts(PolicyKind.LRU)), sm_count=1)))
    assert len(latency.value) == 1
    assert part.status is Status.NOT_FOUND and part.reason == "1 SMs are too few to tell parts by"


def test_what_it_asks_for():
    """Every SM once, in random order, then some again; one batch, one ring, all alone; not too many numbers."""
    _, _, batch = mapped(gpu_of(replace(in_parts(PolicyKind.LRU), sm_count=132)))
    each = [chase for chase in batch if chase.timing is Timing.EACH]
    assert sorted(chase.sm for chase in each if chase.repetition == 0) == list(range(132))
    assert [chase.sm for chase in each[:132]] != list(range(132))
    assert sum(chase.repetition for chase in each) == AGAIN
    assert len({chase.order for chase in batch}) == 1 and batch[0].order.count == LINES
    assert all(chase.alone and chase.path is Path.GLOBAL_L2 for chase in batch)
    assert sum(chase.records for chase in batch) == LINES * LAPS * (132 + AGAIN) + 63 <= 150_000


def test_lines_that_do_not_stay_are_no_hits():
    """An L2 so small that the lines push each other out."""
    device = gpu_of(in_parts(PolicyKind.LRU, part=16 << 10))
    levels, _ = drive(l2_plan(Bench(device.info), Known({})), device)
    outcome, _ = drive(l2_map_plan(Bench(device.info), Known({"levels.l2": levels.knowledge})), device)
    assert all(each.status.has_value is False and each.reason for each in outcome.estimates)


def test_without_an_l2_there_is_no_map():
    absent = Levels(Path.GLOBAL_L2, (), {"l2": Absence("nothing is cached")})
    outcome, batches = drive(
        l2_map_plan(Bench(gpu_of(in_parts(PolicyKind.LRU)).info), Known({"levels.l2": absent})), None
    )
    assert batches == []
    assert {each.reason for each in outcome.estimates} == {"nothing is cached"}


def test_the_other_part_at_a_second_look_is_ambiguous():
    """SMs that change sides between the two looks."""

    class Fickle:
        def __init__(self, device):
            self._device, self.info = device, device.info

        def run(self, batch):
            moved = [replace(chase, sm=chase.sm ^ 1) if chase.repetition else chase for chase in batch]
            return self._device.run(moved)

    _, part, _ = mapped(Fickle(gpu_of(in_parts(PolicyKind.LRU))))
    assert part.status is Status.AMBIGUOUS
    assert "SM 0, 1, 2, 3, 4, 5, 6, 7 into the other" in part.reason


def test_a_survey_has_it_and_a_quick_one_leaves_it_out():
    device = gpu_of(in_parts(PolicyKind.LRU))
    full = {each.attribute: each for each in run_survey(device, elements=["l2"]).findings}
    quick = {each.attribute: each for each in run_survey(device, elements=["l2"], quick=True).findings}
    assert full["partition_by_sm"].value == (0.0, 1.0) * 4
    assert full["latency_by_sm"].value == pytest.approx([NEAR] * 8, abs=0.5)
    assert quick["latency_by_sm"].status is quick["partition_by_sm"].status is Status.SKIPPED
    assert full["far_latency"].value == pytest.approx(FAR, abs=1) and FAR_MEMORY > FAR

"""Hits in the far partition of simulated GPUs whose SMs lie at known distances."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.measure.cache.plan_latency import FAR_SMS
from gpudissect.simulation.cache.geometry import Distance, PolicyKind
from gpudissect.survey.run import run_survey
from tests.measure.cache.test_l2_partitions import FAR, two_partitions
from tests.support.driving import estimates

NAME = "l2", "far_latency"
PARTITIONED = two_partitions(PolicyKind.LRU)


def gpu_of(hierarchy):
    return SimulatedGpu(hierarchy, spec="sim:test", name="test", noise=Noise(seed=1))


def test_the_mean_over_sms_replaces_the_latency_from_one():
    by_sm = tuple(np.random.default_rng(4).permutation(np.linspace(0, 24, 12)).tolist())
    hierarchy = replace(PARTITIONED, sm_count=12, distance=Distance("l2", by_sm))
    one, several = (estimates(gpu_of(hierarchy), [name])[NAME] for name in ("latency.l2", "far_partition.l2"))
    truth = FAR + np.mean(by_sm)
    assert abs(several.value - truth) < 4 and several.low <= truth <= several.high
    assert several.high - several.low < 0.5 * (one.high - one.low)
    assert f"{FAR_SMS} SMs" in several.caveats[0]


@pytest.mark.parametrize(
    "hierarchy", [replace(PARTITIONED, sm_count=2), replace(PARTITIONED, partition=None)], ids=["2 SMs", "1 partition"]
)
def test_few_sms_or_one_partition_change_nothing(hierarchy):
    one, several = (estimates(gpu_of(hierarchy), [name])[NAME] for name in ("latency.l2", "far_partition.l2"))
    assert one == several


def test_a_quick_survey_keeps_the_latency_from_one_sm():
    full, quick = (run_survey(gpu_of(PARTITIONED), elements=["l2"], quick=each).findings for each in (False, True))
    (full, quick) = (next(each for each in found if each.attribute == NAME[1]) for found in (full, quick))
    assert full.caveats != quick.caveats and full.value == pytest.approx(quick.value, abs=1)

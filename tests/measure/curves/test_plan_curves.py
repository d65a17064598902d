"""Latency and bandwidth against footprint on simulated GPUs, whose levels are known."""

import numpy as np
import pytest

from gpudissect.device.kinds import open_device
from gpudissect.measure.curves.plan_curves import footprints
from gpudissect.survey.run import run_survey

KIB, MIB = 1 << 10, 1 << 20


@pytest.fixture(scope="module")
def curves():
    with open_device("sim:gtx980?noise=none") as gpu:
        survey = run_survey(gpu, elements=("curves",))
    assert survey.failures == ()
    return {each.name: each.columns for each in survey.series if each.element == "curves"}


def test_latency_has_a_step_at_every_level(curves):
    """24 KiB of L1 at 82 cycles, 2 MiB of L2 at 236 past the L1, memory at 391 (catalogue)."""
    footprint, latency = (np.array(column) for column in curves["latency against footprint"].values())
    assert np.all(np.abs(latency[footprint <= 24 * KIB] - 82) < 1)
    assert np.all(np.abs(latency[(footprint > 25 * KIB) & (footprint <= 2 * MIB)] - 236) < 1)
    assert np.all(latency[footprint > 2.5 * MIB] > 300) and footprint[-1] > 5 * MIB


def test_bandwidth_has_a_step_at_every_level(curves):
    footprint, rate, past_l1 = (np.array(column) for column in curves["read bandwidth against footprint"].values())
    l1, l2, memory = rate[footprint <= 256 * KIB], rate[footprint == 1 * MIB], rate[footprint > 3 * MIB]
    assert l1.min() > 1.5 * l2.max() > 3 * memory.max() > 0
    assert past_l1[footprint <= 1 * MIB].max() < 1.2 * l2.max()
    assert past_l1[footprint <= 1 * MIB].min() > memory.max()


@pytest.mark.parametrize(("first", "last", "sizes"), [(2, 8, [2, 3, 4, 6, 8]), (16, 16, [16]), (16, 3, [16])])
def test_footprints_are_half_octaves_apart(first, last, sizes):
    assert footprints(first, last) == sizes

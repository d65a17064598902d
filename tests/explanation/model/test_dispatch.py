"""Blocks of a grid on the SMs, some of which exit at once."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation.model.dispatch import Launch, most_working, working_share
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.explanation.packing import Trace

BLOCKS = [SimpleNamespace(start=0, end=1), SimpleNamespace(start=1, end=100)]
PROGRAM = SimpleNamespace(flow=SimpleNamespace(blocks=BLOCKS))


def warp(block, visits):
    return SampledWarp(block, Trace(np.zeros(visits), *(np.zeros(0),) * 5))


@pytest.mark.parametrize(
    ("executions", "warps", "share"),
    [
        ((1.0, 0.5), [warp(0, 100), warp(0, 100), warp(1, 1), warp(1, 1)], 0.5),
        ((1.0, 0.5), [warp(0, 100), warp(0, 1)], 1.0),  # a part of the warps of each block
        ((1.0, 0.95), [warp(0, 100)], 1.0),
        ((1.0, 0.5), [], 1.0),
    ],
    ids=["blocks", "warps", "nearly all", "no sample"],
)
def test_only_whole_blocks_that_exit_at_once_have_no_work(executions, warps, share):
    assert working_share(PROGRAM, executions, warps) == share


def test_blocks_that_leave_after_much_work_have_work():
    late = SimpleNamespace(flow=SimpleNamespace(blocks=BLOCKS[::-1]))
    assert working_share(late, (1.0, 0.5), [warp(0, 100)]) == 1.0


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 300), st.floats(0.05, 1.0))
def test_the_fullest_sm_has_at_least_the_mean_and_at_most_what_fits(sms, resident, blocks, share):
    launch = Launch(blocks, 4, share)
    working = max(1, round(share * blocks))
    most = most_working(launch, sms, resident)
    if share < 1 and working <= sms * resident:
        assert working / sms <= most <= resident
    else:
        assert most == pytest.approx(share * blocks / sms)


def test_blocks_that_fill_all_places_are_spread_evenly():
    """528 of 1024 blocks work on 132 SMs (covariance.cu): four each where four fit, up to five where five fit."""
    launch = Launch(1024, 4, 528 / 1024)
    assert (most_working(launch, 132, 4), most_working(launch, 132, 5)) == (4, 5)

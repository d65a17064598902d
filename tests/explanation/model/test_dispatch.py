"""Blocks of a grid on the SMs, some of which exit at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation.model.dispatch import Launch, blocks_of_fullest_sm, working_share
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.flow import Block, Flow


class Program:
    """An entry, which leads to a block of 1000 instructions or past it to another one, of `rest`."""

    def __init__(self, rest):
        blocks = (Block(0, 1, (1, 2)), Block(1, 1001, (2,)), Block(1001, 1001 + rest, ()))
        self.flow = Flow((), blocks, entries=(0,), order=(0, 1, 2), dominator=(0, 0, 0))


def warp(block, visits):
    return SampledWarp(block, Trace(np.zeros(visits), *(np.zeros(0),) * 5))


@pytest.mark.parametrize(
    ("executions", "warps", "rest", "share"),
    [
        ((1.0, 0.5, 1.0), [warp(0, 100), warp(0, 100), warp(1, 1), warp(1, 1)], 1, 0.5),
        ((1.0, 0.5, 1.0), [warp(0, 100), warp(0, 1)], 1, 1.0),
        ((1.0, 0.5, 1.0), [warp(0, 100), warp(0, 100)], 1000, 1.0),
        ((1.0, 0.95, 1.0), [warp(0, 100)], 1, 1.0),
        ((1.0, 0.5, 1.0), [], 1, 1.0),
    ],
    ids=["whole blocks", "a part of the warps of a block", "a branch around a part", "nearly all", "no sample"],
)
def test_only_whole_blocks_that_skip_nearly_everything_have_no_work(executions, warps, rest, share):
    assert working_share(Program(rest), executions, warps) == share


@given(st.integers(1, 40), st.integers(1, 8), st.integers(1, 300), st.floats(0.01, 1.0))
def test_the_fullest_sm_has_at_least_the_mean_and_at_most_what_fits(sms, resident, blocks, share):
    working = max(1, round(share * blocks))
    fullest = blocks_of_fullest_sm(Launch(blocks, 4, working), sms, resident)
    assert working / sms <= fullest
    assert fullest <= max(resident, working / sms)


@pytest.mark.parametrize(("resident", "fullest"), [(4, 4), (5, 5)])
def test_blocks_that_fill_all_places_are_spread_evenly(resident, fullest):
    """528 of 1024 blocks work on 132 SMs (covariance.cu): four each where four fit, up to five where five fit."""
    assert blocks_of_fullest_sm(Launch(1024, 4, 528), 132, resident) == fullest


def test_a_large_grid_of_which_few_blocks_work_takes_no_memory():
    assert blocks_of_fullest_sm(Launch(2**31, 4, 100), 132, 4) <= 4

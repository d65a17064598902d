"""Fetches of code that is larger than the instruction cache of a scheduler."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.explanation.counts import Count
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.fetch import fetch_intervals
from gpudissect.explanation.model.sm.engine import Step, Work, run
from gpudissect.machine_code.flow import Block, Flow
from tests.explanation.model.sm.test_engine import SM
from tests.explanation.model.test_costs import CARD

CAPACITY, PENALTY = 32 << 10, 8.0  # cycles for 128 bytes: one for an instruction
MEASURED = replace(
    CARD, values={**CARD.values, ("icache_l0", "capacity"): CAPACITY, ("icache_l0", "miss_penalty"): PENALTY}
)


def intervals(loop_bytes, iterations=100.0, card=MEASURED, called_bytes=16):
    """Of code of 64 KiB that is executed once, of a loop behind it, and of a function that the loop calls."""
    ends = np.cumsum([0, 4096, loop_bytes // 16, called_bytes // 16]).tolist()
    after, callees = ((1,), (1,), ()), (None, 2, None)
    blocks = tuple(Block(*ends[n : n + 2], after[n], callees[n]) for n in range(3))
    flow = Flow((), blocks, entries=(0, 2), order=(0, 1, 2), dominator=(0, 0, 2))
    loop = SimpleNamespace(header=1, blocks=frozenset((1,)), latches=(1,), parent=None)
    loops = SimpleNamespace(loops=[loop], innermost=(None, 0, None))
    program = SimpleNamespace(flow=flow, loops=loops, instructions=range(ends[-1]))
    once, often, around = (Count(each, each, each) for each in (1.0, iterations, iterations - 1))
    counts = MachineCounts((once, often, often), (once, often, often), {(1, 1): around}, (None,) * 3)
    found = fetch_intervals(program, counts, 1, card)
    return [found[block.start] for block in blocks]


def test_a_loop_that_fits_is_fetched_in_its_first_iteration():
    assert intervals(16 << 10) == pytest.approx([2.0, 1.01, 1.01])
    assert intervals(16 << 10, iterations=1) == pytest.approx([2.0, 2.0, 2.0])


def test_a_loop_that_does_not_fit_is_fetched_in_every_iteration():
    assert intervals(64 << 10) == pytest.approx([2.0, 2.0, 2.0])


def test_the_code_of_a_loop_includes_functions_that_it_calls():
    assert intervals(16 << 10, called_bytes=48 << 10) == pytest.approx([2.0, 2.0, 2.0])


def test_misses_begin_above_the_capacity_of_the_cache():
    assert [intervals(round(each * CAPACITY))[1] for each in (1.0, 1.25, 1.5)] == pytest.approx(
        [1.01, 1.505, 2], abs=0.01
    )


def test_a_gpu_without_a_measured_cache_fetches_in_time():
    values = {key: value for key, value in CARD.values.items() if key[0] != "icache_l0"}
    assert intervals(64 << 10, card=replace(CARD, values=values)) == [1, 1, 1]


@pytest.mark.parametrize("warps", [4, 8])
def test_warps_of_a_scheduler_fetch_one_after_the_other(warps):
    """Four schedulers: with eight warps, two share each."""
    steps = tuple(Step(1, 0, None, None, "issue", 1.0, fetch=each) for each in (1.0, 3.0))
    fast, slow = (run(SM, Work((step,), (np.zeros(1000, np.int64),), warps, 1, 1)).cycles for step in steps)
    assert slow == pytest.approx(3 * 1000 * warps / 4, rel=0.02)
    assert fast == pytest.approx(1000 * warps / 4, rel=0.02)

"""Fetches of code that is larger than the instruction cache of a scheduler."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.explanation.counts import Count
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.fetch import fetch_intervals
from gpudissect.explanation.model.sm.engine import Step, Work, run
from tests.explanation.model.sm.test_engine import SM
from tests.explanation.model.test_costs import CARD

CAPACITY, PENALTY = 32 << 10, 8.0  # cycles for 128 bytes: one for an instruction
MEASURED = replace(
    CARD, values={**CARD.values, ("icache_l0", "capacity"): CAPACITY, ("icache_l0", "miss_penalty"): PENALTY}
)


def interval(loop_bytes, iterations=100.0, card=MEASURED):
    """Of the instructions of a loop of so many bytes behind code of 64 KiB that is executed once."""
    ends = [4096, 4096 + loop_bytes // 16]
    blocks = [SimpleNamespace(start=0, end=ends[0]), SimpleNamespace(start=ends[0], end=ends[1])]
    loop = SimpleNamespace(header=1, blocks=frozenset((1,)), latches=(1,), parent=None)
    loops = SimpleNamespace(loops=[loop], innermost=(None, 0))
    program = SimpleNamespace(flow=SimpleNamespace(blocks=blocks), loops=loops, instructions=range(ends[1]))
    once, often, around = (Count(each, each, each) for each in (1.0, iterations, iterations - 1))
    counts = MachineCounts((once, often), (once, often), {(1, 1): around}, (None, None))
    return fetch_intervals(program, counts, 1, card)[-1]


@pytest.mark.parametrize(
    ("size", "iterations", "cycles"), [(64 << 10, 100, 2.0), (16 << 10, 100, 1.01), (16 << 10, 1, 2.0)]
)
def test_a_loop_that_fits_is_fetched_once(size, iterations, cycles):
    assert interval(size, iterations) == pytest.approx(cycles)


def test_a_gpu_without_a_measured_cache_fetches_in_time():
    values = {key: value for key, value in CARD.values.items() if key[0] != "icache_l0"}
    assert interval(64 << 10, card=replace(CARD, values=values)) == 1


@pytest.mark.parametrize("warps", [4, 8])
def test_warps_of_a_scheduler_fetch_one_after_the_other(warps):
    """Four schedulers: with eight warps, two share each."""
    steps = tuple(Step(1, 0, None, None, "issue", 1.0, fetch=each) for each in (1.0, 3.0))
    fast, slow = (run(SM, Work((step,), (np.zeros(1000, np.int64),), warps, 1, 1)).cycles for step in steps)
    assert slow == pytest.approx(3 * 1000 * warps / 4, rel=0.02)
    assert fast == pytest.approx(1000 * warps / 4, rel=0.02)

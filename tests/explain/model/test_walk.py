"""The path of a warp executes each block as often as it was counted."""

import numpy as np
import pytest

from gpudissect.explain.model.walk import walk
from tests.explain.sources import NAMES
from tests.explain.test_mapping import UNDETERMINED, mapped

WARPS = 8


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNDETERMINED))
def test_a_path_has_the_executions_of_an_average_warp(name):
    _, _, program, counts = mapped(name, "sm_90")
    path = walk(program, counts, WARPS, 100_000)
    found = np.bincount(path.instructions, minlength=len(program.instructions))
    assert np.abs(found - path.executed).max() <= 1 + 0.1 * path.executed.max()
    assert path.share == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("name", ["collatz", "nest", "triangle"])
def test_a_short_path_keeps_all_blocks_and_says_its_share(name):
    _, _, program, counts = mapped(name, "sm_90")
    whole, short = (walk(program, counts, WARPS, length) for length in (100_000, 60))
    assert short.instructions.size < whole.instructions.size
    assert short.share == pytest.approx(short.instructions.size / whole.executed.sum(), rel=0.3)
    assert set(short.instructions) == set(whole.instructions)


def test_producers_come_before_their_consumers():
    _, _, program, counts = mapped("reduction", "sm_90")
    path = walk(program, counts, WARPS, 100_000).instructions
    first = {int(index): place for place, index in reversed(list(enumerate(path)))}
    for each in program.dependences.dependences:
        if each.loop is None and {each.producer, each.consumer} <= first.keys():
            assert first[each.producer] < first[each.consumer]

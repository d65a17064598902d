"""Banks: turns counted by hand, and layouts found again from latencies that they foretell."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.shared_memory.infer_banks import (
    LAYOUTS,
    Layout,
    Point,
    banks_of,
    hidden,
    per_turn,
    same_answer,
    stride_of,
    without_wide,
)

MODERN = Layout(32, 4, 4, 32)
KEPLER_8 = Layout(32, 8, 8, 32)
KEPLER_4 = Layout(32, 4, 8, 32)
G80 = Layout(16, 4, 4, 16)
SHAPES = [(stride, width) for width in (4, 8, 16) for stride in range(65) if stride * 4 % width == 0]


def points(layout, cost=2.0, base=23.0, noise=0.0, seed=0, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [Point(s, w, base + w / 4 + cost * layout.turns(s, w) + noise * rng.standard_normal()) for s, w in shapes]


@pytest.mark.parametrize(
    ("layout", "stride", "turns"),
    [
        (MODERN, 0, 1), (MODERN, 1, 1), (MODERN, 2, 2), (MODERN, 3, 1), (MODERN, 6, 2), (MODERN, 32, 32),
        (MODERN, 33, 1),
        (KEPLER_8, 2, 1), (KEPLER_8, 6, 1), (KEPLER_8, 4, 2), (KEPLER_8, 64, 32),  # MC16 fig 18
        (KEPLER_4, 2, 1), (KEPLER_4, 6, 2),
        (G80, 1, 2), (G80, 2, 4), (G80, 16, 32), (G80, 17, 2),
    ],
)  # fmt: skip
def test_turns_of_words(layout, stride, turns):
    assert layout.turns(stride, 4) == turns


def test_wide_accesses_take_as_many_turns_as_they_have_words():
    assert [MODERN.turns(width // 4, width) for width in (4, 8, 16)] == [1, 2, 4]
    assert [KEPLER_8.turns(width // 4, width) for width in (4, 8, 16)] == [1, 1, 2]


@given(st.sampled_from(LAYOUTS), st.integers(1, 64))
def test_there_is_a_turn_for_every_row_of_the_fullest_bank(layout, stride):
    assert 32 // layout.at_once <= layout.turns(stride, 4) <= 32


@pytest.mark.parametrize("layout", [MODERN, KEPLER_8, KEPLER_4, G80, Layout(16, 8, 8, 32), Layout(64, 4, 4, 32)])
@pytest.mark.parametrize("cost", [0.5, 2.0, 37.0])
def test_a_layout_is_found_again(layout, cost):
    found = banks_of(points(layout, cost, noise=0.05))
    assert found.layout is not None and same_answer(found.layout, layout)
    assert found.layout.interleave == layout.interleave
    assert all(same_answer(layout, rival) for rival in found.rivals)
    per_way = cost * (layout.at_once / found.layout.at_once if layout.banks == 16 and layout.width == 4 else 1)
    assert found.low <= per_way <= found.high or found.cost == pytest.approx(cost, rel=0.02)


@settings(max_examples=25)
@given(st.sampled_from(LAYOUTS), st.floats(1, 40), st.floats(10, 60), st.integers(0, 10))
def test_the_truth_is_the_answer_or_among_the_rivals(layout, cost, base, seed):
    found = banks_of(points(layout, cost, base, noise=0.02 * cost, seed=seed))
    assert found.layout is not None
    assert any(same_answer(layout, each) for each in (found.layout, *found.rivals))


def test_loads_of_words_tell_modern_banks_from_all_others():
    found = banks_of(without_wide(points(MODERN, noise=0.1)))
    assert found.layout == MODERN and found.rivals == ()


def test_few_strides_leave_several_layouts():
    found = banks_of(points(MODERN, shapes=[(1, 4), (2, 4), (4, 4), (8, 4)]))
    assert len(found.rivals) > 1


def test_no_conflicts_no_banks():
    found = banks_of(points(MODERN, cost=0.0, noise=0.1))
    assert found.layout is None and "no conflicts" in found.reason


@pytest.mark.parametrize("shape", ["ramp", "noise", "one slow stride"])
def test_what_no_banks_explain(shape):
    rng = np.random.default_rng(3)
    cycles = {
        "ramp": lambda s: 20 + s,
        "noise": lambda s: rng.uniform(20, 80),
        "one slow stride": lambda s: 20 + 60 * (s == 7),
    }
    found = banks_of([Point(stride, 4, cycles[shape](stride)) for stride in range(1, 65)])
    assert found.layout is None and "no layout" in found.reason


def test_stores_wait_for_conflicts_beyond_what_hides_them():
    stores = [Point(s, 4, max(8.0, 2.0 * MODERN.turns(s, 4))) for s in range(65)]
    slope = per_turn(stores, MODERN)
    assert slope is not None and slope.low <= 2 <= slope.high
    assert per_turn([Point(s, 4, 8.0) for s in range(65)], MODERN) is None
    assert per_turn([Point(1, 4, 8.0)], MODERN) is None


@given(st.sampled_from([MODERN, KEPLER_8, KEPLER_4]), st.floats(0.5, 8), st.floats(1, 12))
def test_what_few_turns_take_stands_beside_the_slope(layout, cost, start):
    """Stores that wait for the slower of the two: starting one, or the turns of the one before."""
    stores = [Point(s, 4, max(start, cost * layout.turns(s, 4))) for s in range(65)]
    few = hidden(stores, layout)
    assert set(few) == {layout.turns(s, 4) for s in range(1, 65)} & {1, 2, 3}
    assert all(cycles == max(start, cost * turns) for turns, cycles in few.items())
    slope = per_turn(stores, layout)
    if slope is not None and start <= 4 * cost:
        assert slope.low <= cost <= slope.high


def test_the_stride_of_a_conflict():
    assert [stride_of(each, 2) for each in (MODERN, KEPLER_8, KEPLER_4, G80)] == [2, 4, 4, 2]
    assert stride_of(MODERN, 3) is None


def test_nothing_follows_from_nothing():
    with pytest.raises(ValueError, match="strides"):
        banks_of([Point(0, 4, 20.0)])

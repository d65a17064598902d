"""Banks: passes counted by hand, and layouts recovered from the latencies that they predict."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.shared_memory.infer_banks import (
    LAYOUTS,
    Layout,
    StridedAccess,
    fit_layout,
    hidden_store_cycles,
    single_words,
    store_cost,
)

MODERN = Layout(32, 4, 4, 32)
KEPLER_8 = Layout(32, 8, 8, 32)
KEPLER_4 = Layout(32, 4, 8, 32)
G80 = Layout(16, 4, 4, 16)
SHAPES = [(stride, width) for width in (4, 8, 16) for stride in range(65) if stride * 4 % width == 0]


def accesses(layout, cost=2.0, base=23.0, noise=0.0, seed=0, shapes=SHAPES):
    rng = np.random.default_rng(seed)
    return [
        StridedAccess(s, w, base + w / 4 + cost * layout.passes(s, w) + noise * rng.standard_normal())
        for s, w in shapes
    ]


@pytest.mark.parametrize(
    ("layout", "passes_by_stride"),
    [
        (MODERN, {0: 1, 1: 1, 2: 2, 3: 1, 6: 2, 32: 32, 33: 1}),
        (KEPLER_8, {2: 1, 6: 1, 4: 2, 64: 32}),  # MC16 fig 18
        (KEPLER_4, {2: 1, 6: 2}),
        (G80, {1: 2, 2: 4, 16: 32, 17: 2}),
    ],
)
def test_passes_of_words(layout, passes_by_stride):
    assert {stride: layout.passes(stride, 4) for stride in passes_by_stride} == passes_by_stride


def test_wide_accesses_take_as_many_passes_as_rows():
    assert [MODERN.passes(width // 4, width) for width in (4, 8, 16)] == [1, 2, 4]
    assert [KEPLER_8.passes(width // 4, width) for width in (4, 8, 16)] == [1, 1, 2]


@given(st.sampled_from(LAYOUTS), st.integers(1, 64))
def test_passes_lie_between_one_per_lane_group_and_one_per_lane(layout, stride):
    assert 32 // layout.lanes <= layout.passes(stride, 4) <= 32


@pytest.mark.parametrize("layout", [MODERN, KEPLER_8, KEPLER_4, G80, Layout(16, 8, 8, 32), Layout(64, 4, 4, 32)])
@pytest.mark.parametrize("cost", [0.5, 2.0, 37.0])
def test_a_layout_is_recovered(layout, cost):
    found = fit_layout(accesses(layout, cost, noise=0.05))
    assert found.layout is not None and found.layout.same_banks(layout)
    assert found.layout.interleave == layout.interleave
    assert all(layout.same_banks(rival) for rival in found.rivals)
    per_pass = cost * (layout.lanes / found.layout.lanes if layout.banks == 16 and layout.width == 4 else 1)
    assert found.low <= per_pass <= found.high or found.cost == pytest.approx(cost, rel=0.02)


@settings(max_examples=25)
@given(st.sampled_from(LAYOUTS), st.floats(1, 40), st.floats(10, 60), st.integers(0, 10))
def test_the_truth_is_the_answer_or_among_the_rivals(layout, cost, base, seed):
    found = fit_layout(accesses(layout, cost, base, noise=0.02 * cost, seed=seed))
    assert found.layout is not None
    assert any(layout.same_banks(candidate) for candidate in (found.layout, *found.rivals))


def test_loads_of_words_identify_modern_banks():
    found = fit_layout(single_words(accesses(MODERN, noise=0.1)))
    assert found.layout == MODERN and found.rivals == ()


def test_few_strides_leave_several_layouts():
    found = fit_layout(accesses(MODERN, shapes=[(1, 4), (2, 4), (4, 4), (8, 4)]))
    assert len(found.rivals) > 1


UNEXPLAINED = {
    "ramp": lambda stride, rng: 20 + stride,
    "noise": lambda stride, rng: rng.uniform(20, 80),
    "one slow stride": lambda stride, rng: 20 + 60 * (stride == 7),
    "no conflicts": lambda stride, rng: 24 + 0.1 * rng.standard_normal(),
}


@pytest.mark.parametrize("shape", UNEXPLAINED)
def test_latencies_without_banks_have_no_layout(shape):
    rng = np.random.default_rng(3)
    found = fit_layout([StridedAccess(stride, 4, UNEXPLAINED[shape](stride, rng)) for stride in range(1, 65)])
    assert found.layout is None and found.reason


def test_stores_wait_for_conflicts_that_nothing_hides():
    slope = store_cost([StridedAccess(s, 4, max(8.0, 2.0 * MODERN.passes(s, 4))) for s in range(65)], MODERN)
    assert slope is not None and slope.low <= 2 <= slope.high
    assert store_cost([StridedAccess(s, 4, 8.0) for s in range(65)], MODERN) is None
    assert store_cost([StridedAccess(1, 4, 8.0)], MODERN) is None


@given(st.sampled_from([MODERN, KEPLER_8, KEPLER_4]), st.floats(0.5, 8), st.floats(1, 12))
def test_hidden_passes_are_reported_apart_from_the_slope(layout, cost, start):
    """A store waits for the slower of two: its own start, or the passes of the store before it."""
    stores = [StridedAccess(s, 4, max(start, cost * layout.passes(s, 4))) for s in range(65)]
    hidden = hidden_store_cycles(stores, layout)
    assert set(hidden) == {layout.passes(s, 4) for s in range(1, 65)} & {1, 2, 3}
    assert all(cycles == max(start, cost * passes) for passes, cycles in hidden.items())
    slope = store_cost(stores, layout)
    if slope is not None and start <= 4 * cost:
        assert slope.low <= cost <= slope.high


def test_the_stride_of_a_conflict():
    assert [layout.stride_for(2) for layout in (MODERN, KEPLER_8, KEPLER_4, G80)] == [2, 4, 4, 2]
    assert MODERN.stride_for(3) is None


def test_accesses_at_stride_0_alone_are_refused():
    with pytest.raises(ValueError, match="stride"):
        fit_layout([StridedAccess(0, 4, 20.0)])

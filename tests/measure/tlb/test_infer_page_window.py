"""Changes of the page-table window in penalties written by hand."""

import numpy as np
import pytest

from gpudissect.measure.tlb.infer_page_window import (
    Boundaries,
    confirms_windows,
    find_boundaries,
    switch_penalty,
    walking_pages,
    window_range,
)

WALK, SWITCH, LAPS, PAGES = 60.0, 200.0, 5, 40


def in_both_orders(changes):
    """Penalties of pages in rising and in falling order; windows begin at the pages `changes` and at page 0."""
    rising, falling = (np.full((LAPS, PAGES), WALK) for _ in range(2))
    rising[:, [0, *changes]] += SWITCH
    falling[:, [PAGES - 1, *(page - 1 for page in changes)]] += SWITCH
    return rising, falling


def noisy(penalties, seed=0):
    """With a cycle more or less, and one access of a hundred delayed."""
    rng = np.random.default_rng(seed)
    delays = rng.exponential(300, penalties.shape) * (rng.random(penalties.shape) < 0.01)
    return penalties + rng.integers(-1, 2, penalties.shape) + delays


@pytest.mark.parametrize("changes", [(), (7,), (2, 12, 22, 32), (10, 38)])
def test_changes_are_found(changes):
    rising, falling = map(noisy, in_both_orders(changes))
    found = find_boundaries(rising, falling, 2.0)
    assert found is not None and found.positions == changes
    assert found.penalty == pytest.approx(SWITCH if changes else 0.0, abs=2)


def test_pages_that_are_slow_in_both_orders_are_no_changes():
    """Lines that the L2 does not keep."""
    rising, falling = in_both_orders((20,))
    for order in (rising, falling):
        order[:, [3, 4, 9, 30]] += 400.0
    assert find_boundaries(rising, falling, 2.0) == Boundaries((20,), SWITCH)


@pytest.mark.parametrize("pages", [(5, 6), (20,)], ids=["the wrong way round", "in one order only"])
def test_what_no_window_does_is_no_change(pages):
    rising, falling = in_both_orders(())
    rising[:, pages[0]] += SWITCH
    falling[:, pages[1:]] += SWITCH
    found = find_boundaries(rising, falling, 2.0)
    assert found is None or not found.positions


def test_of_thousands_of_pages_none_that_is_slow_by_chance_is_a_change():
    """As on an H200, whose walks vary by some cycles: one of three scans had a score of 6, the opposite one 5."""
    rng = np.random.default_rng(1)
    scans = [WALK + rng.normal(0, 6, (2, laps, 3563)) for laps in (5, 10, 20)]
    for number in range(1, 4):
        rising, falling = np.concatenate(scans[:number], axis=1)
        found = find_boundaries(rising, falling, 2.0)
        assert found is None or not found.positions


def test_lines_that_hit_the_l2_by_chance_leave_it_unclear():
    rng = np.random.default_rng(3)
    rising, falling = (penalties + 270.0 * (rng.random(penalties.shape) < 0.5) for penalties in in_both_orders((20,)))
    found = find_boundaries(rising, falling, 2.0)
    assert found is None or found.positions == (20,)


def test_pages_that_share_an_entry_do_not_all_walk():
    """Two pages of one entry: the first of both misses, in either order."""
    rising, falling = in_both_orders(())
    rising[:, 1::2] = falling[:, ::2] = 0.0
    assert walking_pages(rising, falling, 0.0, 2.0) is None
    assert walking_pages(*in_both_orders((20,)), 0.0, 2.0).all()


def test_the_pages_of_a_window():
    assert window_range([(9, 10), (25, 26), (41, 42)], 0, 50) == (16, 16)
    assert window_range([(8, 12), (40, 44)], 0, 60) == (29, 35)
    assert window_range([(9, 10), (41, 42), (57, 58)], 0, 60) == (16, 16), "one change was not noticed"
    assert window_range([(9, 10), (25, 26), (44, 45)], 0, 50) is None, "not equally far apart"
    assert window_range([(29, 30), (39, 40)], 0, 50) is None, "others must have been found before the first"
    with pytest.raises(ValueError, match="two changes"):
        window_range([(9, 10)], 0, 50)


def test_two_orders_must_confirm_a_window():
    within, between = (noisy(np.full((LAPS, PAGES), WALK), seed) for seed in (1, 2))
    assert not confirms_windows(within, between, SWITCH), "a TLB keeps the pages of both windows"
    assert confirms_windows(within, between + SWITCH, SWITCH)
    half = SWITCH * (np.arange(PAGES) % 2)
    assert not confirms_windows(within + half, between + SWITCH, SWITCH), "twice the true size"
    assert not confirms_windows(within, between + half, SWITCH), "half of the true size"
    value, low, high = switch_penalty(within, between + SWITCH, [SWITCH + 1, SWITCH + 1.5])
    assert low <= SWITCH <= value <= high <= SWITCH + 3

"""Accesses that were answered elsewhere than foretold: counted, laid at somebody's door, and named."""

import numpy as np
import pytest

from gpudissect.measure.prediction.infer_disagreement import (
    UNCLEAR,
    Answered,
    Forecast,
    Unforetold,
    Whole,
    first_of,
    stubborn,
    whole,
)

COUNT = 1000
NAMES = ("l1", "l2")


def answered(foretold, once=None, again=None, fresh=None, counts=None):
    foretold = np.asarray(foretold, dtype=np.int8)

    def run(given):
        return foretold.copy() if given is None else np.asarray(given, dtype=np.int8)

    every = np.ones(foretold.size, dtype=bool) if counts is None else counts
    return Answered(np.arange(foretold.size) * 32, every, Forecast(foretold, run(fresh)), [run(once), run(again)],
                    ("one", "two"))  # fmt: skip


def places(seed=0):
    return np.random.default_rng(seed).integers(0, 3, COUNT).astype(np.int8)


def changed(foretold, at, to):
    seen = foretold.copy()
    seen[at] = to
    return seen


def test_all_as_foretold():
    told = whole("global", NAMES, [answered(places())], ())
    assert told == Whole("global", 2 * COUNT, 2 * COUNT, {}, 1.0)
    assert stubborn([answered(places())], told, 0) == ""


def test_the_nearest_cache_that_answered_otherwise_is_to_blame():
    foretold = places()
    at = np.flatnonzero(foretold == 0)[:30]
    part = answered(foretold, changed(foretold, at, 2), changed(foretold, at, 2))
    told = whole("global", NAMES, [part], ())
    assert told.wrong == {"l1": 60}
    assert "30 are never answered as foretold: 0 hit that must miss, 30 miss that must hit" in stubborn([part], told, 0)
    assert f"access {at[0]} of sequence 1 (byte {at[0] * 32})" in stubborn([part], told, 0)
    assert stubborn([part], told, 1) == ""


def test_accesses_misread_in_one_run_blame_nobody():
    foretold = places()
    rng = np.random.default_rng(3)
    runs = [changed(foretold, rng.choice(COUNT, 10, replace=False), 2) for _ in range(2)]
    part = answered(foretold, *runs)
    assert stubborn([part], whole("global", NAMES, [part], ()), 0) == ""


def test_of_drawn_victims_the_share_counts():
    rng = np.random.default_rng(4)
    foretold = places()

    def one(share):
        return changed(foretold, rng.random(COUNT) < share, 2)

    as_likely = answered(foretold, one(0.2), one(0.2), one(0.2))
    told = whole("global", NAMES, [as_likely], ())
    assert told.possible == pytest.approx(told.agreement, abs=0.05)
    assert stubborn([as_likely], told, 0) == ""
    worse = answered(foretold, one(0.5), one(0.5), one(0.2))
    told = whole("global", NAMES, [worse], ())
    assert "can be" in stubborn([worse], told, 0)


def test_what_depends_on_the_unknown_is_left_open():
    foretold = places()
    foretold[:100] = UNCLEAR
    told = whole("global", NAMES, [answered(foretold, places(), places())], ("l1: something",))
    assert (told.accesses, told.right, told.open, told.assumed) == (1800, 1800, 200, ("l1: something",))


def test_first_touches_count_for_nothing():
    counts = np.arange(COUNT) >= 400
    told = whole("global", NAMES, [answered(places(), counts=counts)], ())
    assert told.accesses == 1200


def test_nothing_clear_is_nothing_foretold():
    nothing = np.full(COUNT, UNCLEAR)
    assert whole("global", NAMES, [answered(nothing)], ()) == Unforetold("path global", "no access was seen clearly")


def test_only_a_few_are_named():
    assert first_of([(np.arange(9) * 8, np.arange(9) > 3)]) == (
        "access 4 of sequence 1 (byte 32), access 5 of sequence 1 (byte 40), "
        "access 6 of sequence 1 (byte 48) and 2 more"
    )

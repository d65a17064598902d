"""A map made by hand: the additive model and two parts are found again; noise and drift are no parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_l2_map import Visits, additive, explained_by_parts, find_groups, find_parts, slices

SMS, LINES, LAPS = 132, 192, 5
NEAR, FAR = 540, 715


def measured(rng, touches, hits, noise=1.0, late=0.1):
    """Five laps of every SM, whole cycles: first touches, one in ten of them late, then hits with a little noise."""
    touches = touches + rng.normal(0, 10, touches.shape) + (rng.random(touches.shape) < late) * rng.integers(100, 500)
    laps = hits[:, None] + rng.normal(0, noise, (len(hits), LAPS - 1, hits.shape[1]))
    laps += (rng.random(laps.shape) < 0.002) * 300
    return Visits.of(list(np.rint(np.concatenate([touches[:, None], laps], axis=1)).astype(np.int64)))


def additive_hits(rng, sms=SMS, lines=LINES):
    return 250 + rng.uniform(0, 60, (sms, 1)) + rng.uniform(0, 50, (1, lines))


def halves(rng, n, share=0.5):
    return rng.permutation(n) < round(share * n)


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(2, 140), st.integers(8, 200))
def test_the_additive_model_is_found_again(seed, sms, lines):
    rng = np.random.default_rng(seed)
    by_sm, by_line = rng.uniform(0, 60, sms), rng.uniform(0, 50, lines)
    found = additive(250 + by_sm[:, None] + by_line)
    assert found.by_sm == pytest.approx(by_sm - by_sm.mean())
    assert found.by_line == pytest.approx(by_line - by_line.mean())
    assert found.mean == pytest.approx(250 + by_sm.mean() + by_line.mean())
    assert found.explained == pytest.approx(1)
    assert found.residual == pytest.approx(np.zeros((sms, lines)), abs=1e-9)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(8, 140), st.floats(0.3, 0.7), st.floats(0.3, 0.7), st.booleans())
def test_parts_by_first_touches(seed, sms, share, near, copies):
    """Whether hits differ by part as well or not."""
    rng = np.random.default_rng(seed)
    part, home = halves(rng, sms, share), halves(rng, LINES, near)
    touches = np.where(part[:, None] == home, NEAR, FAR)
    hits = additive_hits(rng, sms) + (0 if copies else 150 * (part[:, None] != home))
    visits = measured(rng, touches, hits)
    found = find_parts(visits)
    assert found is not None and found.by_touches and found.unsure == ()
    assert np.array_equal(found.second, part != part[0])
    assert found.hits_agree is (None if copies else True)
    assert found.near_and_far(visits.touches) == (pytest.approx(NEAR, abs=15), pytest.approx(FAR, abs=15))
    again = measured(rng, touches, hits)
    assert np.array_equal(found.sides(again), found.second)


@settings(max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(8, 140), st.floats(10, 60))
def test_parts_by_hits_where_memory_is_all_the_same(seed, sms, spread):
    rng = np.random.default_rng(seed)
    part = halves(rng, sms)
    lines = rng.uniform(0, spread, (2, LINES))
    hits = 250 + rng.uniform(0, 60, (sms, 1)) + lines[part.astype(int)]
    visits = measured(rng, np.full(hits.shape, 600), hits, noise=0.5)
    found = find_parts(visits)
    assert found is not None and not found.by_touches
    assert np.array_equal(found.second, part != part[0])
    assert np.array_equal(found.sides(measured(rng, np.full(hits.shape, 600), hits)), found.second)
    assert additive(visits.hits).explained < explained_by_parts(visits.hits, found.second) > 0.99
    with pytest.raises(ValueError, match="near or far"):
        found.near_and_far(visits.hits)


def no_parts(kind, rng):
    """Touches and hits without parts, each (SMS, LINES)."""
    touches, hits = np.full((SMS, LINES), 600.0), additive_hits(rng)
    time = np.argsort(rng.permutation(SMS))[:, None] / SMS  # when each SM had its turn
    match kind:
        case "noise":
            return touches + rng.normal(0, 80, touches.shape), 280 + rng.normal(0, 20, hits.shape)
        case "additive":
            return touches, hits
        case "all the same":
            return np.full_like(touches, 600), np.full_like(hits, 280)
        case "drift":
            return touches * (1 + 0.1 * time), hits * (1 + 0.1 * time)
        case "swing":
            return touches * (1 + 0.05 * np.sin(9 * time)), hits * (1 + 0.05 * np.sin(9 * time))
        case "another clock half way":
            return touches * np.where(time < 0.5, 1, 1.03), hits * np.where(time < 0.5, 1, 1.03)
        case "near and far lines, alike for all":
            return np.where(halves(rng, LINES), NEAR, FAR) + 0 * touches, hits
        case "one disturbed SM":
            hits[7] += rng.uniform(0, 200, LINES)
            touches[7] += rng.uniform(0, 400, LINES)
            return touches, hits
        case "a gradient over the die":
            place, column = np.linspace(-1, 1, SMS)[:, None], rng.uniform(-1, 1, LINES)
            return touches + 60 * place * column, hits + 20 * place * column
    raise AssertionError(kind)


@pytest.mark.parametrize("kind", [
    "noise", "additive", "all the same", "drift", "swing", "another clock half way", "one disturbed SM",
    "near and far lines, alike for all", "a gradient over the die",
])  # fmt: skip
@pytest.mark.parametrize("seed", range(4))
def test_what_is_no_part_is_not_taken_for_one(kind, seed):
    rng = np.random.default_rng(seed)
    visits = measured(rng, *no_parts(kind, rng), noise=0.0 if kind == "all the same" else 1.0)
    assert find_parts(visits) is None


@pytest.mark.parametrize("sms", [1, 2, 3])
def test_a_few_sms_show_no_parts(sms):
    part = np.arange(sms) % 2 == 1
    hits = np.where(part[:, None] == halves(np.random.default_rng(1), LINES), 250.0, 400.0)
    assert find_parts(Visits(hits, hits)) is None


def test_an_sm_between_the_parts_is_named():
    rng = np.random.default_rng(5)
    part, home = halves(rng, SMS), halves(rng, LINES)
    even = np.arange(LINES) % 2 == 0
    touches = np.where(part[:, None] == home, NEAR, FAR)
    touches[3, even] = np.where(home[even] == part[3], FAR, NEAR)  # by half of the lines it is in the other part
    found = find_groups(touches + rng.normal(0, 5, touches.shape), 40)
    assert found is not None and found.unsure == (3,)


@pytest.mark.parametrize("count", [2, 8, 24])
def test_slices_are_counted_where_they_are_clear(count):
    rng = np.random.default_rng(count)
    slice_of = rng.permutation(np.arange(LINES) % count)
    hits = 250 + rng.uniform(0, 60, (SMS, 1)) + rng.uniform(0, 40, (SMS, count))[:, slice_of]
    assert slices(hits + rng.normal(0, 0.4, hits.shape)) == count
    assert slices(hits + rng.normal(0, 15, hits.shape)) is None
    assert slices(additive_hits(rng)) is None
    assert slices(np.full((SMS, LINES), 280.0)) is None
    assert slices(hits[:, np.unique(slice_of, return_index=True)[1]]) is None  # no slice seen twice

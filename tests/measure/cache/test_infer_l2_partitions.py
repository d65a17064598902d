"""Partitions of an L2 in synthetic maps: model and partitions are recovered; noise and drift are no partitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_l2_partitions import (
    LatencyMap,
    count_slices,
    find_groups,
    find_home_partition,
    find_partitions,
    fit_additive,
    share_explained_by_partition,
)

SMS, LINES, LAPS = 132, 192, 5
NEAR, FAR = 540, 715
seeds = st.integers(0, 2**32 - 1)


def measure(rng, touches, hits, noise=1.0, late=0.1):
    """Five laps of every SM, whole cycles: first accesses, one in ten of them late, then hits with a little noise."""
    touches = touches + rng.normal(0, 10, touches.shape) + (rng.random(touches.shape) < late) * rng.integers(100, 500)
    laps = hits[:, None] + rng.normal(0, noise, (len(hits), LAPS - 1, hits.shape[1]))
    laps += (rng.random(laps.shape) < 0.002) * 300
    return LatencyMap.from_laps(list(np.rint(np.concatenate([touches[:, None], laps], axis=1)).astype(np.int64)))


def additive_hits(rng, sms=SMS, lines=LINES):
    return 250 + rng.uniform(0, 60, (sms, 1)) + rng.uniform(0, 50, (1, lines))


def random_half(rng, n, share=0.5):
    return rng.permutation(n) < round(share * n)


def test_homes_must_be_properties_of_the_lines():
    rng = np.random.default_rng(3)
    lines = rng.permutation(np.repeat([540, 720], 500))
    touches = lines + rng.integers(-20, 20, (4, 1000))
    found = find_home_partition(touches)
    assert found is not None
    assert np.array_equal(found.are_far(touches), lines == 720)
    assert find_home_partition(rng.permuted(touches, axis=1)) is None  # as many slow ones, but not the same ones
    no_gap = 600 + rng.integers(-100, 100, 1000) + rng.integers(-5, 5, (4, 1000))
    assert find_home_partition(no_gap) is None
    assert find_home_partition(np.full((4, 1000), 600)) is None


@settings(max_examples=50)
@given(seeds, st.integers(2, 140), st.integers(8, 200))
def test_the_additive_model_is_recovered(seed, sms, lines):
    rng = np.random.default_rng(seed)
    by_sm, by_line = rng.uniform(0, 60, sms), rng.uniform(0, 50, lines)
    found = fit_additive(250 + by_sm[:, None] + by_line)
    assert found.by_sm == pytest.approx(by_sm - by_sm.mean())
    assert found.by_line == pytest.approx(by_line - by_line.mean())
    assert found.mean == pytest.approx(250 + by_sm.mean() + by_line.mean())
    assert found.explained == pytest.approx(1)
    assert found.residual == pytest.approx(np.zeros((sms, lines)), abs=1e-9)


@settings(max_examples=25)
@given(seeds, st.integers(8, 140), st.floats(0.3, 0.7), st.floats(0.3, 0.7), st.booleans())
def test_partitions_by_first_accesses(seed, sms, share, near, copies):
    """With `copies` hits do not differ by partition."""
    rng = np.random.default_rng(seed)
    partition, home = random_half(rng, sms, share), random_half(rng, LINES, near)
    touches = np.where(partition[:, None] == home, NEAR, FAR)
    hits = additive_hits(rng, sms) + (0 if copies else 150 * (partition[:, None] != home))
    latencies = measure(rng, touches, hits)
    found = find_partitions(latencies)
    assert found is not None and found.by_touches and found.groups.unsure == ()
    assert np.array_equal(found.second, partition != partition[0])
    assert found.hits_agree is (None if copies else True)
    assert found.near_and_far(latencies.touches) == (pytest.approx(NEAR, abs=15), pytest.approx(FAR, abs=15))
    assert np.array_equal(found.assign(measure(rng, touches, hits)), found.second)


@settings(max_examples=25)
@given(seeds, st.integers(8, 140), st.floats(10, 60))
def test_partitions_by_hits_where_memory_is_uniform(seed, sms, spread):
    rng = np.random.default_rng(seed)
    partition = random_half(rng, sms)
    lines = rng.uniform(0, spread, (2, LINES))
    hits = 250 + rng.uniform(0, 60, (sms, 1)) + lines[partition.astype(int)]
    touches = np.full(hits.shape, 600)
    latencies = measure(rng, touches, hits, noise=0.5)
    found = find_partitions(latencies)
    assert found is not None and not found.by_touches
    assert np.array_equal(found.second, partition != partition[0])
    assert np.array_equal(found.assign(measure(rng, touches, hits)), found.second)
    explained = share_explained_by_partition(latencies.hits, found.second)
    assert fit_additive(latencies.hits).explained < explained > 0.99
    with pytest.raises(ValueError, match="near or far"):
        found.near_and_far(latencies.hits)


def one_partition(kind, rng):
    """First accesses and hits of one partition, each (SMS, LINES)."""
    touches, hits = np.full((SMS, LINES), 600.0), additive_hits(rng)
    time = np.argsort(rng.permutation(SMS))[:, None] / SMS  # when each SM was measured
    match kind:
        case "noise":
            return touches + rng.normal(0, 80, touches.shape), 280 + rng.normal(0, 20, hits.shape)
        case "additive":
            return touches, hits
        case "all equal":
            return np.full_like(touches, 600), np.full_like(hits, 280)
        case "drift":
            return touches * (1 + 0.1 * time), hits * (1 + 0.1 * time)
        case "swing":
            return touches * (1 + 0.05 * np.sin(9 * time)), hits * (1 + 0.05 * np.sin(9 * time))
        case "another clock half way":
            return touches * np.where(time < 0.5, 1, 1.03), hits * np.where(time < 0.5, 1, 1.03)
        case "near and far lines, equal for all":
            return np.where(random_half(rng, LINES), NEAR, FAR) + 0 * touches, hits
        case "one disturbed SM":
            hits[7] += rng.uniform(0, 200, LINES)
            touches[7] += rng.uniform(0, 400, LINES)
            return touches, hits
        case "a gradient over the die":
            place, column = np.linspace(-1, 1, SMS)[:, None], rng.uniform(-1, 1, LINES)
            return touches + 60 * place * column, hits + 20 * place * column
    raise AssertionError(kind)


KINDS = (
    *("noise", "additive", "all equal", "drift", "swing", "another clock half way", "one disturbed SM"),
    *("near and far lines, equal for all", "a gradient over the die"),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_one_partition_is_not_split(kind, seed):
    rng = np.random.default_rng(seed)
    assert find_partitions(measure(rng, *one_partition(kind, rng), noise=0.0 if kind == "all equal" else 1.0)) is None


@pytest.mark.parametrize("sms", [1, 2, 3])
def test_a_few_sms_show_no_partitions(sms):
    partition = np.arange(sms) % 2 == 1
    hits = np.where(partition[:, None] == random_half(np.random.default_rng(1), LINES), 250.0, 400.0)
    assert find_partitions(LatencyMap(hits, hits)) is None


def test_an_sm_between_the_partitions_is_named():
    rng = np.random.default_rng(5)
    partition, home = random_half(rng, SMS), random_half(rng, LINES)
    even = np.arange(LINES) % 2 == 0
    touches = np.where(partition[:, None] == home, NEAR, FAR)
    touches[3, even] = np.where(home[even] == partition[3], FAR, NEAR)  # half of the lines put it into the other one
    found = find_groups(touches + rng.normal(0, 5, touches.shape), 40)
    assert found is not None and found.unsure == (3,)


@pytest.mark.parametrize("count", [2, 8, 24])
def test_slices_are_counted_where_they_are_clear(count):
    rng = np.random.default_rng(count)
    slice_of = rng.permutation(np.arange(LINES) % count)
    hits = 250 + rng.uniform(0, 60, (SMS, 1)) + rng.uniform(0, 40, (SMS, count))[:, slice_of]
    assert count_slices(hits + rng.normal(0, 0.4, hits.shape)) == count
    assert count_slices(hits + rng.normal(0, 15, hits.shape)) is None
    assert count_slices(additive_hits(rng)) is None
    assert count_slices(np.full((SMS, LINES), 280.0)) is None
    assert count_slices(hits[:, np.unique(slice_of, return_index=True)[1]]) is None  # no slice occurs twice

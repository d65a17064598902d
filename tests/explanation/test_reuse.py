"""Hit rates from reuse distances: with all lines those of an LRU cache, with a sample of lines within the bounds."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation.reuse import Requests, behind_l1, l1_reuse, l2_reuse
from tests.support.cache_streams import (
    LINE,
    LruCache,
    gather,
    lru_hits,
    matrix_multiply,
    sampled_stream,
    skewed_gather,
    streaming,
    whole_stream,
)

CAPACITY = 1 << 19
BASE = 0x7F32_0000_0000
SHIFT = 3
STREAMS = {
    f"{name} over {size} of the capacity": make(int(size * CAPACITY))
    for size in (0.5, 1, 4)
    for name, make in (
        ("gather", lambda footprint: gather(footprint, 60_000, BASE, 1)),
        ("skewed gather", lambda footprint: skewed_gather(footprint, 60_000, BASE, 2)),
        ("streaming", lambda footprint: streaming(footprint, 3, BASE)),
    )
}
UNCERTAIN = (
    "gather over 1 of the capacity",
    "skewed gather over 1 of the capacity",
    "streaming over 1 of the capacity",
)
"""Their hit rate jumps at the capacity: no sample can give it."""
SECTORS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 2)), max_size=120)


def requests_of(sectors, line_bytes=LINE):
    columns = np.array(sectors, np.uint64).reshape(-1, 3)
    address, access, sm = columns[:, 0] * np.uint64(32), columns[:, 1].astype(np.uint32), columns[:, 2]
    return whole_stream(address, access, sm.astype(np.uint32), line_bytes)


@given(SECTORS, st.sampled_from([32, 64, 128]), st.integers(1, 12), st.integers(0, 2))
def test_all_lines_give_the_hits_of_an_lru_cache(sectors, line_bytes, lines, prior_launches):
    requests = requests_of(sectors, line_bytes)
    passes = np.tile(requests.address, 1 + prior_launches)
    expected = lru_hits(passes, lines * line_bytes, line_bytes=line_bytes)[prior_launches * len(sectors) :]
    reuse = l2_reuse(requests, prior_launches=prior_launches)
    assert (reuse.distances < lines * line_bytes).tolist() == expected.tolist()
    rates = reuse.hit_rates(lines * line_bytes)
    assert sorted(rates.by_access) == sorted(set(requests.access.tolist()))
    for access, share in rates.by_access.items():
        hits = expected[requests.access == access]
        assert share.low == share.value == share.high == pytest.approx(hits.mean())
        assert share.requests == len(hits)


@given(SECTORS, st.integers(1, 6), st.sampled_from([64, 128]))
def test_misses_may_fetch_more_than_a_sector_which_simultaneous_requests_wait_for(sectors, lines, fetch_bytes):
    requests, cache = requests_of(sectors), LruCache(lines * LINE, fetch_bytes=fetch_bytes)
    hits, fetched = [], 0
    for addresses in simultaneous(sectors):
        found = cache.request(*addresses)
        missed = {address // fetch_bytes for address, hit in zip(addresses, found, strict=True) if not hit}
        hits, fetched = hits + found, fetched + len(missed) * fetch_bytes
    reuse = l2_reuse(requests, fetch_bytes=fetch_bytes)
    assert (reuse.distances < lines * LINE).tolist() == hits
    assert sum(reuse.fetched_bytes(lines * LINE).values()) == fetched


def simultaneous(sectors):
    """Addresses of consecutive requests of different sectors of a line by one access of an SM."""
    groups, last = [], None
    for sector, *requester in sectors:
        key = (sector // 4, requester)
        if key != last or sector * 32 in groups[-1]:
            groups.append([])
        groups[-1].append(sector * 32)
        last = key
    return groups


@given(SECTORS, st.integers(1, 6), st.integers(0, 1))
def test_hits_in_the_near_partition_are_those_of_a_cache_for_its_sms(sectors, lines, prior_launches):
    requests, partition_of_sm = requests_of(sectors), np.array([0, 1, 0])
    caches = [LruCache(lines * LINE) for _ in range(2)]
    for _ in range(prior_launches + 1):
        hits = [caches[partition_of_sm[sm]].request(32 * sector)[0] for sector, _, sm in sectors]
    reuse = l2_reuse(requests, prior_launches=prior_launches, partition_of_sm=partition_of_sm)
    assert (reuse.distances < lines * LINE).tolist() == hits


@given(SECTORS, st.integers(1, 4))
def test_only_loads_that_miss_in_the_l1_of_their_sm_and_all_stores_reach_the_l2(sectors, lines):
    requests, uses_l1 = requests_of(sectors), np.array([True, False, True])
    caches = [LruCache(lines * LINE) for _ in range(3)]
    reaches_l2 = [
        not (uses_l1[access] and caches[sm].request(address)[0])
        for address, access, sm in zip(requests.address.tolist(), requests.access, requests.sm, strict=True)
    ]
    found = behind_l1(requests, uses_l1, lines * LINE)
    assert found.address.tolist() == requests.address[reaches_l2].tolist()
    assert found.sm.tolist() == requests.sm[reaches_l2].tolist()
    hits = ~np.array(reaches_l2, bool)
    for access, share in l1_reuse(requests, uses_l1).hit_rates(lines * LINE).by_access.items():
        assert share.value == pytest.approx(hits[requests.access == access].mean())


@pytest.mark.parametrize("prior_launches", [0, 1])
@pytest.mark.parametrize("name", STREAMS)
def test_a_sample_has_the_hit_rate_of_the_whole_stream_within_its_bounds(name, prior_launches):
    stream = STREAMS[name]
    hits = lru_hits(np.tile(stream, 1 + prior_launches), CAPACITY)[prior_launches * len(stream) :]
    sample = sampled_stream(whole_stream(stream), SHIFT)
    found = l2_reuse(sample, prior_launches=prior_launches).hit_rates(CAPACITY).total
    assert found.low <= hits.mean() + 1e-12 and hits.mean() - 1e-12 <= found.high
    if name not in UNCERTAIN:
        assert abs(found.value - hits.mean()) < 0.03
        assert found.high - found.low < 0.25


@pytest.mark.parametrize("prior_launches", [0, 1])
def test_a_sampled_matrix_multiply_has_the_hit_rate_of_each_access(prior_launches):
    stream, access = matrix_multiply(256, 32, 16, BASE)
    capacity = 1 << 17
    hits = lru_hits(np.tile(stream, 1 + prior_launches), capacity)[prior_launches * len(stream) :]
    sample = sampled_stream(whole_stream(stream, access), SHIFT)
    rates = l2_reuse(sample, prior_launches=prior_launches).hit_rates(capacity)
    for index in range(3):
        found, expected = rates.by_access[index], hits[access == index].mean()
        assert found.low <= expected <= found.high
        assert abs(found.value - expected) < 0.02


def test_bounds_contain_the_hit_rate_of_nearly_all_samples():
    contained = []
    for seed in range(60):
        stream = skewed_gather(2 * CAPACITY, 40_000, BASE + seed * 0x10_0000_1000, seed)
        expected = l2_reuse(whole_stream(stream)).hit_rates(CAPACITY).total.value
        found = l2_reuse(sampled_stream(whole_stream(stream), 5)).hit_rates(CAPACITY).total
        contained.append(found.low <= expected <= found.high)
    assert np.mean(contained) > 0.95


def test_an_infinite_cache_misses_the_first_requests_only():
    stream = gather(CAPACITY, 20_000, BASE, 3)
    reuse = l2_reuse(sampled_stream(whole_stream(stream), SHIFT))
    first = 1 - len(np.unique(stream)) / len(stream)
    found = reuse.hit_rates(math.inf).total
    assert found.low < first < found.high
    assert found.high - found.low < 0.06
    assert reuse.fetched_bytes(math.inf)[0] == pytest.approx(32 * len(np.unique(stream)), rel=0.15)
    assert l2_reuse(reuse.requests, prior_launches=1).hit_rates(math.inf).total.value == 1


def test_without_requests_nothing_is_known():
    nothing = Requests(np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.uint32), LINE, 0.5)
    for reuse in (l2_reuse(nothing), l2_reuse(nothing, prior_launches=1), l1_reuse(nothing, np.ones(1, bool))):
        rates = reuse.hit_rates(CAPACITY)
        assert (math.isnan(rates.total.value), rates.total.low, rates.total.high) == (True, 0, 1)
        assert not rates.by_access and not reuse.fetched_bytes(CAPACITY)


def test_one_sampled_line_gives_no_bound():
    requests = Requests(np.zeros(9, np.uint64), np.zeros(9, np.uint32), np.zeros(9, np.uint32), LINE, 1 / 32)
    found = l2_reuse(requests).hit_rates(CAPACITY).total
    assert (found.low, found.high, found.lines) == (0, 1, 1)

"""Hits in the L1 and in the partitions of the L2: with all lines those of LRU caches, with a sample nearly so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.explanation.reuse import L2, Requests, behind_l1, home_of, merged_by, served_by
from tests.support.cache_streams import LINE, LruCache, Partitions, gather, lru_hits, sampled_stream, whole_stream

CAPACITY = 1 << 19
BASE = 0x7F32_0000_0000
LOADS = np.array([True, True, True])
SECTORS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 2), st.integers(0, 2)), max_size=120)


def requests_of(sectors, line_bytes=LINE):
    columns = np.array(sectors, np.uint64).reshape(-1, 3)
    address, access, sm = columns[:, 0] * np.uint64(32), columns[:, 1].astype(np.uint32), columns[:, 2]
    return whole_stream(address, access, sm.astype(np.uint32), line_bytes)


@given(SECTORS, st.sampled_from([32, 64, 128]), st.integers(1, 12), st.integers(0, 1))
def test_loads_through_one_partition_hit_as_in_an_lru_cache(sectors, line_bytes, lines, prior_launches):
    requests = requests_of(sectors, line_bytes)
    passes = np.tile(requests.address, 1 + prior_launches)
    expected = lru_hits(passes, lines * line_bytes, line_bytes=line_bytes)[prior_launches * len(sectors) :]
    found = served_by(requests, LOADS, L2(lines * line_bytes, 32, (0,)), prior_launches=prior_launches)
    assert found.is_near.tolist() == expected.tolist()
    assert (found.memory_bytes > 0).tolist() == (~expected).tolist()


@given(SECTORS, st.integers(1, 6), st.sampled_from([64, 128]))
def test_misses_may_fetch_more_than_a_sector_which_simultaneous_requests_wait_for(sectors, lines, fetch_bytes):
    requests, cache = requests_of(sectors), LruCache(lines * LINE, fetch_bytes=fetch_bytes)
    hits, fetched = [], 0
    for addresses in simultaneous(sectors):
        found = cache.request(*addresses)
        missed = {address // fetch_bytes for address, hit in zip(addresses, found, strict=True) if not hit}
        hits, fetched = hits + found, fetched + len(missed) * fetch_bytes
    found = served_by(requests, LOADS, L2(lines * LINE, fetch_bytes, (0,)), prior_launches=0)
    assert found.is_near.tolist() == hits
    assert found.memory_bytes.sum() == fetched


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


@given(SECTORS, st.integers(1, 6), st.sets(st.integers(0, 2)))
def test_both_partitions_keep_what_crosses_and_stores_go_to_the_home(sectors, lines, stores):
    requests, partition_of_sm = requests_of(sectors), (0, 1, 0)
    is_load = np.array([index not in stores for index in range(3)])
    caches = Partitions(lines, home_of)
    expected = [caches.request(32 * s, partition_of_sm[sm], is_load=bool(is_load[a])) for s, a, sm in sectors]
    found = served_by(requests, is_load, L2(lines * LINE, 32, partition_of_sm), prior_launches=0)
    assert list(zip(found.is_near.tolist(), found.is_far.tolist(), strict=True)) == expected


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


@pytest.mark.parametrize("size", [0.5, 2, 4])
def test_a_sample_of_lines_hits_as_often_as_all_lines(size):
    stream = gather(int(size * CAPACITY), 60_000, BASE, 1)
    shares = [
        served_by(requests, LOADS, L2(CAPACITY, 32, (0,))).is_near.mean()
        for requests in (whole_stream(stream), sampled_stream(whole_stream(stream), 3))
    ]
    assert abs(shares[1] - shares[0]) < 0.04


def test_random_lines_of_twice_a_partition_hit_as_counted_on_an_h200():
    lines, requests = 1 << 12, 200_000
    random = np.random.default_rng(1)
    address = (random.integers(0, 4 * lines, requests) * 32).astype(np.uint64)
    sm = random.integers(0, 2, requests).astype(np.uint32)
    found = served_by(whole_stream(address, None, sm), LOADS, L2(30 / 64 * lines * LINE, 64, (0, 1)))
    assert found.is_near.mean() == pytest.approx(0.30, abs=0.02)
    assert found.memory_bytes.sum() / 64 / requests == pytest.approx(0.59, abs=0.02)


def test_a_far_hit_brings_only_the_sectors_that_are_there():
    home = int(home_of(np.array([0], np.uint64), 2)[0])
    address = np.array([0, 0, 32], np.uint64)
    access, sm = (np.array(each, np.uint32) for each in ([1, 0, 2], [1, 0, 0]))
    l2 = L2(1024, 64, (1 - home, home))
    found = served_by(whole_stream(address, access, sm), np.array([True, False, True]), l2, prior_launches=0)
    assert (found.is_far.tolist(), found.is_near.tolist()) == ([False, True, False], [False, False, False])


@pytest.mark.parametrize(
    ("sector", "access", "sm", "after", "is_merged"),
    [(5, 0, 1, 2, True), (5, 0, 0, 2, False), (6, 0, 1, 2, False), (5, 1, 1, 2, False), (5, 0, 1, 9, False)],
    ids=["other SM", "same SM", "other sector", "store", "later"],
)
def test_a_load_is_merged_with_one_of_another_sm_that_is_in_flight(sector, access, sm, after, is_merged):
    others = [(100 + n, 0, 0) for n in range(after - 1)]
    requests = requests_of([(5, 0, 0), *others, (sector, access, sm)])
    l2 = L2(1024, 32, (0,), in_flight_bytes=4 * 32)
    found = merged_by(requests, np.array([True, False]), np.array([32.0, 32.0]), l2)
    assert found.tolist() == [False] * after + [is_merged]


def test_without_requests_nothing_reaches_the_l2():
    nothing = Requests(np.zeros(0, np.uint64), np.zeros(0, np.uint32), np.zeros(0, np.uint32), LINE, 0.5)
    assert not behind_l1(nothing, LOADS, 1024).address.size
    assert not served_by(nothing, LOADS, L2(1024, 64, (0, 1))).memory_bytes.size

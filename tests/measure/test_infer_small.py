"""Fetch granularity, occupancy, line, latency, classic readings: each against a case with a known answer."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.measure.cache.infer_classic import saavedra, wong
from gpudissect.measure.cache.infer_granularity import Seconds, fetch_granularity
from gpudissect.measure.cache.infer_line import Hits, one_line
from gpudissect.measure.cache.infer_residency import occupancy
from gpudissect.measure.infer_latency import lap_latency

FAR, NEAR = np.full(16, 300), np.full(16, 44)


def votes(*pattern):
    return dict(zip((16, 32, 64, 128), pattern, strict=True))


@pytest.mark.parametrize("truth", [32, 64, 128, 256])
def test_granularity_is_the_first_distance_that_misses(truth):
    seen = {d: FAR if d >= truth else NEAR for d in (8, 16, 32, 64, 128, 256, 512)}
    found = fetch_granularity(Seconds(seen, seen), 250)
    assert (found.fetch, found.ahead) == (truth, None)


def test_granularity_is_not_found_when_nothing_or_everything_misses_or_votes_waver():
    for pattern in ([NEAR] * 4, [FAR] * 4, [NEAR, FAR, NEAR, FAR]):
        for seen in (Seconds(votes(*pattern), votes(*pattern)), Seconds(votes(NEAR, NEAR, FAR, FAR), votes(*pattern))):
            found = fetch_granularity(seen, 250)
            assert found.fetch is None
            assert found.reason


def test_what_is_fetched_ahead_is_not_the_granularity():
    found = fetch_granularity(Seconds(votes(NEAR, NEAR, FAR, FAR), votes(NEAR, FAR, FAR, FAR)), 250)
    assert (found.fetch, found.ahead) == (32, 64)
    other_way = fetch_granularity(Seconds(votes(NEAR, FAR, FAR, FAR), votes(NEAR, NEAR, FAR, FAR)), 250)
    assert other_way.fetch is None


@given(st.integers(1, 5000), st.data())
def test_occupancy_covers_the_truth(elements, data):
    held = data.draw(st.integers(0, elements))
    probes = 2000
    hits = np.random.default_rng(held).binomial(probes, held / elements)
    found = occupancy(int(hits), probes, elements, np.inf)
    assert abs(found.elements - held) <= 5 * found.error


def test_occupancy_without_probes_is_refused():
    with pytest.raises(ValueError, match="at least one probe"):
        occupancy(0, 0, 10, 24)


@pytest.mark.parametrize("together", [True, False])
def test_pairs_are_told_from_single_words_by_the_shares_measured(together):
    single, double = Hits(2700, 3000), Hits(1500, 3000)
    pairs = Hits(2660, 3000) if together else Hits(1560, 3000)
    assert (one_line(pairs, single, double) > 0.99) is together


def test_pairs_that_cost_even_more_than_two_lines_are_apart():
    assert one_line(Hits(1860, 3000), Hits(2970, 3000), Hits(2200, 3000)) < 0.01


def test_pairs_between_the_two_shares_tell_nothing():
    assert one_line(Hits(1060, 3000), Hits(1930, 3000), Hits(540, 3000)) == 0.5


def test_pairs_tell_nothing_where_single_and_double_are_alike():
    assert one_line(Hits(50, 100), Hits(50, 100), Hits(50, 100)) == 0.5


def test_lap_latency_ignores_a_delayed_lap():
    found = lap_latency(np.array([3200] * 14 + [90_000] * 10), 100)
    assert found.cycles == 32
    assert found.low <= 32 <= found.high


def test_a_laps_own_cost_cancels_against_a_shorter_ring():
    assert lap_latency(np.array([33 + 28 * 16] * 5), 16, np.array([33 + 28 * 8] * 5), 8).cycles == 28


def test_classic_readings_of_a_plain_cache_agree():
    # 4 KiB, 32-byte lines, 16 sets, 8 ways, LRU: latency 10 on a hit, 20 on a miss, read at 4 times the size
    by_stride = {8: 12.5, 16: 15.0, 32: 20.0, 64: 20, 128: 20, 256: 20, 512: 20, 1024: 20, 2048: 10, 4096: 10}
    assert saavedra(by_stride, 16384, 4096).line == 32
    by_size = {4096 + 32 * i: 10 + 10 * i / 16 for i in range(17)}
    reading = wong(by_size)
    assert (reading.capacity, reading.line, reading.sets, reading.ways) == (4096, 32, 16, 8)

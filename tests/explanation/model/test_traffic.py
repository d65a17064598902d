"""Requests of accesses whose addresses are known."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.model.requests import TAG_BANKS, Requests, of_floats
from gpudissect.explanation.model.traffic import (
    COMPLETED_STORE,
    RANDOM_STORE,
    Accessed,
    SampledWarp,
    Traffic,
    after_l1,
    bytes_of_random_line,
    with_l2,
)
from gpudissect.explanation.packing import LOCAL, SHARED, Trace
from tests.explanation.model.test_costs import CARD

LANES = np.arange(32)
LOAD, STORE = Accessed(1, "global", "load", 4), Accessed(2, "global", "store", 4)


def warp(offsets, block=0, allocation=0, index=0, lanes=0xFFFFFFFF):
    offsets = np.asarray(offsets, dtype=np.int64)
    count = len(offsets)
    none = np.zeros(0, dtype=np.uint32)
    masks = np.full(count, lanes, dtype=np.uint32)
    allocations = np.full((count, 32), allocation, dtype=np.int16)
    return SampledWarp(block, Trace(none, none, np.full(count, index, dtype=np.uint32), masks, allocations, offsets))


def streaming(number, count=100, stride=1):
    first = number * count * 128 * stride
    return [first + 128 * stride * k + 4 * stride * LANES for k in range(count)]


@pytest.mark.parametrize(("stride", "lines", "sectors"), [(1, 1, 4), (2, 2, 8), (8, 8, 32), (32, 32, 32)])
def test_streaming_loads_touch_the_lines_of_their_stride(stride, lines, sectors):
    found = Traffic([LOAD], [warp(streaming(n, stride=stride)) for n in range(4)]).outside[0]
    assert (found.passes, found.sectors, found.in_sm) == (lines, sectors, 0)
    assert found.l2_bytes == 32 * sectors


def test_an_access_that_no_sampled_warp_made_is_contiguous():
    traffic = Traffic([LOAD, STORE], [warp([4 * LANES] * 2)])
    assert traffic.assumed == {1}
    assert (traffic.outside[1].sectors, traffic.outside[1].l2_bytes) == (4, 128)
    assert Traffic([LOAD, STORE], []).outside == {}


def test_stores_are_in_the_sample():
    traffic = Traffic([LOAD, STORE], [warp([4 * LANES] * 50, index=1)])
    assert traffic.outside[1].in_sm == 0
    assert traffic.sample.accesses == frozenset({1})


@pytest.mark.parametrize(
    ("offsets", "size", "lines", "sectors"),
    [(0 * LANES, 4, 1, 4), (4 * LANES, 4, 32, 32), (4 * (LANES // 8), 4, 4, 4), (0 * LANES, 16, 4, 16)],
)
def test_words_of_local_memory_lie_side_by_side_for_the_lanes_of_a_warp(offsets, size, lines, sectors):
    access = Accessed(3, "local", "store", size)
    found = Traffic([access], [warp([offsets] * 3, allocation=LOCAL)]).outside[0]
    assert (found.lines, found.sectors, found.covered) == (lines, sectors, min(1, size * 32 / (32 * sectors)))


def test_wide_accesses_to_local_memory_take_a_pass_for_each_word():
    access = Accessed(3, "local", "store", 16)
    found = Traffic([access], [warp([0 * LANES] * 3, allocation=LOCAL)]).outside[0]
    assert (found.passes, found.lanes) == (4, 32)


def test_one_word_of_a_sector_covers_an_eighth_of_it():
    found = Traffic([STORE], [warp([0 * LANES] * 3)]).outside[0]
    assert (found.sectors, found.covered) == (1, 0.125)


def test_warps_share_no_local_memory():
    access = Accessed(3, "local", "load", 4)
    traffic = Traffic([access], [warp([0 * LANES], allocation=LOCAL), warp([0 * LANES], allocation=LOCAL)])
    assert traffic.new_to_block[0] == 1


@pytest.mark.parametrize("different", [1, 4, 32])
def test_different_constants_of_a_load_take_turns(different):
    access = Accessed(3, "const", "load", 4)
    found = Traffic([access], [warp([4 * (LANES % different)] * 3)])
    assert (found.outside[0].passes, found.outside[0].l2_bytes) == (different, 0)
    assert found.sample.accesses == frozenset()


def test_shared_memory_has_passes_and_no_bytes():
    access = Accessed(3, "shared", "load", 4)
    found = Traffic([access], [warp([8 * LANES] * 3, allocation=SHARED)]).outside[0]
    assert (found.passes, found.l2_bytes, found.in_sm) == (2, 0, 1)


@pytest.mark.parametrize(
    ("words", "operations"), [(LANES, 4), (0 * LANES, 32), (8 * LANES, 32), (LANES // 2, 4), (LANES % 2, 16)]
)
def test_lanes_with_different_words_of_a_sector_are_one_atomic_operation(words, operations):
    found = Traffic([Accessed(1, "global", "atomic", 4)], [warp([4 * words] * 3)]).outside[0]
    assert found.operations == operations


def test_hits_in_the_l2_do_not_go_to_memory():
    requests = Traffic([LOAD], [warp(streaming(0))]).outside[0]
    assert with_l2(requests, BehindL1(0.0, 0.0), CARD).in_l2 == 1
    assert with_l2(requests, BehindL1(1.0, 32.0), CARD).in_l2 == 0
    half = with_l2(requests, BehindL1(0.5, 16.0), CARD)
    assert (1 - half.in_l2) * half.dram_bytes == pytest.approx(64)
    assert half.from_memory * half.sector_dram_bytes == pytest.approx(16)


def test_random_lines_have_a_share_of_the_bandwidth():
    random = np.random.default_rng(1).integers(0, 1 << 24, (200, 32)) * 128
    found = with_l2(Traffic([LOAD], [warp(random)]).outside[0], None, CARD)
    assert found.scattered == 1
    assert found.dram_bytes == pytest.approx(32 * bytes_of_random_line(CARD), rel=0.01)


def test_what_the_l1_holds_is_no_reason_to_go_to_memory():
    requests = Traffic([LOAD], [warp(streaming(0))]).outside[0]
    behind = BehindL1(0.25, 8.0)
    for missed in (1.0, 0.5, 0.25):
        found = after_l1(requests, np.array([100.0, 100 * missed, 100 * missed, 400 * missed]), behind, CARD)
        assert (1 - found.in_l2) * found.dram_bytes == pytest.approx(32)


@pytest.mark.parametrize(("step", "passes"), [(1, 8), (3, 11), (7, 14), (31, 16), (0, 1)])
def test_lines_in_one_bank_of_the_tags_take_turns_as_measured_on_an_h200(step, passes):
    found = Traffic([LOAD], [warp([128 * step * LANES + 4 * LANES])]).outside[0]
    assert found.tags == passes


@pytest.mark.parametrize(
    ("offsets", "size", "passes", "tags"),
    [
        (4 * LANES, 4, 1, 1),
        (128 * LANES, 4, 32, 8),  # one bank of data
        (132 * LANES, 4, 1, 8),  # as many lines, all banks of data
        (16 * LANES, 16, 4, 1),  # four lines of different banks of tags
    ],
)
def test_data_and_tags_of_the_l1_have_their_own_cycles(offsets, size, passes, tags):
    found = Traffic([Accessed(1, "global", "load", size)], [warp([offsets])]).outside[0]
    assert (found.passes, found.tags) == (passes, tags)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 1 << 20), min_size=32, max_size=32))
def test_cycles_are_those_of_the_fullest_bank_of_data_and_of_tags(words):
    found = Traffic([LOAD], [warp([4 * np.array(words)])]).outside[0]
    lines = {word // 32 for word in words}
    tag_banks = Counter(tuple((line & mask).bit_count() % 2 for mask in TAG_BANKS) for line in lines)
    assert found.passes == max(Counter(word % 32 for word in set(words)).values())
    assert found.tags == max(tag_banks.values())


def test_one_lane_of_each_request_makes_a_combined_atomic():
    atomic, trace = Accessed(1, "global", "atomic", 4), warp([4 * LANES, 128 * LANES], lanes=0xFFFFFFF0)
    apart, combined = (Traffic([atomic], [trace], combined=chosen).outside[0] for chosen in ((), {0}))
    assert (apart.lanes, apart.sectors, apart.operations) == (28, 16, 16)
    assert (combined.lanes, combined.sectors, combined.operations) == (1, 1, 1)


def test_the_first_active_lane_makes_a_combined_atomic():
    """Lane 4 has one address in both blocks, other lanes have different ones."""
    offsets = [np.where(LANES == 4, 0, 4096 * (block + 1) + 128 * LANES) for block in range(2)]
    warps = [warp([each], block=block, lanes=0xFFFFFFF0) for block, each in enumerate(offsets)]
    assert Traffic([Accessed(1, "global", "atomic", 4)], warps, combined={0}).outside[0].hot == 1


def test_requests_have_the_share_that_the_simulated_l1_saw():
    requests = Traffic([LOAD], [warp(streaming(0))]).outside[0]
    found = after_l1(requests, np.array([100.0, 25.0, 25.0, 50.0]), None, CARD)
    assert (found.in_sm, found.in_l2, found.l2_bytes, found.lines) == (0.75, 0.75, 64, 1)
    assert after_l1(requests, np.zeros(4), None, CARD) == requests


@pytest.mark.parametrize(
    ("addresses", "share"),
    [
        ([0, 0, 0, 0], 1.0),
        ([0, 128, 0, 128], 1.0),  # lines of a pair
        ([0, 256, 512, 768], 0.0),
        ([0, 0, 256, 256], 0.5),
        ([0, 0, 0, 256], 0.75),
    ],
)
def test_atomics_of_different_blocks_at_one_slice(addresses, share):
    warps = [warp([address + 0 * LANES], block=block) for block, address in enumerate(addresses)]
    found = Traffic([Accessed(1, "global", "atomic", 4)], warps).outside[0]
    assert found.hot == pytest.approx(share, abs=0.02)


def test_busy_slices_of_random_words():
    """Blocks reduce at random words of 32 lines: an H100 takes as long as if they had 7.4 slices."""
    words = np.random.default_rng(1).integers(1024, size=(16, 20, 32))
    warps = [warp(list(4 * each), block=block) for block, each in enumerate(words)]
    found = Traffic([Accessed(1, "global", "atomic", 4)], warps).outside[0]
    assert 1 / found.hot == pytest.approx(7.4, rel=0.15)
    assert found.hottest == pytest.approx(1 / 128, rel=0.5)


def test_atomics_of_one_array_meet_at_its_slices():
    """A program has two atomics on an array: each alone finds its words in one slice, both together in two."""
    accesses = [Accessed(1, "global", "atomic", 4), Accessed(2, "global", "atomic", 4)]
    warps = [warp([256 * index + 0 * LANES], block=block, index=index) for block in range(8) for index in (0, 1)]
    found = Traffic(accesses, warps).outside
    assert found[0].hot == found[1].hot == pytest.approx(0.5, abs=0.02)
    apart = [
        warp([256 * index + 0 * LANES], block=b, index=index, allocation=index) for b in range(8) for index in (0, 1)
    ]
    assert Traffic(accesses, apart).outside[0].hot == 1


def test_floating_point_atomics_at_one_sector_take_longer():
    """At one word, an H100 does 0.69 integer and 0.285 floating-point reductions in a cycle; at 4 KiB as many."""
    alone, spread = Requests(1.0, 1.0, 1.0, hot=1.0, hottest=1.0), Requests(1.0, 1.0, 1.0, hot=0.1, hottest=0.01)
    assert of_floats(alone).hot == pytest.approx(0.6908 / 0.2855, rel=0.01)
    assert of_floats(spread).hot == spread.hot


@pytest.mark.parametrize("block", [3, -2])
def test_atomics_of_one_block_do_not_count_as_those_of_several(block):
    """Also not if it runs on another SM."""
    warps = [warp([0 * LANES], block=block) for _ in range(4)]
    assert Traffic([Accessed(1, "global", "atomic", 4)], warps).outside[0].hot == 0


def test_lanes_of_diverged_warps_make_one_request():
    offsets = np.random.default_rng(1).integers(0, 1 << 20, (2, 32)) * 128
    trace = warp(np.concatenate([offsets, offsets])).trace
    trace.access_lanes[:] = [0xFFFF, 0xFFFF, 0xFFFF0000, 0xFFFF0000]
    found = [Traffic([LOAD], [SampledWarp(0, trace)], diverged).outside[0] for diverged in ((), {0})]
    assert [(each.lanes, each.lines) for each in found] == [(16, 16), (32, 32)]


def test_lone_words_written_to_memory_take_longer_than_loads_unless_they_meet_in_the_l2():
    random = np.random.default_rng(1).integers(0, 1 << 24, (200, 32)) * 128
    memory = BehindL1(1.0, 32.0)
    alone = with_l2(Traffic([STORE], [warp(random)]).outside[0], memory, CARD)
    load = with_l2(Traffic([LOAD], [warp(random)]).outside[0], memory, CARD)
    assert alone.dram_bytes == pytest.approx(2.4 * load.dram_bytes)
    met = with_l2(Traffic([STORE], [warp(random)]).outside[0], BehindL1(0.5, 16.0), CARD)
    assert met.random == 1


def test_stores_that_fill_sectors_together_take_less_than_lone_ones():
    """Two stores of 16 bytes fill a sector of each lane; without the second the sector stays partial."""
    first, second = Accessed(2, "global", "store", 16), Accessed(3, "global", "store", 16)
    random = np.random.default_rng(1).integers(0, 1 << 24, (200, 32)) * 128
    both = Traffic([first, second], [warp(random), warp(random + 16, index=1)]).outside
    assert (both[0].random, both[1].random) == (RANDOM_STORE, RANDOM_STORE)  # by two warps
    joined = warp(np.concatenate([random, random + 16]))
    joined.trace.accessed[len(random) :] = 1
    both = Traffic([first, second], [joined]).outside
    assert (both[0].random, both[1].random) == pytest.approx((COMPLETED_STORE, COMPLETED_STORE))


def test_a_load_that_passes_the_l1_is_not_in_its_sample():
    strong = replace(LOAD, passes_l1=True)
    traffic = Traffic([strong, LOAD], [warp(streaming(0)), warp(streaming(1), index=1)])
    assert traffic.sample.accesses == {1} and traffic.outside[0].in_sm == 0


def test_values_that_lanes_compare_are_counted_and_make_no_requests():
    compared = Accessed(3, "shared", "value", 1)
    traffic = Traffic([LOAD, compared], [warp([LANES // 2, 7 + 0 * LANES], allocation=SHARED, index=1)])
    assert traffic.values == {1: (16 + 1) / 2}
    assert set(traffic.outside) == {0}

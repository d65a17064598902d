"""Requests of accesses whose addresses are known."""

import numpy as np
import pytest

from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.model.traffic import Accessed, SampledWarp, Traffic, with_l2
from gpudissect.explanation.packing import SHARED, Trace
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
    found = Traffic([LOAD], [warp(streaming(n, stride=stride)) for n in range(4)]).at(1, 256 << 10)[0]
    assert (found.passes, found.sectors, found.in_sm) == (lines, sectors, 0)
    assert found.l2_bytes == 32 * sectors


@pytest.mark.parametrize(("l1_lines", "share"), [(64, 0.9), (16, 0.0)])
def test_lines_that_fit_the_l1_miss_once(l1_lines, share):
    laps = [128 * (k % 32) + 4 * LANES for k in range(320)]
    found = Traffic([LOAD], [warp(laps)]).at(1, 128 * l1_lines)[0]
    assert found.in_sm == pytest.approx(share)


def test_resident_blocks_share_the_l1_and_later_ones_follow():
    laps = np.array([128 * (k % 32) + 4 * LANES for k in range(320)])
    warps = [warp(laps + 8192 * block, block) for block in range(4)]
    traffic = Traffic([LOAD], warps)
    assert traffic.at(1, 48 * 128)[0].in_sm == pytest.approx(0.9)
    assert traffic.at(4, 128 * 128)[0].in_sm == pytest.approx(0.9)
    assert traffic.at(4, 48 * 128)[0].in_sm < 0.6


def test_stores_do_not_stay_in_the_l1():
    same = [4 * LANES] * 50
    found = Traffic([LOAD, STORE], [warp(same, index=1)]).at(1, 256 << 10)[1]
    assert found.in_sm == 0


def test_shared_memory_has_passes_and_no_bytes():
    access = Accessed(3, "shared", "load", 4)
    found = Traffic([access], [warp([8 * LANES] * 3, allocation=SHARED)]).at(1, 0)[0]
    assert (found.passes, found.l2_bytes, found.in_sm) == (2, 0, 1)


def test_hits_in_the_l2_do_not_go_to_memory():
    requests = Traffic([LOAD], [warp(streaming(0))]).at(1, 0)
    assert with_l2(requests, {0: BehindL1(1.0, 0.0)}, CARD)[0].in_l2 == 1
    assert with_l2(requests, {0: BehindL1(0.0, 32.0)}, CARD)[0].in_l2 == 0
    half = with_l2(requests, {0: BehindL1(0.5, 16.0)}, CARD)[0]
    assert (1 - half.in_l2) * half.dram_bytes == pytest.approx(64)


def test_random_lines_cost_what_random_loads_do():
    random = np.random.default_rng(1).integers(0, 1 << 24, (200, 32)) * 128
    found = with_l2(Traffic([LOAD], [warp(random)]).at(1, 0), {}, CARD)[0]
    cycles = found.dram_bytes / CARD.bytes_per_cycle("dram", "read_bandwidth")
    assert cycles == pytest.approx(32 / CARD.value("ldg_random", "rate"), rel=0.01)

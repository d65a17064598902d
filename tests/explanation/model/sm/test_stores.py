"""Stores of sampled warps in the L1 of the simulated SM."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.explanation.model.sm.engine import Work, run
from gpudissect.explanation.model.traffic import Accessed, SampledWarp, Traffic
from gpudissect.explanation.packing import LOCAL, Trace
from tests.explanation.model.sm.test_engine import SM, load, step

LANES, ALL = np.arange(32), 0xFFFFFFFF
LOAD, STORE, OTHER = 0, 1, 2
"""Accesses and steps; the other load is of another line."""
STEPS = (
    replace(load("l2", waits=1), access=LOAD, in_sm=0.0, l2_bytes=32.0, link_bytes=32.0),
    step(pipe="issue", shared_pipe="lsu", shared_interval=1.0, kind="store", access=STORE, in_sm=0.0, l2_bytes=128.0),
    replace(load("l2"), access=OTHER, in_sm=0.0, l2_bytes=32.0, link_bytes=32.0),
)


def sample_of(space, mask, size=4):
    """A warp that stores with some lanes, then loads neighbouring words with all, and one line far away."""
    offsets = np.stack([size * LANES, size * LANES, 4 * LANES + (1 << 20)])
    nothing, allocations = np.zeros(0, np.uint32), np.full(offsets.shape, LOCAL if space == "local" else 0, np.int16)
    if space == "local":  # each lane has one word, of the same offset
        offsets = np.repeat(np.array([[0], [0], [1 << 12]]), 32, axis=1)
    lanes = np.array([mask, ALL, ALL], dtype=np.uint32)
    trace = Trace(nothing, nothing, np.array([STORE, LOAD, OTHER], np.uint32), lanes, allocations, offsets)
    accesses = [Accessed(1, space, "load", size), Accessed(2, space, "store", size), Accessed(3, space, "load", 4)]
    return Traffic(accesses, [SampledWarp(0, trace)]).sample


def run_of(path, space="global", mask=ALL, size=4, *, room=64, blocks=1, resident=1, steps=STEPS, paths=()):
    """Blocks of a warp; `paths`: of further blocks."""
    arrays = tuple(np.array(each) for each in (path, *paths))
    work = Work(steps, arrays, 1, resident, blocks, sample_of(space, mask, size))
    return run(replace(SM, lines=room), work)


@pytest.mark.parametrize(
    ("space", "mask", "missed"),
    [
        ("global", ALL, 0),
        ("global", 0x0000FFFF, 2),
        ("global", 0x00007FFF, 3),  # seven words of the second sector
        ("global", 0x7F7F7F7F, 4),
        ("local", ALL, 0),
        ("local", 0x7F7F7F7F, 0),
        ("local", 0x0000FF00, 3),
    ],
)
def test_a_load_misses_the_sectors_that_no_store_has_put_into_the_l1(space, mask, missed):
    """Whole sectors of global memory, all written ones of local memory."""
    assert run_of([STORE, LOAD], space, mask).l1_counts[LOAD].tolist() == [1, missed > 0, missed > 0, missed]


@pytest.mark.parametrize(("size", "mask", "hits"), [(16, 0b0011, 1), (16, 0b0111, 1), (16, 0b1111, 2), (8, 0b0111, 0)])
def test_wide_stores_write_whole_sectors_with_fewer_lanes(size, mask, hits):
    assert run_of([STORE, LOAD], "global", mask, size).l1_counts[LOAD, 3] == size - hits


@pytest.mark.parametrize("space", ["global", "local"])
def test_without_a_store_the_load_goes_to_the_l2(space):
    assert run_of([LOAD], space).l1_counts[LOAD].tolist() == [1, 1, 1, 4]


def test_a_load_after_a_store_takes_the_latency_of_the_l1():
    before, after = (run_of(path).waited.sum() for path in ([STORE, LOAD, LOAD], [LOAD, LOAD]))
    assert before == pytest.approx(32, abs=6)
    assert after == pytest.approx(281, abs=15)


def test_a_store_that_hits_the_l1_goes_on_to_the_l2():
    assert run_of([STORE] * 10).busy["l2"] == pytest.approx(10 * 128 / 35)


def test_a_store_that_is_predicated_off_leaves_nothing_in_the_l1():
    steps = (STEPS[LOAD], replace(STEPS[STORE], predicated_on=0.0), STEPS[OTHER])
    assert run_of([STORE, LOAD], steps=steps).l1_counts[LOAD].tolist() == [1, 1, 1, 4]


@pytest.mark.parametrize(("room", "missed"), [(1, 4), (2, 0)])
def test_a_store_finds_no_room_among_lines_on_their_way(room, missed):
    assert run_of([OTHER, STORE, LOAD], room=room).l1_counts[LOAD, 3] == missed


def test_a_store_does_not_wait_for_room():
    """The line of the load before it comes after 281 cycles; the store takes as many, from its issue on."""
    assert run_of([OTHER, STORE], room=1).cycles == pytest.approx(run_of([OTHER, STORE], room=2).cycles, abs=2)
    assert run_of([OTHER, STORE], room=1).cycles == pytest.approx(281, abs=15)


@pytest.mark.parametrize(
    ("space", "resident", "missed"), [("local", 1, 1), ("local", 2, 2), ("local", 4, 4), ("global", 1, 4)]
)
def test_a_later_block_has_the_local_memory_of_the_one_before_it(space, resident, missed):
    """Of four blocks; each has lines of global memory that no other touches."""
    found = run_of([LOAD], space, blocks=4, resident=resident)
    assert found.l1_counts[LOAD].tolist() == [4, missed, missed, 4 * missed]


@pytest.mark.parametrize(("space", "missed"), [("local", 0), ("global", 4)])
def test_a_later_block_finds_what_one_before_it_wrote_to_local_memory(space, missed):
    """The first block stores alone, the second one loads alone."""
    assert run_of([STORE], space, paths=([LOAD],), blocks=2).l1_counts[LOAD, 3] == missed

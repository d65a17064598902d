"""The simulated SM gives the rates and latencies of its description."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpudissect.explanation.model.operands import Reads
from gpudissect.explanation.model.sample import Sample
from gpudissect.explanation.model.sm.engine import MemoryLatency, Sm, Step, Work, run

SM = Sm(
    schedulers=4,
    pipes=("fma", "alu", "issue"),
    shared_pipes=("lsu",),
    l2_latency=281.0,
    dram_latency=MemoryLatency(668.0),
    l2_bytes=35.0,
    dram_bytes=18.0,
    link_bytes=64.0,
    rise=0.0,
    credit=0.0,
    block_replacement=600.0,
    depth=16,
    backlog=4000.0,
    lines=1 << 16,
)


def step(**fields):
    return Step(**({"stall": 1, "waits": 0, "sets": None, "reads": None, "pipe": "fma", "interval": 1.0} | fields))


def load(level, **fields):
    share = {"l1": (1.0, 1.0), "l2": (0.0, 1.0), "dram": (0.0, 0.0)}[level]
    return step(
        pipe="issue",
        sets=0,
        shared_pipe="lsu",
        shared_interval=1.0,
        latency=32.0,
        kind="load",
        in_sm=share[0],
        in_l2=share[1],
        l2_bytes=128.0,
        dram_bytes=128.0,
        link_bytes=128.0,
        **fields,
    )


def cycles(steps, repeats, warps=1, blocks=1, resident=1, sm=SM):
    path = np.tile(np.arange(len(steps)), repeats)
    return run(sm, Work(tuple(steps), (path,), warps, resident, blocks)).cycles


def test_one_warp_takes_the_stall_counts():
    assert cycles([step(stall=4), step(stall=6)], 100) == pytest.approx(1000, abs=10)


@pytest.mark.parametrize(("interval", "rate"), [(1.0, 4.0), (2.0, 2.0), (8.0, 0.5)])
def test_many_warps_reach_the_rate_of_a_pipe(interval, rate):
    assert 16 * 1000 / cycles([step(interval=interval)], 1000, warps=16) == pytest.approx(rate, rel=0.02)


def test_a_shared_pipe_serves_all_schedulers():
    both = [step(pipe="issue", shared_pipe="lsu", shared_interval=2.0)]
    assert 16 * 1000 / cycles(both, 1000, warps=16) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("level", "latency"), [("l1", 32), ("l2", 281), ("dram", 668)])
def test_a_dependent_load_takes_the_latency_of_its_level(level, latency):
    steps = [load(level, waits=1)]
    assert cycles(steps, 100) / 100 == pytest.approx(latency, rel=0.02)


@pytest.mark.parametrize(("level", "bandwidth"), [("l1", 128.0), ("l2", 35.0), ("dram", 18.0)])
def test_many_independent_loads_reach_the_bandwidth_of_their_level(level, bandwidth):
    moved = 32 * 2000 * 128
    assert moved / cycles([load(level)], 2000, warps=32) == pytest.approx(bandwidth, rel=0.03)


@settings(max_examples=20, deadline=None)
@given(warps=st.integers(1, 64), level=st.sampled_from(["l2", "dram"]))
def test_throughput_is_the_smaller_of_latency_and_bandwidth_bound(warps, level):
    latency, bandwidth = {"l2": (281, 35.0), "dram": (668, 18.0)}[level]
    expected = min(warps * 128 / latency, bandwidth)
    found = warps * 300 * 128 / cycles([load(level, waits=1)], 300, warps=warps)
    assert 0.9 * expected <= found <= 1.02 * expected


def test_a_barrier_waits_for_the_slowest_warp():
    steps = [load("dram"), step(waits=1), step(pipe="issue", kind="barrier", latency=14.0), step()]
    path = np.array([0, 1, 2, 3])
    last_load = 668 + 7 * 128 / 18
    assert run(SM, Work(tuple(steps), (path,), 8, 1, 1)).cycles == pytest.approx(last_load + 14, abs=12)


def test_blocks_replace_each_other():
    alone = cycles([step(stall=4)], 100)
    assert cycles([step(stall=4)], 100, blocks=10) == pytest.approx(10 * alone + 9 * 600, rel=0.01)
    assert cycles([step(stall=4)], 100, blocks=10, resident=2) == pytest.approx(5 * alone + 4 * 600, rel=0.02)


def test_work_of_pipes_is_counted():
    steps = (step(interval=2.0), load("dram"))
    found = run(SM, Work(steps, (np.tile([0, 1], 50),), 4, 1, 3)).busy
    warps = 4 * 3 * 50
    assert found == {
        "fma": 2.0 * warps,
        "alu": 0.0,
        "issue": warps,
        "lsu": warps,
        "l2": pytest.approx(warps * 128 / 35),
        "memory": pytest.approx(warps * 128 / 18),
    }


def test_without_work_there_is_no_run():
    with pytest.raises(ValueError, match="path, warps and blocks"):
        run(SM, Work((step(),), (np.zeros(0, dtype=np.int64),), 1, 1, 1))


def sampled(*requests):
    """One warp that loads the first sector of these lines, a request after the other."""
    counts = [len(request) for request in requests]
    lines = np.concatenate(requests).astype(np.int64)
    edges = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    begins, ends = np.zeros((1, 1), dtype=np.int64), np.full((1, 1), len(requests))
    ones, zeros = np.ones_like(lines), np.zeros_like(lines)
    columns = lines, ones, ones, zeros, ones.astype(bool), zeros, zeros, zeros
    return Sample(begins, ends, edges, *columns, np.zeros(1, dtype=bool))


def test_whichever_warp_loads_a_new_line_first_waits_for_memory():
    """Two warps load the same lines; the first one in the simulation is the second one in the recording."""
    path, lines = np.zeros(20, dtype=np.int64), np.arange(20)
    edges = np.arange(41)
    begins, ends = np.array([[0], [20]]), np.array([[20], [40]])
    number, ones, position = np.tile(lines, 2), np.ones(40, dtype=np.int64), np.tile(lines, 2)
    zeros = np.zeros(40, dtype=np.int64)
    for first in (0, 1):
        new = np.repeat([first == 0, first == 1], 20).astype(np.int64)
        columns = number, ones, new, zeros, ones.astype(bool), zeros, zeros, position
        sample = Sample(begins, ends, edges, *columns, np.zeros(1, dtype=bool))
        assert sample.arriving.tolist() == ones.tolist()
        steps = (replace(load("dram", waits=1), access=0, in_sm=0.0),)
        assert run(SM, Work(steps, (path,), 2, 1, 1, sample)).cycles > 20 * SM.dram_latency.least


def run_sampled(requests, room, level="l2", waits=1, warps=1, sm=SM):
    steps = (replace(load(level, waits=waits), access=0, in_sm=0.0, l2_bytes=1.0, dram_bytes=1.0, link_bytes=1.0),)
    path = np.zeros(len(requests), dtype=np.int64)
    return run(replace(sm, lines=room), Work(steps, (path,), warps, 1, 1, sampled(*requests)))


@pytest.mark.parametrize(("room", "fewest", "most"), [(64, 64, 64), (63, 65, 400), (32, 400, 640)])
def test_the_l1_holds_the_lines_that_it_has_room_for(room, fewest, most):
    """One line too many does not make all of them miss: victims are random in part."""
    found = run_sampled([[line] for _ in range(10) for line in range(64)], room)
    requests, missed, *rest = found.l1_counts[0].tolist()
    assert requests == 640 and fewest <= missed <= most and rest == [missed, missed]


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_path_with_a_fourth_of_the_turns_sweeps_all_lines(is_swept):
    sample = replace(sampled(*[[line] for line in range(24)]), is_swept=np.array([is_swept]))
    steps = (replace(load("l2"), access=0, in_sm=0.0, l2_bytes=1.0, dram_bytes=1.0, link_bytes=1.0),)
    work = Work(steps, (np.zeros(6, dtype=np.int64),), 1, 1, 2, replace(sample, is_shared=np.ones(24, dtype=np.int64)))
    requests, missed, *_ = run(replace(SM, lines=16), work).l1_counts[0].tolist()
    assert requests == 12 and (missed > 6) == is_swept


def test_loads_in_flight_are_limited_by_the_room_of_the_l1():
    requests = [list(range(32 * k, 32 * k + 32)) for k in range(200)]
    few, many = (run_sampled(requests, room, waits=0).cycles for room in (64, 1024))
    assert few == pytest.approx(200 * 32 / 64 * (281 - 32), rel=0.02)
    assert many < few / 10


def test_a_line_on_its_way_is_not_fetched_again():
    found = run_sampled([[7]] * 4, 64, waits=0)
    assert found.l1_counts[0].tolist() == [4, 1, 1, 1]
    assert found.cycles == pytest.approx(281, abs=6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=300), st.integers(1, 48))
def test_lines_miss_once_if_all_have_room_and_not_twice_in_a_row(lines, room):
    missed = run_sampled([[line] for line in lines], room).l1_counts[0, 2]
    different, changes = len(set(lines)), sum(a != b for a, b in pairwise(lines)) + 1
    assert different <= missed <= (different if different <= room else changes)


@pytest.mark.parametrize(("even", "odd", "cycles_each"), [(1, 0, 1), (2, 0, 2), (1, 2, 2), (3, 1, 3)])
def test_operands_of_one_bank_take_a_cycle_each(even, odd, cycles_each):
    reads = Reads(even, odd, even, odd)
    assert cycles([step(operands=reads)], 1000, warps=16) * 4 / 16000 == pytest.approx(cycles_each, rel=0.02)


def test_multiply_adds_share_the_second_pipe_with_integers():
    either, heavy = step(interval=2.0, is_either=True), step(pipe="alu", interval=2.0)
    assert cycles([either], 1000, warps=16) * 4 / 16000 == pytest.approx(1, rel=0.02)
    assert cycles([either, heavy], 1000, warps=16) * 4 / 16000 == pytest.approx(2, rel=0.02)
    assert cycles([either, either, heavy], 1000, warps=16) * 4 / 16000 == pytest.approx(4, rel=0.05)


REGIONS = [8 * number for number in range(32)]  # lines of different banks of memory
REFRESHING = replace(SM, dram_latency=MemoryLatency(560.0, 180.0, 0.5, 500.0, 4000.0), dram_bytes=1e6, l2_bytes=1e6)


def latency_of(lines, sm, repeats=400):
    """Mean cycles of dependent loads of so many lines, of other addresses each time."""
    requests = [[line + 256 * number for line in lines] for number in range(repeats)]
    return run_sampled(requests, 1 << 16, "dram", sm=sm).cycles / repeats


def test_a_line_of_memory_takes_the_mean_latency():
    assert latency_of([0], REFRESHING) == pytest.approx(560 + 0.5 * 180 + 500 / 4000 * 500 / 2, rel=0.03)


def test_lines_of_a_bank_take_as_long_as_one():
    assert latency_of(range(8), REFRESHING) == pytest.approx(latency_of([0], REFRESHING), rel=0.01)


def test_of_many_banks_the_slowest_counts():
    slowest = 1 - (1 - 0.875**33) / (33 * 0.125)  # of a refresh, if an eighth of the banks refresh
    assert latency_of(REGIONS, REFRESHING) == pytest.approx(560 + 180 + slowest * 500, rel=0.03)


def test_lines_of_a_request_follow_each_other():
    assert latency_of(REGIONS, replace(SM, line_interval=2.0)) == pytest.approx(668 + 31 * 2, rel=0.02)


def test_reads_behind_writes_wait_for_random_times():
    """Of one line the mean; of two lines of different banks the longer wait."""
    loaded = replace(SM, dram_bytes=1 / 334)
    mean = latency_of(REGIONS[:1], replace(loaded, rise=100.0)) - latency_of(REGIONS[:1], loaded)
    mixed = replace(loaded, mixed_rise=100.0)
    one, two = (latency_of(lines, mixed) - latency_of(lines, loaded) for lines in (REGIONS[:1], REGIONS[:2]))
    assert one == pytest.approx(mean, rel=0.15)
    assert two > 1.2 * mean


@pytest.mark.parametrize(("passes", "expected"), [(1.0, 1.8), (4.0, 4.0)])
def test_special_functions_fit_between_the_passes_of_loads(passes, expected):
    each = {"pipe": "issue", "shared_pipe": "lsu"}
    body = [step(**each, shared_interval=passes), step(**each, shared_interval=0.8, fits=True)]
    assert cycles(body, 200, warps=8) == pytest.approx(200 * 8 * expected, rel=0.03)


MODEL_SM = replace(SM, depth=24)  # queues in front of the pipes as long as in the model


@pytest.mark.parametrize(
    ("blocks", "measured"),
    [
        (2, [0.99, 1.0]),
        (4, [0.51, 0.58, 0.92, 1.0]),
        (8, [0.25, 0.31, 0.46, 0.56, 0.71, 0.82, 0.94, 1.0]),
    ],
)
def test_older_blocks_that_saturate_shared_memory_end_first(blocks, measured):
    """Eight warps of each block load eight words with 8-way conflicts, then use them, again and again: an H100."""
    loads = [step(pipe="issue", sets=0, shared_pipe="lsu", shared_interval=8.0, latency=23.0)] * 8
    steps = (*loads, step(waits=1, stall=5), *[step(stall=3)] * 15)
    path = np.tile(np.arange(len(steps)), 64)
    ends = np.sort(run(MODEL_SM, Work(steps, (path,), 8, blocks, blocks)).ends)
    assert ends / ends[-1] == pytest.approx(measured, abs=0.06)


@settings(max_examples=20, deadline=None)
@given(*[st.tuples(st.integers(1, 16), st.integers(1, 16))] * 2)
def test_cycles_of_tags_and_data_of_different_loads_overlap(first, second):
    """`first`, `second`: cycles of tags and of data of two loads; the mix takes the larger sum."""
    body = [replace(load("l1"), tag_interval=tags, shared_interval=data) for tags, data in (first, second)]
    tags, data = (a + b for a, b in zip(first, second, strict=True))
    assert cycles(body, 100, warps=16, sm=MODEL_SM) / 1600 == pytest.approx(max(tags, data), rel=0.05)


def test_a_load_takes_the_larger_of_its_cycles_of_tags_and_data():
    both, tags, data = (
        cycles([replace(load("l1"), tag_interval=tags, shared_interval=data)], 100, warps=16, sm=MODEL_SM) / 1600
        for tags, data in ((8.0, 8.0), (8.0, 1.0), (1.0, 8.0))
    )
    assert [both, tags, data] == pytest.approx([8, 8, 8], rel=0.05)


def test_a_load_passes_the_banks_of_tags_and_data_at_the_same_time():
    one = replace(load("l1", waits=1), tag_interval=8.0, shared_interval=6.0)
    assert cycles([one], 100) / 100 == pytest.approx(32 + 8 - 1, rel=0.02)


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 1))
def test_a_pipe_works_for_the_executions_that_make_a_request(share):
    steps = (step(pipe="issue", shared_pipe="lsu", shared_interval=8.0, predicated_on=share),)
    found = run(SM, Work(steps, (np.zeros(200, dtype=np.int64),), 4, 1, 2))
    assert found.busy["lsu"] / (8 * 200 * 4 * 2) == pytest.approx(share, abs=0.01)
    assert found.busy["issue"] == 200 * 4 * 2


def test_executions_without_a_request_leave_the_pipe_to_others():
    body = step(pipe="issue", shared_pipe="lsu", shared_interval=8.0)
    assert cycles([replace(body, predicated_on=0.25)], 600, warps=16) == pytest.approx(600 * 16 * 8 / 4, rel=0.03)
    assert cycles([replace(body, tag_interval=32.0, predicated_on=0.25)], 600, warps=16) == pytest.approx(
        600 * 16 * 8, rel=0.03
    )


def test_a_load_that_makes_no_request_has_no_latency():
    assert cycles([replace(load("dram", waits=1), predicated_on=0.0)], 100) < 300


def test_a_sampled_load_looks_up_the_l1_if_it_makes_a_request():
    """Eight loads of line 7, of which two make a request; the second one hits."""
    sample = sampled(*[[7]] * 8)
    steps = (replace(load("l2", waits=1), access=0, in_sm=0.0, predicated_on=0.25),)
    found = run(SM, Work(steps, (np.zeros(8, dtype=np.int64),), 1, 1, 1, replace(sample, new=0 * sample.new)))
    assert found.l1_counts[0].tolist() == [2, 1, 1, 1]


def test_missing_iterations_add_requests_and_keep_their_misses():
    """An instruction outside loops has as many requests in both runs, and by chance more misses in one."""
    whole, shorter = (run_sampled([[line] for line in range(count)], 64) for count in (20, 10))
    whole = replace(whole, l1_counts=np.array([[20.0, 10, 12, 30], [5, 5, 5, 20]]))
    shorter = replace(shorter, waited=whole.waited, l1_counts=np.array([[10.0, 8, 9, 20], [5, 1, 1, 4]]))
    assert whole.with_more(shorter, 4.0).l1_counts.tolist() == [[60, 30, 36, 90], [5, 5, 5, 20]]

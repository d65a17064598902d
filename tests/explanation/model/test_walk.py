"""The path of a warp executes each block as often as it was counted."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.explanation.counts import Count
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.executions import relative_executions
from gpudissect.explanation.model.phases import no_events
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.explanation.model.walk import Path, _Walker, walk
from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.flow import Block, Flow
from tests.explanation.sources import NAMES
from tests.explanation.test_mapping import UNDETERMINED, mapped

WARPS = 8


@pytest.mark.parametrize("name", sorted(set(NAMES) - UNDETERMINED))
def test_paths_have_the_executions_of_an_average_warp(name):
    _, _, program, counts = mapped(name, "sm_90")
    path = walk(program, counts, WARPS, 100_000)
    size = len(program.instructions)
    found = np.mean([np.bincount(variant, minlength=size) for variant in path.variants], axis=0)
    assert np.abs(found - path.executed).max() <= 0.26 + 0.1 * path.executed.max()
    assert path.length == pytest.approx(path.executed.sum(), rel=0.1)


@pytest.mark.parametrize("name", ["collatz", "nest"])
def test_short_paths_keep_all_blocks_and_say_their_share(name):
    _, _, program, counts = mapped(name, "sm_90")
    whole, short = (walk(program, counts, WARPS, length) for length in (100_000, 60))
    assert short.length < whole.length
    assert short.share == pytest.approx(short.length / whole.executed.sum())
    assert set(np.concatenate(short.variants)) == set(np.concatenate(whole.variants))


def test_a_path_has_one_of_two_ways_that_half_of_the_warps_take():
    _, _, program, counts = mapped("divergent", "sm_90")
    assert program.flow.blocks[1].successors == (2, 3)
    half = Count(WARPS / 2, WARPS / 2, WARPS / 2)
    changed = replace(counts, warps=tuple(half if n in (2, 3) else count for n, count in enumerate(counts.warps)))
    variants = walk(program, changed, WARPS, 1000).variants
    ways = [[way for way in (2, 3) if program.flow.blocks[way].start in variant] for variant in variants]
    assert sorted(ways) == [[2], [2], [3], [3]]


def test_producers_come_before_their_consumers():
    _, _, program, counts = mapped("reduction", "sm_90")
    path = walk(program, counts, WARPS, 100_000).instructions
    first = {int(index): place for place, index in reversed(list(enumerate(path)))}
    for each in program.dependences.dependences:
        if each.loop is None and {each.producer, each.consumer} <= first.keys():
            assert first[each.producer] < first[each.consumer]


def test_lanes_that_diverge_enter_a_loop_together():
    _, _, program, counts = mapped("nest", "sm_90")
    loop = program.loops.loops[0]
    longest_lane = [1.25 * each.value if n in loop.blocks else each.value for n, each in enumerate(counts.warps)]
    changed = replace(counts, warps=tuple(Count(value, value, value) for value in longest_lane))
    lengths = [variant.size for variant in walk(program, changed, WARPS, 200).variants]
    assert max(lengths) < 1.5 * min(lengths)


def test_no_sampled_warp_skips_what_every_warp_executes_once():
    one, half = Count(64.0, 64.0, 64.0), Count(32.0, 32.0, 32.0)
    origin = (("k", 1), ("k", 1), None)  # code of the block that half of the warps skip stands in the entry
    counts = MachineCounts((one,) * 3, (one, half, half), {}, origin)
    blocks = {("k", 0): BlockCount(64, 2048, 1024), ("k", 1): BlockCount(32, 1024, 0)}
    warps = [SampledWarp(0, Trace(np.array(visited), *(np.zeros(0),) * 5)) for visited in ([0, 1], [0])]
    _, _, program, _ = mapped("divergent", "sm_90")
    assert relative_executions(warps, blocks, 64, counts, program, no_events()).tolist() == [[1, 2, 1], [1, 0, 1]]


def test_warps_that_take_one_of_two_ways_take_it_as_often_as_they_did():
    """More of the sampled warps take the second way than of all warps."""
    blocks = {("k", 0): BlockCount(64, 2048, 0), ("k", 1): BlockCount(3200, 1, 0), ("k", 2): BlockCount(3200, 1, 0)}
    counts = MachineCounts((Count(1.0, 1.0, 1.0),) * 3, (Count(3.0, 3.0, 3.0),) * 3, {}, tuple(blocks))
    ways = [[0] + 100 * [1], [0] + 100 * [2], [0] + 100 * [2]]
    warps = [SampledWarp(0, Trace(np.array(way), *(np.zeros(0),) * 5)) for way in ways]
    _, _, program, _ = mapped("divergent", "sm_90")
    relative = relative_executions(warps, blocks, 64, counts, program, no_events())
    assert relative.tolist() == [[1, 2, 0], [1, 0, 2], [1, 0, 2]]


def test_a_warp_with_a_cut_trace_executes_in_proportion_to_its_number_of_visits():
    """The start of the trace has one visit of the second loop in four; the launch has one in two."""
    once, loop = Count(64.0, 64.0, 64.0), Count(6400.0, 6400.0, 6400.0)
    blocks = {("k", 0): BlockCount(64, 1, 0), ("k", 1): BlockCount(6400, 1, 0), ("k", 2): BlockCount(6400, 1, 0)}
    counts = MachineCounts((once, loop, loop), (once, loop, loop), {}, tuple(blocks))
    visited = [[0] + 3 * [1] + [2], [0] + 3 * [1] + [2]]
    traces = [Trace(np.array(each), *(np.zeros(0),) * 5) for each in visited]
    warps = [SampledWarp(0, trace, more) for trace, more in zip(traces, (96, 297), strict=True)]
    _, _, program, _ = mapped("divergent", "sm_90")
    relative = relative_executions(warps, blocks, 64, counts, program, no_events())
    assert relative[:, 0].tolist() == [1, 1]
    assert relative[:, 1] == pytest.approx(np.array([101, 302]) / 201)
    assert relative[:, 2] == pytest.approx(relative[:, 1])


def test_a_warp_with_a_cut_trace_does_not_enter_the_loop_of_another_role():
    once, loop = Count(64.0, 64.0, 64.0), Count(3200.0, 3200.0, 3200.0)
    blocks = {("k", 0): BlockCount(64, 1, 0), ("k", 1): BlockCount(3200, 1, 0), ("k", 2): BlockCount(3200, 1, 0)}
    counts = MachineCounts((once, loop, loop), (once, loop, loop), {}, tuple(blocks))
    traces = [Trace(np.array([0] + 20 * [role]), *(np.zeros(0),) * 5) for role in (1, 2)]
    warps = [SampledWarp(0, trace, more) for trace, more in zip(traces, (80, 76), strict=True)]
    _, _, program, _ = mapped("divergent", "sm_90")
    relative = relative_executions(warps, blocks, 64, counts, program, no_events())
    assert relative == pytest.approx(np.array([[1, 101 / 51, 0], [1, 0, 97 / 51]]))


def test_a_warp_that_executes_one_of_two_loops_enters_it_once():
    ways = tuple(Block(n, n + 1, after) for n, after in enumerate([(1, 2), (1,), (2,)]))
    flow = Flow((), ways, entries=(0,), order=(0, 1, 2), dominator=(0, 0, 0))
    loops = [SimpleNamespace(header=n, blocks={n}, latches=(n,), parent=None) for n in (1, 2)]
    program = SimpleNamespace(flow=flow, loops=SimpleNamespace(loops=loops, innermost=(None, 0, 1)), instructions=())
    threads = tuple(Count(value, value, value) for value in (1.0, 50.0, 50.0))
    around = Count(49.5, 49.5, 49.5)
    counts = MachineCounts(threads, threads, {(1, 1): around, (2, 2): around}, (None,) * 3)
    mean = _Walker(program, counts, np.array([1.0, 50.0, 50.0]))
    assert (mean.entries.tolist(), mean.iterations.tolist()) == (pytest.approx([0.5, 0.5]), pytest.approx([100, 100]))
    found = mean.of(np.array([1.0, 2.0, 0.0]), np.array([1.0, 0.5, 0.5]), {})
    assert (found.entries[0], found.iterations[0]) == (pytest.approx(1), pytest.approx(100))
    assert found.frequency[2] == 0


def test_counts_of_a_path_are_the_mean_of_its_variants():
    variants = (np.array([0, 1, 1]), np.array([0]))
    path = Path(variants, (0, 1, 1, 1), 1.0, 1.0, np.ones(3))
    assert path.counts.tolist() == [1, 0.5, 0]


def test_a_called_function_follows_the_block_that_calls_it():
    _, _, program, counts = mapped("calls", "sm_90")
    entry = program.flow.blocks[program.flow.entries[1]].start
    path = walk(program, counts, WARPS, 100_000).instructions.tolist()
    before = [path[place - 1] for place, index in enumerate(path) if index == entry]
    assert before == [block.end - 1 for block in program.flow.blocks if block.callee is not None]


def test_a_path_without_room_for_its_loops_is_longer():
    """Code outside the loop has more instructions than the limit: the shorter path still has fewer iterations."""
    _, _, program, counts = mapped("nest", "sm_90")
    path = walk(program, counts, WARPS, 1)
    assert path.missing_iterations > 0
    assert max(map(len, path.shorter)) < min(map(len, path.variants))

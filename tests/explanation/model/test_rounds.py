"""Iterations of a loop with a barrier in which warps do different amounts of work."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.explanation.counts import Count
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.rounds import MAX_ROUNDS, rounds_of
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.explanation.model.walk import walk
from gpudissect.explanation.packing import Trace
from gpudissect.machine_code.flow import Block, Flow

ENTRY, HEADER, INNER, LATCH = range(4)
ORIGIN = tuple(("k", number) for number in range(4))
ONE = Count(1.0, 1.0, 1.0)


def program(opcode="BAR"):
    """An outer loop of header and latch around a loop of one block, an instruction each; the latch is a barrier."""
    blocks = tuple(Block(n, n + 1, after) for n, after in enumerate([(1,), (2,), (2, 3), (1,)]))
    flow = Flow((), blocks, entries=(0,), order=(0, 1, 2, 3), dominator=(0, 0, 1, 2))
    outer = SimpleNamespace(header=1, blocks=frozenset((1, 2, 3)), latches=(3,), parent=None)
    inner = SimpleNamespace(header=2, blocks=frozenset((2,)), latches=(2,), parent=0)
    loops = SimpleNamespace(loops=[outer, inner], innermost=(None, 0, 1, 0))
    instructions = [SimpleNamespace(opcode=each) for each in ("MOV", "MOV", "MOV", opcode)]
    return SimpleNamespace(flow=flow, loops=loops, instructions=instructions)


def traced(inner, more=0):
    """A warp whose outer iterations have so many inner ones."""
    visited = [ENTRY] + [each for count in inner for each in (HEADER, *count * (INNER,), LATCH)]
    return SampledWarp(0, Trace(np.array(visited, np.uint32), *(np.zeros(0),) * 5), more)


def counts_of(inner):
    """Of one warp."""
    rounds, total = float(len(inner)), float(sum(inner))
    of = tuple(Count(each, each, each) for each in (1.0, rounds, total, rounds))
    around = {(3, 1): rounds - 1, (2, 2): total - rounds}
    return MachineCounts(of, of, {edge: Count(each, each, each) for edge, each in around.items()}, ORIGIN)


def inner_iterations(path):
    begins = [*np.flatnonzero(path == HEADER), path.size]
    return [int((path[a:b] == INNER).sum()) for a, b in pairwise(begins)]


def test_paths_have_the_iterations_of_the_traces():
    """Two warps with as many iterations of the inner loop, in other iterations of the outer one."""
    traces = [(8, 4, 2, 1, 1, 1), (1, 1, 1, 2, 4, 8)]
    executed = {block: BlockCount(1, 1, 0) for block in ORIGIN}
    counts = counts_of(traces[0])
    rounds = rounds_of([traced(each) for each in traces], executed, counts, program())
    path = walk(program(), counts, 1, 1000, np.ones((2, 4)), rounds)
    assert [tuple(inner_iterations(path.variants[number])) for number in path.order[:2]] == traces


@pytest.mark.parametrize(("opcode", "more"), [("MOV", 0), ("BAR", 1)], ids=["no barrier", "cut trace"])
def test_without_a_barrier_or_the_whole_trace_iterations_are_alike(opcode, more):
    executed = {block: BlockCount(1, 1, 0) for block in ORIGIN}
    assert rounds_of([traced((2, 1), more)], executed, counts_of((2, 1)), program(opcode)) == [{}]


def test_many_iterations_are_grouped():
    inner = 100 * (3,) + 100 * (1,)
    executed = {block: BlockCount(1, 1, 0) for block in ORIGIN}
    (rounds,) = rounds_of([traced(inner)], executed, counts_of(inner), program())
    assert rounds[0].shape == (MAX_ROUNDS, 4)
    assert rounds[0][:, INNER] == pytest.approx(np.repeat([1.5, 0.5], MAX_ROUNDS // 2))

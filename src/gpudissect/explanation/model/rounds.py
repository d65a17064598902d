"""Iterations of loops with barriers: how often a sampled warp executes each block in each of them.

Means over the iterations would let warps of a block wait for one another where they work side by side: an iteration in
which half of the data is left takes each warp half as long, not half of the warps as long as before.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.evidence import PtxBlock
from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.machine_code.program import Program

MAX_ROUNDS = 64  # groups of iterations
Rounds = Mapping[int, NDArray[np.float64]]
"""By loop: executions of each block in each group of iterations relative to their mean, shape (groups, blocks)."""


def rounds_of(
    sampled: Sequence[SampledWarp], executed: Mapping[PtxBlock, BlockCount], counts: MachineCounts, program: Program
) -> list[Rounds]:
    """The iterations of outer loops that have a barrier, of each sampled warp whose trace is whole."""
    numbers = {block: number for number, block in enumerate(executed)}
    origin = np.array([numbers.get(each, -1) if each is not None else -1 for each in counts.origin])
    headers = {
        number: origin[loop.header]
        for number, loop in enumerate(program.loops.loops)
        if loop.parent is None and origin[loop.header] >= 0 and _has_barrier(program, loop.blocks)
    }
    found: list[Rounds] = []
    for warp in sampled:
        visited = warp.trace.visited
        begins = {number: np.flatnonzero(visited == header) for number, header in headers.items()}
        found.append(
            {
                number: _relative(visited, begin, origin, len(numbers))
                for number, begin in begins.items()
                if begin.size > 1 and not warp.more_visits
            }
        )
    return found


def _has_barrier(program: Program, blocks: frozenset[int]) -> bool:
    return any(
        each.opcode == "BAR"
        for number in blocks
        for each in program.instructions[program.flow.blocks[number].start : program.flow.blocks[number].end]
    )


def _relative(
    visited: NDArray[np.uint32], begins: NDArray[np.int64], origin: NDArray[np.int64], ptx_blocks: int
) -> NDArray[np.float64]:
    """The rounds of a loop whose iterations begin at some places of a trace; 1 for blocks without a PTX block."""
    groups = min(begins.size, MAX_ROUNDS)
    group_of = np.arange(begins.size) * groups // begins.size
    of_visit = group_of[np.searchsorted(begins, np.arange(begins[0], visited.size), side="right") - 1]
    visits = np.zeros((groups, ptx_blocks))
    np.add.at(visits, (of_visit, visited[begins[0] :].astype(np.int64)), 1.0)
    per_iteration = visits / np.bincount(group_of)[:, None]
    mean = visits.sum(axis=0) / begins.size
    relative = np.divide(per_iteration, mean, out=np.ones_like(visits), where=mean > 0)
    return np.where(origin >= 0, relative[:, origin], 1.0)

"""Instruction fetches of a scheduler: code that is larger than its instruction cache takes longer to issue.

The caches were measured with sequential code of one warp (`icache_l0.miss_penalty`). Warps of a scheduler that are at
different places fetch on their own: a loop of 48 KiB takes two warps twice as long as one (H200).
"""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.card import Card
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES
from gpudissect.machine_code.program import Program

FETCHED_BYTES = 128  # to which a miss penalty refers
MISS_FOOTPRINTS = 1.1, 1.4
"""Code size relative to the capacity at which misses begin, and at which all lines miss: the series `cycles of a line
against footprint` of an H200 and an H100."""
MIN_EXECUTIONS = 0.01  # by a launched warp, from which code counts


def fetch_intervals(program: Program, counts: MachineCounts, warps: int, card: Card) -> NDArray[np.float64]:
    """Cycles in which a scheduler fetches each instruction for one of so many launched `warps`, at least 1."""
    blocks = program.flow.blocks
    sizes = np.array(
        [
            INSTRUCTION_BYTES * (block.end - block.start) * (count.value >= MIN_EXECUTIONS * warps)
            for block, count in zip(blocks, counts.warps, strict=True)
        ]
    )
    found = np.ones(len(program.instructions))
    for cache in ("icache_l0", "icache_l1"):
        capacity, penalty = (card.values.get((cache, name)) for name in ("capacity", "miss_penalty"))
        if not capacity or not penalty:
            continue
        misses: dict[int | None, float] = {None: float(np.interp(sizes.sum() / capacity, MISS_FOOTPRINTS, (0.0, 1.0)))}
        for number, loop in enumerate(program.loops.loops):  # outer loops first
            code = sizes[sorted(loop.blocks | _called_from(program, loop.blocks))].sum()
            again = float(np.interp(code / capacity, MISS_FOOTPRINTS, (0.0, 1.0)))
            misses[number] = again + counts.first_share(loop) * max(0.0, misses[loop.parent] - again)
        for block, share in zip(blocks, _misses_of_blocks(program, misses), strict=True):
            found[block.start : block.end] += share * penalty * INSTRUCTION_BYTES / FETCHED_BYTES
    return found


def _called_from(program: Program, blocks: Collection[int]) -> frozenset[int]:
    """Blocks of the functions that some blocks call."""
    entries = {program.flow.blocks[number].callee for number in blocks}
    return frozenset(block for each in program.flow.called if each.start in entries for block in each)


def _misses_of_blocks(program: Program, misses: Mapping[int | None, float]) -> list[float]:
    """The share of misses of each block: that of its innermost loop; of a called function at most that of its calls."""
    found = [misses[loop] for loop in program.loops.innermost]
    for function in program.flow.called:
        calls = [found[number] for number, block in enumerate(program.flow.blocks) if block.callee == function.start]
        for number in function:
            found[number] = min(found[number], *calls) if calls else found[number]
    return found

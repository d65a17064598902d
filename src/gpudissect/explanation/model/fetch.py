"""Instruction fetches of a scheduler: code that is larger than its instruction cache takes longer to issue.

The caches were measured with sequential code of one warp (`icache_l0.miss_penalty`). Warps of a scheduler that are at
different places fetch on their own: a loop of 48 KiB takes two warps twice as long as one (H200).
"""

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.card import Card
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES
from gpudissect.machine_code.program import Program

FETCHED_BYTES = 128  # to which a miss penalty refers
RISE = 1.1, 1.4
"""Code relative to the capacity from which, and up to which, the share of misses rises: `cycles of a line against
footprint` of an H200 and an H100."""
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
        misses: dict[int | None, float] = {None: float(np.interp(sizes.sum() / capacity, RISE, (0.0, 1.0)))}
        for number, loop in enumerate(program.loops.loops):  # outer loops first
            again = float(np.interp(sizes[list(loop.blocks)].sum() / capacity, RISE, (0.0, 1.0)))
            misses[number] = again + _first_share(program, counts, number) * max(0.0, misses[loop.parent] - again)
        for block, innermost in zip(blocks, program.loops.innermost, strict=True):
            found[block.start : block.end] += misses[innermost] * penalty * INSTRUCTION_BYTES / FETCHED_BYTES
    return found


def _first_share(program: Program, counts: MachineCounts, number: int) -> float:
    """Share of the iterations of a loop that are the first after its entry."""
    loop = program.loops.loops[number]
    threads = counts.threads[loop.header].value
    around = sum(counts.edges[latch, loop.header].value for latch in loop.latches)
    return max(0.0, 1 - around / threads) if threads > 0 else 1.0

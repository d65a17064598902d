"""How the blocks of a grid are distributed over the SMs, where an SM gets more of them than the mean."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.machine_code.program import Program

IMBALANCE = 1.034  # time of the slowest SM relative to that of the mean, unless measured (`hiding.load_imbalance`)
MAX_WORKING = 0.9  # share of the blocks with work, from which all are taken to have some
MAX_BEFORE = 0.02  # share of the instructions that a block executes before it exits at once
SEED = 0  # of the order of blocks with and without work


@dataclass(frozen=True)
class Launch:
    """Blocks of a grid, warps of a block, and the share of the blocks that do not exit at once."""

    blocks: int
    warps_per_block: int
    working: float = 1.0


def working_share(program: Program, executions: Sequence[float], warps: Sequence[SampledWarp]) -> float:
    """The share of the blocks that do not exit at once; `executions`: of each basic block, by a launched warp.

    A part of the warps leaves before nearly all instructions, and the sampled warps of a block all do, or all do not.
    """
    blocks = program.flow.blocks
    work = np.array([count * (block.end - block.start) for count, block in zip(executions, blocks, strict=True)])
    first = next((n for n, count in enumerate(executions) if count < MAX_WORKING), None)
    if first is None or not warps or work[:first].sum() > MAX_BEFORE * work.sum():
        return 1.0
    visits = np.array([warp.trace.visited.size for warp in warps])
    kinds = {(warp.block, bool(some)) for warp, some in zip(warps, visits > MAX_BEFORE * visits.max(), strict=True)}
    return executions[first] or 1.0 if len(kinds) == len({block for block, _ in kinds}) else 1.0


def most_working(launch: Launch, sms: int, resident: int) -> float:
    """Blocks with work of the SM that gets most of them; the mean of all SMs if they need several waves.

    A block that exits at once is replaced at once: SMs end up with unequal numbers of the others. Blocks are
    dispatched to the SM with most room; those with work are taken to be in random order.
    """
    working = max(1, round(launch.working * launch.blocks))
    if launch.working == 1 or working > sms * resident:
        return launch.working * launch.blocks / sms
    order = np.random.default_rng(SEED).permutation(launch.blocks) < working
    has, at = np.zeros(sms, dtype=np.int64), 0
    while has.sum() < working:  # all free places are filled, then the blocks without work exit
        free = resident - has
        sm = np.repeat(np.arange(sms), free)
        sm = sm[np.argsort(np.concatenate([np.arange(each) - each for each in free]), kind="stable")]
        some = order[at : at + sm.size]
        has += np.bincount(sm[: some.size][some], minlength=sms)
        at += sm.size
    return float(has.max())


def taken_last(
    card: Card, ends: NDArray[np.int64], resident: int, left: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When places of each SM are free as blocks end, shape (SMs, `resident`); of `left` blocks, how many each takes."""
    spread = min(max(0.0, card.values.get(("hiding", "load_imbalance"), IMBALANCE) - 1), 1.0) / 2
    free = np.outer(1 + np.linspace(-spread, spread, card.sms), np.sort(ends)[-resident:])
    return free, np.bincount(np.argsort(free, axis=None, kind="stable")[:left] // resident, minlength=card.sms)

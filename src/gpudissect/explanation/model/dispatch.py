"""Distribution of the blocks of a grid over SMs, if some exit at once or the last wave is partial."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.traffic import SampledWarp
from gpudissect.machine_code.program import Program

IMBALANCE = 1.034  # time of the slowest SM relative to that of the mean, unless measured (`hiding.load_imbalance`)
MIN_SHARE_ALL_WORK = 0.9  # of the blocks, from which all are taken to have work
MAX_PROLOGUE_SHARE = 0.02  # of the instructions, before a block exits
SEED = 0  # of the order of blocks with and without work


@dataclass(frozen=True)
class Launch:
    """Blocks of a grid, warps of a block, and the blocks that do not exit at once; None if all or an unknown number."""

    blocks: int
    warps_per_block: int
    working: int | None = None

    @property
    def working_share(self) -> float:
        """Of the blocks; 1 if unknown."""
        return 1.0 if self.working is None else self.working / self.blocks


def working_share(program: Program, executions: Sequence[float], sampled: Sequence[SampledWarp]) -> float:
    """The share of the blocks that do not exit at once; `executions`: of each basic block, by a launched warp.

    A part of the warps enters a basic block that dominates nearly all executed instructions. All sampled warps of a
    block do, or none does.
    """
    flow = program.flow
    work = np.array([count * (block.end - block.start) for count, block in zip(executions, flow.blocks, strict=True)])
    least = (1 - MAX_PROLOGUE_SHARE) * work.sum()
    for number in flow.order:
        if 0 < executions[number] < MIN_SHARE_ALL_WORK:
            dominated = sum(work[each] for each in flow.order if flow.dominates(number, each))
            return executions[number] if dominated >= least and _blocks_are_alike(sampled) else 1.0
    return 1.0


def _blocks_are_alike(sampled: Sequence[SampledWarp]) -> bool:
    """Whether all sampled warps of each block have work, or none has."""
    visits = np.array([warp.trace.visited.size + warp.more_visits for warp in sampled], dtype=np.float64)
    works = visits > MAX_PROLOGUE_SHARE * visits.max(initial=0.0)
    kinds = {(warp.block, bool(each)) for warp, each in zip(sampled, works, strict=True)}
    return bool(kinds) and len(kinds) == len({block for block, _ in kinds})


def blocks_of_fullest_sm(launch: Launch, sms: int, resident: int) -> float:
    """Blocks with work of the SM that gets most of them, or their mean if they do not fit on the GPU together.

    A block that exits at once is replaced at once: SMs end up with unequal numbers of the others. Blocks are
    dispatched to the SM with most room; those with work are taken to be in random order.
    """
    working = launch.working
    if working is None or working > sms * resident:
        return launch.working_share * launch.blocks / sms
    places = np.sort(np.random.default_rng(SEED).choice(launch.blocks, working, replace=False, shuffle=False))
    by_sm = np.zeros(sms, dtype=np.int64)
    while places.size:  # all free places are filled, then the blocks without work exit
        free = resident - by_sm
        sm = np.repeat(np.arange(sms), free)
        sm = sm[np.argsort(np.concatenate([np.arange(each) - each for each in free]), kind="stable")]
        places -= places[0] // sm.size * sm.size  # rounds without one
        by_sm += np.bincount(sm[places[places < sm.size]], minlength=sms)
        places = places[places >= sm.size] - sm.size
    return float(by_sm.max())


def assign_last_wave(
    card: Card, ends: NDArray[np.int64], resident: int, left: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """When places of each SM are free as blocks end, shape (SMs, `resident`); of `left` blocks, how many each takes."""
    spread = min(max(0.0, card.values.get(("hiding", "load_imbalance"), IMBALANCE) - 1), 1.0) / 2
    free = np.outer(1 + np.linspace(-spread, spread, card.sms), np.sort(ends)[-resident:])
    return free, np.bincount(np.argsort(free, axis=None, kind="stable")[:left] // resident, minlength=card.sms)

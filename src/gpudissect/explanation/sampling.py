"""Which warps of a launch are traced: those of thread blocks that likely share an SM, where the grid is typical."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.instrument import ACCESSES_PER_WARP, MAX_WARPS, Sample

MAX_ACCESSES = 40_000
"""Recorded accesses of all warps."""
PLACES = (0.5, *((2 * n + 1) / 16 for n in range(8)))
"""Where in the grid samples are tried."""
_NEIGHBOURS = 3  # blocks
_NEIGHBOUR_SHARE = 0.2  # of the accesses
_TOLERANCE = 0.1  # of `untypical`, within which the first place is as good


@dataclass(frozen=True)
class Plan:
    """A sample and the number of accesses to keep of each of its warps."""

    sample: Sample
    accesses: int

    def places(self) -> list[tuple[int, int]]:
        """Block and warp of each slot, in order."""
        first, step, count = self.sample.blocks
        first_warp, warp_step, warps = self.sample.warps
        return [
            (first + step * block, first_warp + warp_step * warp) for block in range(count) for warp in range(warps)
        ]


def plan_samples(
    blocks: int,
    warps_per_block: int,
    sm_count: int,
    blocks_per_sm: int,
    accesses_per_warp: float,
    place: float = PLACES[0],
) -> tuple[Plan, ...]:
    """The samples of a launch: blocks at a distance of `sm_count`, then blocks beside the first of them.

    Blocks start in order on SMs in turn, so that blocks at that distance likely share an SM as long as all take equally
    long. The first ones have their middle at a `place` of the grid, 0 to 1. `accesses_per_warp` is the mean of the
    launch; at most `MAX_ACCESSES` are recorded in all.
    """
    together = max(1, min(blocks_per_sm, -(-blocks // sm_count), MAX_WARPS // warps_per_block))
    per_warp = max(1.0, min(accesses_per_warp, ACCESSES_PER_WARP))
    budget = MAX_ACCESSES * (1 - _NEIGHBOUR_SHARE)
    together = max(1, min(together, int(budget / (per_warp * warps_per_block))))
    warps = min(warps_per_block, MAX_WARPS)
    first = max(0, (int(blocks * place) // sm_count - together // 2)) * sm_count
    first = min(first, max(0, blocks - 1 - (together - 1) * sm_count))
    kept = min(ACCESSES_PER_WARP, max(1, int(budget / (together * warps))))
    plans = [Plan(Sample((first, sm_count, together), (0, 1, warps)), kept)]
    fitting = int(MAX_ACCESSES * _NEIGHBOUR_SHARE / (per_warp * warps))
    neighbours = min(_NEIGHBOURS, blocks - 1 - first, fitting, MAX_WARPS // warps)
    if neighbours > 0 and sm_count > neighbours:
        plans.append(Plan(Sample((first + 1, 1, neighbours), (0, 1, warps)), kept))
    return tuple(plans)


def most_typical(visits: Sequence[NDArray[np.int64]], launch_mean: float) -> int:
    """Most representative sample; the first one on a near tie.

    `visits`: executed PTX blocks by warp of each thread block, shape (thread blocks, warps), for each sample. A sample
    is typical if its mean is `launch_mean`, and the longest warps of its blocks are as much longer than the mean as
    those of all samples.
    """
    means = np.array([max(1.0, float(each.mean())) for each in visits])
    longest = np.array([float(each.max(axis=1).mean()) for each in visits]) / means
    untypical = np.abs(np.log(means / max(1.0, launch_mean))) + np.abs(np.log(longest / longest.mean()))
    best = int(untypical.argmin())
    return 0 if untypical[0] <= untypical[best] + _TOLERANCE else best

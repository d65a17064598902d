"""Which warps to trace: those that likely share an SM, in the middle of the grid, and some of neighbouring blocks."""

from dataclasses import dataclass

from gpudissect.explanation.instrument import Sample

MAX_WARPS = 64
"""Warps traced in one launch."""
ACCESSES_PER_WARP, VISITS_PER_WARP = 1500, 3000
"""Capacities of a trace."""
MAX_ACCESSES = 40_000
"""Recorded accesses of all warps."""
_NEIGHBOURS = 3  # blocks
_NEIGHBOUR_SHARE = 0.2  # of the accesses


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
    blocks: int, warps_per_block: int, sm_count: int, blocks_per_sm: int, accesses_per_warp: float
) -> tuple[Plan, ...]:
    """The samples of a launch: blocks at a distance of `sm_count`, then blocks beside the first of them.

    Blocks start in order on SMs in turn, so that blocks at that distance likely share an SM as long as all take equally
    long. `accesses_per_warp` is the mean of the launch; at most `MAX_ACCESSES` are recorded in all.
    """
    together = max(1, min(blocks_per_sm, -(-blocks // sm_count), MAX_WARPS // warps_per_block))
    per_warp = max(1.0, min(accesses_per_warp, ACCESSES_PER_WARP))
    budget = MAX_ACCESSES * (1 - _NEIGHBOUR_SHARE)
    together = max(1, min(together, int(budget / (per_warp * warps_per_block))))
    warps = min(warps_per_block, MAX_WARPS)
    first = max(0, (blocks // 2 // sm_count - together // 2)) * sm_count
    first = min(first, max(0, blocks - 1 - (together - 1) * sm_count))
    kept = min(ACCESSES_PER_WARP, max(1, int(budget / (together * warps))))
    plans = [Plan(Sample((first, sm_count, together), (0, 1, warps)), kept)]
    fitting = int(MAX_ACCESSES * _NEIGHBOUR_SHARE / (per_warp * warps))
    neighbours = min(_NEIGHBOURS, blocks - 1 - first, fitting, MAX_WARPS // warps)
    if neighbours > 0 and sm_count > neighbours:
        plans.append(Plan(Sample((first + 1, 1, neighbours), (0, 1, warps)), kept))
    return tuple(plans)

"""What was measured of a run of a kernel: executions, sampled warps, hits in the L2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from gpudissect.explanation.instrument import BlockCount
from gpudissect.explanation.line_records import BehindL1
from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.predict import MAX_ISSUES
from gpudissect.explanation.model.traffic import Accessed, SampledWarp
from gpudissect.explanation.profile import Profile
from gpudissect.units import WARP_SIZE

WHOLE = 0.9  # of the requests of an access that a sampled warp must have on average, or its trace was cut
MAX_PATH, MAX_CUT_PATH, MAX_WHOLE_PATH = 3000, 7000, 14_000
"""Instructions of the path of a warp; the same if an SM has few warps; the same if nearly all accesses of the sampled
warps are recorded: those of a longer path are repetitions."""


@dataclass(frozen=True)
class Facts:
    """What was measured of a run of the kernel: executions of its PTX blocks, sampled accesses, hits in the L2."""

    blocks: int
    threads: int  # of a block
    dynamic_shared: int
    counts: Mapping[tuple[str, int], BlockCount] = field(repr=False)
    accesses: Sequence[Accessed] = field(repr=False)
    warps: Sequence[SampledWarp] = field(repr=False)
    behind_l1: Mapping[int, BehindL1] = field(repr=False)  # by index of access
    allocated: int = 0  # bytes of the arrays of its arguments, 0 if not known
    recorded: float = 1.0  # share of the accesses of sampled warps; 0 if these differ and are cut

    @property
    def warps_per_block(self) -> int:
        """Warps of a block."""
        return -(-self.threads // WARP_SIZE)

    @property
    def launched_warps(self) -> int:
        """Warps of the launch."""
        return self.blocks * self.warps_per_block

    def max_path(self, executed: float, sms: int) -> float:
        """Maximum path length of a warp that executes so many instructions on a GPU with so many SMs.

        If accesses are missing, it is long only where all warps of an SM can be simulated that far.
        """
        if self.recorded >= WHOLE:
            return MAX_WHOLE_PATH
        affordable = min(self.recorded * executed, MAX_ISSUES * sms / self.launched_warps)
        return min(max(MAX_PATH, affordable), MAX_CUT_PATH)

    @property
    def sampled(self) -> list[SampledWarp]:
        """Sampled warps that likely share an SM, by block."""
        return sorted((warp for warp in self.warps if warp.block >= 0), key=lambda warp: warp.block)


def facts_of(profile: Profile, card: Card) -> Facts:
    """What a profile says of a run, with the hits in the L2 of this GPU. Raises `UsageError` if it is damaged."""
    first = profile.warps[0].block if profile.warps else 0
    order = dict.fromkeys(warp.block for warp in profile.warps)
    on_sm = [block for block in order if (block - first) % profile.gpu.sm_count == 0]
    number = {block: ~index for index, block in enumerate(order)} | {block: index for index, block in enumerate(on_sm)}
    warps = [SampledWarp(number[warp.block], warp.trace(), warp.more_visits) for warp in profile.warps]
    recorded, missing = (sum(getattr(warp, name) for warp in profile.warps) for name in ("accesses", "more_accesses"))
    is_cut = any(warp.more_visits for warp in profile.warps)
    differ = len({warp.visits + warp.more_visits for warp in profile.warps}) > 1
    return Facts(
        blocks=profile.launch.blocks,
        threads=profile.launch.threads_per_block,
        dynamic_shared=profile.launch.shared_bytes,
        counts=profile.block_counts(),
        accesses=[Accessed(*access) for access in profile.accesses],
        warps=warps,
        behind_l1=_behind_l1(profile, warps, card),
        allocated=sum(each.bytes for each in profile.allocations),
        recorded=0.0 if is_cut and differ else recorded / max(1, recorded + missing),
    )


def _behind_l1(profile: Profile, warps: Sequence[SampledWarp], card: Card) -> dict[int, BehindL1]:
    """What becomes of requests that miss the L1, by index of access, if the kernel runs again and again."""
    l2 = card.l2
    if profile.lines is None or l2 is None:
        return {}
    l1 = card.values.get(("l1", "capacity"), 0.0) - profile.blocks_per_sm * profile.shared_bytes
    by_line = profile.lines.behind_l1(max(0.0, l1), l2, _bytes_of_copies(profile, warps))
    few_lines = BehindL1(0.0, 0.0)  # none of them is in the sample
    return {index: by_line.get(access[0], few_lines) for index, access in enumerate(profile.accesses)}


def _bytes_of_copies(profile: Profile, warps: Sequence[SampledWarp]) -> dict[int, float]:
    """Mean bytes of the bulk copies by each PTX instruction, which loads their first sector and traces their size."""
    sources = {number for number, space, kind, _ in profile.accesses if (space, kind) == ("global", "load")}
    found = {}
    for index, (number, *access) in enumerate(profile.accesses):
        if access == ["shared", "load", 1] and number in sources:
            sizes = [warp.trace.offsets[warp.trace.accessed == index].max(axis=1) for warp in warps]
            if (joined := np.concatenate(sizes)).size:
                found[number] = float(joined.mean())
    return found

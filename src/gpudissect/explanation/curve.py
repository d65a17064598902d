"""Points of an explanation over the occupancies that its grid reaches, and the best of them."""

import math

from gpudissect.explanation.result import Explanation, Point
from gpudissect.units import format_bytes

SAME_TIME = 0.005
"""Relative difference below which two times are the same."""
MIN_FILL = 0.9
"""Share of the block slots of all waves that a grid fills, below which the grid is named."""


def curve_of(explanation: Explanation) -> list[Point]:
    """The points of the curve by their warps; the last one is the launch.

    A grid of few blocks leaves warps unused: the last point has the blocks and warps that an SM gets. Points that
    differ from it only in the size of the L1 are left out.
    """
    point = explanation.point
    blocks = math.ceil(math.prod(explanation.grid) / explanation.sms) if explanation.sms else point.blocks_per_sm
    blocks = min(blocks, point.blocks_per_sm)
    warps = blocks * point.warps_per_sm // max(1, point.blocks_per_sm)
    ordered = sorted(explanation.curve, key=lambda each: each.warps_per_sm)
    below = [each for each in ordered if each.warps_per_sm < warps]
    return [*below, point.model_copy(update={"blocks_per_sm": blocks, "warps_per_sm": warps})]


def resident_warps(explanation: Explanation) -> int:
    """Warps of an SM during the launch: fewer than fit if the grid has few blocks."""
    return curve_of(explanation)[-1].warps_per_sm


def has_different_l1(explanation: Explanation) -> bool:
    """Whether the L1 differs between the points of the curve, and an access hits it."""
    sizes = {each.l1_bytes for each in curve_of(explanation)} - {None}
    return len(sizes) > 1 and any(line.sectors and line.l1_hits and line.executed for line in explanation.lines)


def best_of(explanation: Explanation) -> Point | None:
    """The point of the curve with the shortest predicted time, without those that were measured to be slower.

    None if its time is not shorter than that of the launch.
    """
    *others, launch = curve_of(explanation)
    slowest = launch.measured or math.inf
    faster = [each for each in others if each.measured is None or each.measured < slowest]
    best = min(faster, key=lambda each: each.predicted, default=launch)
    return best if best.predicted < (1 - SAME_TIME) * launch.predicted else None


def note_on_curve(explanation: Explanation) -> str:
    """How L1 and waves differ between the points of the curve; empty if they do not, or if that is not known."""
    own, lower = explanation.point.l1_bytes or 0, curve_of(explanation)[:-1]
    sizes = [each.l1_bytes or own for each in lower]
    least, parts = min(sizes, default=own), list[str]()
    if least < own and has_different_l1(explanation):
        parts = ["In the timed rows above this launch, dynamic shared memory sets the occupancy and shrinks the L1"]
        parts[0] += f" from {format_bytes(own)} to {format_bytes(least)}." if max(sizes) == least else " as shown."
    return " ".join([*parts, *filter(None, [_note_on_waves(explanation)])])


def _note_on_waves(explanation: Explanation) -> str:
    """Waves at the launch and at the best point, if that is another one and a last wave fills little of the GPU."""
    best = best_of(explanation)
    if best is None or not explanation.sms or explanation.working_blocks is not None:
        return ""
    points = (explanation.point, best)
    waves = [math.prod(explanation.grid) / (explanation.sms * each.blocks_per_sm) for each in points]
    if all(each >= MIN_FILL * math.ceil(each) for each in waves):
        return ""
    now, fewer = waves
    return f"Waves of blocks: {now:.2f} at {explanation.point.warps_per_sm} warps, {fewer:.2f} at {best.warps_per_sm}."

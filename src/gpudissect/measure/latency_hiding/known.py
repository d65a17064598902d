"""What is known of latency hiding once it was measured: points, latencies, peaks, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpudissect.measure.latency_hiding.infer_hiding import Cusp, Level, Point, Reached, best, cusp, reached
from gpudissect.measure.latency_hiding.mixes import Kind, Paces

SHARES = (0.90, 0.95)


@dataclass(frozen=True)
class Hiding:
    """What latency hiding is about on this device, for those who model it.

    Attributes:
        kind: what stands between additions.
        points: every mix that was run.
        access_bytes: that one access of a warp reads; 0 for what stays in the SM.
        access_latency, arithmetic_latency: cycles, unloaded.
        followed_latency: of an access whose result an addition needs, cycles.
        accesses, arithmetic, issue: how fast accesses, additions and the fastest mix of all went, instructions a cycle
            of one SM.
        width: bytes of a lane's operand.
        paces: for further mixes of this kind.

    """

    kind: Kind
    points: tuple[Point, ...]
    access_bytes: int
    access_latency: float
    followed_latency: float
    arithmetic_latency: float
    accesses: Level
    arithmetic: Level
    issue: Level
    width: int
    paces: Paces

    def curve(self, alpha: float) -> dict[int, Point]:
        """The best point at each occupancy."""
        return best(point for point in self.points if point.alpha == alpha)

    def peak(self, alpha: float) -> float:
        """Instructions a cycle of one SM that no number of warps exceeds (VV16 s4.1)."""
        bounds = [self.issue.rate]
        if alpha < math.inf:
            bounds.append(self.accesses.rate * (alpha + 1))
        if alpha > 0:
            share = 1.0 if math.isinf(alpha) else alpha / (alpha + 1)
            bounds.append(self.arithmetic.rate / share)
        return min(bounds)

    @property
    def alphas(self) -> list[float]:
        """Of the points, rising."""
        return sorted({point.alpha for point in self.points})


def needed(hiding: Hiding, alpha: float, share: float) -> Reached:
    """The fewest warps with one chain each that reach `share` of the peak at one alpha."""
    return reached(hiding.curve(alpha), hiding.peak(alpha), share)


def cusp_of(hiding: Hiding) -> Cusp | None:
    """At 90 % of the peaks, as VV16 figure 4.6 has it."""
    return cusp({alpha: needed(hiding, alpha, SHARES[0]).warps for alpha in hiding.alphas})

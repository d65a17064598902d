"""Is the limiter that `explain` names the true one? ``python validation/limiters_page.py``, without a GPU.

Judges the times of `limiters` (validation/limiters-GPU.json) and writes docs/validation-limiters.md.

The elasticity of a resource is the relative slowdown of the variant that needs more of it, over the relative demand
that was added: 1 if it alone limits, 0 if it is never waited for. What a variant also adds of resources whose
elasticity is known is taken off first, in the order of `ORDER`; not the issue slots of instructions that take a unit
for two cycles or more, since the kernel's own need them too. Times are relative to the same code without the additions:
``setup`` for inserted work, level 0 for accesses. The elasticity of issue slots is the least over all variants with
inserted work, since each of them needs slots. A cycle of a unit costs at most a cycle: its elasticity is at most its
busy share; what is beyond is latency of the longer program. The elasticity of latency is what the others leave of 1.
A resource that is busy for less than a fifth of the time is not tried.

The true limiters are the resources with at least `TRUE`, and whatever has the largest elasticity; latency is one if it
has the largest elasticity or no resource has `TRUE`. Strictly, the limiter alone that has the largest elasticity.

The rule was written before any time was measured, and amended after pilot runs on an H200: the least over all
variants, the busy share as an upper bound, and the slots of slow units. It was then left as it is, and judges other
times, of an H100.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from limiters import Kernel

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "validation-limiters.md"
NAMES = {"h200": "H200", "h100": "H100"}
LATENCY = "latency"
ORDER = ("issue", "lsu", "l1", "fma", "alu", "imad", "xu", "fp64", "l2", "memory")
TRUE = 0.5
MIN_ADDED = 0.1  # relative to the demand of the kernel: less is not judged
UNITS = ("fma", "alu", "imad", "xu", "fp64", "lsu")
SLOW_UNITS = ("alu", "imad", "xu", "fp64")  # two cycles or more for an instruction
CHANGED = 0.25  # by which the time of a variant without its additions may differ from the kernel's
CLOSE = 0.15  # elasticities that differ by less are close


@dataclass(frozen=True)
class Judgement:
    """What limits a kernel at one occupancy, by elasticities, and what `explain` says."""

    gpu: str
    kernel: str
    warps: int
    is_own: bool
    elasticities: dict[str, float]
    named: str
    second: str
    slope: float | None
    error: float
    share: float
    counters: dict[str, float]
    share_of_predicted: float = 0.0

    @property
    def is_judged(self) -> bool:
        """Whether what `explain` names was tried."""
        return self.named in self.elasticities

    @property
    def is_close(self) -> bool:
        """Whether it is a true limiter, or close to the one with the largest elasticity."""
        most = self.elasticities[self.largest]
        return self.is_right or (self.is_judged and self.elasticities[self.named] > most - CLOSE)

    @property
    def largest(self) -> str:
        """What has the largest elasticity."""
        return max(self.elasticities, key=lambda name: self.elasticities[name])

    @property
    def limiters(self) -> tuple[str, ...]:
        """The true limiters, the largest elasticity first."""
        found = [n for n, e in self.elasticities.items() if (e >= TRUE and n != LATENCY) or n == self.largest]
        if not any(e >= TRUE for n, e in self.elasticities.items() if n != LATENCY):
            found.append(LATENCY)
        return tuple(sorted(dict.fromkeys(found), key=lambda name: -self.elasticities[name]))

    @property
    def is_right(self) -> bool:
        """Whether `explain` names a true limiter."""
        return self.named in self.limiters

    @property
    def is_largest(self) -> bool:
        """Whether it names the one with the largest elasticity."""
        return self.named == self.largest


def elasticities(
    ns: Mapping[str, float], demand: Mapping[str, Mapping[str, float]], shares: Mapping[str, float]
) -> dict[str, float]:
    """The elasticity of each resource that was tried, and of latency; 1 in all unless resources limit together.

    `ns` has the time of each variant, `demand` what each adds relative to the demand of the kernel, `shares` the part
    of the kernel's time for which each resource is busy.
    """
    found, without_slots = dict[str, float](), dict[str, float]()
    work = [each for each in ("issue", *UNITS) if each in ns and demand.get(each, {}).get("issue", 0.0) >= MIN_ADDED]
    if "setup" in ns and work:
        slots = min((ns[each] / ns["setup"] - 1) / demand[each]["issue"] for each in work)
        found["issue"] = without_slots["issue"] = min(max(0.0, slots), shares.get("issue", 1.0))
    for resource in ORDER[1:]:
        before, after = ("setup", resource) if f"{resource}:0" not in ns else (f"{resource}:0", f"{resource}:1")
        unit = "lsu" if resource == "l1" else resource
        more = demand.get(resource, {})
        if before not in ns or after not in ns or more.get(unit, 0.0) < MIN_ADDED:
            continue
        slowdown = ns[after] / ns[before] - 1
        others = {n: e * max(0.0, more.get(n, 0.0)) for n, e in without_slots.items() if n != unit}
        alone = max(0.0, (slowdown - sum(others.values())) / more[unit])
        whole = alone if unit not in SLOW_UNITS else max(alone, slowdown / more[unit])
        most = shares.get(unit, 1.0) if unit in ("fma", *SLOW_UNITS) else math.inf
        without_slots[unit] = max(min(alone, most), without_slots.get(unit, 0.0))
        found[unit] = max(min(whole, most), found.get(unit, 0.0))
    found[LATENCY] = max(0.0, 1 - sum(min(1.0, each) for each in without_slots.values()))
    return found


def judgements(gpu: str, name: str, measured: Mapping[str, Any]) -> list[Judgement]:
    """A kernel on a GPU at the occupancies that were measured."""
    kernel = Kernel(gpu, name)
    found = []
    for point, prediction, row in zip(kernel.points, kernel.predictions, measured["points"], strict=True):
        ns = usable(row)
        shares = {each: bound / ns["plain"] for each, bound in prediction.bounds.items()}
        by_bound = sorted(prediction.bounds, key=lambda each: -prediction.bounds[each])
        found.append(
            Judgement(
                gpu=gpu,
                kernel=name,
                warps=point.warps_per_sm,
                is_own=point is kernel.points[0],
                elasticities=elasticities(ns, row["demand"], shares),
                named=prediction.limiter,
                second=next(each for each in by_bound if each != prediction.limiter),
                slope=_slope(kernel, point),
                error=prediction.nanoseconds / ns["plain"] - 1,
                share=shares[by_bound[0]],
                counters=row["counters"],
                share_of_predicted=prediction.bounds[by_bound[0]] / prediction.nanoseconds,
            )
        )
    return found


def usable(row: Mapping[str, Any]) -> dict[str, float]:
    """The times of a point without those of variants whose code differs too much from the kernel's."""
    ns = dict(row["ns"])
    bases = [each for each in ns if each == "setup" or each.endswith(":0")]
    for base in (each for each in bases if abs(ns[each] / ns["plain"] - 1) > CHANGED):
        del ns[base]
    for padded in row["padded"]:
        ns.pop(padded, None)
    return ns


def _slope(kernel: Kernel, point: Point) -> float | None:
    """How the recorded time falls with more warps, from the next lower occupancy: 1 if latency alone limits."""
    lower = [p for p in kernel.profile.sweep if p.blocks_per_sm < point.blocks_per_sm and p.carveout == point.carveout]
    if not lower:
        return None
    other = max(lower, key=lambda p: p.blocks_per_sm)
    return math.log(other.ns / point.ns) / math.log(point.blocks_per_sm / other.blocks_per_sm)

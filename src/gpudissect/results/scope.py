"""What a value holds for, where its name does not say it: an L2 partition, a share of the peak rate, a kind of miss."""

from collections.abc import Iterable, Mapping

from gpudissect.results.model import Finding
from gpudissect.results.text import SPECTRUM

WARPS_SHARE = 0.95
"""Share of the peak rate that `warps_needed` warps reach, as measured by ``measure/instructions``."""
MEMORY_WARPS_SHARE = 0.90
"""... of loads from memory, which saturates slowly (VV16 table 6.3)."""
FROM_MEMORY = ("ldg_streaming", "ldg_random")
"""Elements with that share."""
FLOPS = {"hfma2": 4}
"""Floating-point operations of an operation of `gpu_rate`, unless 2."""


def scopes(findings: Iterable[Finding]) -> Mapping[tuple[str, str], str]:
    """The scope in a few words by element and attribute; only of values whose name does not say it."""
    by_name = {(each.element, each.attribute): each for each in findings}
    found = {name: text for name, each in by_name.items() if (text := _scope(each))}
    hit, near = by_name.get(("l2", "hit_latency")), by_name.get(("l2", "near_latency"))
    if hit is not None and near is not None and hit.value is not None and hit.value == near.value:
        found["l2", "hit_latency"] = "near partition"
    return found


def share_of_peak(element: str) -> float:
    """Share of the peak rate that `warps_needed` of this element refers to."""
    return MEMORY_WARPS_SHARE if element in FROM_MEMORY else WARPS_SHARE


def warps_share(element: str) -> str:
    """The same in percent, as a text."""
    return f"{share_of_peak(element):.0%}"


def _scope(finding: Finding) -> str:
    if finding.attribute == "warps_needed":
        return f"for {warps_share(finding.element)} of peak"
    if finding.attribute == "gpu_rate":
        return f"multiply-adds, {FLOPS.get(finding.element, 2)} flop each"
    return SPECTRUM.get(finding.attribute, "")

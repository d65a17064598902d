"""Stated rate of a PCIe link, by its generation and width.

Source: PCI Express Base Specification, revisions 1.0 to 6.0: transfers per second and lane, and the line
code: 8b/10b up to generation 2, 128b/130b up to 5, flits of 256 bytes with 242 of packets in 6. Headers of packets
are not subtracted.
"""

from collections.abc import Mapping

_LANE_BITS_PER_S = {
    1: 2.5e9 * 8 / 10,
    2: 5e9 * 8 / 10,
    3: 8e9 * 128 / 130,
    4: 16e9 * 128 / 130,
    5: 32e9 * 128 / 130,
    6: 64e9 * 242 / 256,
}
"""Data of one lane in one direction, by generation."""


def pcie_bandwidth(facts: Mapping[str, object]) -> float | None:
    """B/s in one direction of the link that `DeviceInfo.facts` state; None if they state none, or an unknown one."""
    generation, lanes = facts.get("pcie_generation"), facts.get("pcie_lanes")
    if not isinstance(generation, int) or not isinstance(lanes, int) or generation not in _LANE_BITS_PER_S:
        return None
    if lanes < 1:
        return None
    return lanes * _LANE_BITS_PER_S[generation] / 8


def describe_pcie(facts: Mapping[str, object]) -> str:
    """The link that `DeviceInfo.facts` state, as text."""
    return f"PCIe generation {facts.get('pcie_generation')} x{facts.get('pcie_lanes')}"

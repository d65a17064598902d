"""Stated rates of the links of a GPU.

Sources: of PCIe, the PCI Express Base Specification, revisions 1.0 to 6.0: transfers per second and lane, and the line
code: 8b/10b up to generation 2, 128b/130b up to 5, flits of 256 bytes with 242 of packets in 6. Of NVLink, NVIDIA's
white papers of P100 (160 GB/s over 4 links), V100 (300 over 6), A100 (600 over 12), H100 (900 over 18) and B200 (1800
over 18), all of both directions together. Headers of packets are not subtracted.
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


_NVLINK_BYTES_PER_S = {1: 20e9, 2: 25e9, 3: 25e9, 4: 25e9, 5: 50e9}
"""Data of one link in one direction, by major version."""


def nvlink_bandwidth(facts: Mapping[str, object]) -> float | None:
    """B/s in one direction of all NVLinks that `DeviceInfo.facts` state; None without any, or of an unknown version."""
    links, version = facts.get("nvlinks"), facts.get("nvlink_version")
    if not isinstance(links, int) or not isinstance(version, int) or version not in _NVLINK_BYTES_PER_S:
        return None
    return links * _NVLINK_BYTES_PER_S[version]

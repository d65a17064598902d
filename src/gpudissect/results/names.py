"""What people call elements and attributes."""

from __future__ import annotations

from collections.abc import Mapping

_TITLES: Mapping[str, tuple[str, str]] = {
    "timer": ("Timer", "timer"),
    "l1": ("L1 data cache", "L1"),
    "readonly": ("Read-only data cache", "read-only"),
    "texture": ("Texture cache", "texture"),
    "texture_l2": ("Second texture cache", "texture L2"),
    "constant_l1": ("Constant L1", "constant L1"),
    "constant_l15": ("Constant L1.5", "constant L1.5"),
    "l2": ("L2 cache", "L2"),
    "shared": ("Shared memory", "shared"),
    "dram": ("Device memory", "DRAM"),
    "tlb_l1": ("L1 TLB", "L1 TLB"),
    "tlb_l2": ("L2 TLB", "L2 TLB"),
    "tlb_l3": ("L3 TLB", "L3 TLB"),
    "icache_l0": ("L0 instruction cache", "L0 code"),
    "icache_l1": ("L1 instruction cache", "L1 code"),
    "icache_l15": ("L1.5 instruction cache", "L1.5 code"),
    "spectrum_global": ("Latency spectrum, global memory", "spectrum"),
    "spectrum_global_l2": ("Latency spectrum, past the L1", "spectrum past L1"),
    "cluster": ("Shared memory of a cluster", "cluster"),
    "tma": ("Bulk copies (TMA)", "TMA"),
    "launch": ("Starting kernels", "launch"),
}


def title_of(element: str, *, short: bool = False) -> str:
    """What a reader calls an element; its own name where it has no other."""
    long, brief = _TITLES.get(element, (element, element))
    return brief if short else long


def words(attribute: str) -> str:
    """An attribute in words."""
    return attribute.replace("_", " ").replace(" sm", " SM")

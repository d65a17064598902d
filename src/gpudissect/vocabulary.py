"""Names shared by findings, published values and result files: elements, attributes and their units."""

import tomllib
from pathlib import Path

_FLOATS = ("fadd", "fmul", "ffma")
_INTEGERS = ("iadd", "imad", "imad_wide", "lop", "shift", "prmt", "fmnmx", "select")
_ARITHMETIC = (*_FLOATS, *_INTEGERS, "hfma2", "dadd", "dfma", "i2f", "f2i", "f2f")
_SPECIAL = ("rcp", "rsq", "sin", "ex2", "lg2", "popc", "flo")
_WARP = ("shuffle", "vote", "redux", "match")
_MEMORY = ("lds", "sts", "atoms", "ldg", "stg", "atomg", "redg", "barrier", "branch")
_MATRIX = ("mma_f16", "mma_bf16", "mma_tf32", "mma_s8", "mma_f64")
INSTRUCTIONS = (*_ARITHMETIC, *_SPECIAL, *_WARP, *_MEMORY, *_MATRIX)
"""Warp instructions: the values of `gpudissect.workload.Instruction`."""

ACCESSES = ("lds_2way", "ldg_streaming", "ldg_random")
"""Slower loads: with a 2-way bank conflict, streaming from memory, and at random (VV16 tables 6.1-6.3)."""

HIDING = ("hiding", "hiding_stride2", "hiding_random", "hiding_rsq", "hiding_lds")
"""Latency hiding by additions between accesses: streaming loads, loads with a stride of 2, random loads, the special
function units, shared memory (VV16 ch 4)."""

CACHES = ("l1", "readonly", "texture", "constant_l1", "constant_l15", "l2")
"""Data caches."""

OLDER_METHODS = {
    "saavedra": "Saavedra 1995, latency against stride",
    "wong": "Wong 2010, latency against size",
    "mt22": "MT22 change point",
}
"""Older methods of reading a cache, by the names of `discover --method`."""

TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")

PATHS = {
    "global": ("l1",),
    "readonly": ("readonly",),
    "texture": ("texture",),
    "constant": ("constant_l1", "constant_l15"),
}
"""Caches of an SM that each path leads through, nearest first, by value of `gpudissect.workload.Path`."""

TRANSLATED = ("l1", "readonly", "texture")
"""Caches for which `discover` reports whether hits are translated."""

EVERY_ACCESS, MISSES_ONLY = "every access", "misses only"
"""Values of the attribute ``translated``."""

ELEMENTS = (
    "timer",
    *CACHES[:3],
    "texture_l2",
    *CACHES[3:],
    *("shared", "dram", "host", "peer"),
    *TLBS,
    "page_table",
    *("icache_l0", "icache_l1", "icache_l15"),
    *("spectrum_global", "spectrum_global_l2"),
    *("cluster", "tma", "hierarchy", "curves", "launch", "lsu", "issue", "registers"),
    *HIDING,
    *INSTRUCTIONS,
    *ACCESSES,
)
"""Subjects of findings, in the order of display."""

ATTRIBUTES: dict[str, str] = tomllib.loads(Path(__file__).with_name("attributes.toml").read_text(encoding="utf-8"))
"""Properties in the order of display, each with its unit; empty for counts, lists of counts and texts."""

LIST_INDEX = dict.fromkeys(("latency_by_sm", "partition_by_sm", "tlb_by_sm"), "SMs")
"""What the items of a list stand for, in the device's own order."""

RENAMED = {"part_by_sm": "partition_by_sm"}
"""Attributes in result files of schema gpudissect/1 that have another name now."""


def unit_of(attribute: str) -> str:
    """Unit of an attribute: ``B``, ``cycles``, ``B/s``, or empty. Raises `KeyError` for an unknown one."""
    return ATTRIBUTES[attribute]


def sort_key(element: str, attribute: str) -> tuple[int, int]:
    """Sort key of a finding in the order of display. Raises `KeyError` for an unknown name."""
    if element not in ELEMENTS:
        raise KeyError(element)
    return ELEMENTS.index(element), list(ATTRIBUTES).index(attribute)

"""The words that findings, published numbers and result files share: elements, attributes, and their units."""

from __future__ import annotations

INSTRUCTIONS = (
    "fadd", "fmul", "ffma", "iadd", "imad", "lop", "shift", "hfma2", "dadd", "dfma", "i2f", "f2i", "f2f",
    "rcp", "rsq", "sin", "ex2", "lg2", "shuffle", "lds", "sts", "atoms", "ldg", "atomg", "barrier",
    "mma_f16", "mma_bf16", "mma_tf32", "mma_s8", "mma_f64",
)  # fmt: skip
"""Instructions of a warp, as `gpudissect.workload.Instruction` has them."""

ACCESSES = ("lds_2way", "ldg_streaming", "ldg_random")
"""Loads that are not as quick as they could be: two words of a bank at once, lines of memory in order, at random
(VV16 tables 6.1-6.3: smem2, stream, random)."""

HIDING = ("hiding", "hiding_stride2", "hiding_random", "hiding_rsq", "hiding_lds")
"""Additions between accesses: to memory, streaming; with a stride of 2; at random; to the function units; to shared
memory (VV16 ch 4)."""

ELEMENTS = (
    "timer",
    "l1", "readonly", "texture", "texture_l2", "constant_l1", "constant_l15", "l2", "shared", "dram",
    "tlb_l1", "tlb_l2", "tlb_l3",
    "icache_l0", "icache_l1", "icache_l15",
    "spectrum_global", "spectrum_global_l2",
    "cluster", "tma",
    "hierarchy",
    "launch",
    *HIDING,
    *INSTRUCTIONS,
    *ACCESSES,
)  # fmt: skip
"""What a finding may be about, in the order in which findings are shown."""

ATTRIBUTES = {
    "capacity": "B",
    "segment_size": "B",
    "line_size": "B",
    "fetch_granularity": "B",
    "sets": "",
    "ways": "",
    "index_function": "",
    "replacement_policy": "",
    "max_miss_rate": "",
    "entries": "",
    "page_size": "B",
    "reach": "B",
    "hit_latency": "cycles",
    "near_latency": "cycles",
    "far_latency": "cycles",
    "wide_latency": "cycles",  # of memory, over far more than the L2 holds
    "miss_penalty": "cycles",
    "latency_by_sm": "cycles",  # a list, one for each SM
    "part_by_sm": "",  # a list, one for each SM: 0 for the part of SM 0, 1 for the other
    "overhead": "cycles",
    "count_per_sm": "",
    "shared_with": "",
    "banks": "",
    "bank_width": "B",
    "conflict_latency": "cycles",  # that each further access to a bank adds to a load
    "write_conflict": "cycles",  # that each adds to the time between two stores
    "peak_bandwidth": "B/s",  # by clock and width of the bus
    "read_bandwidth": "B/s",
    "write_bandwidth": "B/s",
    "copy_bandwidth": "B/s",  # bytes read and bytes written
    "read_rate": "B/cycle",  # of one SM, as the next two
    "write_rate": "B/cycle",
    "copy_rate": "B/cycle",
    "latency": "cycles",  # from one instruction to the next that depends on it
    "rate": "ops/cycle",  # of one SM: of single threads; of matrix instructions multiply-adds
    "warps_needed": "",  # of an SM, to reach that rate with one chain each
    "access_latency": "cycles",  # of latency hiding: what stands between additions, unloaded
    "access_rate": "ops/cycle",  # of one SM, as the next two: of single threads
    "arithmetic_rate": "ops/cycle",
    "issue_rate": "ops/cycle",
    "arithmetic_latency": "cycles",
    "access_bytes": "B",  # that one access of a warp moves
    "warps_for_90": "",  # of an SM, for so many percent of the peak, accesses alone
    "warps_for_95": "",
    "arithmetic_warps": "",  # additions alone
    "cusp_alpha": "",  # additions an access at which most warps are needed
    "cusp_warps": "",
    "load_imbalance": "",  # the longest time of an SM over the mean one
    "contention_base": "cycles",  # a of a + b x / (c - x), the latency of memory at a throughput of x (VV16 s6.4)
    "contention_rise": "cycles",  # b
    "contention_ceiling": "B/s",  # c
    "kernel_start": "ns",  # an empty kernel, until the host knows that it ended
    "graph_start": "ns",
    "kernel_interval": "ns",  # from one empty kernel to the next, many queued, several streams in use
    "graph_interval": "ns",
    "block_replacement": "cycles",  # from the end of a block to the start of the one in its place
    **dict.fromkeys(("p1", "p2", "p3", "p4", "p5", "p6"), "cycles"),
}
"""Which property a finding may be of, in the order in which they are shown, and the unit it is always given in.

No unit: a count, a list of numbers (the ways of unequal sets), or a text (a policy, what an array is shared with).
"""


EACH = {"latency_by_sm": "SMs", "part_by_sm": "SMs"}
"""Attributes that are lists of which every number belongs to one of these, in the order of the device's own numbers."""


def unit_of(attribute: str) -> str:
    """Unit of an attribute: ``B``, ``cycles``, ``B/s``, or empty. Raises `KeyError` for one that there is not."""
    return ATTRIBUTES[attribute]


def place_of(element: str, attribute: str) -> tuple[int, int]:
    """Where a finding stands among others: sort by this. Raises `KeyError` for an unknown word."""
    if element not in ELEMENTS:
        raise KeyError(element)
    return ELEMENTS.index(element), list(ATTRIBUTES).index(attribute)

"""Names shared by findings, published values and result files: elements, attributes and their units."""

_FLOATS = ("fadd", "fmul", "ffma")
_INTEGERS = ("iadd", "imad", "imad_wide", "lop", "shift", "prmt", "fmnmx", "select")
_ARITHMETIC = (*_FLOATS, *_INTEGERS, "hfma2", "dadd", "dfma", "i2f", "f2i", "f2f")
_SPECIAL = ("rcp", "rsq", "sin", "ex2", "lg2", "popc", "flo")
_MEMORY = (
    "shuffle",
    "vote",
    "redux",
    "match",
    "lds",
    "sts",
    "atoms",
    "ldg",
    "stg",
    "atomg",
    "redg",
    "barrier",
    "branch",
)
_MATRIX = ("mma_f16", "mma_bf16", "mma_tf32", "mma_s8", "mma_f64")
INSTRUCTIONS = (*_ARITHMETIC, *_SPECIAL, *_MEMORY, *_MATRIX)
"""Warp instructions: the values of `gpudissect.workload.Instruction`."""

ACCESSES = ("lds_2way", "ldg_streaming", "ldg_random")
"""Slower loads: with a 2-way bank conflict, streaming from memory, and at random (VV16 tables 6.1-6.3)."""

HIDING = ("hiding", "hiding_stride2", "hiding_random", "hiding_rsq", "hiding_lds")
"""Latency hiding by additions between accesses: streaming loads, loads with a stride of 2, random loads, the special
function units, shared memory (VV16 ch 4)."""

CACHES = ("l1", "readonly", "texture", "constant_l1", "constant_l15", "l2")
"""Data caches."""

TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")

PATHS = {
    "global": ("l1",),
    "readonly": ("readonly",),
    "texture": ("texture",),
    "constant": ("constant_l1", "constant_l15"),
}
"""Caches of an SM that each path leads through, nearest first, by value of `gpudissect.workload.Path`."""

ELEMENTS = (
    "timer",
    *CACHES[:3],
    "texture_l2",
    *CACHES[3:],
    *("shared", "dram"),
    *TLBS,
    *("icache_l0", "icache_l1", "icache_l15"),
    *("spectrum_global", "spectrum_global_l2"),
    *("cluster", "tma", "hierarchy", "curves", "launch", "lsu", "issue", "registers"),
    *HIDING,
    *INSTRUCTIONS,
    *ACCESSES,
)
"""Subjects of findings, in the order of display."""

ATTRIBUTES = {
    **dict.fromkeys(("capacity", "segment_size", "line_size", "fetch_granularity"), "B"),
    **dict.fromkeys(("sets", "ways", "index_function", "replacement_policy", "max_miss_rate", "entries"), ""),
    **dict.fromkeys(("page_size", "reach"), "B"),
    **dict.fromkeys(("hit_latency", "near_latency", "far_latency"), "cycles"),
    "wide_latency": "cycles",  # of memory, over a footprint much larger than the L2
    "miss_penalty": "cycles",
    "latency_by_sm": "cycles",  # a list with one item per SM
    "partition_by_sm": "",  # a list with one item per SM: 0 for the L2 partition of SM 0, 1 for the other
    "overhead": "cycles",
    **dict.fromkeys(("count_per_sm", "shared_with", "banks"), ""),
    "bank_width": "B",
    "conflict_latency": "cycles",  # added to a load by each further access to a bank
    "write_conflict": "cycles",  # added to the interval of two stores by each further access to a bank
    "peak_bandwidth": "B/s",  # from memory clock and bus width
    **dict.fromkeys(("read_bandwidth", "write_bandwidth"), "B/s"),
    "copy_bandwidth": "B/s",  # bytes read plus bytes written
    **dict.fromkeys(("read_rate", "write_rate", "copy_rate"), "B/cycle"),  # per SM
    "latency": "cycles",  # from one instruction to the next that depends on it
    "rate": "ops/cycle",  # per SM: operations of single threads; of matrix instructions multiply-adds
    "gpu_rate": "ops/s",  # the same of all SMs at once
    **dict.fromkeys(("latency_64", "latency_128"), "cycles"),  # of a load of so many bits by each thread
    **dict.fromkeys(("contiguous_rate", "random_rate", "line_rate", "word_rate"), "ops/cycle"),  # of the whole GPU
    "block_latency": "cycles",  # of a barrier of the largest block
    "arrival_interval": "cycles",  # of an SM, for each warp that arrives at a barrier
    "warps_needed": "",  # per SM, to reach that rate with one chain per warp
    "access_latency": "cycles",  # latency hiding: of the accesses between additions, unloaded
    **dict.fromkeys(("access_rate", "arithmetic_rate", "issue_rate"), "ops/cycle"),  # per SM: of single threads
    "arithmetic_latency": "cycles",
    "access_bytes": "B",  # moved by one access of a warp
    **dict.fromkeys(("warps_for_90", "warps_for_95"), ""),  # per SM, for 90 and 95 % of the peak, accesses alone
    "arithmetic_warps": "",  # additions alone
    "cusp_alpha": "",  # additions per access that need the most warps
    "cusp_warps": "",
    "load_imbalance": "",  # longest time of an SM over the mean
    "contention_base": "cycles",  # a of a + b x / (c - x), the latency of memory at a throughput of x (VV16 s6.4)
    "contention_rise": "cycles",  # b
    "contention_ceiling": "B/s",  # c
    "kernel_start": "ns",  # an empty kernel, until the host observes its end
    "graph_start": "ns",
    "kernel_interval": "ns",  # between two of many queued empty kernels, several streams in use
    "graph_interval": "ns",
    "block_replacement": "cycles",  # from the end of a block to the start of its successor
    "store_wait": "cycles",  # of that, for the last stores of a block
    "ldg_banks": "",  # of the L1, for global loads that hit
    "ldg_lines_per_cycle": "",  # of the L1, at most, without bank conflicts
    **dict.fromkeys(("ldg_pass", "lds_pass", "sts_pass", "atoms_pass"), "cycles"),  # of an SM for each bank pass
    **dict.fromkeys(("ldg_one_address", "lds_one_address", "sts_one_address", "atoms_one_address"), "cycles"),
    "instructions_per_cycle": "",  # of a scheduler, at most
    "units": "",  # of a scheduler, among which instructions are distributed
    "read_interval": "cycles",  # of a bank of registers, from one to the next
    "pair_loss": "",  # time of two instructions of separate units beyond that of the slower one, relative
    **dict.fromkeys(("special_with_shuffle", "special_with_store"), "cycles"),  # added by a special function, per SM
    **dict.fromkeys(("p1", "p2", "p3", "p4", "p5", "p6"), "cycles"),
}
"""Properties in the order of display, each with its unit; empty for counts, lists of counts and texts."""

LIST_INDEX = {"latency_by_sm": "SMs", "partition_by_sm": "SMs"}
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

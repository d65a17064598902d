"""Every experiment there is, and what each needs."""

from __future__ import annotations

from functools import partial

from gpudissect.measure.cache.plan_capacity import capacity_plan, l2_capacity_plan
from gpudissect.measure.cache.plan_comparison import comparison_plan
from gpudissect.measure.cache.plan_dram import dram_plan, wide_dram_plan
from gpudissect.measure.cache.plan_l2 import l2_plan
from gpudissect.measure.cache.plan_l2_latency import l2_latency_plan
from gpudissect.measure.cache.plan_l2_map import l2_map_plan
from gpudissect.measure.cache.plan_latency import latency_plan
from gpudissect.measure.cache.plan_levels import path_plan
from gpudissect.measure.cache.plan_line import line_plan
from gpudissect.measure.cache.plan_policy import ATTRIBUTES as POLICY
from gpudissect.measure.cache.plan_policy import policy_plan
from gpudissect.measure.cache.plan_sets import ATTRIBUTES as SETS
from gpudissect.measure.cache.plan_sets import sets_plan
from gpudissect.measure.cache.plan_sharing import ATTRIBUTES as SHARING
from gpudissect.measure.cache.plan_sharing import sharing_plan
from gpudissect.measure.cache.plan_timer import timer_plan
from gpudissect.measure.icache.plan_code_sharing import CONSTANT, code_sharing_plan, constants_sharing_plan
from gpudissect.measure.icache.plan_icache import ATTRIBUTES as OF_CODE
from gpudissect.measure.icache.plan_icache import ELEMENTS as CODE
from gpudissect.measure.icache.plan_icache import icache_levels_plan, icache_plan
from gpudissect.measure.instructions.instructions import KINDS
from gpudissect.measure.instructions.plan_latency import issue_latency_plan
from gpudissect.measure.instructions.plan_rate import issue_rate_plan
from gpudissect.measure.instructions.plan_warps_needed import warps_needed_plan
from gpudissect.measure.latency_hiding.mixes import FULL, QUICK, Grid
from gpudissect.measure.latency_hiding.mixes import KINDS as HIDDEN
from gpudissect.measure.latency_hiding.plan_contention import ATTRIBUTES as CONTENTION
from gpudissect.measure.latency_hiding.plan_contention import contention_plan
from gpudissect.measure.latency_hiding.plan_hiding import ATTRIBUTES as HIDING_ATTRIBUTES
from gpudissect.measure.latency_hiding.plan_hiding import hiding_plan
from gpudissect.measure.latency_hiding.plan_models import models_plan
from gpudissect.measure.latency_hiding.plan_oversubscription import oversubscription_plan
from gpudissect.measure.launch.plan_launch import NAMES as LAUNCHED
from gpudissect.measure.launch.plan_launch import launch_plan, replacement_plan
from gpudissect.measure.plan import Experiment
from gpudissect.measure.prediction.plan_cache import prediction_plan
from gpudissect.measure.prediction.plan_hierarchy import hierarchy_plan
from gpudissect.measure.prediction.plan_translation import translated_plan
from gpudissect.measure.shared_memory.plan_banks import ATTRIBUTES as BANKS
from gpudissect.measure.shared_memory.plan_banks import banks_plan, write_conflict_plan
from gpudissect.measure.shared_memory.plan_cluster import LATENCIES as CLUSTER_LATENCIES
from gpudissect.measure.shared_memory.plan_cluster import cluster_bandwidth_plan, cluster_latency_plan
from gpudissect.measure.shared_memory.plan_latency import shared_plan
from gpudissect.measure.shared_memory.plan_tma import tma_bandwidth_plan, tma_latency_plan
from gpudissect.measure.throughput.plan_l2_bandwidth import l2_bandwidth_plan
from gpudissect.measure.throughput.plan_memory_bandwidth import memory_bandwidth_plan
from gpudissect.measure.throughput.plan_peak import peak_plan
from gpudissect.measure.throughput.plan_sm_bandwidth import l1_bandwidth_plan, shared_bandwidth_plan
from gpudissect.measure.throughput.plan_stores import TO_THE_L2, WRITES, stores_plan
from gpudissect.measure.tlb.plan_entries import ATTRIBUTES as TLB
from gpudissect.measure.tlb.plan_entries import tlb_plan
from gpudissect.measure.tlb.plan_policy import ATTRIBUTES as TLB_POLICY
from gpudissect.measure.tlb.plan_policy import tlb_policy_plan
from gpudissect.measure.tlb.plan_sets import ATTRIBUTES as TLB_SETS
from gpudissect.measure.tlb.plan_sets import tlb_sets_plan
from gpudissect.measure.tlb.plan_spectrum import PATTERNS, spectrum_plan
from gpudissect.vocabulary import ELEMENTS
from gpudissect.workload import Path, Transfer
from gpudissect.workload.instruction import SHARED

CACHES = {
    "l1": "levels.global",
    "readonly": "levels.readonly",
    "texture": "levels.texture",
    "constant_l1": "levels.constant",
    "constant_l15": "levels.constant",
    "l2": "levels.l2",
}
TLBS = ("tlb_l1", "tlb_l2", "tlb_l3")
WHOLE = "hierarchy"
FORETELLING = ("prediction", "hierarchy")
"""What the experiments are called that foretell accesses: of one cache, of all on a path."""
CACHE = ("line", "capacity", "sets", "policy")
TLB_KNOWN = ("tlb", "policy")
"""What is inferred of a cache and of a TLB, by the experiments that find it."""
PATHS = {
    Path.GLOBAL: ("l1",),
    Path.READONLY: ("readonly",),
    Path.TEXTURE: ("texture",),
    Path.CONSTANT: ("constant_l1", "constant_l15"),
}


def _build() -> dict[str, Experiment]:
    memory = ("capacity", "hit_latency", "near_latency", "far_latency")
    every = [
        Experiment("timer", "timer", ("overhead",), (), timer_plan),
        Experiment("levels.l2", "l2", (), (), l2_plan),
        Experiment("latency.shared", "shared", ("capacity", "hit_latency"), (), shared_plan),
        Experiment("latency.dram", "dram", memory, ("levels.l2", "latency.l2"), dram_plan),
        Experiment("latency.wide_dram", "dram", ("wide_latency",), ("capacity.l2",), wide_dram_plan, quick=False),
    ]
    every += _of_hopper()
    every += _of_code()
    for path, elements in PATHS.items():
        every.append(Experiment(f"levels.{path}", elements[0], (), ("levels.l2",), partial(path_plan, path, elements)))
    for element, levels in CACHES.items():
        line = partial(line_plan, element, levels)
        every.append(Experiment(f"line.{element}", element, ("fetch_granularity", "line_size"), (levels,), line))
        known = (levels, f"line.{element}", f"capacity.{element}")
        every.append(
            Experiment(f"sets.{element}", element, SETS, known, partial(sets_plan, element, levels), quick=False)
        )
        policy = partial(policy_plan, element, levels)
        inferred = (levels, f"sets.{element}")
        replaced = (*inferred, f"capacity.{element}")
        every.append(Experiment(f"policy.{element}", element, POLICY, replaced, policy, quick=False))
        prediction = partial(prediction_plan, element, levels)
        predicted = (*inferred, f"policy.{element}")
        every.append(Experiment(f"prediction.{element}", element, (), predicted, prediction, quick=False))
        every += _of_the_l2() if element == "l2" else _of_a_private_cache(element, levels)
    before = front = None
    for element in TLBS:
        needs = ("levels.l2", *([before] if before else []))
        every.append(Experiment(f"tlb.{element}", element, TLB, needs, partial(tlb_plan, element, before), quick=False))
        before = f"tlb.{element}"
        sets = partial(tlb_sets_plan, element, before)
        every.append(Experiment(f"sets.{element}", element, TLB_SETS, (before,), sets, quick=False))
        policy = partial(tlb_policy_plan, element, before, f"sets.{element}", front)
        needs = (before, f"sets.{element}", *([front] if front else []))
        every.append(Experiment(f"policy.{element}", element, TLB_POLICY, needs, policy, quick=False))
        front = f"policy.{element}"
    every += _whole()
    every += _spectra()
    every += _bandwidths()
    every += _instructions()
    return {experiment.name: experiment for experiment in every}


def _of_a_private_cache(element: str, levels: str) -> list[Experiment]:
    capacity = partial(capacity_plan, element, levels)
    latency = partial(latency_plan, element, levels)
    private = {name: where for name, where in CACHES.items() if name != "l2"}
    needs = (*dict.fromkeys(private.values()), *(f"capacity.{name}" for name in private))
    sharing = partial(sharing_plan, element, private)
    return [
        Experiment(f"capacity.{element}", element, ("capacity",), (levels, f"line.{element}"), capacity),
        Experiment(f"latency.{element}", element, ("hit_latency", "miss_penalty"), (levels,), latency),
        Experiment(f"sharing.{element}", element, SHARING, needs, sharing, quick=False),
    ]


def _of_hopper() -> list[Experiment]:
    return [
        Experiment("latency.cluster", "cluster", CLUSTER_LATENCIES, (), cluster_latency_plan, quick=False),
        Experiment("bandwidth.cluster", "cluster", ("read_bandwidth",), (), cluster_bandwidth_plan, quick=False),
        Experiment("latency.tma", "tma", ("hit_latency",), (), tma_latency_plan, quick=False),
        Experiment("bandwidth.tma", "tma", ("read_bandwidth",), (), tma_bandwidth_plan, quick=False),
    ]


def _of_code() -> list[Experiment]:
    """Instruction caches. They are not asked about in a hurry: the kernel that is all code takes seconds to compile."""
    levels = "levels.icache"
    every = [Experiment(levels, CODE[0], (), (), icache_levels_plan, quick=False)]
    for element in CODE:
        plan, sharing = partial(icache_plan, element), partial(code_sharing_plan, element)
        needs = (levels, "levels.constant")
        every.append(Experiment(f"capacity.{element}", element, OF_CODE, (levels,), plan, quick=False))
        every.append(Experiment(f"sharing.{element}", element, ("shared_with",), needs, sharing, quick=False))
    both = (f"sharing.{CONSTANT}", *(f"sharing.{element}" for element in CODE))
    every.append(Experiment("sharing.code", CONSTANT, (), both, constants_sharing_plan, quick=False))
    return every


def _of_the_l2() -> list[Experiment]:
    """Its capacity takes longest of all: only footprints of its own size tell."""
    needs = ("levels.l2", "line.l2")
    latencies = ("hit_latency", "miss_penalty", "near_latency", "far_latency")
    return [
        Experiment("capacity.l2", "l2", ("capacity", "segment_size"), needs, l2_capacity_plan, quick=False),
        Experiment("latency.l2", "l2", latencies, ("levels.l2",), l2_latency_plan),
        Experiment("map.l2", "l2", ("latency_by_sm", "part_by_sm"), ("levels.l2",), l2_map_plan, quick=False),
    ]


def _whole() -> list[Experiment]:
    """All that was inferred of a path, simulated as one."""
    inferred = (
        "levels.l2",
        *(f"{what}.l2" for what in CACHE),
        *(f"{what}.{tlb}" for tlb in TLBS for what in TLB_KNOWN),
    )
    every = [
        Experiment("hierarchy.translation", WHOLE, (), inferred, translated_plan, quick=False),
        Experiment(f"hierarchy.{Path.GLOBAL_L2}", WHOLE, (), inferred, partial(hierarchy_plan, Path.GLOBAL_L2, ()),
                   quick=False),
    ]  # fmt: skip
    for path, elements in PATHS.items():
        needs = (f"levels.{path}", *(f"{what}.{element}" for element in elements for what in CACHE), *inferred)
        plan = partial(hierarchy_plan, path, elements)
        every.append(Experiment(f"hierarchy.{path}", WHOLE, (), needs, plan, quick=False))
    return every


def _spectra() -> list[Experiment]:
    """Of loads through every cache and of those past the L1."""
    tlbs = ("levels.l2", "tlb.tlb_l1", "tlb.tlb_l2")
    l1 = ("levels.global", "line.l1", "capacity.l1")
    needs = {Path.GLOBAL: (*tlbs, *l1), Path.GLOBAL_L2: tlbs}
    return [
        Experiment(f"spectrum.{path}", f"spectrum_{path}", PATTERNS, own, partial(spectrum_plan, path), quick=False)
        for path, own in needs.items()
    ]


def _bandwidths() -> list[Experiment]:
    """Of every level, each transfer by itself. Those of an SM take little, but what they need is not quick everywhere.

    What was found of writes is looked at again beside what the L2 takes.
    """
    of_l1, size, banks = ("levels.global", "capacity.l1"), ("capacity.l2",), ("banks.shared",)
    every = [
        Experiment("banks.shared", "shared", BANKS, (), banks_plan),
        Experiment("conflicts.shared", "shared", ("write_conflict",), banks, write_conflict_plan),
        Experiment("peak.dram", "dram", ("peak_bandwidth",), (), peak_plan, quick=False),
    ]
    plans = (
        ("shared", tuple(Transfer), "rate", banks, shared_bandwidth_plan),
        ("l1", (Transfer.READ, Transfer.WRITE), "rate", of_l1, l1_bandwidth_plan),
        ("l2", (Transfer.READ, Transfer.WRITE), "bandwidth", size, l2_bandwidth_plan),
        ("dram", tuple(Transfer), "bandwidth", size, memory_bandwidth_plan),
    )
    for element, transfers, what, needs, plan in plans:
        for transfer in transfers:
            name, found = f"bandwidth.{element}.{transfer}", (f"{transfer}_{what}",)
            every.append(Experiment(name, element, found, needs, partial(plan, transfer), quick=False))
    for element, write in WRITES.items():
        limit = partial(stores_plan, element)
        every.append(Experiment(f"stores.{element}", element, (), (write, TO_THE_L2), limit, quick=False))
    return every


def _instructions() -> list[Experiment]:
    """Each instruction by itself, and what starting kernels costs."""
    every = [Experiment("launch.block", "launch", ("block_replacement",), (), replacement_plan)]
    for method, name in LAUNCHED.items():
        found = (f"{name}_start", f"{name}_interval")
        every.append(Experiment(f"launch.{name}", "launch", found, (), partial(launch_plan, method)))
    for kind in KINDS:
        slow, fast = f"latency.{kind.element}", f"rate.{kind.element}"
        banks = ("banks.shared",) if kind.instruction in SHARED else ()
        parts = (
            (slow, "latency", banks if kind.turns > 1 else (), issue_latency_plan),
            (fast, "rate", (slow, *banks), issue_rate_plan),
            (f"warps.{kind.element}", "warps_needed", (fast,), warps_needed_plan),
        )
        for part, attribute, needs, plan in parts:
            every.append(Experiment(part, kind.element, (attribute,), needs, partial(plan, kind), quick=False))
    return every


def _comparisons() -> dict[str, Experiment]:
    plans = {}
    for element, levels in CACHES.items():
        needs = (levels, f"line.{element}", f"capacity.{element}")
        name = f"comparison.{element}"
        plans[name] = Experiment(name, element, (), needs, partial(comparison_plan, element, levels))
    return plans


def _hiding(grid: Grid) -> dict[str, Experiment]:
    """Of every kind of access; of memory also latency under load, and blocks that take the places of others."""
    quick = grid is QUICK
    plans = []
    for kind in HIDDEN:
        element, loops = kind.element, f"loops.{kind.element}"
        plans.append(Experiment(loops, element, HIDING_ATTRIBUTES, (), partial(hiding_plan, kind, grid)))
        contention = f"contention.{element}" if kind.of_memory else None
        if contention is not None:
            plan = partial(contention_plan, kind, loops, quick)
            plans.append(Experiment(contention, element, CONTENTION, (loops,), plan, afterwards=True))
            over = partial(oversubscription_plan, kind, loops)
            plans.append(Experiment(f"oversubscription.{element}", element, (), (loops,), over))
        needs = (loops, *([contention] if contention is not None else []))
        judged = partial(models_plan, kind, loops, contention)
        plans.append(Experiment(f"models.{element}", element, (), needs, judged, afterwards=True))
    return {experiment.name: experiment for experiment in plans}


EXPERIMENTS = _build()
"""By name. What an experiment needs may stand after it; the survey orders them."""

COMPARISONS = _comparisons()
"""The older methods, run only when asked for."""

HIDING = _hiding(FULL)
"""Latency hiding, with all that belongs to it; run by a command of its own."""

HIDING_QUICK = _hiding(QUICK)
"""The same under the same names, of fewer mixes."""

MEASURED = tuple(each for each in ELEMENTS if any(each == experiment.element for experiment in EXPERIMENTS.values()))
"""The elements that there are experiments for, in the order in which findings are shown."""

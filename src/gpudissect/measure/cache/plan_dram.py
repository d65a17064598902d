"""Latency of memory, by first accesses after a flush: over few pages, and over a footprint much larger than the L2.

Its size is what the driver states (MT22 s4.1), as is that of shared memory. The way through textures and constant
memory is longer: there, the same first accesses are those of these paths.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_latency import FROM_ONE_SM, L2_TIMING, L2Timing, latency_estimate
from gpudissect.measure.cache.plan_levels import L2, SPARSE_STRIDE, absent, level_of, levels_of
from gpudissect.measure.infer_confidence import BRACKETED, UNTRIED
from gpudissect.measure.infer_latency import (
    Latency,
    deviation_over_sms,
    lap_latency,
    median_over_sms,
    median_with_error,
    miss_penalty,
    trimmed_mean,
    widened,
)
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.sampling import shortfall, until_precise
from gpudissect.measure.tlb.plan_entries_and_page_size import tlb_of
from gpudissect.trace import Trace
from gpudissect.units import format_bytes
from gpudissect.workload import Chase, Path, Timing

MEMORY_LATENCY = Key[None]("latency.dram")
ATTRIBUTES = ("capacity", "hit_latency", "near_latency", "far_latency")
LAP_LINKS = 16384
TIMED_LINKS = 512  # where each access is timed
CHAINS = 5
MIN_STRIDE, PATH_STRIDE = 256, 512  # bytes; more than any line of constant and texture caches
NARROW_SPAN = 4 << 20  # few pages, of any size
FEW_PAGES, MIN_LARGE_PAGE = 4, 1 << 20
MAX_TIMER_ERROR = 4.0  # cycles by which single accesses differ in a row of equal ones
WIDE_SPAN_IN_L2_SIZES = 8
MIN_WIDE_SPAN, MAX_WIDE_SPAN = 64 << 20, 1 << 30
METHOD = "first accesses after a flush, over"
LAP_METHOD = "median over {} SMs of a lap of a pure pointer chase, " + METHOD
TIMED_METHOD = f"trimmed mean, less the timing overhead of a single access, of {METHOD}"
HOME_METHOD = "median first access to lines of that home, less the timing overhead of a single access"


def stated_by_driver(element: str, attribute: str, fact: str, bench: Bench) -> Estimate:
    """An attribute as the driver states it; `fact` is its name in `DeviceInfo.facts`."""
    value = bench.info.facts.get(fact)
    if not isinstance(value, int):
        return without(Status.NOT_FOUND, element, "the driver does not state it", attribute)[0]
    method = "stated by the driver, not measured"
    return Estimate(element=element, attribute=attribute, status=Status.STATED, value=value, method=method)


def dram_plan(bench: Bench, known: Known) -> Plan:
    """Stated size; latency over few pages, whose translations are cached; latency of near and of far lines."""
    level, timing = level_of("l2", known), known[L2_TIMING]
    size = stated_by_driver("dram", "capacity", "memory_size", bench)
    is_uniform = level is not None and level.home_partition is None
    stride = MIN_STRIDE if timing is not None else SPARSE_STRIDE
    emitted = ("dram", "hit_latency")
    latency = yield from _cold_latency(emitted, NARROW_SPAN, timing, bench, is_uniform, min_stride=stride)
    if level is None or level.home_partition is None or timing is None:
        reason = "first accesses show no near and far lines"
        partitions = without(Status.NOT_FOUND, "dram", reason, "near_latency", "far_latency")
    else:
        home, caveats = level.home_partition, (FROM_ONE_SM.format(timing.deviation),)
        medians = {
            attribute: widened(median_with_error(samples, timing.overhead), timing.deviation)
            for attribute, samples in (("near_latency", home.near_samples), ("far_latency", home.far_samples))
        }
        partitions = tuple(
            latency_estimate("dram", attribute, median, HOME_METHOD, level.evidence, BRACKETED, caveats)
            for attribute, median in medians.items()
        )
    return Outcome((size, latency, *partitions))


def few_pages_plan(bench: Bench, known: Known) -> Plan:
    """Latency of memory and miss penalty of the L2 over a few pages, where 4 MiB are more than a few."""
    level, timing, tlb = level_of("l2", known), known[L2_TIMING], known[tlb_of("tlb_l1")]
    if not (level and timing and tlb) or level.home_partition or tlb.page_size >= MIN_LARGE_PAGE:
        return Outcome()
    span = min(FEW_PAGES * tlb.page_size, bench.info.limit(level.path))
    stride = max(MIN_STRIDE, 2 * (level.fetch.ahead or 0))  # so that no access hits what another one fetched ahead
    cold = partial(Chase, path=level.path, timing=Timing.EACH, warmup=0, flush=True, alone=True)
    sms: list[int] = bench.rng("few pages", "sms").permutation(bench.info.sm_count).tolist()

    def sample(numbers: range) -> Ask[list[Trace]]:
        """From one SM at first, then from others."""
        orders = {i: footprint(span, stride, bench.seed_for("few pages", i)) for i in numbers}
        return (yield [cold(order=order, sm=None if i < CHAINS else sms[i - CHAINS]) for i, order in orders.items()])

    def median(traces: Sequence[Trace]) -> Latency:
        by_sm = [median_with_error(each.cycles, timing.overhead) for each in traces[CHAINS:]]
        found = median_with_error(np.concatenate([each.cycles for each in traces]), timing.overhead)
        return widened(found, max(timing.deviation, deviation_over_sms(by_sm)), 1 + len(by_sm))

    traces = yield from sample(range(CHAINS))
    cycles = np.concatenate([each.cycles for each in traces])
    traces = yield from until_precise(bench, traces, CHAINS + len(sms), sample, median)
    latency, evidence = median(traces), tuple(each.workload for each in traces)
    method = f"median, less the timing overhead of a single access, of {METHOD} {format_bytes(span)}"
    beyond = np.compress(np.abs(cycles - np.median(cycles)) <= MAX_TIMER_ERROR + 0.02 * np.median(cycles), cycles)
    penalty = widened(miss_penalty(level.hit.samples, beyond), timing.deviation)
    return Outcome(
        (
            latency_estimate("dram", "hit_latency", latency, method, evidence, BRACKETED),
            latency_estimate("l2", "miss_penalty", penalty, method, evidence, BRACKETED),
        )
    )


def wide_dram_plan(bench: Bench, known: Known) -> Plan:
    """Latency over a footprint much larger than the L2, TLB misses included."""
    span = min(max(WIDE_SPAN_IN_L2_SIZES * (known[capacity_of("l2")] or 0), MIN_WIDE_SPAN), MAX_WIDE_SPAN)
    latency = yield from _cold_latency(("dram", "wide_latency"), span, None, bench)
    return Outcome((latency,))


def path_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Latency of memory through the caches of textures or of constants, over few pages."""
    nearest, l2, tlb = level_of(element, known), level_of("l2", known), known[tlb_of("tlb_l1")]
    if nearest is None:
        return absent(element, known, "memory_latency")
    small_pages = tlb is not None and tlb.page_size < MIN_LARGE_PAGE
    span = FEW_PAGES * tlb.page_size if tlb is not None and small_pages else NARROW_SPAN
    is_uniform, timing = l2 is not None and l2.home_partition is None, known[L2_TIMING]
    path, emitted = nearest.path, (element, "memory_latency")
    return Outcome(((yield from _cold_latency(emitted, span, timing, bench, is_uniform, path, PATH_STRIDE)),))


def _cold_latency(
    emitted: tuple[str, str],
    max_span: int,
    l2: L2Timing | None,
    bench: Bench,
    is_uniform: bool = False,
    path: Path | None = None,
    min_stride: int = MIN_STRIDE,
) -> Ask[Estimate]:
    """Latency of first accesses over up to `max_span` bytes; `is_uniform`: all lines are equally far.

    By single accesses, so that a delayed one can be left out; by whole laps where the timing overhead is not known.
    Each chain is traversed from a different SM: `CHAINS` of them, or as many as the requested precision needs.
    """
    seed = "dram" if path is None else path.value
    path = path or (Path.GLOBAL_L2 if bench.info.limit(Path.GLOBAL_L2) else Path.GLOBAL)
    element, attribute = emitted
    span = min(max_span, bench.info.limit(path))
    if not span:
        return without(Status.NOT_SUPPORTED, element, "this device has no path to global memory", attribute)[0]
    timing, links, method = Timing.EACH, TIMED_LINKS, TIMED_METHOD
    if l2 is None:
        timing, links, method = Timing.LAP, LAP_LINKS, LAP_METHOD
    stride = max(min_stride, span // links // min_stride * min_stride)
    sms = bench.rng(seed, "sms").permutation(bench.info.sm_count)
    cold = partial(Chase, path=path, timing=timing, warmup=0, flush=True, alone=True)

    orders = [footprint(span, stride, bench.seed_for(seed, span, i)) for i in range(max(CHAINS, sms.size))]
    chases = [cold(order=order, sm=int(sms[i % sms.size])) for i, order in enumerate(orders)]

    def sample(numbers: range) -> Ask[list[Trace]]:
        return (yield [chases[number] for number in numbers])

    def summary(traces: Sequence[Trace]) -> tuple[Latency, bool]:
        if l2 is None:
            laps = [lap_latency(trace.cycles, orders[0].count, min_error=1.0) for trace in traces]
            return median_over_sms(laps), False
        cycles, sampled = np.concatenate([trace.cycles for trace in traces]), min(len(traces), sms.size)
        mean, median = trimmed_mean(cycles, l2.overhead), median_with_error(cycles, l2.overhead)
        is_median = is_uniform and mean.cycles > median.high  # a few wait for something else, such as page walks
        deviation = l2.deviation
        if len(traces) > CHAINS:  # enough to estimate that of memory
            deviation = max(
                deviation, deviation_over_sms([trimmed_mean(trace.cycles, l2.overhead) for trace in traces])
            )
        return widened(median if is_median else mean, deviation, sampled), is_median

    traces = yield from sample(range(CHAINS))
    traces = yield from until_precise(bench, traces, len(chases), sample, lambda traces: summary(traces)[0])
    latency, is_median = summary(traces)
    method = method.replace("trimmed mean", "median") if is_median else method.format(len(traces))
    method, evidence = f"{method} {format_bytes(orders[0].span)}", tuple(trace.workload for trace in traces)
    confidence, caveats = UNTRIED if l2 is None else BRACKETED, shortfall(bench, latency)
    return latency_estimate(element, attribute, latency, method, evidence, confidence, caveats)


EXPERIMENTS = (
    Experiment(MEMORY_LATENCY, dram_plan, ATTRIBUTES, needs=(L2, L2_TIMING), quick=True),
    Experiment(
        Key("latency.few_pages"),
        few_pages_plan,
        element="dram",
        needs=(L2, L2_TIMING, tlb_of("tlb_l1")),
        revises=("dram.hit_latency", "l2.miss_penalty"),
    ),
    *(
        Experiment(
            Key(f"memory_latency.{element}"),
            partial(path_plan, element),
            ("memory_latency",),
            needs=(levels_of(element), L2, L2_TIMING, tlb_of("tlb_l1")),
        )
        for element in ("texture", "constant_l1")
    ),
    Experiment(Key("latency.wide_dram"), wide_dram_plan, ("wide_latency",), element="dram", needs=(capacity_of("l2"),)),
)

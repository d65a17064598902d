"""Shared memory: size, latency, banks, and the cost of conflicts, by a warp's access at every stride (MC16 s6.2)."""

from collections.abc import Sequence
from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.cache.plan_dram import stated_by_driver
from gpudissect.measure.cache.plan_latency import METHOD as LAP_METHOD
from gpudissect.measure.cache.plan_latency import chains_over, chase_latency, latency_estimate
from gpudissect.measure.infer_confidence import BANKS, TIMED
from gpudissect.measure.instructions.infer_issue import median_duration
from gpudissect.measure.instructions.instructions import why_unsupported
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.shared_memory import infer_banks
from gpudissect.measure.shared_memory.infer_banks import WORD, BankFit, Layout, StridedAccess
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Path, Step

LATENCY_ATTRIBUTES = ("capacity", "hit_latency")
ATTRIBUTES = ("banks", "bank_width", "conflict_latency")
LATENCY_BYTES = 4096
STRIDES = range(65)  # words
WIDTHS = (4, 8, 16)
ACCESSES, ITERATIONS, REPEATS = 64, 4, 2
METHOD = "one warp, dependent loads at strides of 0 to 64 words, of 4, 8 and 16 bytes; the likeliest layout"
COST = "slope over the bank passes of each stride"
ONLY_WORDS = "by loads of 4 bytes alone: no layout explains those of 8 and 16 too"
FOUR_BYTE_MODE = "4-byte mode: a bank gives 8 bytes, but successive words of 4 lie in successive banks (MC16 fig 18)"

BANK_LAYOUT: Key[Layout | None] = Key("banks.shared", (Layout, NoneType))


def latency_plan(bench: Bench, known: Known) -> Plan:
    """Size of shared memory as the driver states it, and its latency."""
    limit = bench.info.limit(Path.SHARED)
    if not limit:
        reason = bench.info.unsupported.get(Path.SHARED, "this device has no shared memory")
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, *LATENCY_ATTRIBUTES))
    chains = chains_over(min(LATENCY_BYTES, limit), WORD)
    latency, evidence = yield from chase_latency(Path.SHARED, chains, bench)
    hit = latency_estimate("shared", "hit_latency", latency, LAP_METHOD, evidence)
    return Outcome((stated_by_driver("shared", "capacity", "shared_per_sm", bench), hit))


def banks_plan(bench: Bench, known: Known) -> Plan:
    """Banks, their width, and the cost of conflicts, cycles. Its knowledge is the layout, None if not found."""
    reason = why_unsupported(Instruction.LDS, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, *ATTRIBUTES))
    loads, evidence = yield from _strided_accesses(Instruction.LDS)
    fit, caveats = infer_banks.fit_layout(loads), _broadcast_caveat(loads)
    if fit.layout is None and (words := infer_banks.fit_layout(infer_banks.single_words(loads))).layout is not None:
        fit, caveats = words, (*caveats, ONLY_WORDS)
    unique = fit.layout is not None and all(map(fit.layout.same_banks, fit.rivals))
    series = strided_series("shared", "latency against stride", loads, evidence)
    return Outcome(_bank_estimates(fit, caveats, evidence), fit.layout if unique else None, (series,))


def write_conflict_plan(bench: Bench, known: Known) -> Plan:
    """Cycles that each bank pass adds to the time between two stores."""
    reason = why_unsupported(Instruction.STS, bench.info)
    if reason is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "shared", reason, "write_conflict"))
    stores, evidence = yield from _strided_accesses(Instruction.STS)
    series = strided_series("shared", "time between stores against stride", stores, evidence)
    return Outcome(_store_estimates(stores, known[BANK_LAYOUT], evidence), series=(series,))


def _strided_accesses(instruction: Instruction) -> Ask[tuple[list[StridedAccess], tuple[str, ...]]]:
    """Cycles of one access at every stride of every width, the least of `REPEATS` repetitions."""
    shapes = [(stride, width) for width in WIDTHS for stride in STRIDES if stride * WORD % width == 0]
    mix = partial(Mix, body=(Step(instruction, ACCESSES),), warps=1, block_size=WARP_SIZE, iterations=ITERATIONS, sms=1)
    mixes = [mix(stride=s, width=w, repetition=i) for s, w in shapes for i in range(REPEATS)]
    traces = yield mixes
    durations = [median_duration(trace.begin, trace.end) for trace in traces]
    cycles = np.reshape(durations, (-1, REPEATS)).min(axis=1) / mixes[0].instructions
    accesses = [StridedAccess(*shape, one) for shape, one in zip(shapes, cycles.tolist(), strict=True)]
    return accesses, tuple(trace.workload for trace in traces)


def _broadcast_caveat(loads: Sequence[StridedAccess]) -> tuple[str, ...]:
    cycles = {load.stride: load.cycles for load in infer_banks.single_words(loads)}
    difference = cycles[0] - cycles[1]
    comparison = "is as fast as" if abs(difference) < 1 else f"takes {difference:+.1f} cycles relative to"
    return (f"one word for all lanes (broadcast) {comparison} one word for each",)


def _bank_estimates(fit: BankFit, caveats: tuple[str, ...], evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    layout = fit.layout
    if layout is None:
        return without(Status.NOT_FOUND, "shared", fit.reason, *ATTRIBUTES)
    others = [rival for rival in fit.rivals if not rival.same_banks(layout)]
    if others:
        named = " or ".join(f"{one.banks} of {one.width} B" for one in (layout, *others))
        return without(Status.AMBIGUOUS, "shared", f"several layouts explain it as well: {named}", *ATTRIBUTES)
    if layout.interleave != layout.width:
        caveats = (*caveats, FOUR_BYTE_MODE)
    if not fit.rivals:
        caveats = (f"lanes that are served together: {layout.lanes}", *caveats)
    caveats = (f"explains {fit.explained:.2%} of the differences between strides", *caveats)
    sizes = {"banks": layout.banks, "bank_width": layout.width}
    cost = found("shared", "conflict_latency", fit.cost, fit.low, fit.high, TIMED, f"{METHOD}; {COST}", evidence)
    return *(found("shared", name, n, n, n, BANKS, METHOD, evidence, caveats) for name, n in sizes.items()), cost


def _store_estimates(
    stores: Sequence[StridedAccess], layout: Layout | None, evidence: tuple[str, ...]
) -> tuple[Estimate, ...]:
    slope = None if layout is None else infer_banks.store_cost(stores, layout)
    if layout is None or slope is None:
        reason = "the time between two stores does not grow with the number of bank passes expected"
        if layout is None:
            reason = "the banks are unknown, so it is unknown which stores conflict"
        return without(Status.NOT_FOUND, "shared", reason, "write_conflict")
    hidden = infer_banks.hidden_store_cycles(stores, layout)
    cycles = ", ".join(f"{passes}: {cycles:.1f}" for passes, cycles in hidden.items())
    caveat = (
        f"from {infer_banks.HIDDEN_PASSES} passes on: the start of a store may hide fewer; cycles by passes {cycles}"
    )
    method, caveats = f"one warp, stores one after the other; {COST}", (caveat,) if hidden else ()
    cost = found("shared", "write_conflict", slope.cycles, slope.low, slope.high, TIMED, method, evidence, caveats)
    return (cost,)


def strided_series(element: str, name: str, accesses: Sequence[StridedAccess], evidence: tuple[str, ...]) -> Series:
    """Cycles of accesses by stride and width."""
    columns = {
        "stride": tuple(float(access.stride) for access in accesses),
        "width": tuple(float(access.width) for access in accesses),
        "cycles": tuple(access.cycles for access in accesses),
    }
    return Series(element, name, columns, {"stride": "words", "width": "B", "cycles": "cycles"}, evidence)


EXPERIMENTS = (
    Experiment(Key("latency.shared"), latency_plan, LATENCY_ATTRIBUTES, quick=True),
    Experiment(BANK_LAYOUT, banks_plan, ATTRIBUTES, quick=True),
    Experiment(Key("conflicts.shared"), write_conflict_plan, ("write_conflict",), needs=(BANK_LAYOUT,), quick=True),
)

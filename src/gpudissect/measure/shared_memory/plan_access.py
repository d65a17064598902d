"""Time of accesses to shared memory and of loads that hit the L1, by the distance and width of lanes' words."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import BANKS, TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import block_size_of, why_unsupported
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.measure.shared_memory.infer_banks import WORD, StridedAccess, fit_layout, single_words
from gpudissect.measure.shared_memory.plan_shared import strided_series
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

STRIDES = (0, 1, 2, 3, 4, 8, 12, 16, 24, 32)  # words
ODD_STRIDES = (9, 13, 17, 21, 25, 29)  # without bank conflicts: as many lines of an L1 as words
WIDTHS = {Instruction.LDG: (4, 8), Instruction.LDS: (4, 8, 16), Instruction.STS: (4, 8, 16), Instruction.ATOMS: (4,)}
"""Bytes of a lane's word; atomics and loads of mixes have no wider ones."""
WARPS, CHAINS, COUNT = 16, 2, 64
LONG, SHORT = 6, 2  # iterations of one kernel
REPETITIONS = 2
METHOD = f"{WARPS} warps of {CHAINS} chains, strides of 0 to {STRIDES[-1]} words, {LONG} iterations less {SHORT}"
MIN_ERROR_CYCLES = 0.05
MIN_SLOPE = 0.03  # cycles per line: 32 lines per cycle or more are no limit


def access_plan(instruction: Instruction, bench: Bench, known: Known) -> Plan:
    """Cycles of an SM for one access of a warp at every stride and width."""
    attributes = _attributes(instruction)
    if (reason := why_unsupported(instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, "lsu", reason, *attributes))
    shapes = [(s, w) for w in WIDTHS[instruction] for s in STRIDES if s * WORD % w == 0]
    if instruction is Instruction.LDG:
        shapes += [(stride, WORD) for stride in ODD_STRIDES]
    block_size = block_size_of(WARPS, bench.info) or WARP_SIZE
    mix = partial(Mix, body=(Step(instruction, COUNT),), warps=WARPS, block_size=block_size, ilp=CHAINS, sms=1)
    mixes = [
        mix(stride=stride, width=width, iterations=iterations, repetition=repetition)
        for stride, width in shapes
        for repetition in range(REPETITIONS)
        for iterations in (LONG, SHORT)
    ]
    traces = yield mixes
    spans = np.reshape([float(np.median(SmTotals.of(trace).spans)) for trace in traces], (-1, REPETITIONS, 2))
    cycles = (spans[..., 0] - spans[..., 1]).min(axis=1) / (WARPS * CHAINS * COUNT * (LONG - SHORT))
    accesses = [StridedAccess(*shape, each) for shape, each in zip(shapes, cycles.tolist(), strict=True)]
    evidence = tuple(map(digest, mixes))
    series = strided_series("lsu", f"cycles of an access against stride, {instruction}", accesses, evidence)
    estimates = [
        *_passes(instruction, [each for each in accesses if each.stride in STRIDES], evidence),
        _one_address(instruction, accesses, evidence),
    ]
    if instruction is Instruction.LDG:
        estimates.append(_lines(accesses, evidence))
    return Outcome(tuple(estimates), series=(series,))


def _attributes(instruction: Instruction) -> tuple[str, ...]:
    only = ("ldg_lines_per_cycle", "ldg_banks") if instruction is Instruction.LDG else ()
    return *only, f"{instruction}_pass", f"{instruction}_one_address"


def _passes(
    instruction: Instruction, accesses: Sequence[StridedAccess], evidence: tuple[str, ...]
) -> tuple[Estimate, ...]:
    """Cycles of a bank pass, and for global loads the number of banks."""
    banks = ["ldg_banks"] if instruction is Instruction.LDG else []
    cost = f"{instruction}_pass"
    fit = fit_layout(single_words(accesses))
    if fit.layout is None:
        return without(Status.NOT_FOUND, "lsu", fit.reason, *banks, cost, evidence=evidence)
    caveats = (f"explains {fit.explained:.2%} of the differences between strides, of words of 4 bytes",)
    method = f"{METHOD}; slope over the bank passes of each stride"
    estimates = [found("lsu", cost, fit.cost, fit.low, fit.high, TIMED, method, evidence, caveats)]
    if banks and all(map(fit.layout.same_banks, fit.rivals)):
        count = fit.layout.banks
        estimates.append(found("lsu", "ldg_banks", count, count, count, BANKS, METHOD, evidence, caveats))
    elif banks:
        named = " or ".join(f"{each.banks} of {each.width} B" for each in (fit.layout, *fit.rivals))
        reason = f"several layouts explain it as well: {named}"
        estimates.append(without(Status.AMBIGUOUS, "lsu", reason, "ldg_banks", evidence=evidence)[0])
    return tuple(estimates)


def _lines(accesses: Sequence[StridedAccess], evidence: tuple[str, ...]) -> Estimate:
    """Lines of 128 bytes that an L1 looks up per cycle: slope over odd strides, which touch as many lines as words."""
    chosen = [access for access in accesses if access.stride in ODD_STRIDES]
    lines, cycles = (np.array([getattr(each, name) for each in chosen], float) for name in ("stride", "cycles"))
    centred = lines - lines.mean()
    slope = float(centred @ cycles / (centred @ centred))
    if slope < MIN_SLOPE:
        reason = "a load does not take longer for more lines"
        return without(Status.NOT_FOUND, "lsu", reason, "ldg_lines_per_cycle", evidence=evidence)[0]
    residual = cycles - cycles.mean() - slope * centred
    error = 3 * float(np.sqrt(residual @ residual / (len(chosen) - 2) / (centred @ centred))) + MAX_CLOCK_DRIFT * slope
    method = f"{METHOD}; slope over odd strides of {ODD_STRIDES[0]} to {ODD_STRIDES[-1]} words"
    low, high = 1 / (slope + error), 1 / max(slope - error, MIN_SLOPE)
    return found("lsu", "ldg_lines_per_cycle", 1 / slope, low, high, TIMED, method, evidence)


def _one_address(instruction: Instruction, accesses: Sequence[StridedAccess], evidence: tuple[str, ...]) -> Estimate:
    """Cycles of the widest access of a warp whose lanes have one address."""
    same = {access.width: access.cycles for access in accesses if access.stride == 0}
    width = max(same)
    error = MAX_CLOCK_DRIFT * same[width] + MIN_ERROR_CYCLES
    listed = ", ".join(f"{size} B: {cycles:.2f}" for size, cycles in sorted(same.items()))
    caveats = (f"words of {width} bytes; cycles by width {listed}",)
    attribute, low, high = f"{instruction}_one_address", same[width] - error, same[width] + error
    return found("lsu", attribute, same[width], max(0.0, low), high, TIMED, METHOD, evidence, caveats)


EXPERIMENTS = tuple(
    Experiment(Key(f"access.{instruction}"), partial(access_plan, instruction), _attributes(instruction), element="lsu")
    for instruction in WIDTHS
)

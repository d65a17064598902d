"""Rate of an instruction on all SMs at once, operations per second of the whole GPU: the peak of a roofline.

The best configuration of one SM runs on every SM for milliseconds. All SMs share the power limit, so the clock may be
lower than with one SM at work.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.instructions import KINDS, Kind, in_warps, why_unsupported
from gpudissect.measure.instructions.plan_rate import InstructionRate, instruction_rate_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Instruction, Mix
from gpudissect.workload.digest import digest
from gpudissect.workload.mix import MAX_ITERATIONS

PEAKS = (Instruction.FFMA, Instruction.HFMA2, Instruction.DFMA, *MATRIX_MULTIPLY_ADDS)
"""Instructions whose peak is the ceiling of a roofline."""
RUN_NS = 4e6  # of the long run; the short one takes half, and the difference cancels start and end
DEFAULT_CLOCK_HZ = 1e9  # if the device does not state it: then runs take longer or shorter
REPETITIONS = 3
METHOD = "the best configuration on all SMs: operations over the difference of a run of about {:g} ms and one of half"
CONSTANT_DATA = "operands are constants: data that change more bits take more power, which may lower the clock"


def gpu_rate_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Operations per second of all SMs together."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "gpu_rate"))
    rate = known[instruction_rate_of(kind.element)]
    if rate is None or not rate.surface.again:
        return Outcome(without(Status.NOT_FOUND, kind.element, "the rate of one SM was not found", "gpu_rate"))
    short, long = _mixes(kind, rate, bench)
    mixes = [replace(mix, repetition=n) for n in range(REPETITIONS) for mix in (short, long)]
    traces = yield mixes
    nanoseconds = [float(trace.nanoseconds[0]) for trace in traces]
    operations = kind.operations * short.warps * bench.info.sm_count * (long.instructions - short.instructions)
    rates = sorted(_rates(operations, nanoseconds))
    if not rates:
        reason = "a run twice as long took no longer"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, "gpu_rate", evidence=tuple(map(digest, mixes))))
    value, evidence = float(np.median(rates)), tuple(map(digest, mixes))
    low, high = rates[0] * (1 - MAX_CLOCK_DRIFT), rates[-1] * (1 + MAX_CLOCK_DRIFT)
    caveats = (CONSTANT_DATA,)
    return Outcome(
        (found(kind.element, "gpu_rate", value, low, high, TIMED, METHOD.format(RUN_NS / 1e6), evidence, caveats),)
    )


def _mixes(kind: Kind, rate: InstructionRate, bench: Bench) -> tuple[Mix, Mix]:
    """The best configuration of one SM on all of them, with half of the iterations and with all."""
    best = next(iter(rate.surface.again))
    warps, chains = (int(rate.surface.columns[name][best]) for name in ("warps", "chains"))
    mix = replace(in_warps(rate.pattern, warps, chains, bench.info), sms=None, iterations=1)
    clock = bench.info.facts.get("clock_hz")
    hertz = float(clock) if isinstance(clock, int | float) and clock > 0 else DEFAULT_CLOCK_HZ
    cycles = kind.operations * warps * mix.instructions / max(rate.surface.again[best].rate, 1.0)  # of an iteration
    half = max(1, min(MAX_ITERATIONS // 2, math.ceil(RUN_NS / 2 * hertz / 1e9 / cycles)))
    return replace(mix, iterations=half), replace(mix, iterations=2 * half)


def _rates(operations: int, nanoseconds: Sequence[float]) -> list[float]:
    """Operations per second from alternating short and long runs."""
    pairs = zip(nanoseconds[::2], nanoseconds[1::2], strict=True)
    return [operations / (long - short) * 1e9 for short, long in pairs if long > short]


EXPERIMENTS = tuple(
    Experiment(
        Key(f"gpu_rate.{kind.element}"),
        partial(gpu_rate_plan, kind),
        ("gpu_rate",),
        needs=(instruction_rate_of(kind.element),),
    )
    for kind in KINDS
    if kind.element in PEAKS
)

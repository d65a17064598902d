"""Rate of an instruction on all SMs at once, operations per second of the whole GPU: the peak of a roofline.

The best configurations of one SM run on every SM for milliseconds. All SMs share the power limit, so the clock may be
lower than with one SM at work: matrix instructions of an H200 reach 91 % of the rate of one SM times SMs and clock.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import Lifetimes
from gpudissect.measure.instructions.instructions import KINDS, Kind, in_warps, why_unsupported
from gpudissect.measure.instructions.plan_rate import InstructionRate, instruction_rate_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Instruction, Mix
from gpudissect.workload.digest import digest
from gpudissect.workload.mix import MAX_ITERATIONS

PEAKS = (Instruction.FFMA, Instruction.HFMA2, Instruction.DFMA, *MATRIX_MULTIPLY_ADDS)
"""Instructions whose peak is the ceiling of a roofline."""
RUN_NS = 4e6  # of the long run; the short one takes half, and the difference cancels start and end
DEFAULT_CLOCK_HZ = 1e9  # if the device does not state it: then runs take longer or shorter
CONFIGURATIONS, REPETITIONS = 4, 3  # of the plateau of one SM; of each, long and short
METHOD = (
    "configurations of the plateau of one SM, on all SMs: operations over the difference of a run of about {:g} ms and "
    "one of half"
)
CONSTANT_DATA = "operands are constants: data that change more bits take more power, which may lower the clock"


def gpu_rate_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Operations per second of all SMs together."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "gpu_rate"))
    rate = known[instruction_rate_of(kind.element)]
    if rate is None or not rate.surface.again:
        return Outcome(without(Status.NOT_FOUND, kind.element, "the rate of one SM was not found", "gpu_rate"))
    pairs = [
        tuple(replace(mix, repetition=n) for mix in _mixes(kind, rate, index, bench))
        for index in rate.surface.counted[:CONFIGURATIONS]
        for n in range(REPETITIONS)
    ]
    mixes = [mix for pair in pairs for mix in pair]
    traces = yield mixes
    times = [(float(a.nanoseconds[0]), float(b.nanoseconds[0])) for a, b in zip(traces[::2], traces[1::2], strict=True)]
    evidence = tuple(map(digest, mixes))
    if any(long <= short for short, long in times):
        reason = "a run twice as long took no longer"
        return Outcome(without(Status.NOT_FOUND, kind.element, reason, "gpu_rate", evidence=evidence))
    operations = [(long.instructions - short.instructions) * long.warps * kind.operations for short, long in pairs]
    rates = np.array(operations) * bench.info.sm_count / np.diff(times, axis=1)[:, 0] * 1e9
    low, high = float(rates.min()) * (1 - MAX_CLOCK_DRIFT), float(rates.max()) * (1 + MAX_CLOCK_DRIFT)
    caveats = (*_clock_caveat(traces), CONSTANT_DATA)
    value, method = float(np.median(rates)), METHOD.format(RUN_NS / 1e6)
    return Outcome((found(kind.element, "gpu_rate", value, low, high, TIMED, method, evidence, caveats),))


def _mixes(kind: Kind, rate: InstructionRate, index: int, bench: Bench) -> tuple[Mix, Mix]:
    """A configuration of one SM on all of them, with half of the iterations and with all."""
    warps, chains = (int(rate.surface.columns[name][index]) for name in ("warps", "chains"))
    mix = replace(in_warps(rate.pattern, warps, chains, bench.info), sms=None, iterations=1)
    clock = bench.info.facts.get("clock_hz")
    hertz = float(clock) if isinstance(clock, int | float) and clock > 0 else DEFAULT_CLOCK_HZ
    cycles = kind.operations * warps * mix.instructions / max(rate.surface.again[index].rate, 1.0)  # of an iteration
    half = max(1, min(MAX_ITERATIONS // 2, math.ceil(RUN_NS / 2 * hertz / 1e9 / cycles)))
    return replace(mix, iterations=half), replace(mix, iterations=2 * half)


def _clock_caveat(traces: Sequence[Trace]) -> tuple[str, ...]:
    """The SM clock during the runs, from cycles and nanoseconds of the longest of each kind."""
    clocks = [float(np.median(Lifetimes.of(trace).spans)) / float(trace.nanoseconds[0]) for trace in traces[1::2]]
    low, high = min(clocks) * 1e3, max(clocks) * 1e3
    return (f"SM clock during the runs: {low:.0f} to {high:.0f} MHz",)


EXPERIMENTS = tuple(
    Experiment(
        Key(f"gpu_rate.{kind.element}"),
        partial(gpu_rate_plan, kind),
        ("gpu_rate",),
        needs=(instruction_rate_of(kind.element),),
        changes_clock=True,
    )
    for kind in KINDS
    if kind.element in PEAKS
)

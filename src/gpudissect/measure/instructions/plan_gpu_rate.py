"""Rate of an instruction on all SMs at once, operations per second of the whole GPU: the peak of a roofline.

The best configurations of one SM run on every SM for milliseconds. The SM clock may be lower than with one SM at work:
matrix instructions of an H200 run at 1800 instead of 1980 MHz, so that they reach 91 % of the rate of one SM times SMs
and clock.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.estimate import Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import KINDS, Kind, in_warps, why_unsupported
from gpudissect.measure.instructions.plan_rate import InstructionRate, instruction_rate_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Instruction, Mix
from gpudissect.workload.digest import digest
from gpudissect.workload.mix import MAX_ITERATIONS

PEAKS = (Instruction.FFMA, Instruction.HFMA2, Instruction.DFMA, *MATRIX_MULTIPLY_ADDS)
"""Instructions whose peak is the ceiling of a roofline."""
RUN_NS = 4e6  # of a run: its start and end are less than 0.3 % of it
DEFAULT_CLOCK_HZ = 1e9  # if the device does not state it: then runs take longer or shorter
CONFIGURATIONS, REPETITIONS = 4, 3  # of the plateau of one SM; of each
CLOCK_STEP = 0.016  # relative: clocks of H100 and H200 change by one or two steps of 15 MHz, also from run to run
CLOCK_DIGITS = 5  # MHz: the time includes start and end
METHOD = f"operations over time of runs of about {RUN_NS / 1e6:g} ms on all SMs, in configurations of one SM's plateau"
CONSTANT_DATA = "operands are constants: with data that change more bits the clock may be lower"


def gpu_rate_plan(kind: Kind, bench: Bench, known: Known) -> Plan:
    """Operations per second of all SMs together."""
    if (reason := why_unsupported(kind.instruction, bench.info)) is not None:
        return Outcome(without(Status.NOT_SUPPORTED, kind.element, reason, "gpu_rate"))
    rate = known[instruction_rate_of(kind.element)]
    if rate is None or not rate.surface.again:
        return Outcome(without(Status.NOT_FOUND, kind.element, "the rate of one SM was not found", "gpu_rate"))
    mixes = [
        replace(_mix(kind, rate, index, bench), repetition=n)
        for index in rate.surface.counted[:CONFIGURATIONS]
        for n in range(REPETITIONS)
    ]
    traces = yield mixes
    nanoseconds = np.array([float(trace.nanoseconds[0]) for trace in traces])
    rates = kind.operations * bench.info.sm_count * np.array([mix.warps * mix.instructions for mix in mixes])
    rates = rates / nanoseconds * 1e9
    low, high = float(rates.min()) * (1 - CLOCK_STEP), float(rates.max()) * (1 + CLOCK_STEP)
    caveats = (_clock_caveat(traces), CONSTANT_DATA)
    value, evidence = float(np.median(rates)), tuple(map(digest, mixes))
    return Outcome((found(kind.element, "gpu_rate", value, low, high, TIMED, METHOD, evidence, caveats),))


def _mix(kind: Kind, rate: InstructionRate, index: int, bench: Bench) -> Mix:
    """A configuration of one SM on all of them, for about `RUN_NS`."""
    warps, chains = (int(rate.surface.columns[name][index]) for name in ("warps", "chains"))
    mix = replace(in_warps(rate.pattern, warps, chains, bench.info), sms=None, iterations=1)
    clock = bench.info.facts.get("clock_hz")
    hertz = float(clock) if isinstance(clock, int | float) and clock > 0 else DEFAULT_CLOCK_HZ
    cycles = kind.operations * warps * mix.instructions / max(rate.surface.again[index].rate, 1.0)  # of an iteration
    half = max(1, min(MAX_ITERATIONS // 2, math.ceil(RUN_NS / 2 * hertz / 1e9 / cycles)))
    return replace(mix, iterations=2 * half)


def _clock_caveat(traces: Sequence[Trace]) -> str:
    """The SM clock during the runs, from their cycles and nanoseconds."""
    clocks = [float(np.median(SmTotals.of(trace).spans)) / float(trace.nanoseconds[0]) * 1e3 for trace in traces]
    low, high = (CLOCK_DIGITS * round(clock / CLOCK_DIGITS) for clock in (min(clocks), max(clocks)))
    return f"SM clock during the runs: about {low}{f' to {high}' if high > low else ''} MHz"


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

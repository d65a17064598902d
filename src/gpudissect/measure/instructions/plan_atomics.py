"""Atomics on global memory from all SMs at once, by where their words lie: what the L2 can do."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gpudissect.device_info import Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.infer_confidence import TIMED
from gpudissect.measure.infer_latency import MAX_CLOCK_DRIFT
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.instructions import block_size_of, max_warps, why_unsupported
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.trace import Trace
from gpudissect.units import MIB, WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step
from gpudissect.workload.digest import digest

INSTRUCTIONS = (Instruction.ATOMG, Instruction.REDG)
WIDE_FOOTPRINT = 8 * MIB  # in the L2 of every GPU that is recent enough for mixes to pay, or most of it
LINE_BYTES, WORD_BYTES = 128, 4
PATTERNS = {
    "contiguous_rate": (Access.STREAMING, WIDE_FOOTPRINT),
    "random_rate": (Access.RANDOM, WIDE_FOOTPRINT),
    "line_rate": (Access.RANDOM, LINE_BYTES),
    "word_rate": (Access.RANDOM, WORD_BYTES),
}
"""Of each attribute: what is random, words or whole lines, and over how many bytes."""
WARPS, CHAINS, COUNT = 32, 4, 4
LONG, SHORT = 24, 8  # iterations: whole loops of either, so that one kernel runs both
REPETITIONS = 3
WHERE = {
    "contiguous_rate": f"32 adjacent words of a warp, in random lines of {WIDE_FOOTPRINT // MIB} MiB",
    "random_rate": f"random words of {WIDE_FOOTPRINT // MIB} MiB",
    "line_rate": f"random words of one line of {LINE_BYTES} bytes",
    "word_rate": "one word",
}
METHOD = (
    f"{WARPS} warps of {CHAINS} chains on every SM, {LONG} iterations less {SHORT}, by the SM that takes longest; "
    f"median of {REPETITIONS} runs"
)
PROCESS_SPREAD = 0.035
"""Relative difference between surveys, whose memory lies in different slices of the L2. In 21 surveys of five H200s,
operations per cycle on one word were 0.675 to 0.691, on one line 2.24 to 2.26, on contiguous words 272 to 281."""
PLACED = f"depends on where the words lie in the L2: the bracket includes {PROCESS_SPREAD:.1%} for this"
SIMULATED = "simulated GPUs have no partitions of an L2 that count"


def atomics_plan(instruction: Instruction, bench: Bench, known: Known) -> Plan:
    """Operations per cycle of the whole GPU."""
    element = instruction.value
    is_simulated = Origin.SIMULATED in (bench.info.origin, bench.info.recorded_origin)
    if reason := why_unsupported(instruction, bench.info) or (SIMULATED if is_simulated else None):
        return Outcome(without(Status.NOT_SUPPORTED, element, reason, *PATTERNS))
    warps = min(WARPS, max_warps(bench.info))
    block_size = block_size_of(warps, bench.info) or WARP_SIZE
    plain = Mix(body=(Step(instruction, COUNT),), warps=warps, block_size=block_size, iterations=LONG, ilp=CHAINS)
    mixes = {
        attribute: [
            replace(plain, access=access, footprint=footprint, iterations=iterations, repetition=repetition)
            for repetition in range(REPETITIONS)
            for iterations in (LONG, SHORT)
        ]
        for attribute, (access, footprint) in PATTERNS.items()
    }
    traces = iter((yield [mix for batch in mixes.values() for mix in batch]))
    return Outcome(
        tuple(_estimate(element, name, batch, [next(traces) for _ in batch]) for name, batch in mixes.items())
    )


def _estimate(element: str, attribute: str, mixes: Sequence[Mix], traces: Sequence[Trace]) -> Estimate:
    """The rate from the longest SM's time of long runs less that of short ones."""
    spans = np.reshape([float(SmTotals.of(trace).spans.max()) for trace in traces], (-1, 2))
    cycles, evidence = spans[:, 0] - spans[:, 1], tuple(map(digest, mixes))
    if cycles.min() <= 0:
        (absent,) = without(Status.NOT_FOUND, element, "more instructions took no longer", attribute)
        return replace(absent, evidence=evidence)
    rates = traces[0].sm.size * WARP_SIZE * (mixes[0].instructions - mixes[1].instructions) / cycles
    error = PROCESS_SPREAD + MAX_CLOCK_DRIFT
    low, high = float(rates.min()) * (1 - error), float(rates.max()) * (1 + error)
    caveats = (WHERE[attribute], "all SMs at once", PLACED)
    return found(element, attribute, float(np.median(rates)), low, high, TIMED, METHOD, evidence, caveats)


EXPERIMENTS = tuple(
    Experiment(Key(f"atomics.{instruction}"), partial(atomics_plan, instruction), tuple(PATTERNS), element=instruction)
    for instruction in INSTRUCTIONS
)

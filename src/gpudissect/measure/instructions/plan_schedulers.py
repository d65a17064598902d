"""Number of schedulers of an SM: the time of 1, 2, 3, ... warps of one block, each with the same instructions."""

from dataclasses import replace

import numpy as np

from gpudissect.catalogue.compute_capability import max_block_threads, schedulers
from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Series, Status
from gpudissect.measure.infer_confidence import SCHEDULERS, UNTRIED
from gpudissect.measure.instructions.infer_issue import SmTotals
from gpudissect.measure.instructions.infer_schedulers import Schedulers, rounds_of, schedulers_of
from gpudissect.measure.instructions.instructions import LONG_BODY, Kind, max_warps, registers_suffice, why_unsupported
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, found, without
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Step
from gpudissect.workload.digest import digest

INSTRUCTIONS = (Instruction.FADD, Instruction.I2F, Instruction.RSQ)
"""Of three kinds of units: where all schedulers share one, another may not be shared."""
MAX_WARPS = 24  # by one more the time still rises by a 24th
CHAINS = (16, 8)  # as many as there are registers for: the more, the fewer warps keep a scheduler busy
LONG, SHORT, REPETITIONS = 8, 2, 2
SAME_UNITS = "schedulers that share their units for these instructions count as one"
METHOD = (
    f"time of 1 to {MAX_WARPS} warps of one block with independent instructions, {LONG} iterations less {SHORT}: it "
    "rises with the first warp of every further round of warps over the schedulers"
)


def schedulers_plan(bench: Bench, known: Known) -> Plan:
    """Schedulers of an SM, and the times that show them, cycles."""
    supported = [each for each in INSTRUCTIONS if why_unsupported(each, bench.info) is None]
    if not supported:
        reason = why_unsupported(INSTRUCTIONS[0], bench.info) or "it has none of the instructions"
        return Outcome(without(Status.NOT_SUPPORTED, "issue", reason, "schedulers"))
    mixes = [
        replace(_mix(each, warps, bench.info), iterations=iterations, repetition=repetition)
        for each in supported
        for warps in range(1, _most_warps(each, bench.info) + 1)
        for repetition in range(REPETITIONS)
        for iterations in (LONG, SHORT)
    ]
    traces = yield mixes
    spans: dict[tuple[str, int, int], list[float]] = {}
    durations: dict[tuple[str, int], float] = {}
    for mix, trace in zip(mixes, traces, strict=True):
        key = (mix.body[0].instruction.value, mix.warps, mix.iterations)
        spans.setdefault(key, []).append(float(np.median(SmTotals.of(trace).spans)))
        lifetimes = trace.end - trace.begin
        durations[key[:2]] = max(durations.get(key[:2], 0.0), float(np.quantile(lifetimes, 0.25) / lifetimes.max()))
    times = {  # whatever happens during a run only makes it longer
        (name, warps): (min(each) - min(spans[name, warps, SHORT])) / (LONG - SHORT)
        for (name, warps, iterations), each in spans.items()
        if iterations == LONG
    }
    evidence = tuple(map(digest, mixes))
    columns: dict[str, tuple[float | str, ...]] = {
        "instruction": tuple(name for name, _ in times),
        "warps": tuple(float(warps) for _, warps in times),
        "cycles": tuple(times.values()),
    }
    name = "cycles of an iteration against warps of an SM by instruction"
    series = (Series("issue", name, columns, {"cycles": "cycles"}, evidence),)
    if min(times.values()) <= 0:
        reason = "more iterations took no longer"
        return Outcome(without(Status.NOT_FOUND, "issue", reason, "schedulers", evidence=evidence), series=series)
    rounds = {}
    for each in supported:
        keys = [key for key in times if key[0] == each]
        rounds[each.value] = rounds_of([times[key] for key in keys], [durations[key] for key in keys])
    return Outcome((_estimate(schedulers_of(rounds), bench.info, evidence),), series=series)


def _most_warps(instruction: Instruction, info: DeviceInfo) -> int:
    """Warps of the largest block that fits an SM, at most `MAX_WARPS`."""
    limit = min(MAX_WARPS, max_warps(info), max_block_threads(info.facts) // WARP_SIZE)
    registers = Kind(instruction.value, instruction).registers(CHAINS[-1])
    return max((n for n in range(1, limit + 1) if registers_suffice(n, registers, info)), default=1)


def _mix(instruction: Instruction, warps: int, info: DeviceInfo) -> Mix:
    """`LONG_BODY` instructions of each of so many warps of one block, on one SM."""
    kind, most = Kind(instruction.value, instruction), _most_warps(instruction, info)
    chains = next((n for n in CHAINS if registers_suffice(most, kind.registers(n), info)), CHAINS[-1])
    body = (Step(instruction, LONG_BODY // chains),)
    return Mix(body=body, warps=warps, block_size=warps * WARP_SIZE, iterations=LONG, ilp=chains, sms=1)


def _estimate(result: Schedulers, info: DeviceInfo, evidence: tuple[str, ...]) -> Estimate:
    if result.count is None:
        status = Status.NOT_FOUND if result.at_least is None else Status.AMBIGUOUS
        (estimate,) = without(status, "issue", result.reason, "schedulers", evidence=evidence, method=METHOD)
        return replace(estimate, low=result.at_least)
    caveats = [f"by {', '.join(result.by)}; {SAME_UNITS}"]
    if (documented := schedulers(info.facts)) != result.count:
        caveats.append(f"{documented} are documented, or assumed, for this compute capability: other findings use that")
    confidence = SCHEDULERS if len(result.by) > 1 else UNTRIED
    count = result.count
    return found("issue", "schedulers", count, count, count, confidence, METHOD, evidence, tuple(caveats))


EXPERIMENTS = (Experiment(Key("schedulers.issue"), schedulers_plan, ("schedulers",), element="issue"),)

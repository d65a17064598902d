"""Changes that shorten or hide what warps wait for: results of instructions, and barriers of blocks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from gpudissect.explanation.model.critical import longest_chain
from gpudissect.explanation.model.trial import GLOBAL, Trial
from gpudissect.explanation.model.walk import Path
from gpudissect.explanation.result import Advice
from gpudissect.machine_code.program import Program

MAX_WAITS = 2  # groups of instructions that are waited for
MIN_WAITS = 1.5  # waits per warp; below, a load has no independent load to overlap with
MAX_CHAINED = 0.5  # share of a warp's loads on one chain; above, loads cannot be issued earlier


def fewer_waits(trial: Trial) -> Iterator[Advice]:
    """No wait for the instructions that warps wait for most."""
    program = trial.program
    for producers, stall, waits in trial.awaited()[:MAX_WAITS]:
        is_load = program.uses[producers[0]].space in GLOBAL and program.uses[producers[0]].access == "load"
        chained = (_is_chained(program, trial.assessment.path, each) for each in (producers, producers[:1]))
        if is_load and (waits < MIN_WAITS or any(chained)):
            continue  # more work for each thread is what helps
        instructions = list(program.instructions)
        for index in producers:
            instructions[index] = replace(instructions[index], write_barrier=None)
        changed = replace(program, flow=replace(program.flow, instructions=tuple(instructions)))
        places = trial.places(dict.fromkeys(producers))
        if is_load:
            text = f"Issue {places} earlier, several before the first result is needed (unroll, or prefetch)"
        else:
            text = f"Put independent instructions between {places} and the first use of the result"
        evidence = f"{_wait(program, producers, stall)}; upper limit: without this wait"
        without = replace(trial.assessment, program=changed).predict(trial.resident, largest_carveout=False)
        gain = trial.gain_with_same_work(without.nanoseconds)
        yield Advice(text=text, gain=gain, is_limit=True, evidence=evidence)


def more_in_flight(trial: Trial) -> Iterator[Advice]:
    """Twice the work in flight on an SM."""
    awaited = trial.awaited()
    if not awaited:
        return
    producers, stall, _ = awaited[0]
    places = trial.places(dict.fromkeys(producers))
    text = (
        f"Keep twice as many {_name(trial.program, producers[0])}s in flight: "
        f"process two elements per thread, first at {places}"
    )
    evidence = (
        f"{_wait(trial.program, producers, stall)}; upper limit: "
        f"modelled as {2 * trial.resident} resident blocks instead of {trial.resident}, with no extra registers"
    )
    yield Advice(
        text=text, gain=trial.gain_with_same_work(trial.time_with(2 * trial.resident)), is_limit=True, evidence=evidence
    )


def fewer_barriers(trial: Trial) -> Iterator[Advice]:
    """No barriers of blocks."""
    costs = trial.assessment.costs
    executed = {index: float(trial.executed[index]) for index, cost in enumerate(costs) if cost.element == "barrier"}
    barriers = {index: count for index, count in executed.items() if count}
    if barriers:
        text = f"Use fewer barriers ({trial.places(barriers)}) or smaller blocks"
        evidence = f"{sum(barriers.values()):.3g} barriers per warp; upper limit: without barriers"
        yield Advice(text=text, gain=trial.gain_of(trial.without(barriers)), is_limit=True, evidence=evidence)


def _name(program: Program, index: int) -> str:
    return "load" if program.uses[index].access == "load" else "instruction"


def _wait(program: Program, producers: Sequence[int], stall: float) -> str:
    """Share of the time that warps wait for results of these instructions."""
    name = _name(program, producers[0])
    which = f"this {name}" if len(producers) == 1 else f"these {name}s"
    return f"warps are stalled on {which} {stall:.0%} of the time"


def _is_chained(program: Program, path: Path, loads: Sequence[int]) -> bool:
    """Whether most of these loads of a warp need the result of another one, such as of the iteration before."""
    is_load = np.isin(np.arange(len(program.instructions)), loads)
    depth = longest_chain(program, path.instructions, is_load.astype(np.float64)).cycles
    return depth > max(1.0, MAX_CHAINED * float(is_load[path.instructions].sum()))

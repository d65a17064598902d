"""Dependences between the instructions of a kernel, and what each instruction waits for.

A call stands for its callee: it reads what the callee reads before writing it, writes what the callee writes, and waits
and sets barriers as the callee does. Calls of unknown functions are taken to touch nothing.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from gpudissect.machine_code.accesses import Accesses
from gpudissect.machine_code.flow import Flow, State, merge, reach, reach_once
from gpudissect.machine_code.instructions import BARRIERS, Instruction
from gpudissect.machine_code.loops import Loops
from gpudissect.machine_code.units import queue

_WAITS_BY_COUNT = "DEPBAR"  # waits until a barrier counts N operations or fewer
_UNSIGNALLED = "Q"  # results of a queue of which no later instruction has set a barrier yet


@dataclass(frozen=True, slots=True)
class Dependence:
    """Instruction `consumer` reads `registers` that instruction `producer` wrote (indices).

    `loop` is the loop whose back edge the value crosses, None if it crosses none. `cycles` is the sum of stall counts
    from producer to consumer, where both are in one block (or in a loop of one block): the time that the code leaves a
    producer of fixed latency. A producer with a write barrier has variable latency.
    """

    producer: int
    consumer: int
    registers: tuple[str, ...]
    loop: int | None
    cycles: int | None


@dataclass(frozen=True, slots=True)
class Wait:
    """Instruction `consumer` waits on a scoreboard barrier that `producer` set: for its result, or for its operands
    to be read (`for_result` False).
    """

    consumer: int
    producer: int
    barrier: int
    for_result: bool


@dataclass(frozen=True)
class Dependences:
    """Dependences and waits in the order of their consumers."""

    dependences: tuple[Dependence, ...]
    waits: tuple[Wait, ...]

    @cached_property
    def by_consumer(self) -> Mapping[int, list[Dependence]]:
        """The dependences of each instruction that has any."""
        found = defaultdict[int, list[Dependence]](list)
        for dependence in self.dependences:
            found[dependence.consumer].append(dependence)
        return dict(found)

    @cached_property
    def waits_by_consumer(self) -> Mapping[int, list[Wait]]:
        """What each instruction waits for that waits for anything."""
        found = defaultdict[int, list[Wait]](list)
        for wait in self.waits:
            found[wait.consumer].append(wait)
        return dict(found)


def find_dependences(flow: Flow, loops: Loops, capability: int) -> Dependences:
    """Dependences and waits of all reachable instructions, on this compute capability (10 * major + minor)."""
    accesses = Accesses(flow)
    everywhere, once = reach(flow, accesses.after), reach_once(flow, accesses.after, {}, set(flow.order))
    plain = {use for block in flow.order for use in accesses.uses(block, once[block])}
    carried = set[tuple[int, int, str, int | None]]()
    for number, loop in enumerate(loops.loops):
        inside = {i for b in loop.blocks for i in range(flow.blocks[b].start, flow.blocks[b].end)}
        around = merge(accesses.after(latch, everywhere[latch]) for latch in loop.latches)
        start = {register: writers & inside for register, writers in around.items() if writers & inside}
        states = reach_once(flow, accesses.surviving, {loop.header: start}, loop.blocks)
        carried |= {(*use, number) for block in loop.blocks for use in accesses.incoming(block, states[block])}
    other = {use for block in flow.order for use in accesses.uses(block, everywhere[block])}
    other -= plain | {(producer, consumer, register) for producer, consumer, register, _ in carried}
    found = carried | {(*use, None) for use in plain | other}
    return Dependences(_merged(flow, loops, found), _waits(flow, accesses, _queues(flow, capability)))


def _merged(flow: Flow, loops: Loops, uses: set[tuple[int, int, str, int | None]]) -> tuple[Dependence, ...]:
    """One dependence for all registers between two instructions."""
    registers = defaultdict[tuple[int, int, int], list[str]](list)
    for producer, consumer, register, loop in uses:
        registers[consumer, producer, -1 if loop is None else loop].append(register)
    issued = [0, *accumulate(instruction.stall for instruction in flow.instructions)]
    starts = [block.start for block in flow.blocks]
    found = []
    for (consumer, producer, number), names in sorted(registers.items()):
        block = flow.blocks[bisect_right(starts, producer) - 1]
        around = 0 if number < 0 else issued[block.end] - issued[block.start]
        is_known = block.start <= consumer < block.end and (
            producer < consumer if number < 0 else len(loops.loops[number].blocks) == 1
        )
        cycles = issued[consumer] - issued[producer] + around if is_known else None
        found.append(Dependence(producer, consumer, tuple(sorted(names)), None if number < 0 else number, cycles))
    return tuple(found)


def _queues(flow: Flow, capability: int) -> list[str | None]:
    """The queue of each instruction whose result returns in order; only queues in which a barrier is set."""
    queues = [queue(instruction, capability) for instruction in flow.instructions]
    signalled = {q for q, i in zip(queues, flow.instructions, strict=True) if i.write_barrier is not None}
    return [q if q in signalled else None for q in queues]


def _waits(flow: Flow, accesses: Accesses, queues: list[str | None]) -> tuple[Wait, ...]:
    """What each instruction waits for."""
    waits = set[Wait]()
    masks = {entry: 0 for entry in flow.entries}
    for entry, body in accesses.bodies.items():
        for instruction in (i for b in body for i in flow.instructions[flow.blocks[b].start : flow.blocks[b].end]):
            masks[entry] |= instruction.wait_mask

    def step(index: int, state: State, callee: int | None) -> State:
        """Barriers after an instruction that waits and sets its own."""
        instruction = flow.instructions[index]
        mask = instruction.wait_mask | (masks[callee] if callee is not None else 0)
        cleared = {f"{kind}{barrier}" for barrier in range(BARRIERS) if mask >> barrier & 1 for kind in "RO"}
        by_count = _wait_by_count(instruction, state)
        state = {key: found for key, found in state.items() if key not in cleared} | by_count
        unsignalled = f"{_UNSIGNALLED}{queues[index]}"
        if instruction.write_barrier is not None:
            key = f"R{instruction.write_barrier}"
            state[key] = state.get(key, frozenset()) | state.pop(unsignalled, frozenset()) | {index}
        elif queues[index] and accesses.writes[index]:
            state[unsignalled] = state.get(unsignalled, frozenset()) | {index}
        if instruction.read_barrier is not None:
            key = f"O{instruction.read_barrier}"
            state[key] = state.get(key, frozenset()) | {index}
        return state

    def after(block: int, state: State) -> State:
        bounds = flow.blocks[block]
        for index in range(bounds.start, bounds.end):
            state = step(index, state, bounds.callee if index == bounds.end - 1 else None)
        return state

    before = reach(flow, after)
    for block in flow.order:
        state, bounds = before[block], flow.blocks[block]
        for index in range(bounds.start, bounds.end):
            following = step(index, dict(state), bounds.callee if index == bounds.end - 1 else None)
            for key, found in state.items():
                over = found - following.get(key, frozenset())
                if key[0] != _UNSIGNALLED:
                    waits |= {Wait(index, producer, int(key[1:]), key[0] == "R") for producer in over}
            state = following
    return tuple(sorted(waits, key=lambda wait: (wait.consumer, wait.producer, wait.barrier)))


def _wait_by_count(instruction: Instruction, state: State) -> State:
    """What remains of a barrier after ``DEPBAR.LE SB0, N``: its last N operations by address."""
    found = re.fullmatch(r"SB(\d), 0x([0-9a-f]+).*", ", ".join(instruction.operands))
    if instruction.opcode != _WAITS_BY_COUNT or found is None:
        return {}
    barrier, count = found[1], int(found[2], 16)
    remaining = {f"{kind}{barrier}": sorted(state.get(f"{kind}{barrier}", ())) for kind in "RO"}
    return {key: frozenset(setters[max(0, len(setters) - count) :]) for key, setters in remaining.items()}

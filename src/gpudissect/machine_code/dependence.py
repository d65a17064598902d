"""Dependences between the instructions of a kernel, and what each instruction waits for.

A call stands for its callee: it reads what the callee reads before writing it, writes what the callee writes, and waits
and sets barriers as the callee does. Calls of unknown functions are taken to touch nothing.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpudissect.machine_code.dataflow import State, merge, reach, reach_once
from gpudissect.machine_code.flow import Flow
from gpudissect.machine_code.instructions import BARRIERS, Instruction
from gpudissect.machine_code.loops import Loops
from gpudissect.machine_code.registers import reads, writes
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
    """Dependences and waits in the order of their consumers.

    `unfinished` has, by index of instruction, the instructions whose results it does not know to be there.
    """

    dependences: tuple[Dependence, ...]
    waits: tuple[Wait, ...]
    unfinished: tuple[frozenset[int], ...] = field(repr=False)

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
    accesses = _Accesses(flow)
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
    waits, unfinished = _waits(flow, accesses, _queues(flow, capability))
    return Dependences(_merged(flow, loops, found), waits, unfinished)


def _merged(flow: Flow, loops: Loops, uses: set[tuple[int, int, str, int | None]]) -> tuple[Dependence, ...]:
    """One dependence for all registers between two instructions."""
    registers = defaultdict[tuple[int, int, int], list[str]](list)
    for producer, consumer, register, loop in uses:
        registers[consumer, producer, -1 if loop is None else loop].append(register)
    return tuple(
        Dependence(
            producer,
            consumer,
            tuple(sorted(names)),
            None if loop < 0 else loop,
            _cycles(flow, producer, consumer, None if loop < 0 else loops.loops[loop].blocks),
        )
        for (consumer, producer, loop), names in sorted(registers.items())
    )


def _cycles(flow: Flow, producer: int, consumer: int, loop: frozenset[int] | None) -> int | None:
    """Sum of stall counts from producer to consumer in one block, or once around a loop of one block."""
    block = flow.blocks[bisect_right(flow.blocks, producer, key=lambda block: block.start) - 1]
    if not block.start <= consumer < block.end or (loop is not None and len(loop) > 1):
        return None
    if loop is None:
        return sum(i.stall for i in flow.instructions[producer:consumer]) if producer < consumer else None
    path = *flow.instructions[producer : block.end], *flow.instructions[block.start : consumer]
    return sum(instruction.stall for instruction in path)


class _Accesses:
    """What the instructions of each block read and write; a call as its callee does."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.reads = [reads(instruction) for instruction in flow.instructions]
        self.writes = [writes(instruction) for instruction in flow.instructions]
        self.bodies = {entry: _reached(flow, entry) for entry in flow.entries}
        self.exposed: list[list[tuple[int, str]]] = [[] for _ in flow.blocks]
        self.local: list[list[tuple[int, int, str]]] = [[] for _ in flow.blocks]
        self.last: list[State] = [{} for _ in flow.blocks]
        self.replaced: list[set[str]] = [set() for _ in flow.blocks]
        self._summarize_calls()
        for block in flow.order:
            self._scan(block)

    def after(self, block: int, state: State) -> State:
        """Last writers of each register at the end of a block."""
        return merge((self.surviving(block, state), self.last[block]))

    def surviving(self, block: int, state: State) -> State:
        """Those of the start of a block that are not replaced in it."""
        replaced = self.replaced[block]
        return {register: writers for register, writers in state.items() if register not in replaced}

    def incoming(self, block: int, state: State) -> Iterator[tuple[int, int, str]]:
        """Producer, consumer and register of the values that a block uses from before."""
        for consumer, register in self.exposed[block]:
            for producer in state.get(register, ()):
                yield producer, consumer, register

    def uses(self, block: int, state: State) -> Iterator[tuple[int, int, str]]:
        """Producer, consumer and register of all values that a block uses."""
        yield from self.local[block]
        yield from self.incoming(block, state)

    def _scan(self, block: int) -> None:
        bounds, last, replaced = self.flow.blocks[block], self.last[block], self.replaced[block]
        written = dict[str, int]()
        for index in range(bounds.start, bounds.end):
            for register in self.reads[index]:
                producers = last.get(register, ())
                self.local[block] += [(p, index, register) for p in producers if not self._exclude(p, index, written)]
                if register not in replaced:
                    self.exposed[block].append((index, register))
            always = not self.flow.instructions[index].predicate
            for register in self.writes[index]:
                written[register] = index
                last[register] = frozenset((index,)) if always else last.get(register, frozenset()) | {index}
                if always:
                    replaced.add(register)

    def _exclude(self, producer: int, consumer: int, written: Mapping[str, int]) -> bool:
        """Whether no thread runs both: opposite predicates, and nothing in between writes the predicate."""
        first, second = (self.flow.instructions[index].predicate for index in (producer, consumer))
        opposite = bool(first and second) and first != second and first.lstrip("!") == second.lstrip("!")
        return opposite and written.get(first.lstrip("!"), -1) < producer

    def _summarize_calls(self) -> None:
        """Gives calls the registers that their callees read before writing them, and write; nested calls first."""
        calls = [block for block in self.flow.blocks if block.callee is not None]
        for _ in range(len(self.flow.entries)):
            before = [self.writes[block.end - 1] for block in calls]
            for block in calls:
                body = self.bodies.get(block.callee if block.callee is not None else -1, set())
                spans = [range(self.flow.blocks[b].start, self.flow.blocks[b].end) for b in sorted(body)]
                written = frozenset[str]().union(*(self.writes[i] for span in spans for i in span))
                self.writes[block.end - 1] = written
                self.reads[block.end - 1] |= self._arguments(spans)
            if before == [self.writes[block.end - 1] for block in calls]:
                break

    def _arguments(self, spans: list[range]) -> frozenset[str]:
        """Registers that code reads before it writes them, in the order of addresses."""
        written, arguments = set[str](), set[str]()
        for index in (i for span in spans for i in span):
            arguments |= self.reads[index] - written
            if not self.flow.instructions[index].predicate:
                written |= self.writes[index]
        return frozenset(arguments)


def _reached(flow: Flow, entry: int) -> set[int]:
    found, stack = set[int](), [entry]
    while stack:
        block = stack.pop()
        if block not in found:
            found.add(block)
            stack += flow.blocks[block].successors
    return found


def _queues(flow: Flow, capability: int) -> list[str | None]:
    """The queue of each instruction whose result returns in order; only queues in which a barrier is set."""
    queues = [queue(instruction, capability) for instruction in flow.instructions]
    signalled = {q for q, i in zip(queues, flow.instructions, strict=True) if i.write_barrier is not None}
    return [q if q in signalled else None for q in queues]


def _waits(
    flow: Flow, accesses: _Accesses, queues: list[str | None]
) -> tuple[tuple[Wait, ...], tuple[frozenset[int], ...]]:
    """What each instruction waits for, and the results that are not known to be there when it issues."""
    waits, unfinished = set[Wait](), [frozenset[int]()] * len(flow.instructions)
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
            unfinished[index] = frozenset[int]().union(
                *(found & following.get(key, frozenset()) for key, found in state.items() if key[0] != "O")
            )
            state = following
    ordered = sorted(waits, key=lambda wait: (wait.consumer, wait.producer, wait.barrier))
    return tuple(ordered), tuple(unfinished)


def _wait_by_count(instruction: Instruction, state: State) -> State:
    """What remains of a barrier after ``DEPBAR.LE SB0, N``: its last N operations by address."""
    found = re.fullmatch(r"SB(\d), 0x([0-9a-f]+).*", ", ".join(instruction.operands))
    if instruction.opcode != _WAITS_BY_COUNT or found is None:
        return {}
    barrier, count = found[1], int(found[2], 16)
    remaining = {f"{kind}{barrier}": sorted(state.get(f"{kind}{barrier}", ())) for kind in "RO"}
    return {key: frozenset(setters[max(0, len(setters) - count) :]) for key, setters in remaining.items()}

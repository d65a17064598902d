"""The longest chain of dependent instructions of a warp, and what each loop adds to it in every iteration.

Only dependences count: every instruction runs as soon as its operands are there (the dataflow bound). Instructions of
fixed latency take what the compiler leaves them, by its stall counts; the others what was measured without load.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.machine_code.program import Program

MIN_FIXED_LATENCY = 4.0  # cycles, of arithmetic whose dependent instruction lies in another block


@dataclass(frozen=True)
class Chain:
    """Instructions of the longest chain in order, when each begins, and its end, in cycles."""

    instructions: tuple[int, ...]
    begins: tuple[float, ...]
    cycles: float


def latencies(program: Program, awaited: Sequence[float]) -> NDArray[np.float64]:
    """Cycles from an instruction to one that depends on it; `awaited`: of those that a barrier signals."""
    found = np.full(len(program.instructions), MIN_FIXED_LATENCY)
    for each in program.dependences.dependences:
        if each.cycles is not None and program.instructions[each.producer].write_barrier is None:
            found[each.producer] = min(found[each.producer], max(1, each.cycles)) if each.cycles else 1.0
    for index, instruction in enumerate(program.instructions):
        if instruction.write_barrier is not None:
            found[index] = awaited[index]
    return found


def longest_chain(program: Program, path: NDArray[np.int64], cycles: NDArray[np.float64]) -> Chain:
    """The longest chain of dependences along a path; `cycles`: latency of each instruction of the program."""
    producers = {
        consumer: sorted({each.producer for each in found})
        for consumer, found in program.dependences.by_consumer.items()
    }
    last: dict[int, int] = {}
    begins, before = np.zeros(path.size), np.full(path.size, -1, dtype=np.int64)
    for place, index in enumerate(path.tolist()):
        for producer in producers.get(index, ()):
            earlier = last.get(producer)
            if earlier is not None and begins[earlier] + cycles[producer] > begins[place]:
                begins[place], before[place] = begins[earlier] + cycles[producer], earlier
        last[index] = place
    if not path.size:
        return Chain((), (), 0.0)
    ends = begins + cycles[path]
    place, chain = int(ends.argmax()), list[int]()
    total = float(ends[place])
    while place >= 0:
        chain.append(place)
        place = int(before[place])
    chain.reverse()
    return Chain(tuple(int(path[p]) for p in chain), tuple(float(begins[p]) for p in chain), total)


def cycles_per_iteration(program: Program, path: NDArray[np.int64], cycles: NDArray[np.float64]) -> Mapping[int, float]:
    """Cycles that an iteration of each loop adds to the longest chain, by index of the loop: the loop-carried bound."""
    found, blocks = {}, program.flow.blocks
    for number, loop in enumerate(program.loops.loops):
        places = np.flatnonzero(path == blocks[loop.header].start)
        if places.size >= 3:
            inside = {index for block in loop.blocks for index in range(blocks[block].start, blocks[block].end)}
            first, last = int(places[1]), int(places[-1])
            whole = _chain_of(program, path[first:last], cycles, inside)
            half = _chain_of(program, path[first : int(places[places.size // 2])], cycles, inside)
            apart = places.size - 1 - places.size // 2
            found[number] = max(0.0, (whole - half) / apart) if apart else 0.0
    return found


def _chain_of(program: Program, path: NDArray[np.int64], cycles: NDArray[np.float64], inside: set[int]) -> float:
    return longest_chain(program, path[[int(index) in inside for index in path]], cycles).cycles if path.size else 0.0

"""Executions of the slow paths of divisions and roots in machine code, from counts of exceptional operands in PTX.

The call of a slow path has the line of its PTX instruction. Lines with several copies of the call are left out (none in
code for 152 kernels): no counter shows which of them runs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpudissect.explanation.counts import Count, Sums
from gpudissect.explanation.instrument import LINES_FILE, BlockCount
from gpudissect.explanation.ptx import Function
from gpudissect.explanation.slow_paths import SlowCount
from gpudissect.machine_code.program import Program


@dataclass(frozen=True)
class SlowCalls:
    """Blocks of machine code that end with the call of a slow path, with the executions that were counted."""

    program: Program
    counted: dict[int, SlowCount]

    def add(self, sums: Sums) -> "SlowCalls":
        """Add the executions by threads; the calls whose counts agree with the equations."""
        agreeing = {call: each for call, each in self.counted.items() if sums.add({call: 1.0}, float(each.threads))}
        return SlowCalls(self.program, agreeing)

    @cached_property
    def functions(self) -> tuple[int, ...]:
        """Blocks of the called functions, in the order of the control flow."""
        flow = self.program.flow
        callees = {flow.blocks[call].callee for call in self.counted}
        functions = [each for each in flow.called if each.start in callees]
        return tuple(number for number in flow.order if any(number in each for each in functions))

    @cached_property
    def counts(self) -> dict[int, SlowCount]:
        """What was counted, by block with a call and by block that only follows it."""
        found, before = dict(self.counted), self.program.flow.predecessors()
        for block in self.program.flow.order:
            if len(before[block]) == 1 and before[block][0] in found:
                found[block] = found[before[block][0]]
        return found

    def estimate(self, sums: Sums, leaving: Callable[[int], list[int]]) -> None:
        """Add to the equations that both ways of a branch in a slow path are as frequent: no counter shows them.

        `leaving` has the unknowns of the threads that leave a block.
        """
        for block in self.functions:
            ways, low = leaving(block), sums.low[block]
            if len(ways) > 1 and Count(low, low, sums.high[block]).is_exact:
                sums.add({ways[0]: 1.0}, low / len(ways))

    def warps(self, threads: Sequence[Count]) -> Iterator[tuple[int, Count]]:
        """Executions by warps of the blocks in `counts`, from those of all blocks by threads."""
        for block, count in self.counts.items():
            value = threads[block].value * count.warps / max(1, count.threads)
            yield block, Count(value, value, value)


def find_slow_calls(
    program: Program, functions: Sequence[Function], counts: Mapping[tuple[str, int], BlockCount]
) -> SlowCalls:
    """The calls of slow paths of counted PTX instructions. A function of another operation has another check."""
    sources = {f.first + index: each.name for f in functions for index, each in enumerate(f.instructions)}
    names = {each.start: each.name for each in program.kernel.functions}
    counted = {each.instruction: each for count in counts.values() for each in count.slow}
    calls = dict[int, SlowCount]()
    for number in program.slow_paths if counted else ():
        block = program.flow.blocks[number]
        last = program.instructions[block.end - 1]
        if block.callee is not None and last.file == LINES_FILE and last.line in counted and not last.predicate:
            name = names.get(program.instructions[program.flow.blocks[block.callee].start].address, "")
            if sources.get(last.line, " ") in name:
                calls[number] = counted[last.line]
    copies = Counter(calls.values())
    return SlowCalls(program, {call: each for call, each in sorted(calls.items()) if copies[each] == 1})

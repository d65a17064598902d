"""Map PTX block counts to machine-code counts.

Lines of the machine code are numbers of PTX instructions (`with_source_lines`). Threads are conserved: as many enter a
block as leave it, whatever the compiler unrolled or duplicated. Each PTX block adds an equation (`evidence`). Warps are
not conserved where they diverge; they follow from the threads per warp of the PTX block.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gpudissect.explanation.counts import Count, Sums
from gpudissect.explanation.evidence import PtxBlock, find_evidence, unrolled_loops
from gpudissect.explanation.instrument import LINES_FILE, BlockCount
from gpudissect.explanation.ptx import Function
from gpudissect.explanation.slow_calls import find_slow_calls
from gpudissect.machine_code.flow import ENDS
from gpudissect.machine_code.loops import Loop
from gpudissect.machine_code.program import Program
from gpudissect.units import WARP_SIZE

_ROUNDING = 1e-6
MAX_RATIO = 2.0  # of the threads of a block of machine code to those of the PTX block that it comes from
_Place = tuple[int, str]


@dataclass(frozen=True)
class MachineCounts:
    """Executions of the blocks of a program by threads and by warps, by index of block.

    `edges` has the threads that go from one block to another.
    `origin` is the PTX block that a block came from, None without lines.
    """

    threads: tuple[Count, ...]
    warps: tuple[Count, ...]
    edges: dict[tuple[int, int], Count] = field(repr=False)
    origin: tuple[PtxBlock | None, ...]

    def first_share(self, loop: Loop) -> float:
        """Share of the iterations of a loop that are the first after its entry; 1 if it does not run."""
        threads = self.threads[loop.header].value
        around = sum(self.edges[latch, loop.header].value for latch in loop.latches)
        return max(0.0, 1 - around / threads) if threads > 0 else 1.0


def map_counts(
    program: Program, functions: Sequence[Function], counts: Mapping[PtxBlock, BlockCount], threads: int
) -> MachineCounts:
    """The counts of machine code from those of the blocks of its PTX and the number of launched threads."""
    system = _System(program)
    sums = Sums(system.size)
    system.limit_by_loops(sums, threads)
    for terms in system.conservation():
        sums.add(terms, 0.0)
    sums.add({system.entries[0]: 1.0}, float(threads))
    found = [evidence for evidence in find_evidence(program, functions) if evidence.block in counts]
    for evidence in found:
        executions = float(counts[evidence.block].threads)
        terms = {system.unknown(place): float(factor) for place, factor in evidence.copies.items()}
        if terms:
            sums.add(terms, executions)  # no more than a bound if code of several blocks was merged
        for block in evidence.at_most:
            sums.limit(block, executions)
    system.limit_by_loops(sums, threads)
    slow = find_slow_calls(program, functions, counts).add(sums)
    sums.determine()
    origin = _origins(program, functions)
    for evidence in found:
        if evidence.branch is not None:
            taken = _taken_first(program, functions, origin, evidence.branch, evidence.block)
            _add_branch(sums, system.leaving(evidence.branch), counts[evidence.block], taken)
    loops = list(unrolled_loops(program, functions, counts, found, system.edges))
    for equation in (each for loop in loops if loop.is_exact for each in loop.sums):
        sums.add(*equation)
    sums.determine()
    bounds = sums.low.tolist(), sums.high.tolist()
    for block in program.slow_paths.difference(slow.counts, slow.functions):
        sums.limit(block, 0.0)
    slow.estimate(sums, system.leaving)
    for equation in (each for loop in loops if not loop.is_exact for each in loop.sums):
        sums.add(*equation)
    again = [system.edges[latch, loop.header] for loop in program.loops.loops for latch in loop.latches]
    solved = tuple(Count(each.value, *ends) for each, *ends in zip(sums.solve(again), *bounds, strict=True))
    block_count = len(program.flow.blocks)
    by_threads = tuple(
        solved[block] if block in system.reachable else Count(0.0, 0.0, 0.0) for block in range(block_count)
    )
    origin = tuple(  # more threads than those of a PTX block run what follows it, too
        None if each is None or (each in counts and by_threads[block].low > MAX_RATIO * counts[each].threads) else each
        for block, each in enumerate(origin)
    )
    origin = tuple(None if block in slow.functions else each for block, each in enumerate(origin))
    warps = [_warps(by_threads[block], counts.get(origin[block] or ("", 0))) for block in range(block_count)]
    for block, each in slow.warps(by_threads):
        warps[block] = each
    for block, each in list(_warps_of_functions(program, by_threads, warps, origin)):
        warps[block] = each
    edges = {key: solved[unknown] for key, unknown in system.edges.items()}
    return MachineCounts(by_threads, tuple(warps), edges, origin)


def _taken_first(
    program: Program, functions: Sequence[Function], origin: Sequence[PtxBlock | None], block: int, source: PtxBlock
) -> bool | None:
    """Whether a block's first successor corresponds to the taken branch of its PTX block; None if not known.

    Compilers invert branches. The successor is known if it leads to code of only one of the two PTX blocks that follow.
    """
    ways = program.flow.blocks[block].successors
    ptx = next(function for function in functions if function.name == source[0]).blocks
    targets = [number for number in ptx[source[1]].successors if number != source[1] + 1]
    if len(ways) != 2 or len(targets) != 1:
        return None
    known = {(source[0], targets[0]): True, (source[0], source[1] + 1): False}
    first, second = (known.get(origin[way] or source) for way in ways)
    return None if first == second else not second if first is None else first


def _add_branch(sums: Sums, leaving: list[int], count: BlockCount, taken_first: bool | None) -> None:
    """The two ways out of a conditional branch, if only one assignment agrees with the rest: compilers invert it.

    `taken_first` decides if both agree.
    """
    if len(leaving) != 2:
        return
    ways = [float(count.taken), float(count.threads - count.taken)]
    possible = [order for order in (ways, ways[::-1]) if sums.allows(dict(zip(leaving, order, strict=True)))]
    if len(possible) == 2 and taken_first is not None:
        possible = possible[:1] if taken_first else possible[1:]
    if len(possible) == 1 or ways[0] == ways[1]:
        for unknown, value in zip(leaving, possible[0] if possible else (), strict=False):
            sums.add({unknown: 1.0}, value)


class _System:
    """Unknowns: threads of each block, then of each edge, entry and exit, then of each predicate in a block."""

    def __init__(self, program: Program) -> None:
        flow = program.flow
        self.program, self.reachable = program, set(flow.order)
        numbers = iter(range(len(flow.blocks), 1 << 31))
        self.edges = {(b, s): next(numbers) for b in flow.order for s in flow.blocks[b].successors}
        self.exits = dict[int, int]()
        self.guards, self.rests = dict[_Place, int](), dict[_Place, int]()
        for number in flow.order:
            block = flow.blocks[number]
            last = flow.instructions[block.end - 1]
            if last.opcode in ENDS or block.has_unknown_successors or not block.successors:
                self.exits[number] = next(numbers)
            predicates = {i.predicate for i in flow.instructions[block.start : block.end]} - {"", "PT", "!PT"}
            for predicate in sorted(predicates):  # in an order that no hash decides
                self.guards[number, predicate], self.rests[number, predicate] = next(numbers), next(numbers)
        self.callers = defaultdict[int, list[int]](list)
        for number in flow.order:
            callee = flow.blocks[number].callee
            if callee is not None:
                self.callers[callee].append(number)
        has_unknown_targets = any(flow.blocks[number].has_unknown_successors for number in flow.order)
        called = set(flow.entries[1:]) - set(self.callers)
        self.entries = {n: next(numbers) for n in flow.order if n == 0 or n in called or has_unknown_targets}
        self.size = next(numbers)

    def unknown(self, place: _Place) -> int:
        """The unknown of the threads that execute an instruction with this predicate in a block."""
        return self.guards.get(place, place[0])

    def leaving(self, block: int) -> list[int]:
        """The unknowns of the threads that leave a block: over its edges, and out of the kernel or function."""
        edges = [self.edges[block, successor] for successor in self.program.flow.blocks[block].successors]
        return edges + ([self.exits[block]] if block in self.exits else [])

    def conservation(self) -> Iterator[dict[int, float]]:
        """Sums that are 0: of threads that enter and leave a block, and of those with and without a predicate."""
        flow = self.program.flow
        before = flow.predecessors()
        for number in self.reachable:
            entering = [self.edges[p, number] for p in before[number]] + self.callers[number]
            entering += [self.entries[number]] if number in self.entries else []
            for unknowns in (self.leaving(number), entering):
                terms = Counter(unknowns)
                terms[number] -= 1
                yield {unknown: float(factor) for unknown, factor in terms.items() if factor}
            last = flow.instructions[flow.blocks[number].end - 1]
            if last.mnemonic == "BRA.DIV":  # only for warps that diverged
                yield {self.edges[number, s]: 1.0 for s in flow.blocks[number].successors if s != number + 1}
            if last.mnemonic == "BRA.U.ANY" and (number, number) in self.edges:
                yield {self.edges[number, number]: 1.0}  # a turn for each thread that makes a bulk copy: one of a warp
        for key, guard in self.guards.items():
            yield {key[0]: -1.0, guard: 1.0, self.rests[key]: 1.0}

    def limit_by_loops(self, sums: Sums, threads: int) -> None:
        """Limit each block of the kernel to the executions of the header of its innermost loop, or to one per thread.

        Without a loop around it, a block with many branches before it has no other useful upper bound.
        """
        loops, flow = self.program.loops, self.program.flow
        if loops.has_irreducible or any(flow.blocks[number].has_unknown_successors for number in flow.order):
            return
        called = {number for function in flow.called for number in function}
        for number in self.reachable - called:
            loop = loops.innermost[number]
            sums.limit(number, float(threads if loop is None else sums.high[loops.loops[loop].header]))


def _origins(program: Program, functions: Sequence[Function]) -> tuple[PtxBlock | None, ...]:
    """The PTX block of the most instructions of each block that no predicate guards."""
    block_of = {
        function.first + index: (function.name, number)
        for function in functions
        for number, block in enumerate(function.blocks)
        for index in range(block.start, block.end)
    }
    origins = []
    for block in program.flow.blocks:
        lines = [
            (i.line, not i.predicate)
            for i in program.flow.instructions[block.start : block.end]
            if i.file == LINES_FILE and i.line in block_of
        ]
        always = [line for line, is_always in lines if is_always] or [line for line, _ in lines]
        votes = Counter(block_of[line] for line in always if line is not None)
        origins.append(max(votes, key=lambda key: votes[key]) if votes else None)
    return tuple(origins)


def _warps_of_functions(
    program: Program, threads: Sequence[Count], warps: Sequence[Count], origin: Sequence[PtxBlock | None]
) -> Iterator[tuple[int, Count]]:
    """Executions by warps of compiler-generated functions, which no PTX block counts: as diverged as their calls."""
    for function in program.flow.called:
        calls = [number for number, block in enumerate(program.flow.blocks) if block.callee == function.start]
        called = sum(threads[number].value for number in calls)
        for block in function if called else ():
            if origin[block] is None:
                value = threads[block].value * sum(warps[number].value for number in calls) / called
                yield block, Count(max(value, warps[block].low), warps[block].low, max(value, warps[block].high))


def _warps(threads: Count, origin: BlockCount | None) -> Count:
    """Executions by warps of a block, with as many threads per warp as in its PTX block."""
    low, high = float(math.ceil(threads.low / WARP_SIZE - _ROUNDING)), threads.high
    if origin is None or not origin.threads:
        return Count(threads.value / WARP_SIZE, low, high)
    value = threads.value * origin.warps / origin.threads
    if threads.is_exact and (round(threads.value) == origin.threads or origin.threads == WARP_SIZE * origin.warps):
        return Count(value, value, value)
    return Count(max(low, value), low, high)

"""Paths of warps through machine code, from how often its blocks run.

A warp executes the blocks of a function in order, those of a called function after the block of the call, and each loop
once per entry, with its number of iterations. A sampled warp executes each block as often, relative to the mean, as its
trace has the PTX block from which it was compiled. Fractional counts are spread evenly over the passes of a warp, and
over warps with the same trace: if half of the warps take each side of a branch, a warp takes one side. A warp that
diverges executes both sides, one after the other.
"""

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.mapping import MachineCounts
from gpudissect.explanation.model.phases import COPY
from gpudissect.explanation.model.rounds import Rounds
from gpudissect.machine_code.program import Program

MAX_ITERATIONS = 1 << 20
MIN_ITERATIONS = 2.0  # of a loop that is cut
VARIANTS = 4  # of warps with the same trace
MAX_SHARE = 0.99  # of the executed instructions that a path has, below which there are shorter ones
_ROUNDING = 1e-6
MAX_RATE_ERROR = 1e-3  # between code that makes bulk copies and code that it belongs to
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Path:
    """Indices of the instructions of warps in order: warps take `variants` cyclically, in `order`.

    `share`: of the instructions of these warps, those on the paths. `relative`: these instructions relative to those of
    a mean warp of the launch, of which `executed` says how often it executes each instruction of the program.
    `shorter`: variants with about half as many iterations of loops if they lack some, else none.
    """

    variants: tuple[Ints, ...]
    order: tuple[int, ...]
    share: float
    relative: float
    executed: Floats
    shorter: tuple[Ints, ...] = ()

    @property
    def instructions(self) -> Ints:
        """The longest variant."""
        return max(self.variants, key=len)

    @property
    def length(self) -> float:
        """Mean instructions of a warp."""
        return _length(self.variants, self.order)

    @property
    def counts(self) -> Floats:
        """Mean executions of each instruction of the program on the path of a warp."""
        counts = np.array([np.bincount(path, minlength=self.executed.size) for path in self.variants])
        return np.asarray(counts[list(self.order)].mean(axis=0))

    @property
    def missing_iterations(self) -> float:
        """Missing instructions, divided by the instructions that the variants have in addition to `shorter`."""
        if not self.shorter:
            return 0.0
        more = self.length - _length(self.shorter, self.order)
        return self.length * (1 / self.share - 1) / more if more > 0 else 0.0


def walk(
    program: Program,
    counts: MachineCounts,
    warps: int,
    max_length: float,
    relative: Floats | None = None,
    rounds: Sequence[Rounds] = (),
) -> Path:
    """The paths of `warps` launched warps, with fewer iterations of loops if they had over `max_length` instructions.

    If code outside loops has nearly as many, the paths are longer: a shorter one needs fewer iterations.

    `relative`: of sampled warps, how often each executes each block of the program relative to the mean, shape
    (sampled warps, blocks). `rounds`: iterations of loops of each sampled warp.
    """
    frequency = np.array([count.value / warps for count in counts.warps])
    executed = np.zeros(len(program.instructions))
    for number, block in enumerate(program.flow.blocks):
        executed[block.start : block.end] = frequency[number]
    mean = _Walker(program, counts, frequency)
    relative = np.ones((1, frequency.size)) if relative is None else relative
    rounds = rounds or [{}] * len(relative)
    keys = [
        (row.tobytes(), *((loop, groups.tobytes()) for loop, groups in sorted(each.items())))
        for row, each in zip(relative, rounds, strict=True)
    ]
    different = sorted(set(keys))
    executing = (relative > 0).mean(axis=0)
    walkers = [mean.of(relative[at], executing, rounds[at]) for at in map(keys.index, different)]
    plan, order = _plan(walkers, np.array([different.index(key) for key in keys]))

    def paths_of(length: float) -> tuple[Ints, ...]:
        kept = _limits(mean, length) / mean.iterations
        return tuple(walkers[each].path(kept, int(2 * max_length), phase) for each, phase in plan)

    max_length = max(max_length, 2 * mean.length(np.minimum(mean.iterations, MIN_ITERATIONS)))
    variants = paths_of(max_length)
    total = float(executed.sum())
    lengths = [walker.length(walker.iterations) for walker in walkers]
    whole = float(np.mean([lengths[plan[each][0]] for each in order]))
    share = _length(variants, order) / whole if whole else 1.0
    shorter = paths_of(max_length / 2) if share < MAX_SHARE else ()
    return Path(variants, order, share, whole / total if total else 1.0, executed, shorter)


def _length(variants: Sequence[Ints], order: Sequence[int]) -> float:
    return float(np.mean([variants[each].size for each in order]))


def _plan(walkers: Sequence["_Walker"], of_warp: Ints) -> tuple[list[tuple[int, float]], tuple[int, ...]]:
    """Walker and phase of each variant, and the variant of each warp. Warps of one walker have its phases in turn.

    A block often has a multiple of four warps, and a scheduler every fourth warp: the phase shifts by one each round.
    """
    size = of_warp.size * -(-(VARIANTS**2) // of_warp.size)
    plan, order = list[tuple[int, float]](), np.zeros(size, dtype=np.int64)
    of_warp = np.resize(of_warp, order.size)
    for number, walker in enumerate(walkers):
        mine = np.flatnonzero(of_warp == number)
        phases = 1 if walker.is_uniform else min(VARIANTS, mine.size)
        rank = np.arange(mine.size)
        order[mine] = len(plan) + (rank + rank // phases) % phases
        plan += [(number, (k + 0.5) / phases) for k in range(phases)]
    return plan, tuple(order.tolist())


def _limits(walker: "_Walker", max_length: float) -> Floats:
    """The maximum iterations of each loop with which the path has at most `max_length` instructions.

    Outer loops are cut first, so that the iterations that remain are whole.
    """
    iterations, depths = walker.iterations.copy(), walker.depths
    for depth in range(max(depths, default=-1) + 1):
        if walker.length(iterations) <= max_length:
            break
        at = np.array(depths) == depth
        low, high = MIN_ITERATIONS, max(MIN_ITERATIONS, float(iterations[at].max()))
        while high > 1.02 * low:
            middle = (low * high) ** 0.5
            fits = walker.length(np.where(at, np.minimum(iterations, middle), iterations)) <= max_length
            low, high = (middle, high) if fits else (low, middle)
        iterations = np.where(at, np.minimum(iterations, low), iterations)
    return iterations


class _Walker:
    """Blocks and loops of each loop, and how often a warp enters and repeats them.

    `before`: blocks that lead into each loop. `inside`, `above`: parent loop of each block and each loop; outside
    loops, ``~entry`` in a called function, None in the kernel. `calls`: mean executions per call of each called
    function, by its entry block. `rounds`: walkers of groups of iterations of loops.
    """

    def __init__(self, program: Program, counts: MachineCounts, frequency: Floats) -> None:
        self.program, self.frequency = program, frequency
        loops, flow = program.loops.loops, program.flow
        self.depths = [_depth(program, number) for number in range(len(loops))]
        self.children = defaultdict[int | None, list[tuple[str, int]]](list)
        self.calls = _calls(program, frequency)
        self.rounds: dict[int, list[_Walker]] = {}
        headers = {loop.header: number for number, loop in enumerate(loops)}
        function = [max(entry for entry in (0, *flow.entries) if entry <= n) for n in range(len(flow.blocks))]
        outside = [~entry if entry in self.calls else None for entry in function]
        self.inside = [outside[n] if loop is None else loop for n, loop in enumerate(program.loops.innermost)]
        self.above = [outside[loop.header] if loop.parent is None else loop.parent for loop in loops]
        for block in flow.order:
            if block in headers:
                self.children[self.above[headers[block]]].append(("loop", headers[block]))
            self.children[self.inside[block]].append(("block", block))
        predecessors = flow.predecessors()
        self.before = [[each for each in predecessors[loop.header] if each not in loop.blocks] for loop in loops]
        self.iterations = np.ones(len(loops))
        self.entries = np.zeros(len(loops))
        for number, loop in enumerate(loops):
            entering = sum(frequency[block] for block in self.before[number])
            entries = min(frequency[loop.header] * counts.first_share(loop), entering)  # diverged lanes enter together
            self.entries[number] = entries
            self.iterations[number] = frequency[loop.header] / entries if entries > _ROUNDING else 1.0

    def of(self, relative: Floats, executing: Floats, rounds: Rounds) -> "_Walker":
        """The walker of a warp that executes each block so often relative to this one.

        `executing`: share of the warps that execute each block. If the block before a loop has other successors, warps
        that execute the loop enter it more often than a mean warp.
        """
        found = copy(self)
        found.frequency = self.frequency * relative
        found.iterations, found.entries = self.iterations.copy(), self.entries.copy()
        blocks = self.program.flow.blocks
        for number, (loop, before) in enumerate(zip(self.program.loops.loops, self.before, strict=True)):
            around, now = (float(sum(each[block] for block in before)) for each in (self.frequency, found.frequency))
            found.entries[number] *= now / around if around > 0 else relative[loop.header]
            if relative[loop.header] > 0 and any(len(blocks[block].successors) > 1 for block in before):
                found.entries[number] = min(found.entries[number] / executing[loop.header], now)
            if found.entries[number] > _ROUNDING:
                found.iterations[number] = found.frequency[loop.header] / found.entries[number]
        everywhere = np.ones_like(executing)
        once = [number for number in rounds if abs(found.entries[number] - 1) < _ROUNDING]
        found.rounds = {number: [found.of(each, everywhere, {}) for each in rounds[number]] for number in once}
        return found

    def length(self, iterations: Floats) -> float:
        """Instructions of a path with so many iterations of each loop."""
        return self._length(None, iterations) if len(self.frequency) else 0.0

    def _length(self, parent: int | None, iterations: Floats) -> float:
        blocks, total = self.program.flow.blocks, 0.0
        for kind, number in self.children[parent]:
            if kind == "block":
                size = float(blocks[number].end - blocks[number].start)
                callee = blocks[number].callee
                if callee in self.calls:
                    size += self.calls[callee] * self._length(~callee, iterations)
                total += self._rate(parent, self.frequency[number]) * size
            else:
                passes = self._rate(parent, self.entries[number]) * iterations[number]
                total += passes * self._length(number, iterations)
        return total

    def _rate(self, parent: int | None, frequency: float) -> float:
        """Executions for each iteration of the enclosing loop, for each call of the function, or for each warp."""
        if parent is None:
            return frequency
        around = self.frequency[~parent if parent < 0 else self.program.loops.loops[parent].header]
        return frequency / around if around > 0 else 0.0

    @property
    def is_uniform(self) -> bool:
        """Whether all executions of a pass are whole numbers or those of a trace, so that all warps have one path."""
        if self.rounds:
            return True
        blocks = [self._rate(self.inside[block], self.frequency[block]) for block in self.program.flow.order]
        entries = [self._rate(loop, self.entries[number]) for number, loop in enumerate(self.above)]
        amounts = (*blocks, *entries, *self.iterations[self.entries > 0], *self.calls.values())
        return all(abs(amount - round(amount)) < _ROUNDING * max(1.0, amount) for amount in amounts)

    def _phases(self, phase: float) -> list[float]:
        """The phase of each block: that of its dominator, and the opposite on the second way of a branch."""
        flow = self.program.flow
        found = [phase] * len(flow.blocks)
        for block in flow.order:
            above = flow.dominator[block]
            if above is not None and above != block:
                ways = flow.blocks[above].successors
                second = len(ways) == 2 and block == max(ways)
                found[block] = 1 - found[above] - _ROUNDING * 10 if second else found[above]
        return found

    def _rates_of_copies(self) -> dict[int | None, list[float]]:
        """By loop, how often an iteration makes bulk copies, if not each does: the last ones have none to make."""
        found = defaultdict[int | None, list[float]](list)
        for number, block in enumerate(self.program.flow.blocks):
            if any(each.opcode == COPY for each in self.program.instructions[block.start : block.end]):
                loop = self.inside[number]
                while loop is not None and loop >= 0:
                    rate = self._rate(loop, self.frequency[number])
                    found[loop] += [rate] if rate < 1 else []
                    loop = self.above[loop]
        return found

    def path(self, kept: Floats, max_length: int, phase: float) -> Ints:
        """The path with a share `kept` of the iterations of each loop; the block that exceeds `max_length` ends it."""
        blocks, phases = self.program.flow.blocks, self._phases(phase)
        spans = [np.arange(block.start, block.end, dtype=np.int64) for block in blocks]
        owed = {(kind, number): each for number, each in enumerate(phases) for kind in ("block", "call")}
        owed |= {
            (kind, number): phases[loop.header]
            for number, loop in enumerate(self.program.loops.loops)
            for kind in ("loop", "iteration")
        }
        parts: list[Ints] = []
        length, ahead = 0, self._rates_of_copies()

        def run(walker: _Walker, parent: int | None, progress: float = 0.0) -> bool:
            nonlocal length
            for child in walker.children[parent]:
                kind, number = child
                rate = walker._rate(parent, walker.frequency[number] if kind == "block" else walker.entries[number])
                is_ahead = any(abs(rate - each) < MAX_RATE_ERROR for each in ahead[parent])
                for _ in range(int(progress < rate) if is_ahead else _take(owed, child, rate)):
                    if kind == "block":
                        parts.append(spans[number])
                        length += spans[number].size
                        if length > max_length:
                            return False
                        callee = blocks[number].callee
                        if callee in self.calls:
                            for _ in range(_take(owed, ("call", number), self.calls[callee])):
                                if not run(walker, ~callee):
                                    return False
                        continue
                    iterations = _take(owed, ("iteration", number), kept[number] * walker.iterations[number])
                    rounds = walker.rounds.get(number, [walker])
                    for each in range(iterations):
                        if not run(
                            rounds[(2 * each + 1) * len(rounds) // (2 * iterations)], number, (each + 0.5) / iterations
                        ):
                            return False
            return True

        run(self, None)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _calls(program: Program, frequency: Floats) -> dict[int, float]:
    """Mean executions per call of each leaf function, by its entry block."""
    blocks, found = program.flow.blocks, dict[int, float]()
    for function in program.flow.called:
        entry = function.start
        called = sum(frequency[number] for number, block in enumerate(blocks) if block.callee == entry)
        if called > _ROUNDING and all(blocks[number].callee is None for number in function):
            found[entry] = frequency[entry] / called
    return found


def _depth(program: Program, loop: int) -> int:
    parent = program.loops.loops[loop].parent
    return 0 if parent is None else 1 + _depth(program, parent)


def _take(owed: dict[tuple[str, int], float], key: tuple[str, int], amount: float) -> int:
    """Round accumulated fractional executions down; carry the remainder."""
    owed[key] += min(amount, MAX_ITERATIONS)
    whole = int(owed[key] + _ROUNDING)
    owed[key] -= whole
    return whole

"""Paths of warps through machine code, from how often its blocks run.

A warp walks the blocks of a function in their order and each loop as often as it is entered, as many times as it
turns. Counts that are no whole numbers are spread evenly over the passes of a warp and over several paths: of two ways
that half of the warps take each, a path has one. Where a warp diverges it executes both, one after the other.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.mapping import MachineCounts
from gpudissect.machine_code.program import Program

MAX_TURNS = 1 << 20
VARIANTS = 4
MAX_SHARE = 0.99  # of the executed instructions that a path has, below which there are shorter ones
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Path:
    """Indices of the instructions of warps in order, one or several `variants` that warps have in turn.

    `share`: of all executed instructions, those on the paths. `executed`: how often a warp executes each instruction of
    the program on average. `shorter`: variants with about half as many turns of loops if they lack some, else none.
    """

    variants: tuple[NDArray[np.int64], ...]
    share: float
    executed: NDArray[np.float64]
    shorter: tuple[NDArray[np.int64], ...] = ()

    @property
    def instructions(self) -> NDArray[np.int64]:
        """The first variant."""
        return self.variants[0]

    @property
    def length(self) -> float:
        """Mean instructions of a variant."""
        return _length(self.variants)

    @property
    def missing_turns(self) -> float:
        """Instructions that the variants lack, relative to what they have more than the shorter ones."""
        if not self.shorter:
            return 0.0
        more = self.length - _length(self.shorter)
        return self.length * (1 / self.share - 1) / more if more > 0 else 0.0


def walk(program: Program, counts: MachineCounts, warps: int, max_length: int) -> Path:
    """The path of one of `warps` launched warps, with fewer turns of loops if it had over `max_length` instructions."""
    frequency = np.array([count.value / warps for count in counts.warps])
    executed = np.zeros(len(program.instructions))
    for number, block in enumerate(program.flow.blocks):
        executed[block.start : block.end] = frequency[number]
    total, turns = float(executed.sum()), float(MAX_TURNS)
    walker = _Walker(program, counts, frequency)
    if total > max_length:
        turns = _most_turns(walker, max_length)
    phases = (0.5,) if walker.is_uniform else tuple((k + 0.5) / VARIANTS for k in range(VARIANTS))
    variants = tuple(walker.path(turns, 2 * max_length, phase) for phase in phases)
    share = _length(variants) / total if total else 1.0
    shorter: tuple[NDArray[np.int64], ...] = ()
    if share < MAX_SHARE:
        turns = _most_turns(walker, max_length / 2)
        shorter = tuple(walker.path(turns, 2 * max_length, phase) for phase in phases)
    return Path(variants, share, executed, shorter)


def _length(variants: Sequence[NDArray[np.int64]]) -> float:
    return float(np.mean([variant.size for variant in variants]))


def _most_turns(walker: "_Walker", max_length: float) -> float:
    """The limit of turns of each loop at which the path has at most `max_length` instructions, at least two."""
    low, high = 2.0, float(MAX_TURNS)
    while high > 1.02 * low:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if walker.length(middle) <= max_length else (low, middle)
    return low


class _Walker:
    """Blocks and loops of each loop (None: of a function), and how often a warp enters and turns."""

    def __init__(self, program: Program, counts: MachineCounts, frequency: NDArray[np.float64]) -> None:
        self.program, self.frequency = program, frequency
        loops, flow = program.loops.loops, program.flow
        self.children = defaultdict[int | None, list[tuple[str, int]]](list)
        headers = {loop.header: number for number, loop in enumerate(loops)}
        for block in flow.order:
            inside = program.loops.innermost[block]
            if block in headers:
                self.children[loops[headers[block]].parent].append(("loop", headers[block]))
            self.children[inside].append(("block", block))
        predecessors = flow.predecessors()
        self.turns = np.ones(len(loops))
        self.entries = np.zeros(len(loops))
        for number, loop in enumerate(loops):
            threads = counts.threads[loop.header].value
            around = sum(counts.edges[latch, loop.header].value for latch in loop.latches)
            share = max(0.0, 1 - around / threads) if threads > 0 else 0.0
            entering = sum(frequency[block] for block in predecessors[loop.header] if block not in loop.blocks)
            entries = min(frequency[loop.header] * share, entering)  # lanes that diverge enter together
            self.entries[number] = entries
            self.turns[number] = frequency[loop.header] / entries if entries > _ROUNDING else 1.0

    def length(self, turns: float) -> float:
        """Instructions of a path on which no loop turns more than `turns` times."""
        return self._length(None, turns) if len(self.frequency) else 0.0

    def _length(self, parent: int | None, turns: float) -> float:
        blocks, total = self.program.flow.blocks, 0.0
        for kind, number in self.children[parent]:
            if kind == "block":
                total += self._rate(parent, self.frequency[number]) * (blocks[number].end - blocks[number].start)
            else:
                passes = self._rate(parent, self.entries[number]) * min(turns, self.turns[number])
                total += passes * self._length(number, turns)
        return total

    def _rate(self, parent: int | None, frequency: float) -> float:
        """Executions for each turn of the loop around, or for each warp."""
        if parent is None:
            return frequency
        around = self.frequency[self.program.loops.loops[parent].header]
        return frequency / around if around > 0 else 0.0

    @property
    def is_uniform(self) -> bool:
        """Whether all executions are whole numbers, so that all warps have one path."""
        amounts = (*self.frequency, *self.turns[self.entries > 0])
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

    def path(self, turns: float, max_length: int, phase: float) -> NDArray[np.int64]:
        """The path; it ends after the block that makes it longer than `max_length`."""
        blocks, phases = self.program.flow.blocks, self._phases(phase)
        spans = [np.arange(block.start, block.end, dtype=np.int64) for block in blocks]
        owed = {("block", number): each for number, each in enumerate(phases)}
        owed |= {
            (kind, number): phases[loop.header]
            for number, loop in enumerate(self.program.loops.loops)
            for kind in ("loop", "turn")
        }
        parts: list[NDArray[np.int64]] = []
        length = 0

        def run(parent: int | None) -> bool:
            nonlocal length
            for child in self.children[parent]:
                kind, number = child
                frequency = self.frequency[number] if kind == "block" else self.entries[number]
                for _ in range(_take(owed, child, self._rate(parent, frequency))):
                    if kind == "block":
                        parts.append(spans[number])
                        length += spans[number].size
                        if length > max_length:
                            return False
                        continue
                    for _ in range(_take(owed, ("turn", number), min(turns, self.turns[number]))):
                        if not run(number):
                            return False
            return True

        run(None)
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _take(owed: dict[tuple[str, int], float], key: tuple[str, int], amount: float) -> int:
    """Whole executions of what is owed so far and now; the rest remains owed."""
    owed[key] += min(amount, MAX_TURNS)
    whole = int(owed[key] + _ROUNDING)
    owed[key] -= whole
    return whole

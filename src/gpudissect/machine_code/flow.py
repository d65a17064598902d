"""Control flow of a kernel: basic blocks, their successors, and dominators."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.kernel import INSTRUCTION_BYTES, Kernel

_BRANCHES = frozenset(("BRA", "BRX", "BRXU", "JMP", "JMX", "JMXU"))
_INDIRECT = frozenset(("BRX", "BRXU", "JMX", "JMXU"))
ENDS = frozenset(("EXIT", "RET", "KILL"))
"""Opcodes after which a thread does not go on to the next instruction, unless they are predicated."""
State = dict[str, frozenset[int]]
"""Indices of instructions by register, or by name of a barrier."""
Transfer = Callable[[int, State], State]
"""State at the end of a block from that at its start."""


@dataclass(frozen=True, slots=True)
class Block:
    """Instructions `start` to `end` (exclusive), by index, that run one after the other.

    A call ends a block; its successor is where the callee returns to, and `callee` the block that it enters (None for
    no call or an unknown callee). `has_unknown_successors`: an indirect branch whose targets the cubin does not list.
    """

    start: int
    end: int
    successors: tuple[int, ...]
    callee: int | None = None
    has_unknown_successors: bool = False


@dataclass(frozen=True)
class Flow:
    """Blocks by address, the first block of each function (the kernel first), and dominators.

    `order` has the reachable blocks, predecessors first except along back edges. `dominator` is the immediate dominator
    of each block: itself for entries, None for unreachable blocks.
    """

    instructions: tuple[Instruction, ...] = field(repr=False)
    blocks: tuple[Block, ...]
    entries: tuple[int, ...]
    order: tuple[int, ...]
    dominator: tuple[int | None, ...]

    @property
    def called(self) -> tuple[range, ...]:
        """The blocks of each function but the kernel."""
        return tuple(range(*ends) for ends in pairwise((*self.entries[1:], len(self.blocks))))

    def dominates(self, first: int, block: int | None) -> bool:
        """Whether every path from the entry to `block` goes through block `first`."""
        while block is not None and block != first:
            above = self.dominator[block]
            block = None if above == block else above
        return block == first

    def predecessors(self) -> tuple[tuple[int, ...], ...]:
        """The reachable blocks that lead to each block."""
        found: list[list[int]] = [[] for _ in self.blocks]
        for number in self.order:
            for successor in self.blocks[number].successors:
                found[successor].append(number)
        return tuple(map(tuple, found))


def control_flow(kernel: Kernel, instructions: tuple[Instruction, ...]) -> Flow:
    """Basic blocks of a kernel and of the functions in its code. Raises `MachineCodeError` for a branch outside."""
    count, functions = len(instructions), {function.name: function.start for function in kernel.functions}
    targets = [_targets(kernel, instruction) for instruction in instructions]
    for instruction, found in zip(instructions, targets, strict=True):
        if any(target % INSTRUCTION_BYTES or not 0 <= target // INSTRUCTION_BYTES < count for target in found):
            raise MachineCodeError(f"damaged cubin: {str(instruction)[:60]!a} leads outside the kernel")
    starts = {0, count} | {start // INSTRUCTION_BYTES for start in functions.values()}
    for index, found in enumerate(targets):
        starts |= {target // INSTRUCTION_BYTES for target in found}
        if instructions[index].opcode in ENDS | _BRANCHES | {"CALL"}:
            starts.add(index + 1)
    bounds = list(pairwise(sorted(starts)))
    number_of = {start * INSTRUCTION_BYTES: number for number, (start, _) in enumerate(bounds)}
    blocks = []
    for start, end in bounds:
        last, found = instructions[end - 1], targets[end - 1]
        after = [number_of[end * INSTRUCTION_BYTES]] if end < count and _continues(last) else []
        successors = dict.fromkeys(after + [number_of[target] for target in found])
        callee = functions.get(last.operands[0]) if last.opcode == "CALL" and last.operands else None
        is_unknown = last.opcode in _BRANCHES and not found
        blocks.append(Block(start, end, tuple(successors), None if callee is None else number_of[callee], is_unknown))
    entries = tuple(number_of[start] for start in sorted(functions.values()))
    order = _reverse_postorder(blocks, entries)
    return Flow(instructions, tuple(blocks), entries, order, _dominators(blocks, entries, order))


def _targets(kernel: Kernel, instruction: Instruction) -> tuple[int, ...]:
    """Addresses that an instruction may branch to: also a call of an address, which compilers for sm_80 branch with."""
    if instruction.opcode in _INDIRECT:
        return kernel.indirect_targets.get(instruction.address, ())
    if instruction.opcode not in _BRANCHES | {"CALL"} or not instruction.operands:
        return ()
    place = instruction.operands[-1]
    return (int(place, 16),) if re.fullmatch("0x[0-9a-f]+", place) else ()


def _continues(last: Instruction) -> bool:
    """Whether threads may go on to the instruction after the last of a block."""
    if last.opcode in _INDIRECT:
        return False
    is_conditional = bool(last.predicate or last.modifiers or len(last.operands) > 1)
    return is_conditional if last.opcode in _BRANCHES else last.opcode not in ENDS or bool(last.predicate)


def _reverse_postorder(blocks: Sequence[Block], entries: Sequence[int]) -> tuple[int, ...]:
    """Blocks reachable from the entries, each after its predecessors except along back edges."""
    finished: list[int] = []
    visited: set[int] = set()
    for entry in reversed(entries):
        stack = [(entry, iter(blocks[entry].successors))] if entry not in visited else []
        visited.add(entry)
        while stack:
            block, successors = stack[-1]
            following = next((s for s in successors if s not in visited), None)
            if following is None:
                finished.append(block)
                stack.pop()
            else:
                visited.add(following)
                stack.append((following, iter(blocks[following].successors)))
    return tuple(reversed(finished))


def _dominators(blocks: Sequence[Block], entries: Sequence[int], order: Sequence[int]) -> tuple[int | None, ...]:
    """Immediate dominators: Cooper, Harvey, Kennedy, "A Simple, Fast Dominance Algorithm", 2001."""
    root = len(blocks)  # a block above all entries
    rank = {root: -1} | {block: number for number, block in enumerate(order)}
    above: dict[int, int] = {root: root}
    before: dict[int, list[int]] = {block: [root] if block in entries else [] for block in order}
    for block in order:
        for successor in blocks[block].successors:
            before[successor].append(block)
    changed = True
    while changed:
        changed = False
        for block in order:
            found = -1
            for other in before[block]:
                if other in above:
                    found = other if found < 0 else _common(above, rank, other, found)
            if above.get(block) != found:
                above[block], changed = found, True
    return tuple(
        None if block not in above else block if above[block] == root else above[block] for block in range(root)
    )


def _common(above: dict[int, int], rank: dict[int, int], first: int, second: int) -> int:
    while first != second:
        while rank[first] > rank[second]:
            first = above[first]
        while rank[second] > rank[first]:
            second = above[second]
    return first


def reach(flow: Flow, transfer: Transfer) -> list[State]:
    """State at the start of each block, over all paths from the entries, around loops as well."""
    before: list[State] = [{} for _ in flow.blocks]
    pending, rank = set(flow.order), {block: number for number, block in enumerate(flow.order)}
    while pending:
        block = min(pending, key=rank.__getitem__)
        pending.remove(block)
        after = transfer(block, before[block])
        for successor in flow.blocks[block].successors:
            merged = merge((before[successor], after))
            if merged != before[successor]:
                before[successor] = merged
                pending.add(successor)
    return before


def reach_once(flow: Flow, transfer: Transfer, start: Mapping[int, State], within: Collection[int]) -> dict[int, State]:
    """State at the start of the blocks `within`, from those in `start`, along paths without back edges."""
    rank = {block: number for number, block in enumerate(flow.order)}
    before: dict[int, State] = dict(start)
    for block in flow.order:
        if block not in within:
            continue
        after = transfer(block, before.setdefault(block, {}))
        for successor in flow.blocks[block].successors:
            if successor in within and rank[successor] > rank[block]:
                before[successor] = merge((before.get(successor, {}), after))
    return before


def merge(states: Iterable[State]) -> State:
    """Union of the instructions by key."""
    merged: State = {}
    for state in states:
        for key, found in state.items():
            present = merged.get(key)
            merged[key] = found if present is None or present is found else present | found
    return merged

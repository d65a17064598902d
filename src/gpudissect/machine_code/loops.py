"""Natural loops of a kernel, their nesting, and names for them."""

from collections import Counter
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpudissect.errors import MachineCodeError, suggest
from gpudissect.machine_code.flow import Flow


@dataclass(frozen=True, slots=True)
class Loop:
    """A natural loop: a header that dominates its blocks, and the blocks (`latches`) that branch back to it.

    `name` is the line of its last branch back, such as ``kernel.cu:12`` (``kernel.cu:12#2`` for the second loop of that
    line), or the address of its header, such as ``0x1a0``. `parent` is the index of the innermost loop around it.
    """

    name: str
    header: int
    latches: tuple[int, ...]
    blocks: frozenset[int]
    parent: int | None
    depth: int


@dataclass(frozen=True)
class Loops:
    """Loops by address of their headers, outer loops first; the index of the innermost loop of each block."""

    loops: tuple[Loop, ...]
    innermost: tuple[int | None, ...]
    has_irreducible: bool
    """Whether there is a cycle that is no natural loop: more than one block leads into it."""

    def find(self, name: str) -> int:
        """Index of the loop of this name or header address. Raises `MachineCodeError` with the names."""
        names = [loop.name for loop in self.loops]
        if name in names:
            return names.index(name)
        similar = suggest(name, list(dict.fromkeys((*(each.partition("#")[0] for each in names), *names))))
        hint = f"did you mean {' or '.join(similar)}?" if similar else f"valid: {', '.join(names[:20]) or 'none'}"
        raise MachineCodeError(f"no such loop: {name[:40]!a}; {hint}")


def natural_loops(flow: Flow) -> Loops:
    """The natural loops of all functions of a kernel."""
    rank = {block: number for number, block in enumerate(flow.order)}
    latches: dict[int, list[int]] = {}
    has_irreducible = False
    for block in flow.order:
        for successor in flow.blocks[block].successors:
            if flow.dominates(successor, block):
                latches.setdefault(successor, []).append(block)
            elif rank[successor] <= rank[block]:
                has_irreducible = True
    before = flow.predecessors()
    bodies = {header: _body(header, ends, before) for header, ends in latches.items()}
    headers = sorted(bodies, key=lambda header: (header, -len(bodies[header])))
    names = _names(flow, headers, latches)
    loops: list[Loop] = []
    for header in headers:
        around = [n for n, loop in enumerate(loops) if header in loop.blocks and bodies[header] < loop.blocks]
        parent = min(around, key=lambda n: len(loops[n].blocks), default=None)
        depth = 1 if parent is None else loops[parent].depth + 1
        loops.append(Loop(names[header], header, tuple(sorted(latches[header])), bodies[header], parent, depth))
    innermost: list[int | None] = [None] * len(flow.blocks)
    for number in sorted(range(len(loops)), key=lambda n: loops[n].depth):
        for block in loops[number].blocks:
            innermost[block] = number
    return Loops(tuple(loops), tuple(innermost), has_irreducible)


def _body(header: int, latches: list[int], before: tuple[tuple[int, ...], ...]) -> frozenset[int]:
    """Blocks from which a latch is reached without going through the header, and the header."""
    body, stack = {header}, list(latches)
    while stack:
        block = stack.pop()
        if block not in body:
            body.add(block)
            stack += before[block]
    return frozenset(body)


def _names(flow: Flow, headers: list[int], latches: dict[int, list[int]]) -> dict[int, str]:
    names = {}
    for header in headers:
        branch = flow.instructions[flow.blocks[max(latches[header])].end - 1]
        address = flow.instructions[flow.blocks[header].start].address
        names[header] = f"{PurePosixPath(branch.file).name}:{branch.line}" if branch.file else f"{address:#x}"
    total, used = Counter(names.values()), Counter[str]()
    for header, name in names.items():
        used[name] += 1
        if total[name] > 1:
            names[header] = f"{name}#{used[name]}"
    return names

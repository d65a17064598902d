"""Accesses of the PTX as the assembler made machine code of them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.model.traffic import Accessed
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.program import Program

FIRST = {"FLO", "UFLO"}
"""Opcodes that find the first active lane."""


def as_assembled(program: Program, accesses: Sequence[Accessed]) -> list[Accessed]:
    """Accesses with the bytes of their machine code, and copies marked: the assembler joins neighbouring loads."""
    sizes = defaultdict[int, int](int)
    copies = {each.line for each in program.instructions if each.opcode == "LDGSTS"}
    passing = {each.line for each in program.instructions if each.opcode in ("LD", "LDG") and _passes_l1(each)}
    for instruction, use in zip(program.instructions, program.uses, strict=True):
        if use.access is not None and use.bytes is not None and instruction.line is not None:
            sizes[instruction.line] = max(sizes[instruction.line], use.bytes)
    return [
        replace(
            each,
            size=max(each.size, sizes[each.instruction]),
            is_copied=each.instruction in copies,
            passes_l1=each.kind == "load" and each.instruction in passing,
        )
        for each in accesses
    ]


def _passes_l1(load: Instruction) -> bool:
    """Whether a load must see what other SMs wrote: ``LDG.E.STRONG.GPU``, of ``__ldcg`` and volatile variables."""
    return "STRONG" in load.modifiers and not {"GPU", "SYS"}.isdisjoint(load.modifiers)


def combined_accesses(program: Program, accesses: Sequence[Accessed]) -> frozenset[int]:
    """Warp-aggregated atomics: where all lanes share one address, the assembler has one lane issue the atomic.

    Their machine code finds the active lanes (VOTEU), the first of them (FLO), and the sum of what they add.
    """
    opcodes = defaultdict[int | None, set[str]](set)
    for instruction in program.instructions:
        opcodes[instruction.line].add(instruction.opcode)
    return frozenset(
        index
        for index, access in enumerate(accesses)
        if access.kind == "atomic" and "VOTEU" in opcodes[access.instruction] and opcodes[access.instruction] & FIRST
    )


def by_instruction(program: Program, accesses: Sequence[Accessed], requests: Mapping[int, Requests]) -> dict[int, int]:
    """Index of the access of each machine instruction that has requests; its line is the number of its PTX."""
    of_line = defaultdict[int, list[int]](list)
    for index, access in enumerate(accesses):
        if index in requests:
            of_line[access.instruction].append(index)
    found = {}
    for place, (instruction, use) in enumerate(zip(program.instructions, program.uses, strict=True)):
        if use.access is None or instruction.line is None:
            continue
        is_constant = use.space == "constant"
        candidates = [i for i in of_line.get(instruction.line, []) if (accesses[i].space == "const") == is_constant]
        fitting = [i for i in candidates if use.space in ("generic", accesses[i].space)] or candidates
        if fitting:
            found[place] = fitting[0]
    return found

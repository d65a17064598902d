"""Infer the number of machine-code copies of each PTX block.

A store, a load or a multiply-add is one instruction of machine code per copy; comparisons, sums and branches are merged
where the compiler unrolls, so that in loops they count only if there is no second copy.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gpudissect.explanation.counts import Terms
from gpudissect.explanation.instrument import LINES_FILE, BlockCount
from gpudissect.explanation.ptx import Function
from gpudissect.explanation.ptx import Instruction as PtxInstruction
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.program import Program

PtxBlock = tuple[str, int]
"""Name of a PTX function and index of its block."""
_FLOAT_MULTIPLY_ADD = {"FFMA", "DFMA", "HFMA2"}
_SURE = {
    "st": {"STG", "ST", "STS", "STL"},
    "bar": {"BAR"},
    "barrier": {"BAR"},
    "mbarrier": {"SYNCS"},
    "cp": {"UBLKCP", "LDGSTS"},
}
_POLLS = frozenset(("try_wait", "test_wait"))  # of a barrier in memory
_LIKELY = {
    "ld": {"LDG", "LD", "LDS", "LDL"},
    "shfl": {"SHFL"},
    "fma": _FLOAT_MULTIPLY_ADD,
    "mad": {"IMAD"} | _FLOAT_MULTIPLY_ADD,
    "mul": {"FMUL", "DMUL", "HMUL2", "IMAD"},
    "add": {"FADD", "DADD", "HADD2"},
    "sub": {"FADD", "DADD", "HADD2"},
    "mma": {"HMMA", "IMMA", "DMMA", "QMMA", "BMMA"},
    "popc": {"POPC"},
    "atom": {"ATOMG", "ATOM", "ATOMS", "REDG", "RED"},
    "red": {"REDG", "RED", "ATOMG", "ATOM", "ATOMS"},
    "div": {"CALL"},  # of 64-bit integers
    "rem": {"CALL"},
}
_LIKELY |= {name: {"MUFU"} for name in ("ex2", "lg2", "sin", "cos", "rsqrt")}
_LONG_PRODUCTS = {name: {"IMAD"} for name in ("mul", "mad", "add", "sub")}
"""Of 64-bit integers, a sum if it was fused with a product: one ``IMAD.WIDE.U32``, for the low words."""
_ADD, _LOGIC = {"IADD3", "UIADD3", "IADD", "VIADD"}, {"LOP3", "ULOP3"}
_POSSIBLE = {
    "setp": {"ISETP", "UISETP", "FSETP", "DSETP", "HSETP2"},
    "add": _ADD,
    "sub": _ADD,
    "selp": {"SEL", "USEL", "FSEL"},
}
_POSSIBLE |= {name: _LOGIC for name in ("and", "or", "xor", "not")}
_BRANCHES = {"bra": {"BRA", "EXIT"}, "brx": {"BRX"}}
_BY_TRUST = (_SURE, _LIKELY, _LONG_PRODUCTS, _POSSIBLE, _BRANCHES)
_CONTROL = frozenset(("bra", "brx", "ret", "exit"))
_LONG = frozenset(("b64", "u64", "s64"))
_DIVISIONS = frozenset(("div", "rem"))
_ATOMICS = frozenset(("atom", "red"))
_OF_ANY_LENGTH = _ATOMICS | {"ld", "st", "mbarrier"}
_ZERO = frozenset(("RZ", "-RZ", "URZ"))
_Places = tuple[tuple[tuple[int, str], int], ...]
_Copy = tuple[int, Instruction]
_Lines = Sequence[tuple[PtxInstruction, Sequence[_Copy]]]
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Evidence:
    """Evidence of a PTX block on machine code; `trust`: rank, 0 is the most reliable.

    The copies of the block by block of machine code and predicate: their executions sum up to those of the PTX block.
    `at_most` are blocks of machine code that run at most as often as the PTX block. `branch` is the block of machine
    code that ends with the only copy of its conditional branch.
    """

    block: PtxBlock
    trust: int
    copies: dict[tuple[int, str], int]
    at_most: tuple[int, ...]
    branch: int | None


def find_evidence(program: Program, functions: Sequence[Function]) -> list[Evidence]:
    """Evidence of PTX blocks from the lines of machine code, most reliable first."""
    instances = defaultdict[int, list[_Copy]](list)
    for number in program.flow.order:
        block = program.flow.blocks[number]
        for instruction in program.flow.instructions[block.start : block.end]:
            if instruction.file == LINES_FILE and instruction.line is not None and instruction.predicate != "!PT":
                instances[instruction.line].append((number, instruction))
    return sorted(
        (evidence for function in functions for evidence in _of_function(function, instances)),
        key=lambda evidence: evidence.trust,
    )


def _of_function(function: Function, instances: Mapping[int, list[_Copy]]) -> Iterator[Evidence]:
    in_loop = _blocks_in_loops(function)
    for index, block in enumerate(function.blocks):
        lines = [
            (function.instructions[number], instances[function.first + number])
            for number in range(block.start, block.end)
            if function.first + number in instances
        ]
        trust, places = _copies(lines)
        if index not in in_loop:  # what stands there twice was computed again
            places = tuple((place, 1) for place, _ in places)
        has_one_place = len({number for _, copies in lines for number, _ in copies}) == 1
        is_sure = trust < _BY_TRUST.index(_POSSIBLE) or index not in in_loop or has_one_place
        branches = _branches(function.instructions[block.end - 1], lines)
        yield Evidence(
            block=(function.name, index),
            trust=trust,
            copies=dict(places) if is_sure else {},
            at_most=tuple(dict.fromkeys(branches)) if not (places and is_sure) else (),
            branch=branches[0] if len(branches) == 1 and (is_sure or has_one_place) else None,
        )


def _branches(last: PtxInstruction, lines: _Lines) -> tuple[int, ...]:
    """Blocks of machine code that end with the conditional branch of a PTX block.

    From sm_100 on a uniform branch, ``BRA.U``, has the line of the instruction before it.
    """
    if not last.guard:
        return ()
    found = [n for source, copies in lines if source is last for n, copy in copies if copy.opcode in _BRANCHES["bra"]]
    if not found:
        found = [n for _, copies in lines for n, copy in copies if copy.mnemonic == "BRA.U"]
    return tuple(found)


def _copies(lines: _Lines) -> tuple[int, _Places]:
    """Where the copies of a PTX block are, and the index of the table that shows it; the last one for none of them.

    Among instructions of one table the one with the most copies counts: others may have been hoisted or merged.
    """
    for trust, table in enumerate(_BY_TRUST):
        votes = Counter(places for source, copies in lines if (places := _places(source, copies, table)))
        if votes:
            return trust, max(votes, key=lambda places: (sum(count for _, count in places), votes[places]))
    blocks = {
        (number, copy.predicate) for source, copies in lines if source.name not in _CONTROL for number, copy in copies
    }
    return len(_BY_TRUST), ((blocks.pop(), 1),) if len(blocks) == 1 else ()


def _blocks_in_loops(function: Function) -> set[int]:
    """Blocks between the target of a backward branch and the branch, in the order of the text."""
    last: dict[int, int] = {}
    for number, block in enumerate(function.blocks):
        last |= {successor: number for successor in block.successors if successor <= number}
    found, end = set(), -1
    for number in range(len(function.blocks)):
        end = max(end, last.get(number, -1))
        if number <= end:
            found.add(number)
    return found


def _is_constant(operands: Sequence[str]) -> bool:
    return bool(operands) and operands[-1].lstrip("-").isdecimal()


def _places(source: PtxInstruction, copies: Sequence[_Copy], table: Mapping[str, set[str]]) -> _Places:
    """Where a PTX instruction has its main instruction of machine code, and how often; empty if that is not sure.

    64-bit integers need several instructions, their divisions a call; sums with a constant are merged with other sums.
    """
    is_long, is_division = bool(_LONG & set(source.modifiers)), source.name in _DIVISIONS
    is_product = table is _LONG_PRODUCTS
    is_other_length = is_long != (is_division or is_product) and source.name not in _OF_ANY_LENGTH
    is_merged = table is _POSSIBLE and source.name in ("add", "sub") and _is_constant(source.operands)
    is_branch = table is _BRANCHES
    if is_other_length or is_merged or _POLLS & set(source.modifiers) or bool(source.guard) != is_branch:
        return ()
    groups = defaultdict[str, Counter[tuple[int, str]]](Counter)
    is_atomic = source.name in _ATOMICS
    main = [each for each in copies if each[1].opcode in table.get(source.name, ())]
    if is_product:
        main = [each for each in main if each[1].mnemonic == "IMAD.WIDE.U32"]
    if is_atomic:  # one for generic addresses stands beside loops for shared memory
        main = [each for each in main if "CAST" not in each[1].modifiers] or main
    for block, copy in main:
        if is_branch or is_atomic or not _ZERO & set(copy.operands[1:2]):
            kind = copy.mnemonic if table is _POSSIBLE else ""  # another one is of what was merged with this
            groups[kind][block, "" if is_branch else copy.predicate] += 1
    return tuple(sorted(max(groups.values(), key=Counter.total, default=Counter()).items()))


class UnrolledLoop(NamedTuple):
    """Sums of executions of a loop that the assembler unrolled; `is_exact`: all threads make as many iterations."""

    sums: tuple[tuple[Terms, float], ...]
    is_exact: bool


def unrolled_loops(
    program: Program,
    functions: Sequence[Function],
    counts: Mapping[PtxBlock, BlockCount],
    found: Sequence[Evidence],
    edges: Mapping[tuple[int, int], int],
) -> Iterator[UnrolledLoop]:
    """How often the copies of a loop of one PTX block run, and how often their loops are entered.

    The assembler writes such a loop as loops and blocks with several copies of its body each. Threads run the one with
    the most copies while enough iterations remain, then the next (seen in code of CUDA 12 and 13 for sm_75 to sm_120).
    If their numbers of iterations differ, they are taken to be the two whole numbers next to the mean. `edges` has the
    unknowns of the edges of the program.
    """
    by_name = {function.name: function for function in functions}
    loops = {loop.header for loop in program.loops.loops if len(loop.blocks) == 1}
    for evidence in found:
        name, index = evidence.block
        count = counts[evidence.block]
        copies = sorted((-factor, block) for (block, predicate), factor in evidence.copies.items() if not predicate)
        entries = count.threads - count.taken
        if len(copies) < 2 or index not in by_name[name].blocks[index].successors or not entries:
            continue
        mean = count.threads / entries
        is_exact = abs(mean - round(mean)) <= _ROUNDING * mean
        whole = round(mean) if is_exact else math.floor(mean)
        threads = {whole: entries * (whole + 1 - mean), whole + 1: entries * (mean - whole)}
        executed, entered = defaultdict[int, float](float), defaultdict[int, float](float)
        for iterations, share in {whole: float(entries)}.items() if is_exact else threads.items():
            rest = iterations
            for negative, block in copies:
                times = rest // -negative if block in loops else min(1, rest // -negative)
                rest += times * negative
                executed[block] += share * times
                entered[block] += share * (times > 0)
        sums = [({block: 1.0}, executed[block]) for _, block in copies]
        for block in loops & {block for block in executed if executed[block]}:
            entering = {unknown: 1.0 for (first, second), unknown in edges.items() if second == block != first}
            sums.append((entering, entered[block]))
        yield UnrolledLoop(tuple(sums), is_exact)

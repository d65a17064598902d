"""What each instruction costs on a measured GPU, and whether that was measured or taken from a similar instruction."""

import math
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpudissect.errors import UsageError
from gpudissect.explanation.model.asynchronous import MATRIX_OPCODES
from gpudissect.explanation.model.card import Card
from gpudissect.machine_code.instructions import Instruction
from gpudissect.machine_code.units import Use
from gpudissect.units import WARP_SIZE

_TABLE = Path(__file__).with_name("costs.toml")
REFUSED = frozenset(("BGMMA", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKRED"))
"""Copies, and binary matrices of warpgroups: neither measured nor like a measured one."""
LDC_INTERVAL = 0.7  # cycles of an SM for a load of a constant: not measured, from a binomial tree on an H200
OF_BLOCK = "SR_CTAID", "SR_CgaCtaId"  # special registers read by the ADU (hardware counter, H100)
WARPGROUP_SPEEDUP = 1.5  # rate of matrix instructions of warpgroups relative to ``mma.sync``: H200, all types
WARPGROUP_LATENCY, LATENCY_PER_COLUMN = 53.6, 0.545  # cycles from its start to its end: H200, within 5 cycles
FROM_REGISTERS = 8.0  # cycles fewer if the first factor is in registers: H200
OPERAND_BYTES, SHARED_BYTES = 32, 128  # of each row of a factor; that shared memory reads in a cycle
REGISTERS_INTERVAL = 13.0  # cycles at least from one with a factor in registers to the next: H200
FENCES = {"GPU": 2.6, "SYS": 4.9}
"""Times the hit latency of the L2 that a fence of this scope stalls a warp: 725 and 1,361 cycles on an H100, with or
without coalesced stores in flight. Fences of a block (CTA) are fast."""
SHARED_PIPES = ("lsu", "adu", "tensor")
"""Pipes of the SM; the others belong to a scheduler."""
_SHAPE = re.compile(r"(8|16)x?(8)x?(4|8|16|32|64|128|256)")
"""Rows, columns and depth of a matrix instruction of a warp, such as ``16816`` and ``8x8x4``."""
PIPES = ("fma", "imad", "alu", "fp64", "xu", "uniform", "cbu", "issue")


_Entry = tuple[str, str, bool, float]
"""Element, pipe, whether it is that very instruction, factor."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one instruction of a warp.

    `interval`: cycles until its pipe accepts the next one; without conflicts, of 4-byte operands. `latency`: cycles
    until a dependent instruction may issue; None for fixed-latency instructions. `element`: the measured
    instruction, `is_measured` False if it stands for another one. `assumption` says where other numbers come from.
    """

    pipe: str
    interval: float
    latency: float | None
    element: str | None
    is_measured: bool
    assumption: str = ""
    operands: float = 0.0  # cycles of shared memory that read the operands of a matrix instruction


def cost_of(instruction: Instruction, use: Use, card: Card, values: float | None = None) -> Cost:
    """The cost of an instruction on a GPU. Raises `UsageError` for one of `REFUSED`, and sparse ones of warpgroups.

    `values`: mean number of different values that the lanes of a ``MATCH`` compare, if it is known.
    """
    if instruction.opcode in REFUSED or instruction.mnemonic.startswith("UBLKCP.G"):
        raise UsageError(
            f"{instruction.mnemonic}: tensor copies, other bulk copies than to shared memory, and binary matrix "
            "instructions of warpgroups are not supported"
        )
    if instruction.opcode in MATRIX_OPCODES:
        return _warpgroup_matrix(instruction, card)
    if use.unit in ("issue", "tma") or instruction.opcode == "WARPGROUP" or instruction.predicate in ("!PT", "!UPT"):
        return Cost("issue", 1.0, None, None, False, "an issue slot only")
    if use.unit == "tensor":
        return _matrix(instruction, card)
    if instruction.opcode in ("S2R", "S2UR") and "".join(instruction.operands[-1:]).startswith(OF_BLOCK):
        return Cost("adu", LDC_INTERVAL, card.values.get(("lds", "latency")), None, False, f"{LDC_INTERVAL:g} cycles")
    for element, pipe, is_measured, factor in _entries_of(instruction):
        rate = card.values.get((element, "rate"))
        if rate is not None:
            lanes = rate if pipe in SHARED_PIPES else rate / card.schedulers
            latency = card.values.get((element, "latency"))
            factor = values if element == "match" and values is not None else factor
            return Cost(pipe, factor * WARP_SIZE / lanes, latency, element, is_measured)
    return _other(use, card)


def fence_stall(instruction: Instruction, card: Card) -> int:
    """Cycles until a warp goes on after a memory fence; 0 for other instructions."""
    if instruction.opcode != "MEMBAR":
        return 0
    factor = next((FENCES[scope] for scope in instruction.modifiers if scope in FENCES), 0.0)
    return round(factor * card.values.get(("l2", "hit_latency"), 0.0))


def _matrix(instruction: Instruction, card: Card) -> Cost:
    """A matrix instruction by the type of its factors, from the rate of the measured shape in multiply-adds."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    name = {"DMMA": "mma_f64", "IMMA": "mma_s8"}.get(opcode) or (
        "mma_tf32" if "TF32" in modifiers else "mma_bf16" if "BF16" in modifiers else "mma_f16"
    )
    shape = next((found for found in map(_SHAPE.fullmatch, modifiers) if found is not None), None)
    rate, latency = card.values.get((name, "rate")), card.values.get((name, "latency"))
    if shape is None or rate is None:
        return Cost("tensor", 1.0, latency, None, False, "1 cycle per instruction")
    return Cost("tensor", math.prod(map(int, shape.groups())) / rate, latency, name, True)


def _warpgroup_matrix(instruction: Instruction, card: Card) -> Cost:
    """One warp's cost of a warpgroup matrix instruction (a quarter): microbenchmarks on an H200 (ADR 23)."""
    modifiers = instruction.modifiers
    shape = re.fullmatch(r"(64)x(\d+)x(\d+)", next((text for text in modifiers if "x" in text), ""))
    if shape is None or "SP" in modifiers:
        raise UsageError(f"{instruction.mnemonic}: this shape of a warpgroup's matrix instruction is not supported")
    rows, columns, depth = (int(text) for text in shape.groups())
    name = "mma_tf32" if "TF32" in modifiers else "mma_bf16" if "BF16" in modifiers else "mma_f16"
    name = name if instruction.opcode == "HGMMA" else "mma_s8"
    if (name, "rate") not in card.values:
        raise UsageError(f"no {name}.rate in the result of {card.name}: measure with 'gpudissect discover'")
    from_registers = bool(instruction.operands[1:]) and not instruction.operands[1].startswith("gdesc")
    interval = rows * columns * depth / (WARPGROUP_SPEEDUP * card.values[name, "rate"])
    tiles = columns if from_registers else rows + columns
    operands = max(OPERAND_BYTES * tiles / SHARED_BYTES, REGISTERS_INTERVAL if from_registers else 0.0)
    latency = WARPGROUP_LATENCY + LATENCY_PER_COLUMN * columns - (FROM_REGISTERS if from_registers else 0.0)
    source = f"{WARPGROUP_SPEEDUP:g} times the rate of {name}; latency: microbenchmarks on an H200"
    return Cost("tensor", interval / 4, latency, None, False, source, operands / 4)


def _other(use: Use, card: Card) -> Cost:
    """The cost of an instruction without a measured one like it."""
    constant = card.values.get(("constant_l1", "hit_latency"), 0.0) or None
    if use.space == "constant":
        pipe, interval = ("adu", LDC_INTERVAL) if use.unit == "adu" else ("uniform", 2.0)
        return Cost(pipe, interval, constant, "constant_l1", False, f"{interval:g} cycles")
    pipe = use.unit if use.unit in (*PIPES, *SHARED_PIPES) else "issue"
    interval = 2.0 if pipe in ("uniform", "cbu", "alu") else 1.0
    return Cost(pipe, interval, card.values.get(("lds", "latency")), None, False, f"{interval:g} cycles")


def _entries_of(instruction: Instruction) -> Iterator[_Entry]:
    """Entries of the table for an instruction: the most specific name first, measured before like."""
    table = _entries()
    names = [f"{instruction.opcode}.{modifier}" for modifier in instruction.modifiers]
    for name in (instruction.mnemonic, *names[::-1], instruction.opcode):
        yield from table.get(name, ())


@cache
def _entries() -> dict[str, tuple[_Entry, ...]]:
    found: dict[str, tuple[_Entry, ...]] = {}
    table = tomllib.loads(_TABLE.read_text(encoding="utf-8"))
    both = [(element, row) for element, each in table.items() for row in (each, *each.values())]
    rows = [(element, row) for element, row in both if isinstance(row, dict)]
    for kind in ("measured", "like"):
        for element, row in rows:
            entry = (element, row["pipe"], kind == "measured", float(row.get("factor", 1)))
            for name in row.get(kind, "").split():
                found[name] = (*found.get(name, ()), entry)
    return found

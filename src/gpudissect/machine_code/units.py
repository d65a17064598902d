"""What an instruction uses: its execution unit, and the memory that it accesses.

The table ``units.toml`` names its sources. It has no rates: those are measured.
"""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpudissect.machine_code.instructions import Instruction

UNKNOWN = "unknown"
_TABLE = Path(__file__).with_name("units.toml")
_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "16": 2, "64": 8, "F64": 8, "96": 12, "128": 16, "256": 32}
_LOADS = {"LDG": "global", "LD": "generic", "LDS": "shared", "LDSM": "shared", "LDL": "local", "LDC": "constant"}
_LOADS |= {"ULDC": "constant", "LDCU": "constant", "SULD": "surface", "LDTM": "tensor"}
_LOADS |= dict.fromkeys(("TEX", "TLD", "TLD4", "TXD"), "texture")
_STORES = {"STG": "global", "ST": "generic", "STS": "shared", "STSM": "shared", "STL": "local", "SUST": "surface"}
_STORES |= {"STAS": "cluster", "STTM": "tensor"}
_ATOMICS = {"ATOMG": "global", "ATOM": "generic", "ATOMS": "shared", "SUATOM": "surface"}
_REDUCTIONS = {"RED": "global", "REDG": "global", "REDAS": "cluster", "SURED": "surface"}
_COPIES = dict.fromkeys(("LDGSTS", "UBLKCP", "UBLKRED", "UTMALDG", "UTMASTG", "UTMAREDG"), "global")
_ACCESSES = {
    opcode: (access, space)
    for access, spaces in (
        ("load", _LOADS),
        ("store", _STORES),
        ("atomic", _ATOMICS),
        ("reduction", _REDUCTIONS),
        ("copy", _COPIES),
    )
    for opcode, space in spaces.items()
}
_NEVER = ("!PT", "!UPT")
"""Predicates of instructions that never run; compilers insert them to wait."""
_IN_ORDER_UNITS = frozenset(("xu", "tex", "fp64"))
_IN_ORDER_OF_LSU = frozenset(("LDS", "LDSM", "SHFL"))


@dataclass(frozen=True, slots=True)
class Use:
    """What an instruction uses beside its issue slot.

    `unit` is a key of ``units.toml`` or ``unknown``. `space`, `access` (load, store, atomic, reduction, copy) describe
    its memory access, with `bytes` per thread (None where the opcode does not state them).
    """

    unit: str
    space: str | None
    access: str | None
    bytes: int | None


def use(instruction: Instruction, capability: int) -> Use:
    """What an instruction uses on a GPU of this compute capability (10 * major + minor)."""
    opcode = instruction.opcode
    if instruction.predicate in _NEVER:
        return Use("issue", None, None, None)
    access, space = _ACCESSES.get(opcode, (None, None))
    return Use(_units(capability).get(opcode, UNKNOWN), space, access, _bytes(instruction) if access else None)


def queue(instruction: Instruction, capability: int) -> str | None:
    """Name of the unit or opcode whose results, if of variable latency, return in order; None if they do not.

    Compiled code shows it: the barrier of a later instruction covers those without one.
    """
    if instruction.predicate in _NEVER:
        return None
    if instruction.opcode in _IN_ORDER_OF_LSU:
        return "lsu"
    unit = _units(capability).get(instruction.opcode)
    if unit == "tensor":
        return instruction.opcode  # HMMA has fixed latency where DMMA has not
    return unit if unit in _IN_ORDER_UNITS else None


def _bytes(instruction: Instruction) -> int | None:
    """Bytes that one thread moves; None for bulk copies and textures."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("LDSM", "STSM"):
        return 4 * int(modifiers[-1]) if modifiers and modifiers[-1] in ("2", "4") else 4
    if opcode in ("LDTM", "STTM"):
        return next((4 * int(text[1:]) for text in modifiers if re.fullmatch(r"x\d+", text)), 4)
    if opcode.startswith(("T", "U")) and opcode != "ULDC":
        return None
    return max((_BYTES[text] for text in modifiers if text in _BYTES), default=4)


@cache
def _units(capability: int) -> dict[str, str]:
    """Unit of each opcode."""
    found: dict[str, str] = {}
    for name, row in tomllib.loads(_TABLE.read_text(encoding="utf-8")).items():
        unit = row["after"] if capability >= row.get("before", capability + 1) else name
        for kind in ("documented", "inferred"):
            found |= dict.fromkeys(row.get(kind, "").split(), unit)
    return found

"""Registers that an instruction reads and writes, from its opcode, modifiers and operands.

Registers are named as nvdisasm names them: ``R4``, ``P0``, uniform ``UR6`` and ``UP1``; a wide value is each of its
registers. Constants (RZ, PT, URZ, UPT) are none. The rules agree with the live ranges that ``nvdisasm -plr`` prints
(tests), except that textures read at most what is given here.
"""

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from gpudissect.machine_code.instructions import Instruction

_REGISTER = re.compile(r"(?<![A-Za-z0-9_])(U?)([RP])(\d+)(\.64)?")
_PREDICATE = re.compile(r"U?P(?:\d+|T)")
_PLACE = re.compile(r"U?R(?:\d+|Z)")
_ADDRESS = re.compile(r"(\w*)\[([^\]]*)\]")
_BITS = {"64": 64, "96": 96, "128": 128, "256": 256, "F64": 64, "S64": 64, "U64": 64, "TRANS64": 64, "F32x2": 64}
_WIDE_TYPES = frozenset(("F64", "S64", "U64"))
_TABLE = tomllib.loads(Path(__file__).with_name("operands.toml").read_text(encoding="utf-8"))
_OPCODES = {name: frozenset(text.split()) for name, text in _TABLE.items()}
_ALL_PREDICATES = frozenset(f"P{number}" for number in range(7))


_SHAPE = re.compile(r"(?:(\d+)x(\d+)x(\d+)|(8|16)(8)(\d+))$")
_INPUT_BITS = {"BF16": 16, "TF32": 32, "S8": 8, "U8": 8, "S4": 4, "U4": 4, "B1": 1}
_DEFAULT_INPUT_BITS = {"H": 16, "I": 8, "B": 1, "D": 64, "Q": 8, "O": 4}
_TENSOR_FIELDS = {"UTMALDG": 2, "UTMASTG": 1, "UTMAREDG": 1}  # addresses in shared memory before the coordinates
_DIMENSIONS = {"1D": 1, "2D": 2, "3D": 3, "4D": 4, "5D": 5, "CUBE": 3}


def reads(instruction: Instruction) -> frozenset[str]:
    """Registers read, those of predicate and addresses included."""
    return _read(instruction.mnemonic, instruction.predicate, instruction.operands) | _hidden_descriptor(instruction)


def writes(instruction: Instruction) -> frozenset[str]:
    """Registers written. Threads whose predicate is false keep their values."""
    return _written(instruction.mnemonic, instruction.operands)


def destination_count(opcode: str, operands: tuple[str, ...]) -> int:
    """Number of leading operands that are written."""
    if not operands or opcode in _OPCODES["no_destination"] or "[" in operands[0]:
        return 0
    has_two = opcode in _OPCODES["predicate_pair"] | _OPCODES["texture"]
    if has_two or (opcode.startswith("LD") and _is_place(operands, 1)):
        return 2
    if _PREDICATE.fullmatch(operands[0]):
        first = next((n for n, operand in enumerate(operands) if not _PREDICATE.fullmatch(operand)), 0)
        return first + 1 if opcode in _OPCODES["predicate_first"] and _is_place(operands, first) else 1
    limit = 2 if opcode in _OPCODES["one_predicate"] else 3
    return next((n for n in range(1, limit) if n == len(operands) or not _PREDICATE.fullmatch(operands[n])), limit)


@lru_cache(1 << 14)
def _read(mnemonic: str, predicate: str, operands: tuple[str, ...]) -> frozenset[str]:
    opcode, *modifiers = mnemonic.split(".")
    first, found = destination_count(opcode, operands), set(_registers(predicate, 1))
    for number, operand in enumerate(operands):
        place = number - first
        if "[" in operand:
            found.update(_of_address(opcode, modifiers, number, operand))
        elif place >= 0:
            found.update(_registers(operand, _source_width(opcode, modifiers, place, operands)))
            if operand == "PR":
                found |= _ALL_PREDICATES
    return frozenset(found)


@lru_cache(1 << 14)
def _written(mnemonic: str, operands: tuple[str, ...]) -> frozenset[str]:
    opcode, *modifiers = mnemonic.split(".")
    count, found = destination_count(opcode, operands), set[str]()
    if opcode == "R2P":
        mask = int(operands[2], 16) if len(operands) > 2 and re.fullmatch("0x[0-9a-f]+", operands[2]) else 0x7F
        return frozenset(f"P{number}" for number in range(7) if mask >> number & 1)
    for number, operand in enumerate(operands[:count]):
        width = _destination_width(opcode, modifiers)
        if opcode in _OPCODES["texture"]:
            components = _texture_components(operands)
            width = min(components, 2) if number else max(components - 2, 0)
        found.update(_registers(operand, width))
    return frozenset(found)


def _destination_width(opcode: str, modifiers: list[str]) -> int:
    if opcode in _OPCODES["conversion"]:
        types = [text for text in modifiers if re.fullmatch(r"[FSU](?:8|16|32|64)", text)]
        kind = "F64" if opcode.endswith("RND") and "F64" in modifiers else (types or [""])[0]
        written = {"F2I": ("S64", "U64"), "I2F": ("F64",)}.get(opcode.removeprefix("U"), tuple(_WIDE_TYPES))
        return 2 if kind in written else 1
    if opcode in _OPCODES["matrix"]:
        return _fragments(opcode, modifiers)[0]
    if opcode in _OPCODES["warpgroup_matrix"]:
        return _warpgroup_fragments(opcode, modifiers)[0]
    wide_by_modifier = {"CS2R": "32" not in modifiers, "MOVM": "M832" in modifiers, "LEPC": True}
    is_wide = wide_by_modifier.get(opcode, opcode in ("IMAD", "UIMAD") and "WIDE" in modifiers)
    if is_wide or opcode in _OPCODES["double"]:
        return 2
    if opcode in _OPCODES["memory"]:
        return _data_width(modifiers)
    return _vector_width(opcode, modifiers)


def _source_width(opcode: str, modifiers: list[str], place: int, operands: tuple[str, ...]) -> int:
    if opcode in _OPCODES["matrix"]:
        return (*_fragments(opcode, modifiers)[1:], 1, 1)[min(place, 3)]
    if opcode in _OPCODES["warpgroup_matrix"]:
        result, left = _warpgroup_fragments(opcode, modifiers)
        return left if place == 0 else result
    if opcode in _OPCODES["conversion"]:
        types = [text for text in modifiers if re.fullmatch(r"[FSU](?:8|16|32|64)", text)]
        read = {"F2I": ("F64",), "I2F": ("S64", "U64")}.get(opcode.removeprefix("U"), tuple(_WIDE_TYPES))
        kinds = types[-1:] if opcode.endswith(("F2F", "RND")) else types
        return 2 if any(kind in read for kind in kinds) else 1
    if opcode in _OPCODES["double"] or opcode in _OPCODES["jump_by_register"]:
        return 2
    if opcode in ("IMAD", "UIMAD"):
        return 2 if place == 2 and ("WIDE" in modifiers or "HI" in modifiers) else 1
    if opcode in ("ISETP", "UISETP", "MATCH"):
        return 2 if _WIDE_TYPES & set(modifiers) else 1
    if opcode in _OPCODES["texture"]:
        return 2 if operands[place + 2].startswith("UR") else _texture_width(opcode, modifiers, place, operands)
    if opcode == "SUST" and operands[place].startswith("UR"):
        return 1
    if opcode in _OPCODES["memory"]:
        return _data_width([text for text in modifiers if text != "TRANS64"])
    return _vector_width(opcode, modifiers)


def _data_width(modifiers: list[str]) -> int:
    """Registers of the data of an access: 256 bits are two operands of 128."""
    return min(max((_BITS.get(text, 32) for text in modifiers), default=32), 128) // 32


def _vector_width(opcode: str, modifiers: list[str]) -> int:
    """Registers of ``LDSM.16.M88.4``, ``LDTM.x4`` and of 64-bit integer instructions, 1 for all others."""
    last = modifiers[-1] if modifiers else ""
    if opcode in ("LDSM", "STSM"):
        return int(last) if last in ("2", "4") else 1
    if opcode in ("LDTM", "STTM"):
        return next((int(text[1:]) for text in modifiers if re.fullmatch(r"x\d+", text)), 1)
    return 2 if "64" in modifiers or (opcode.endswith("MNMX") and _WIDE_TYPES & set(modifiers)) else 1


def _fragments(opcode: str, modifiers: list[str]) -> tuple[int, int, int, int]:
    """Registers of D, A, B and C of a warp's matrix instruction: bits of the matrix over 32 threads of 32 bits."""
    shape = next(filter(None, map(_SHAPE.match, modifiers)), None)
    if shape is None:
        return 4, 4, 4, 4
    m, n, k = (int(text) for text in shape.groups() if text)
    types = [_INPUT_BITS[text] for text in modifiers if text in _INPUT_BITS]
    bits = types[0] if types else _DEFAULT_INPUT_BITS[opcode[0]]
    result = 64 if opcode[0] == "D" else 16 if opcode[0] in "HQO" and "F32" not in modifiers else 32
    counts = m * n * result, m * k * bits // (2 if "SP" in modifiers else 1), k * n * bits, m * n * result
    d, a, b, c = (max(1, count // 1024) for count in counts)
    return d, a, b, c


def _warpgroup_fragments(opcode: str, modifiers: list[str]) -> tuple[int, int]:
    """Registers of D, and of A if it is in registers, of a matrix instruction of four warps."""
    shape = next(filter(None, map(_SHAPE.match, modifiers)), None)
    if shape is None:
        return 1, 4
    m, n, _ = (int(text) for text in shape.groups() if text)
    return max(1, m * n * (16 if opcode[0] in "HQ" and "F32" not in modifiers else 32) // 4096), 4


def _texture_components(operands: tuple[str, ...]) -> int:
    """Components that a texture instruction returns: those of the mask after its dimensions, else four."""
    mask = re.fullmatch(r"0x([0-9a-f])", operands[-1])
    return int(mask[1], 16).bit_count() if mask else 4


def _texture_width(opcode: str, modifiers: list[str], place: int, operands: tuple[str, ...]) -> int:
    """Registers of coordinates (place 0) and of level or gradients (place 1); SCR spreads them over both."""
    count = _coordinates([*modifiers, *operands])
    if opcode == "TXD":
        return count * (1 + place)
    if "SCR" in modifiers:
        count += "LL" in modifiers
        return count // 2 if place else (count + 1) // 2
    return 1 if place else count


def _coordinates(texts: list[str]) -> int:
    """Coordinates of a texture or surface, with the layer of an array."""
    kinds = [part for text in texts for part in text.split("_")]
    return max((_DIMENSIONS.get(part, 0) for part in kinds), default=1) + ("ARRAY" in kinds) or 1


def _of_address(opcode: str, modifiers: list[str], number: int, operand: str) -> Iterator[str]:
    """Registers of addresses, descriptors and tables of constants."""
    is_wide = "E" in modifiers or opcode in ("UBLKCP", "UBLKRED", "UBLKPF")
    if opcode in ("UBLKCP", "UBLKRED"):  # [to],[from]: S.G or G.S; shared memory with its barrier, or alone
        spaces = [text for text in modifiers if text in ("S", "G")]
        is_wide = number == 0 or number >= len(spaces) or spaces[number] == "G"
    for kind, inside in _ADDRESS.findall(operand):
        if kind == "gdesc":
            widths = (4, 4) if opcode in _OPCODES["warpgroup_matrix"] else (2, 2)
        elif kind == "desc" or kind == "cx":
            widths = 2, 2
        elif kind in ("c", "tmem", "idesc"):
            widths = 1, 1
        elif opcode.startswith("UTMA"):
            first = _TENSOR_FIELDS.get(opcode, 0) + _coordinates(modifiers)
            widths = 0, first if number == 0 and opcode != "UTMACCTL" else 2
        elif opcode in ("SULD", "SUST", "SUATOM", "SURED"):
            widths = _coordinates(modifiers), 1
        elif opcode == "LDGSTS" and number == 0 and operand.startswith(f"[{inside}]"):  # to shared memory
            widths = 1, 1
        else:
            widths = (1 if ".U32" in inside or not is_wide else 2, 2 if is_wide else 1)
        for match in _REGISTER.finditer(inside):
            yield from _span(match, 2 if match[4] else widths[bool(match[1])])


def _hidden_descriptor(instruction: Instruction) -> frozenset[str]:
    """The uniform registers of the descriptor that sm_80 to sm_89 use with 64-bit addresses and nvdisasm omits."""
    places = (text for text in instruction.operands if ".64" in text)
    if "E" not in instruction.modifiers or all("UR" in text for text in places):
        return frozenset()
    low, high = instruction.words
    number = (low >> 32 if instruction.opcode in ("LD", "LDG") else high) & 0x3F
    return frozenset((f"UR{number}", f"UR{number + 1}")) if number < 63 else frozenset()


def _is_place(operands: tuple[str, ...], number: int) -> bool:
    return len(operands) > number and _PLACE.fullmatch(operands[number]) is not None


def _registers(operand: str, width: int) -> Iterator[str]:
    for match in _REGISTER.finditer(operand):
        yield from _span(match, 2 if match[4] else width)


def _span(match: re.Match[str], width: int) -> Iterator[str]:
    prefix, first = match[1] + match[2], int(match[3])
    return (f"{prefix}{number}" for number in range(first, first + (width if match[2] == "R" else 1)))

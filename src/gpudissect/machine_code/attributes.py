"""Attributes of kernels in the sections ``.nv.info`` of a cubin.

Each attribute is a format byte, an identifier byte and 16 bits: a value, or the length of what follows. NVIDIA does not
document them; identifiers and layouts are those that ``cuobjdump -elf`` (13.5) prints beside the same bytes.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from gpudissect.errors import MachineCodeError

REGISTERS = 0x2F  # symbol, registers per thread
MAX_THREADS = 0x05  # x, y, z
REQUIRED_THREADS = 0x10  # x, y, z
PARAMETER_BANK = 0x0A  # symbol, offset in constant bank 0 (16 bits), bytes (16 bits)
STACK = 0x12  # symbol, bytes per thread with the functions that it calls
PARAMETER = 0x17  # index, ordinal (16 bits), offset (16 bits), bytes in bits 18 to 31
LARGE_PARAMETER = 0x45  # index, ordinal (16 bits), offset (16 bits), bytes (16 bits)
INDIRECT_TARGETS = 0x34  # records of: offset of the branch, zero, number of targets, targets
CLUSTER = 0x3D  # x, y, z
BARRIERS = 0x4C  # number of named barriers
_SIZED = 4  # the 16 bits are a length
_BYTE = 2  # the value is the lower byte


@dataclass(frozen=True, slots=True)
class Parameter:
    """A kernel parameter: offset from the start of the parameters and size, in bytes."""

    ordinal: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute: a number (formats without data), or its data as 32-bit words."""

    identifier: int
    value: int
    words: tuple[int, ...] = ()


def read_attributes(data: bytes) -> tuple[Attribute, ...]:
    """The attributes of a section. Raises `MachineCodeError` if one extends past the end."""
    return tuple(_attributes(data))


def _attributes(data: bytes) -> Iterator[Attribute]:
    position = 0
    while position + 4 <= len(data):
        form, identifier, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form != _SIZED:
            yield Attribute(identifier, value & 0xFF if form == _BYTE else value)
            continue
        if position + value > len(data):
            raise MachineCodeError(f"damaged cubin: attribute {identifier:#x} extends past its section")
        words = struct.unpack_from(f"<{value // 4}I", data, position)
        yield Attribute(identifier, words[0] if words else 0, words)
        position += value


def words_of(attributes: tuple[Attribute, ...], identifier: int, count: int) -> tuple[int, ...] | None:
    """The first `count` words of the first attribute of this kind that has them, or None."""
    found = (a.words for a in attributes if a.identifier == identifier and len(a.words) >= count)
    return next((words[:count] for words in found), None)


def by_symbol(attributes: tuple[Attribute, ...], identifier: int) -> dict[int, int]:
    """Value of an attribute by index of the symbol that it describes."""
    return {a.words[0]: a.words[1] for a in attributes if a.identifier == identifier and len(a.words) >= 2}


def parameters_of(attributes: tuple[Attribute, ...]) -> tuple[Parameter, ...]:
    """The parameters of a kernel in the order of its declaration."""
    found = [
        Parameter(
            a.words[1] & 0xFFFF,
            a.words[1] >> 16,
            a.words[2] >> 18 if a.identifier == PARAMETER else a.words[2] & 0xFFFF,
        )
        for a in attributes
        if a.identifier in (PARAMETER, LARGE_PARAMETER) and len(a.words) >= 3
    ]
    return tuple(sorted(found, key=lambda parameter: parameter.ordinal))


def indirect_targets(attributes: tuple[Attribute, ...]) -> dict[int, tuple[int, ...]]:
    """Addresses that each indirect branch may lead to, by the address of the branch, in bytes from the section."""
    targets: dict[int, tuple[int, ...]] = {}
    for attribute in attributes:
        words = attribute.words if attribute.identifier == INDIRECT_TARGETS else ()
        while len(words) >= 3:
            targets[words[0]] = words[3 : 3 + words[2]]
            words = words[3 + words[2] :]
    return targets

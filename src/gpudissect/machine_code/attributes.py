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
STACK = 0x12  # symbol, bytes per thread with the functions that it calls
INDIRECT_TARGETS = 0x34  # records of: offset of the branch, zero, number of targets, targets
_SIZED = 4  # the 16 bits are a length


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute with its data as 32-bit words."""

    identifier: int
    words: tuple[int, ...]


def read_attributes(data: bytes) -> tuple[Attribute, ...]:
    """The attributes of a section that have data. Raises `MachineCodeError` if one extends past the end."""
    return tuple(_attributes(data))


def _attributes(data: bytes) -> Iterator[Attribute]:
    position = 0
    while position + 4 <= len(data):
        form, identifier, value = struct.unpack_from("<BBH", data, position)
        position += 4
        if form != _SIZED:
            continue
        if position + value > len(data):
            raise MachineCodeError(f"damaged cubin: attribute {identifier:#x} extends past its section")
        yield Attribute(identifier, struct.unpack_from(f"<{value // 4}I", data, position))
        position += value


def words_of(attributes: tuple[Attribute, ...], identifier: int, count: int) -> tuple[int, ...] | None:
    """The first `count` words of the first attribute of this kind that has them, or None."""
    found = (a.words for a in attributes if a.identifier == identifier and len(a.words) >= count)
    return next((words[:count] for words in found), None)


def by_symbol(attributes: tuple[Attribute, ...], identifier: int) -> dict[int, int]:
    """Value of an attribute by index of the symbol that it describes."""
    return {a.words[0]: a.words[1] for a in attributes if a.identifier == identifier and len(a.words) >= 2}


def indirect_targets(attributes: tuple[Attribute, ...]) -> dict[int, tuple[int, ...]]:
    """Addresses that each indirect branch may lead to, by the address of the branch, in bytes from the section."""
    targets: dict[int, tuple[int, ...]] = {}
    for attribute in attributes:
        words = attribute.words if attribute.identifier == INDIRECT_TARGETS else ()
        while len(words) >= 3:
            targets[words[0]] = words[3 : 3 + words[2]]
            words = words[3 + words[2] :]
    return targets

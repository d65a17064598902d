"""Sections and symbols of a cubin, an ELF file for NVIDIA GPUs.

Every byte is untrusted: all sections are checked to lie inside the file before any is read. pyelftools does not serve
here: it drops the bit of ``st_other`` that marks a kernel.
"""

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from gpudissect.errors import MachineCodeError

MAX_CUBIN_BYTES, MAX_NAME_BYTES = 1 << 28, 1 << 26  # of all names in a table of strings
MAX_OVERLAP = 4  # sizes of the sections relative to the file: from sm_100 on two of them may share their bytes
_HEADER = struct.Struct("<4s5B7x2HI3QI6H")  # Elf64_Ehdr
_SECTION = struct.Struct("<2I4Q2I2Q")  # Elf64_Shdr
_SYMBOL = struct.Struct("<IBBH2Q")  # Elf64_Sym
_RELOCATION = struct.Struct("<QQq")  # Elf64_Rela
_IN_PLACE = struct.Struct("<QQ")  # Elf64_Rel
_PROGRAM_HEADER_BYTES = 56
_MACHINE_CUDA = 190
_NO_BITS = 8  # SHT_NOBITS: a section without content in the file
_FUNCTION = 2  # STT_FUNC
_KERNEL = 0x10  # STO_CUDA_ENTRY of st_other
_LAST_SECTION = 0xFF00  # SHN_LORESERVE


@dataclass(frozen=True, slots=True)
class Section:
    """A section: bytes in memory, the field ``sh_info``, and its content (none if it is all zero)."""

    name: str
    size: int
    info: int
    content: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbol: its value, size in bytes, and the index of its section (None if it is in none)."""

    name: str
    value: int
    size: int
    section: int | None
    is_function: bool
    is_kernel: bool


@dataclass(frozen=True)
class ElfFile:
    """A checked ELF file for CUDA: compute capability as 10 * major + minor, sections, symbols."""

    capability: int
    sections: tuple[Section, ...]
    symbols: tuple[Symbol, ...]

    def section(self, name: str) -> Section | None:
        """The first section of this name, or None."""
        return self._by_name.get(name)

    def content(self, name: str) -> bytes:
        """Bytes of the first section of this name; none if there is none."""
        section = self.section(name)
        return section.content if section else b""

    @cached_property
    def _by_name(self) -> dict[str, Section]:
        return {section.name: section for section in reversed(self.sections)}


def read_elf(data: bytes) -> ElfFile:
    """Sections and symbols of a cubin. Raises `MachineCodeError` for anything that is not a whole cubin."""
    if len(data) > MAX_CUBIN_BYTES:
        raise MachineCodeError(f"the cubin has {len(data)} bytes; at most {MAX_CUBIN_BYTES} are read")
    if data[:4] != b"\x7fELF":
        raise MachineCodeError("not a cubin: the file does not begin with an ELF header")
    if len(data) < _HEADER.size:
        raise MachineCodeError("truncated cubin: its ELF header is incomplete")
    _, bits, order, _, _, abi, _, machine, _, _, programs, sections, flags, *counts = _HEADER.unpack_from(data)
    _, program_bytes, program_count, section_bytes, section_count, names = counts
    if machine != _MACHINE_CUDA:
        raise MachineCodeError(
            f"not a cubin: an ELF file for machine {machine}, expected {_MACHINE_CUDA} (NVIDIA CUDA)"
        )
    if (bits, order, section_bytes) != (2, 1, _SECTION.size) or not names < section_count:
        raise MachineCodeError("damaged cubin: not a 64-bit little-endian ELF file with sections")
    if program_count and program_bytes != _PROGRAM_HEADER_BYTES:
        raise MachineCodeError("damaged cubin: program headers of an unknown size")
    end = sections + section_count * _SECTION.size
    _check_end(data, max(end, programs + program_count * _PROGRAM_HEADER_BYTES))
    headers = list(_SECTION.iter_unpack(data[sections:end]))
    if sum(header[5] for header in headers if header[1] != _NO_BITS) > MAX_OVERLAP * len(data):
        raise MachineCodeError("damaged or truncated cubin: its sections are larger than the file")
    contents = [b"" if header[1] == _NO_BITS else _slice(data, header[4], header[5]) for header in headers]
    titles = _texts(contents[names], (header[0] for header in headers))
    found = tuple(
        Section(title, header[5], header[7], content)
        for title, header, content in zip(titles, headers, contents, strict=True)
    )
    capability = flags >> 8 & 0xFF if abi >= 8 else flags & 0xFF  # EF_CUDA_SM of llvm/BinaryFormat/ELF.h
    return ElfFile(capability, found, _symbols(found, headers))


def relocations(file: ElfFile, section: str) -> list[tuple[int, int, int]]:
    """Offset, index of the symbol and addend of each relocation of a section, by offset (addend 0 if in place)."""
    with_addend, in_place = file.content(f".rela{section}"), file.content(f".rel{section}")
    found = list(_RELOCATION.iter_unpack(with_addend[: len(with_addend) // 24 * 24]))
    found += [(*fields, 0) for fields in _IN_PLACE.iter_unpack(in_place[: len(in_place) // 16 * 16])]
    return sorted((offset, kind >> 32, addend) for offset, kind, addend in found)


def _symbols(sections: tuple[Section, ...], headers: list[tuple[int, ...]]) -> tuple[Symbol, ...]:
    index = next((number for number, section in enumerate(sections) if section.name == ".symtab"), None)
    if index is None:
        return ()
    table, names, entry_bytes = sections[index].content, headers[index][6], headers[index][9]
    if entry_bytes != _SYMBOL.size or len(table) % _SYMBOL.size or names >= len(sections):
        raise MachineCodeError("damaged cubin: a table of symbols of an unknown layout")
    symbols, rows = [], list(_SYMBOL.iter_unpack(table))
    texts = _texts(sections[names].content, (row[0] for row in rows))
    for text, (_, kind, other, section, value, size) in zip(texts, rows, strict=True):
        is_function = kind & 0xF == _FUNCTION
        if is_function and len(sections) <= section < _LAST_SECTION:
            raise MachineCodeError(f"damaged cubin: a function in section {section} of {len(sections)}")
        place = section if section < len(sections) else None
        symbols.append(Symbol(text, value, size, place, is_function, is_function and bool(other & _KERNEL)))
    return tuple(symbols)


def _slice(data: bytes, offset: int, size: int) -> bytes:
    _check_end(data, offset + size)
    return data[offset : offset + size]


def _check_end(data: bytes, end: int) -> None:
    if end > len(data):
        raise MachineCodeError(f"truncated cubin: it has {len(data)} bytes and describes {end}")


def _texts(table: bytes, starts: Iterable[int]) -> list[str]:
    """Names in a table of strings: up to the zero byte, undecodable bytes as escapes. They may overlap."""
    texts, left = list[str](), MAX_NAME_BYTES
    for start in starts:
        end = table.find(b"\0", start)
        left -= end - start
        if end < 0 or left < 0:
            raise MachineCodeError("damaged cubin: names that overlap or extend past their table")
        texts.append(table[start:end].decode("utf-8", "backslashreplace"))
    return texts

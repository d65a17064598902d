"""Source lines of instructions, from the section ``.debug_line`` of a cubin compiled with line information."""

import io
from collections.abc import Iterator
from typing import Any

from gpudissect.errors import MachineCodeError
from gpudissect.machine_code.elf import ElfFile, read_elf, relocations
from gpudissect.machine_code.kernel import Cubin, Kernel

Line = tuple[str, int]
"""Name of a source file and line number."""
_SET_ADDRESS = 2  # DW_LNE_set_address; its operand is relocated
_ADDRESS_BYTES = 8
_OF_DAMAGED_LINES = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What pyelftools raises for numbers of files, forms and lengths that do not exist, besides its own exceptions."""
MAX_LINE_BYTES = 1 << 19  # of .debug_line; each byte may take hundreds in memory
UNREADABLE = "line information not readable"


class UnreadableLinesError(MachineCodeError):
    """Line information that is damaged, or of an unknown form."""


def source_lines(cubin: Cubin, kernel: Kernel) -> dict[int, Line]:
    """Lines by byte offset in the kernel, each valid up to the next; empty without line information.

    Of inlined code it is the line in the inlined function. Raises `UnreadableLinesError`, and `MachineCodeError`
    without pyelftools.
    """
    elf = read_elf(cubin.data)
    data = elf.content(".debug_line")
    if not data:
        return {}
    if len(data) > MAX_LINE_BYTES:
        raise UnreadableLinesError(f"{UNREADABLE} (larger than {MAX_LINE_BYTES >> 10} KiB)")
    try:
        from elftools.common.exceptions import DWARFError, ELFError
    except ImportError:
        raise MachineCodeError("pyelftools is missing: pip install '.[explain]' in a clone of gpudissect") from None
    try:
        return dict(sorted(_rows(data, _bases(elf, elf.symbols[kernel.symbol].section))))
    except (DWARFError, ELFError, *_OF_DAMAGED_LINES) as error:
        raise UnreadableLinesError(f"{UNREADABLE} ({type(error).__name__})") from None


def _bases(elf: ElfFile, section: int | None) -> list[int | None]:
    """For each address set by the line programs, in order: its byte offset in the kernel, None if in other code."""
    bases: list[int | None] = []
    for _, number, addend in relocations(elf, ".debug_line"):
        symbol = elf.symbols[number]
        bases.append(symbol.value + addend if symbol.section == section else None)
    return bases


def _rows(data: bytes, bases: list[int | None]) -> Iterator[tuple[int, Line]]:
    order = iter(bases)
    for program in _programs(data):
        base = None
        for entry in program.get_entries():
            if entry.is_extended and entry.command == _SET_ADDRESS:
                base = next(order, None)
            state = entry.state
            if state is not None and base is not None and not state.end_sequence:
                yield base + state.address, (_file_name(program, state.file), state.line)


def _file_name(program: Any, number: int) -> str:
    """Path of a file of a line program; numbers start at 1 before DWARF 5, and folder 0 is that of the compilation."""
    first = program["version"] < 5
    file = program["file_entry"][number - first]
    folder = program["include_directory"][file.dir_index - first] if file.dir_index else b""
    return str((folder + b"/" * bool(folder) + file.name).decode("utf-8", "backslashreplace"))


def _programs(data: bytes) -> Iterator[Any]:
    from elftools.common.utils import struct_parse
    from elftools.dwarf.lineprogram import LineProgram
    from elftools.dwarf.structs import DWARFStructs

    structs, stream, offset = DWARFStructs(True, 32, _ADDRESS_BYTES, 2), io.BytesIO(data), 0
    while offset < len(data):
        header = struct_parse(structs.Dwarf_lineprog_header, stream, offset)
        end = offset + header["unit_length"] + structs.initial_length_field_size()
        yield LineProgram(header, stream, structs, stream.tell(), min(end, len(data)))
        offset = end

"""Source lines of an explanation: of machine code by way of the PTX instructions whose numbers its lines are."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gpudissect.explanation.instrument import LINES_FILE
from gpudissect.explanation.ptx import Module
from gpudissect.machine_code.lines import Line

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOOP = re.compile(re.escape(LINES_FILE) + r":(\d+)(#\d+)?")


@dataclass(frozen=True)
class Sources:
    """Source lines of instructions by their address, and of PTX instructions by their number."""

    by_address: Mapping[int, Line]
    by_number: Mapping[int, Line] = field(default_factory=dict)

    def loop_name(self, name: str) -> str:
        """The source line of a loop, where it is known."""
        match = _LOOP.fullmatch(name)
        source = self.by_number.get(int(match[1])) if match else None
        return f"{source[0].rpartition('/')[2]}:{source[1]}{match[2] or ''}" if match and source else name


def sources_of(module: Module, numbers: Mapping[int, Line], addresses: Iterable[int]) -> Sources:
    """The source lines of machine code; `numbers`: its lines, which are numbers of PTX instructions.

    An instruction without a number has that of the one before it.
    """
    by_number, by_address, number = lines_of_ptx(module), dict[int, Line](), 0
    for address in sorted(addresses):
        number = numbers.get(address, ("", number))[1]
        if number in by_number:
            by_address[address] = by_number[number]
    return Sources(by_address, by_number)


def lines_of_ptx(module: Module) -> dict[int, Line]:
    """File and line of each PTX instruction, by its number in the module; see `Instruction.source`."""
    texts = (module.text[start:end] for start, end in module.locations)
    files = {int(match[1]): match[2] for text in texts if (match := _FILE.match(text))}
    return {
        number: (files[each.source[0]], each.source[1])
        for function in module.functions
        for number, each in enumerate(function.instructions, start=function.first)
        if each.source is not None and each.source[0] in files
    }

"""Source lines of an explanation: of machine code by way of the PTX instructions whose numbers its lines are."""

import re
from collections.abc import Mapping

from gpudissect.explanation.instrument import LINES_FILE
from gpudissect.explanation.profile import Profile
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.explanation.result import Explanation
from gpudissect.machine_code.lines import Line, source_lines

_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')
_LOOP = re.compile(re.escape(LINES_FILE) + r":(\d+)(#\d+)?")


def with_sources(explanation: Explanation, profile: Profile) -> Explanation:
    """The explanation with the source lines of its instructions and loops, as far as the PTX of the profile has them.

    Raises `UsageError` for a damaged profile.
    """
    sources = lines_of_ptx(parse_ptx(profile.ptx()))
    if not sources:
        return explanation
    numbers = source_lines(*profile.machine_code())
    lines, number = [], 0
    for line in sorted(explanation.lines, key=lambda each: each.address):
        number = numbers.get(line.address, ("", number))[1]
        file, source = sources.get(number, (None, None))
        lines.append(line.model_copy(update={"source_file": file, "source_line": source}))
    loops = {
        _loop_name(name, sources): cycles for name, cycles in sorted(explanation.loops.items(), key=lambda e: e[1])
    }
    return explanation.model_copy(update={"lines": tuple(lines), "loops": loops})


def lines_of_ptx(module: Module) -> dict[int, Line]:
    """File and line of each PTX instruction, by its number in the module; of inlined code the inlined function's."""
    texts = (module.text[start:end] for start, end in module.locations)
    files = {int(match[1]): match[2] for text in texts if (match := _FILE.match(text))}
    return {
        number: (files[each.source[0]], each.source[1])
        for function in module.functions
        for number, each in enumerate(function.instructions, start=function.first)
        if each.source is not None and each.source[0] in files
    }


def _loop_name(name: str, sources: Mapping[int, Line]) -> str:
    """The source line of a loop, where it is known. Of several loops of a line the longest chain counts."""
    match = _LOOP.fullmatch(name)
    source = sources.get(int(match[1])) if match else None
    return f"{source[0].rpartition('/')[2]}:{source[1]}{match[2] or ''}" if match and source else name

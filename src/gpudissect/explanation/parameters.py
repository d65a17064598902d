"""Parameters of a kernel as its PTX declares them, compared with the arguments for them."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import TYPES, Argument
from gpudissect.explanation.ptx import Function, Module
from gpudissect.machine_code.names import declaration, source_name
from gpudissect.printable import counted

MAX_LISTED = 12
_DECLARATION = re.compile(r"\.param\b([^,()]*?)([A-Za-z_$%][\w$]*)\s*(?:\[\s*(\d{1,9})\s*\])?\s*$")
_TYPE = re.compile(r"\.([bsuf])(8|16|32|64)\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_HANDLES = re.compile(r"\.(texref|samplerref|surfref)\b")
_HANDLE_BYTES = 8
TYPES_OF_CXX = tomllib.loads(Path(__file__).with_name("cxx_types.toml").read_text(encoding="utf-8"))
"""Types of arguments by those of C++ on Linux."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter: type of PTX such as ``f32`` (``b8`` for a structure), size in bytes, whether PTX marks a pointer.

    Not every compiler does: pointers in other PTX are ``u64``. `declared` is its type in C++, if the name has it.
    """

    type: str
    size: int
    is_pointer: bool = False
    declared: str = ""

    @property
    def is_integer(self) -> bool:
        """Whether it cannot be a floating-point number: types of bits may be both."""
        return self.type[0] in "su"

    def description(self) -> str:
        """Its type in words."""
        if self.declared:
            return self.declared
        if self.is_pointer or self.type == "u64":
            return "pointer" if self.is_pointer else "pointer or u64"
        return f"structure of {self.size} B" if self.is_structure else self.type

    @property
    def element_type(self) -> str | None:
        """Type of an argument for the elements of a pointer; None if it is not known."""
        return TYPES_OF_CXX.get(self.declared[:-1].removesuffix(" const")) if self.declared[-1:] == "*" else None

    @property
    def is_structure(self) -> bool:
        """Whether several values are passed by value."""
        return self.type == "b8" and self.size not in (1, 2, 4, 8)

    def example(self, number: int) -> str:
        """An argument for it."""
        name = f"p{number}"
        if self.is_pointer or self.declared.endswith("*") or (self.type == "u64" and not self.declared):
            kind = self.element_type or "f32"
            return f"{name}:{kind}[1048576]={'random' if kind[0] == 'f' else 'range'}"
        if self.is_structure:
            return f"{name}:u8x{self.size}=0" if self.size % 4 else f"{name}:f32x{self.size // 4}=0"
        kind = f"{'f' if self.type[0] == 'f' else 'u' if self.declared.startswith('unsigned') else 'i'}{8 * self.size}"
        return f"{name}:{kind}={'0.25' if kind[0] == 'f' else '100'}"


def parameters_of(module: Module, kernel: Function) -> tuple[Parameter, ...]:
    """The parameters of a kernel in the order of its declaration."""
    header = _COMMENT.sub(" ", module.text[kernel.start : kernel.body])
    inside = header[header.find("(", header.find(".entry")) :] if "(" in header else ""
    found = []
    for piece in inside.strip("( \n\t").partition(")")[0].split(","):
        match = _DECLARATION.search(piece)
        if match is None:
            continue
        kind = _TYPE.search(match[1])
        count = int(match[3] or 1)
        if kind is not None:
            size = int(kind[2]) // 8 * count
            found.append(Parameter("b8" if match[3] else kind[1] + kind[2], size, ".ptr" in match[1]))
        elif _HANDLES.search(match[1]):
            found.append(Parameter("u64", _HANDLE_BYTES))
    declared = types_of(kernel.name)
    if len(declared) != len(found):
        return tuple(found)
    return tuple(replace(each, declared=kind) for each, kind in zip(found, declared, strict=True))


def types_of(mangled: str) -> tuple[str, ...]:
    """Types of the parameters in C++ by the name of a kernel; empty for ``extern "C"``."""
    text = declaration(mangled)[len(source_name(mangled)) :].strip()
    types, depth = [""], 0
    for character in text[1:-1] if text.startswith("(") else "":
        depth += character in "<({["
        depth -= character in ">)}]"
        if character == "," and depth == 0:
            types.append("")
        else:
            types[-1] += character
    return tuple(each.strip() for each in types if each.strip())


def check_parameters(arguments: Sequence[Argument], parameters: Sequence[Parameter]) -> None:
    """Compare arguments with the parameters of a kernel. Raises `UsageError` with an example of what is missing."""
    for number, (argument, parameter) in enumerate(zip(arguments, parameters, strict=False), start=1):
        _check(number, argument, parameter)
    if len(arguments) == len(parameters):
        return
    listing = ", ".join(parameter.description() for parameter in parameters[:MAX_LISTED]) or "none"
    given, taken = counted(len(arguments), "argument"), counted(len(parameters), "parameter")
    message = f"{given} for a kernel with {taken} ({listing})"
    missing = [parameter.example(n) for n, parameter in enumerate(parameters, start=1)][len(arguments) :]
    examples = " ".join(f"--arg '{example}'" for example in missing[:MAX_LISTED])
    raise UsageError(f"{message}; add such as {examples}" if missing else message)


def _check(number: int, argument: Argument, parameter: Parameter) -> None:
    is_array = argument.count is not None
    what = "an array" if is_array else f"{argument.type}{f'x{n}' if (n := len(argument.values)) > 1 else ''}"
    place = f"parameter {number} is {parameter.description()}"
    example = f"such as --arg '{parameter.example(number)}'"
    if argument.parameter_bytes != parameter.size:
        sizes = f"{argument.parameter_bytes} B for {parameter.size} B"
        raise UsageError(f"argument {argument.name} is {what}, but {place} ({sizes}); {example}")
    is_float = not is_array and argument.type[0] == "f"
    if (parameter.type[0] == "f" and not is_float) or (parameter.is_integer and is_float):
        raise UsageError(f"argument {argument.name} is {what}, but {place}; {example}")
    element, size = parameter.element_type, argument.dtype.itemsize
    if is_array and element is not None and size not in (1, np.dtype(TYPES[element]).itemsize):
        raise UsageError(f"argument {argument.name} is an array of {argument.type}, but {place}; {example}")

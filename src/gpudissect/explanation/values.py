"""Arguments of a launch from values of a program: texts, numbers, and arrays of numpy."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import CONTENT, TYPES, Argument, check_arguments, parse_argument
from gpudissect.explanation.parameters import Parameter

Value = Argument | str | int | float | np.generic | np.ndarray[Any, Any]
"""An argument: `Argument`, a text as `parse_argument` reads it, a number, or an array with its content."""
_NAMES = {np.dtype(code): name for name, code in TYPES.items()}


def arguments_of(values: Sequence[Value], parameters: Sequence[Parameter]) -> tuple[Argument, ...]:
    """The arguments that values are for the parameters of a kernel, which decide the types of plain numbers.

    Raises `UsageError` for a value that is none, as `parse_argument` does, and as `check_arguments` does.
    """
    types = [*parameters, *[None] * len(values)]
    found = tuple(_argument(number, *each) for number, each in enumerate(zip(values, types, strict=False), start=1))
    check_arguments(found)
    return found


def _argument(number: int, value: Value, parameter: Parameter | None) -> Argument:
    name = f"p{number}"
    if isinstance(value, Argument):
        return value
    if isinstance(value, str):
        return parse_argument(value)
    if isinstance(value, np.ndarray):
        if value.dtype.newbyteorder("=") not in _NAMES or value.size == 0:
            kinds = ", ".join(TYPES)
            raise UsageError(f"argument {number}: an array of {value.dtype} and {value.size} elements; valid: {kinds}")
        array = np.ascontiguousarray(value, value.dtype.newbyteorder("=")).reshape(-1)
        return Argument(name, _NAMES[array.dtype], array.size, CONTENT, (), array)
    if isinstance(value, np.generic) and value.dtype in _NAMES:
        return parse_argument(f"{name}:{_NAMES[value.dtype]}={value.item()!r}")
    if isinstance(value, int | float | np.bool_):
        number_value = value if isinstance(value, float) else int(value)
        return parse_argument(f"{name}:{_type_of(number_value, parameter)}={number_value!r}")
    raise UsageError(
        f"argument {number} is a {type(value).__name__[:40]}: give a number, an array, or a text NAME:TYPE=VALUE"
    )


def _type_of(value: float, parameter: Parameter | None) -> str:
    """The type of a plain number for a parameter."""
    size = parameter.size if parameter is not None and parameter.size in (1, 2, 4, 8) else 4
    if isinstance(value, float) or (parameter is not None and parameter.type[0] == "f"):
        return f"f{8 * max(2, size)}"
    is_signed = value < 0 or value < 1 << (8 * size - 1)
    return f"{'i' if is_signed else 'u'}{8 * size}"

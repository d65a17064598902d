"""Arguments of a launch from values of a program: texts, numbers, and arrays of any package, also on a GPU."""

from collections.abc import Sequence

import numpy as np

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import CONTENT, TYPES, Argument, check_arguments, parse_argument
from gpudissect.explanation.host_arrays import array_bytes, host_array, is_array
from gpudissect.explanation.parameters import Parameter
from gpudissect.units import format_bytes

Value = object
"""An argument: `Argument`, a text as `parse_argument` reads it, a number, or an array with its content."""
MAX_COPIED_BYTES = 8 << 30
"""Of all arrays of a program together."""
_NAMES = {np.dtype(code): name for name, code in TYPES.items()}


def arguments_of(values: Sequence[Value], parameters: Sequence[Parameter]) -> tuple[Argument, ...]:
    """The arguments that values are for the parameters of a kernel, which decide the types of plain numbers.

    Arrays are copied to the host. Raises `UsageError` for a value that is none, arrays that are too large together, as
    `parse_argument`, `host_array` and `check_arguments` do.
    """
    total = sum(array_bytes(value) for value in values if is_array(value))
    if total > MAX_COPIED_BYTES:
        what = f"the arrays have {format_bytes(total)}, of which at most {format_bytes(MAX_COPIED_BYTES)} are copied"
        raise UsageError(f"{what}: describe large ones by texts, such as x:f32[COUNT]=random")
    types = [*parameters, *[None] * len(values)]
    found = tuple(_argument(number, *each) for number, each in enumerate(zip(values, types, strict=False), start=1))
    check_arguments(found)
    return found


def check_texts(values: Sequence[Value]) -> None:
    """Raise `UsageError` for a text among values that is no argument."""
    for value in values:
        if isinstance(value, str):
            parse_argument(value)


def _argument(number: int, value: Value, parameter: Parameter | None) -> Argument:
    name = f"p{number}"
    if isinstance(value, Argument):
        return value
    if isinstance(value, str):
        return parse_argument(value)
    array = host_array(value, number)
    if array is not None:
        if array.dtype.hasobject or array.size == 0:
            raise UsageError(f"argument {number}: an array of {array.dtype} and {array.size} elements; give numbers")
        array = array.astype(array.dtype.newbyteorder("="), copy=False).reshape(-1)
        array = array if array.dtype in _NAMES else array.view(np.uint8)  # such as bool and bfloat16
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

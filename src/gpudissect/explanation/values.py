"""Arguments of a launch from values of a program: texts, numbers, and arrays of any package, also on a GPU."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.explanation.arguments import CONTENT, TYPES, Argument, check_arguments, parse_argument
from gpudissect.explanation.parameters import Parameter
from gpudissect.units import format_bytes

Value = object
"""An argument: `Argument`, a text as `parse_argument` reads it, a number, or an array with its content."""
MAX_COPIED_BYTES = 8 << 30
"""Of all arrays of a program together."""
_NAMES = {np.dtype(code): name for name, code in TYPES.items()}
_MARKS = ("__cuda_array_interface__", "__dlpack__", "__array__")


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


def is_array(value: object) -> bool:
    """Whether a value is an array of a package, such as numpy, CuPy, torch or Numba. NumPy scalars are not arrays."""
    return not isinstance(value, np.generic) and any(hasattr(type(value), mark) for mark in _MARKS)


def array_bytes(value: Any) -> int:
    """Size of an array, without copying it; 0 if it is not stated."""
    try:
        return int(value.nbytes)
    except Exception:  # of another package, such as for sparse arrays
        return 0


def host_array(value: Any, number: int) -> NDArray[Any] | None:
    """The elements of an array, copied to the host; None for a value that is no array.

    Elements of types that numpy does not have, such as bfloat16, are bytes. Raises `UsageError` for an array with
    strides, as the kernel would find other elements in a copy, and for one that cannot be copied.
    """
    if not is_array(value):
        return None
    try:
        found = value if isinstance(value, np.ndarray) else _copied(value) if _is_contiguous(value) else None
    except Exception as error:  # of another package
        reason = f"{type(error).__name__}: {ascii(str(error))[1:-1][:120]}"
        raise UsageError(f"argument {number}: a {type(value).__name__[:40]} that cannot be copied: {reason}") from error
    if found is None or not found.flags.c_contiguous:
        raise UsageError(f"argument {number}: an array with strides: give a contiguous copy")
    return found


def _is_contiguous(value: Any) -> bool:
    """Whether an array has the order of C, as far as it states that before it is copied."""
    if hasattr(type(value), "is_contiguous"):  # torch, whose interface fails for some types
        return bool(value.is_contiguous())
    interface = getattr(value, "__cuda_array_interface__", None) or {}
    expected = np.dtype(interface.get("typestr", "u1")).itemsize
    for size, stride in zip(
        reversed(interface.get("shape", ())), reversed(interface.get("strides") or ()), strict=False
    ):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def _copied(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        return _of_torch(value.detach().cpu())
    for method in ("get", "copy_to_host"):  # of CuPy and Numba
        if hasattr(value, "__cuda_array_interface__") and hasattr(value, method):
            return np.asarray(getattr(value, method)())
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value, device="cpu")
    return np.asarray(value)


def _of_torch(tensor: Any) -> NDArray[Any]:
    try:
        return np.asarray(tensor.numpy())
    except TypeError:  # bfloat16 and others
        return np.asarray(tensor.reshape(-1).view(sys.modules["torch"].uint8).numpy())

"""Arrays of Python packages, on a GPU or not, as arrays of numpy with their elements on the host."""

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError

_MARKS = ("__cuda_array_interface__", "__dlpack__", "__array__")


def is_array(value: object) -> bool:
    """Whether a value is an array of a package, such as numpy, CuPy, torch or Numba. Numbers of numpy are none."""
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
    strides, as the kernel would find other elements in the copy, and for one that cannot be copied.
    """
    if not is_array(value):
        return None
    if isinstance(value, np.ndarray):
        return np.ascontiguousarray(value)
    try:
        found = _copied(value) if _is_contiguous(value) else None
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

"""The integer codec of recordings: int64 arrays of any shape as compressed bytes.

An array is stored as ``values``, as ``steps`` from each value to the next, or as ``planes`` (the first byte of every
value, then the second bytes, and so on), whichever is smallest; in the narrowest integer type, zlib-compressed.

Older recordings, and those made smaller by `validation/thin_recording.py`, store the begin and end of warps relative to
other arrays, which stand before them: ``begin`` with ``code`` "grouped" is the ``first`` begin of each SM plus a
``rest`` per warp, where ``by`` names the array of SMs; ``end`` with ``code`` "since" is the array named by ``of`` plus
a ``rest``. ``first`` and ``rest`` are stored one after the other, each with its length ``packed``. `pack` writes none
of these.
"""

import hashlib
import math
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import RecordingError
from gpudissect.trace import Array

MAX_DIMENSIONS = 3
_TYPES = {kind.str: kind for kind in map(np.dtype, ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<i8"))}
_CODES = ("values", "steps", "planes")
_RELATIVE = {"grouped": ("by", ("first", "rest")), "since": ("of", ("rest",))}
Entry = dict[str, Any]
Data = bytes | memoryview


def pack(array: Array) -> tuple[Entry, bytes]:
    """Pack an int64 array; returns its description ``{code, type, shape}`` and its bytes."""
    flat = np.ascontiguousarray(array, dtype=np.int64).ravel()
    values, steps = _narrow(flat), _narrow(np.diff(flat, prepend=np.int64(0)))  # steps and their sums wrap in 64 bits
    planes = values.view(np.uint8).reshape(values.size, values.itemsize).T
    forms = (("values", values, values), ("steps", steps, steps), ("planes", values, planes))
    packed = [(code, narrow.dtype.str, zlib.compress(data.tobytes(), 6)) for code, narrow, data in forms]
    code, kind, data = min(packed, key=lambda form: len(form[2]))
    return {"code": code, "type": kind, "shape": list(array.shape)}, data


def unpack(description: Entry, data: Data, max_values: int, arrays: Mapping[str, Array] | None = None) -> Array:
    """Undo `pack`; `arrays` are those of the same trace that were read before.

    Raises `RecordingError`, before memory is allocated, for an array that claims more than `max_values` values, and
    when description, bytes and `arrays` do not belong together.
    """
    if description["code"] in _RELATIVE:
        return _unpack_relative(description, data, max_values, arrays or {})
    shape = tuple(description["shape"])
    kind = _TYPES.get(description["type"])
    whole = all(type(size) is int and size >= 0 for size in shape)
    if kind is None or description["code"] not in _CODES or not whole or len(shape) > MAX_DIMENSIONS:
        raise RecordingError(f"an array of unknown form: {description!s:.200}")
    count = math.prod(shape)
    if count > max_values:
        raise RecordingError(f"an array claims more than the {max_values} values that it can have")
    expected = count * kind.itemsize
    try:
        raw = zlib.decompressobj().decompress(data, expected + 1)  # at most one byte more than claimed
    except zlib.error as error:
        raise RecordingError(f"an array cannot be unpacked: {error}") from None
    if len(raw) != expected:
        raise RecordingError(f"an array has {len(raw)} bytes, its description {expected}")
    if description["code"] == "planes":
        raw = np.frombuffer(raw, np.uint8).reshape(kind.itemsize, -1).T.tobytes()
    flat = np.frombuffer(raw, kind).astype(np.int64)
    return (np.cumsum(flat) if description["code"] == "steps" else flat).reshape(shape)


def _unpack_relative(description: Entry, data: Data, max_values: int, arrays: Mapping[str, Array]) -> Array:
    reference, names = _RELATIVE[description["code"]]
    parts = []
    for name in names:
        size = description[name]["packed"]
        if not isinstance(size, int) or not 0 <= size <= len(data):
            raise RecordingError(f"an array claims {size!r:.60} of {len(data)} bytes")
        parts.append(unpack(description[name], data[:size], max_values))
        data = data[size:]
    if data:
        raise RecordingError(f"an array has {len(data)} bytes more than its description")
    base = arrays.get(description[reference])
    if base is None or base.shape != parts[-1].shape:
        raise RecordingError(f"an array is relative to {description[reference]!r:.60}: missing or of another length")
    if description["code"] == "since":
        return base + parts[0]
    groups, group = np.unique(base, return_inverse=True)
    if parts[0].shape != groups.shape:
        raise RecordingError(f"an array has the first of {parts[0].size} groups, there are {groups.size}")
    begin: Array = parts[0][group] + parts[1]
    return begin


def fingerprint(array: Array) -> str:
    """Sixteen hexadecimal digits of the SHA-256 of an int64 array."""
    return hashlib.sha256(np.ascontiguousarray(array, dtype="<i8").tobytes()).hexdigest()[:16]


def _narrow(values: Array) -> NDArray[Any]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    fitting = (kind for kind in _TYPES.values() if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max)
    return values.astype(next(fitting))

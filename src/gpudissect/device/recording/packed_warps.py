"""How a recording holds when warps began and ended: most of a recording of mixes.

SMs have clocks of their own, thousands of seconds apart, and warps of all of them stand mixed. So the begin of a warp
is held as cycles since the first one of its SM, and its end as cycles since its begin. What is left is noise of some
15 bits, so that a recording of mixes comes out by a third smaller, no more.

An entry of `begin` has ``code`` "grouped", ``by`` "sm", and two arrays in the form of `recording.pack_noise`, each
with its length ``packed``: ``first``, the first of each SM in the order of their numbers, and ``rest``, how much later
each warp began. One of `end` has ``code`` "since", ``of`` "begin", and ``rest``. Arrays that they are read with stand
before them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.recording import format as recording
from gpudissect.device.recording.format import Entry
from gpudissect.errors import RecordingError

Ints = NDArray[np.int64]
SM, BEGIN, END = "sm", "begin", "end"
GROUPED, SINCE = "grouped", "since"
FORMS = (GROUPED, SINCE)


def ordered(names: Iterable[str]) -> list[str]:
    """The order in which a trace's arrays are written: what others are read with comes first."""
    first = (SM, BEGIN, END)
    own = list(names)
    return [*(name for name in first if name in own), *(name for name in own if name not in first)]


def pack(label: str, arrays: Mapping[str, Ints]) -> tuple[Entry, bytes] | None:
    """Pack `begin` or `end` of a mix; None for what is neither, or not of a mix, or would not come back."""
    if not all(name in arrays and arrays[name].ndim == 1 for name in (SM, BEGIN, END)):
        return None
    sm, begin, end = (arrays[name] for name in (SM, BEGIN, END))
    if not sm.size or not sm.shape == begin.shape == end.shape:
        return None
    if label == END:  # differences wrap round in 64 bits, and so do the sums that undo them
        return _joined({"code": SINCE, "of": BEGIN}, rest=end - begin)
    if label == BEGIN:
        first, place = _firsts(sm, begin)
        return _joined({"code": GROUPED, "by": SM}, first=first, rest=begin - first[place])
    return None


def unpack(description: Entry, data: bytes, arrays: Mapping[str, Ints], max_values: int) -> Ints:
    """Undo `pack`, with the arrays that were read before. Raises `RecordingError` if they do not belong together.

    As in `recording.unpack`, nothing is allocated for more than `max_values` values.
    """
    parts = []
    for name in ("first", "rest")[description["code"] == SINCE :]:
        part = description[name]
        size = part["packed"]
        if not isinstance(size, int) or not 0 <= size <= len(data):
            raise RecordingError(f"an array claims {size!r:.60} of {len(data)} bytes")
        parts.append(recording.unpack(part, data[:size], max_values))
        data = data[size:]
    if data:
        raise RecordingError(f"an array has {len(data)} bytes more than were said")
    with_name = description["of"] if description["code"] == SINCE else description["by"]
    beside = arrays.get(with_name)
    if beside is None or beside.shape != parts[-1].shape:
        raise RecordingError(f"an array is to be read with {with_name!r:.60}, which is not there or of another length")
    if description["code"] == SINCE:
        return beside + parts[0]
    groups, place = np.unique(beside, return_inverse=True)
    if parts[0].shape != groups.shape:
        raise RecordingError(f"an array has the first of {parts[0].size} groups, there are {groups.size}")
    found: Ints = parts[0][place] + parts[1]
    return found


def _firsts(sm: Ints, begin: Ints) -> tuple[Ints, NDArray[np.intp]]:
    """The first of each SM, and which SM each warp is of, by place among them."""
    groups, place = np.unique(sm, return_inverse=True)
    first = np.full(groups.size, np.iinfo(np.int64).max)
    np.minimum.at(first, place, begin)
    return first, place


def _joined(what: dict[str, Any], **parts: Ints) -> tuple[Entry, bytes]:
    chunks = []
    for name, array in parts.items():
        description, data = recording.pack_noise(array)
        what[name] = {**description, "packed": len(data)}
        chunks.append(data)
    return what, b"".join(chunks)

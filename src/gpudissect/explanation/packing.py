"""Traces of warps as short text: differences of addresses relative to allocations, in planes of bytes, compressed."""

import base64
import binascii
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.explanation.instrument import Events
from gpudissect.units import WARP_SIZE

ELSEWHERE, SHARED, LOCAL = -1, -2, -3
"""In place of an allocation: another address of global memory (as it is), shared memory, local memory of the thread."""
MAX_OFFSETS = {ELSEWHERE: math.inf, SHARED: 1 << 32, LOCAL: 1 << 40}
"""Bytes of these spaces: more than any GPU has."""
MAX_EVENTS_PER_WARP = 1 << 16
_SHARED_BIT, _LOCAL_BIT = np.uint64(1 << 62), np.uint64(1 << 63)  # of generic addresses, see `accesses.Access`
_SPACE_CODES = {"shared": SHARED, "local": LOCAL}


class DamagedProfileError(UsageError):
    """A field of a profile that holds no packed data, or other data than the profile states."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field} {reason}: the profile is damaged, record it again")


@dataclass(frozen=True)
class Trace:
    """What a warp did, in order: blocks that it visited and accesses, each with the lanes that executed it (bit mask).

    `visited` and `accessed` are indices of blocks and accesses of the profile, (visits,) and (accesses,).
    `allocations` (accesses, 32) has the index of the allocation of each lane's address, or one of `ELSEWHERE`,
    `SHARED`, `LOCAL`; `offsets` (accesses, 32) the bytes from its start. Both are 0 for lanes that did not execute.
    """

    visited: NDArray[np.uint32]
    visit_lanes: NDArray[np.uint32]
    accessed: NDArray[np.uint32]
    access_lanes: NDArray[np.uint32]
    allocations: NDArray[np.int16]
    offsets: NDArray[np.int64]

    def has_addresses_in(self, sizes: Sequence[int]) -> bool:
        """Whether all addresses are in allocations of so many bytes, in shared or local memory, or elsewhere."""
        lanes = _lanes(self.access_lanes)
        codes, offsets = self.allocations[lanes].astype(np.int64), self.offsets[lanes]
        limits = np.array([*sizes, *(MAX_OFFSETS[code] for code in sorted(MAX_OFFSETS))], dtype=np.float64)
        is_known = (codes >= -len(MAX_OFFSETS)) & (codes < len(sizes))
        is_inside = (offsets >= 0) & (offsets < limits[np.where(is_known, codes, 0)])
        return bool((is_known & (is_inside | (codes == ELSEWHERE))).all())

    def select(self, accesses: NDArray[np.bool_]) -> "Trace":
        """The trace with the accesses of a mask only."""
        parts = (self.accessed, self.access_lanes, self.allocations, self.offsets)
        return Trace(self.visited, self.visit_lanes, *(part[accesses] for part in parts))  # type: ignore[arg-type]


def relative_trace(
    visits: Events, accesses: Events, spaces: Sequence[str], starts: Sequence[int], sizes: Sequence[int]
) -> Trace:
    """A recorded trace with addresses relative to allocations, which start at `starts` and have `sizes` bytes.

    `spaces` has the space of each access of the module.
    """
    assert accesses.addresses is not None
    lanes = _lanes(accesses.lanes)
    addresses = np.where(lanes, accesses.addresses, np.uint64(0))
    codes = np.full(addresses.shape, ELSEWHERE, np.int16)
    offsets = addresses.view(np.int64).copy()
    is_generic = np.array([space == "generic" for space in spaces], bool)[accesses.index][:, None]
    for space, bit in (("shared", _SHARED_BIT), ("local", _LOCAL_BIT)):
        is_space = np.array([other == space for other in spaces], bool)[accesses.index][:, None]
        inside = is_space | (is_generic & ((addresses & bit) != 0))
        codes[inside & lanes] = _SPACE_CODES[space]
        offsets = np.where(inside, (addresses & ~(_SHARED_BIT | _LOCAL_BIT)).view(np.int64), offsets)
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        inside = (codes == ELSEWHERE) & (offsets >= start) & (offsets < start + size)
        codes[inside], offsets[inside] = number, offsets[inside] - start
    codes[~lanes], offsets[~lanes] = 0, 0
    return Trace(visits.index, visits.lanes, accesses.index, accesses.lanes, codes, offsets)


def pack_trace(trace: Trace) -> str:
    """A trace as text, from which `unpack_trace` makes it again."""
    lanes = _lanes(trace.access_lanes)
    codes, values = trace.allocations[lanes], trace.offsets[lanes]
    starts, follows = _starts(trace.access_lanes)
    differences = np.diff(values, prepend=np.int64(0))
    has_lanes = follows > 0
    differences[starts[has_lanes]] = _differences_by_index(values[starts[has_lanes]], trace.accessed[has_lanes])
    parts = [trace.visited, trace.visit_lanes, trace.accessed, trace.access_lanes, codes, differences]
    planes = b"".join(part.reshape(-1, 1).view(np.uint8).T.tobytes() for part in map(np.ascontiguousarray, parts))
    return base64.b64encode(zlib.compress(planes, 9)).decode()


def unpack_trace(text: str, visits: int, accesses: int, field: str) -> Trace:
    """The trace of `pack_trace` with so many visits and accesses.

    Raises `DamagedProfileError`, which names the `field` of the profile that has the text.
    """
    if not 0 <= visits <= MAX_EVENTS_PER_WARP or not 0 <= accesses <= MAX_EVENTS_PER_WARP:
        raise DamagedProfileError(field, f"has {visits} visits and {accesses} accesses")
    reader = _Reader(unpack_bytes(text, 8 * visits + accesses * (8 + 10 * WARP_SIZE), field), field)
    visited, visit_lanes = reader.read(np.uint32, visits), reader.read(np.uint32, visits)
    accessed, access_lanes = reader.read(np.uint32, accesses), reader.read(np.uint32, accesses)
    starts, follows = _starts(access_lanes)
    total = int(follows.sum())
    codes, differences = reader.read(np.int16, total), reader.read(np.int64, total)
    if reader.rest:
        raise DamagedProfileError(field, f"has {reader.rest} more bytes than its events need")
    has_lanes = follows > 0
    firsts = _sums_by_index(differences[starts[has_lanes]], accessed[has_lanes])
    differences[starts[has_lanes]] = 0
    sums = np.cumsum(differences)
    bases = np.repeat(firsts - sums[starts[has_lanes]], follows[has_lanes])
    lanes = _lanes(access_lanes)
    allocations, offsets = np.zeros((accesses, WARP_SIZE), np.int16), np.zeros((accesses, WARP_SIZE), np.int64)
    allocations[lanes], offsets[lanes] = codes, sums + bases
    return Trace(visited, visit_lanes, accessed, access_lanes, allocations, offsets)


def pack_bytes(data: bytes) -> str:
    """Bytes as text, compressed."""
    return base64.b64encode(zlib.compress(data, 9)).decode()


def unpack_bytes(text: str, max_bytes: int, field: str) -> bytes:
    """The bytes of `pack_bytes`. Raises `DamagedProfileError` for another text, or more than `max_bytes`."""
    try:
        reader = zlib.decompressobj()
        data = reader.decompress(base64.b64decode(text, validate=True), max_bytes + 1)
    except (binascii.Error, ValueError, zlib.error):
        raise DamagedProfileError(field, "cannot be decompressed") from None
    if len(data) > max_bytes:
        raise DamagedProfileError(field, f"has more than {max_bytes} bytes")
    if not reader.eof:
        raise DamagedProfileError(field, "is cut off")
    return data


class _Reader:
    """Reads arrays whose bytes are ordered by significance."""

    def __init__(self, data: bytes, field: str) -> None:
        self._data, self._place, self._field = data, 0, field

    @property
    def rest(self) -> int:
        return len(self._data) - self._place

    def read(self, kind: Any, count: int) -> NDArray[Any]:
        size = np.dtype(kind).itemsize
        if self.rest < size * count:
            raise DamagedProfileError(self._field, "has fewer bytes than its events need")
        planes = np.frombuffer(self._data, np.uint8, size * count, self._place).reshape(size, count)
        self._place += size * count
        values: NDArray[Any] = planes.T.copy(order="C").view(kind).ravel()
        return values


def _lanes(masks: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which lanes executed, (events, 32)."""
    return (masks[:, None] >> np.arange(WARP_SIZE, dtype=np.uint32) & 1).astype(bool)


def _starts(masks: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each event: index of its first value, and number of values."""
    counts = _lanes(masks).sum(axis=1)
    return np.cumsum(counts) - counts, counts


def _groups(index: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """An order in which equal indices are neighbours, and where in it a new index begins."""
    order = np.argsort(index, kind="stable")
    return order, np.diff(index[order].astype(np.int64), prepend=-1) != 0


def _differences_by_index(values: NDArray[np.int64], index: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Differences from the previous value of the same index."""
    order, begins = _groups(index)
    ordered = values[order]
    differences = np.where(begins, ordered, np.diff(ordered, prepend=np.int64(0)))
    result = np.empty_like(values)
    result[order] = differences
    return result


def _sums_by_index(differences: NDArray[np.int64], index: NDArray[np.uint32]) -> NDArray[np.int64]:
    """The inverse of `_differences_by_index`."""
    order, begins = _groups(index)
    sums = np.cumsum(differences[order])
    places = np.flatnonzero(begins)
    before = sums[places] - differences[order][places]
    lengths = np.diff(np.append(places, len(order)))
    result = np.empty_like(differences)
    result[order] = sums - np.repeat(before, lengths)
    return result

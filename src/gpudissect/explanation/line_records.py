"""Requests of sampled lines as a part of a profile, and the hit rates that follow from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from gpudissect.explanation.line_sample import LineSampled, is_sampled
from gpudissect.explanation.packing import DamagedProfileError, pack_bytes, unpack_bytes
from gpudissect.explanation.reuse import L2, SECTOR_BYTES, Requests, behind_l1, merged_by, served_by
from gpudissect.explanation.rows import distinct_rows, numbered
from gpudissect.results.model import Items, Record

MAX_RECORDS = 1 << 16
SHIFT, LAUNCH_RECORDS = 6, 1 << 23
"""Sampling rate of a launch, 2**-SHIFT, and the records that it has room for."""
STANDARD_ERRORS = 2.0
_RECORD_BYTES = 8
_OFFSET_BITS = 40  # of a sector number; allocations are numbered above them
_ELSEWHERE = (1 << 16) - 1
Count = Annotated[int, Field(ge=0, lt=2**63)]


class BehindL1(NamedTuple):
    """Of all requested sectors: share that comes from or goes to memory, bytes of memory that each moves on average.

    Whether the L1 holds a sector hardly changes either: what would hit a larger L1 hits the L2. `far`: share of the
    hits in the L2 that are in the far partition; `merged`: share of the requests that miss the L1 while another SM
    waits for the same sector; `lone`: share of the requests of lines that only one SM requests. `sectors`: requested
    sectors of all lines, as estimated from those of `lines` sampled lines; 0 lines if the number is not an estimate.
    """

    memory: float
    memory_bytes: float
    far: float = 0.0
    merged: float = 0.0
    lone: float = 0.0
    sectors: float = 0.0
    lines: int = 0

    def of_all(self, sectors: float) -> BehindL1:
        """The same relative to the counted number of sectors that all warps request.

        A few lines that are requested often are missing from a small sample, or are too many in it; misses spread over
        all lines. As in SHARDS-adj (Waldspurger et al., FAST 2015), the difference in sectors hits. Within the standard
        error of the number of lines, the sample is kept: there the lines are requested alike.
        """
        error = STANDARD_ERRORS / math.sqrt(self.lines) if self.lines else 1.0
        ratio = self.sectors / sectors if sectors else 1.0
        factor = min(1.0, ratio + error) if ratio < 1 else max(1.0, ratio - error)
        return self.times(factor) if self.memory * factor <= 1 else self.times(1 / self.memory)

    def times(self, factor: float) -> BehindL1:
        """The same with this multiple of the share from memory."""
        return self._replace(memory=self.memory * factor, memory_bytes=self.memory_bytes * factor)

    def at_most(self, memory: float) -> BehindL1:
        """The same with at most this share from memory."""
        return self if self.memory <= memory else self.times(memory / self.memory)


class LineRecords(Record):
    """All requests of some lines, in their order, packed."""

    records: Annotated[int, Field(ge=0, le=MAX_RECORDS)]
    """Recorded requests of sectors."""
    line_bytes: Annotated[int, Field(ge=SECTOR_BYTES, le=4096)]
    """Bytes of a line."""
    rate: Annotated[float, Field(gt=0, le=1)]
    """Share of all lines that is in the sample."""
    more: Count = 0
    """Later requests that were not recorded."""
    accesses: Items[tuple[Count, str, bool]] = ()
    """Number of the PTX instruction, kind, and whether the L1 may hold it, of what records have the index of."""
    packed: str = Field(repr=False)
    """See `pack`."""

    def requests(self) -> Requests:
        """The requests; each allocation has addresses of its own. Raises `DamagedProfileError`."""
        data = unpack_bytes(self.packed, self.records * (_RECORD_BYTES + 4), "packed of lines")
        if len(data) != self.records * (_RECORD_BYTES + 4):
            raise DamagedProfileError("packed of lines", f"has other than {self.records} records")
        rows = np.ascontiguousarray(np.frombuffer(data, np.uint8).reshape(_RECORD_BYTES + 4, self.records).T)
        sectors = np.cumsum(np.ascontiguousarray(rows[:, :8]).view(np.int64).ravel()).astype(np.uint64)
        access, sm = (np.ascontiguousarray(rows[:, at : at + 2]).view(np.uint16).ravel() for at in (8, 10))
        if access.max(initial=0) >= max(1, len(self.accesses)):
            raise DamagedProfileError("packed of lines", "has records of unknown accesses")
        kinds = access.astype(np.uint32), sm.astype(np.uint32)
        return Requests(sectors * np.uint64(SECTOR_BYTES), *kinds, self.line_bytes, self.rate, self.more)

    def behind_l1(
        self, l1_bytes: float, l2: L2, copied: Mapping[int, float] = MappingProxyType({})
    ) -> dict[int, BehindL1]:
        """What becomes of the requests that miss the L1, by number of the PTX instruction, in a later launch.

        `copied`: bytes of a request of each bulk copy, of which the first sector alone is recorded.
        """
        uses_l1 = np.array([uses for _, _, uses in self.accesses], dtype=bool)
        is_load = np.array([kind == "load" for _, kind, _ in self.accesses], dtype=bool)
        moved = np.array([copied.get(number, SECTOR_BYTES) for number, _, _ in self.accesses])
        requests = self.requests()
        behind = behind_l1(requests, uses_l1, l1_bytes) if self.records else requests
        served, is_merged = served_by(behind, is_load, l2), merged_by(behind, is_load, moved, l2)
        line = numbered(requests.line)
        sms = np.bincount(line[distinct_rows(line, requests.sm.astype(np.int64))[0]], minlength=1)
        found = dict[int, BehindL1]()
        for index, count in zip(*np.unique(requests.access, return_counts=True), strict=True):
            of = behind.access == index
            reached, near, far = (int(each[of].sum()) for each in (of, served.is_near, served.is_far))
            found[self.accesses[index][0]] = BehindL1(
                memory=(reached - near - far) / int(count),
                memory_bytes=float(served.memory_bytes[of].sum()) / int(count),
                far=far / (near + far) if far else 0.0,
                merged=float(is_merged[of].mean()) if reached else 0.0,
                lone=float((sms[line[requests.access == index]] == 1).mean()),
                sectors=int(count) / requests.rate,
                lines=0 if requests.overflow_count else int(np.unique(line[requests.access == index]).size),
            )
        return found


def thinned(requests: Requests, shift: int) -> Requests:
    """The requests of fewer lines, at most `MAX_RECORDS`: a sample at a lower rate lies in one at a higher rate."""
    while len(requests.address) > MAX_RECORDS:
        shift += 1
        chosen = is_sampled(requests.address, shift=shift, line_bytes=requests.line_bytes)
        requests = replace(requests.select(chosen), rate=2.0**-shift)
    return requests


def pack(sampled: LineSampled, requests: Requests, starts: Sequence[int], sizes: Sequence[int]) -> LineRecords:
    """Requests with addresses relative to the allocations, which start at `starts` and have `sizes` bytes.

    Differences of sector numbers, accesses and SMs, in planes of bytes, compressed.
    """
    kept = len(requests.address)
    differences = np.diff(_relative(requests.address, starts, sizes), prepend=np.int64(0))
    columns = (differences, requests.access.astype(np.uint16), requests.sm.astype(np.uint16))
    planes = b"".join(np.ascontiguousarray(c).view(np.uint8).reshape(kept, c.itemsize).T.tobytes() for c in columns)
    pairs = zip(sampled.accesses, sampled.uses_l1, strict=True)
    return LineRecords(
        records=kept,
        line_bytes=requests.line_bytes,
        rate=requests.rate,
        more=requests.overflow_count,
        accesses=tuple((access.instruction, access.kind, uses) for access, uses in pairs),
        packed=pack_bytes(planes),
    )


def _relative(addresses: NDArray[np.uint64], starts: Sequence[int], sizes: Sequence[int]) -> NDArray[np.int64]:
    """Sector numbers; those of each allocation begin at a multiple of 2**40."""
    signed = addresses.astype(np.int64)
    found = (signed // SECTOR_BYTES) % (1 << _OFFSET_BITS) + (_ELSEWHERE << _OFFSET_BITS)
    for number, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        inside = (signed >= start - start % SECTOR_BYTES) & (signed < start + size)
        found[inside] = (signed[inside] - start) // SECTOR_BYTES + (number << _OFFSET_BITS)
    return found

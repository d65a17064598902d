"""What the laying kernels are told: one `RING` a ring, the offsets of explicit orders, the picked positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.layout import POINTER, RING, TRAITS, UNRINGED, RingKind, origin
from gpudissect.device.cuda.chase.plan import Launch
from gpudissect.workload import Explicit, Order, Sequential, Shuffled, Timing
from gpudissect.workload.order import feistel_half_bits

_FIRST = RING.fields["first"][1] if RING.fields else 0


class Rings:
    """The rings of one launch as one piece of memory: `RING` records, then tables of 8-byte-aligned numbers."""

    def __init__(self, launch: Launch, base: int) -> None:
        self._records = np.zeros(len(launch.rings), RING)
        self._tables: list[NDArray[Any]] = []
        self._pointers: list[tuple[int, str, int]] = []  # record, field, and where in this memory it points to
        self.size = self._records.nbytes
        for number, ring in enumerate(launch.rings):
            if ring.path in UNRINGED:
                continue  # no links: nothing is laid
            record, traits = self._records[number], TRAITS[ring.path]
            record["region"] = base + ring.region
            record["origin"] = origin(ring.path, base, ring.region)
            record["word"], record["shift"] = min(ring.path.word, POINTER), traits.shift
            record["mark"] = traits.mark if ring.timed and launch.timing is Timing.EACH else 0
            self._describe(number, ring.order)
            if ring.picks is not None:
                record["pick_count"] = len(ring.picks)
                self._append(number, "picks", np.array(ring.picks, np.uint32))

    @property
    def count(self) -> int:
        """How many rings there are."""
        return len(self._records)

    @property
    def most_links(self) -> int:
        """Links of the longest ring."""
        return int(self._records["count"].max())

    @property
    def picked(self) -> bool:
        """Does any ring have picked positions?"""
        return bool(self._records["pick_count"].any())

    @staticmethod
    def first(address: int, number: int) -> int:
        """Address at which the link to the first position of a ring stands, once laid; `address` is of all rings."""
        return address + number * RING.itemsize + _FIRST

    def bytes_at(self, address: int) -> NDArray[np.uint8]:
        """What to upload to `address`."""
        for number, field, at in self._pointers:
            self._records[number][field] = address + at
        blob = np.zeros(self.size, np.uint8)
        blob[: self._records.nbytes] = self._records.view(np.uint8)
        at = self._records.nbytes
        for table in self._tables:
            blob[at : at + table.nbytes] = table.view(np.uint8)
            at += _padded(table.nbytes)
        return blob

    def _append(self, number: int, field: str, table: NDArray[Any]) -> None:
        self._pointers.append((number, field, self.size))
        self._tables.append(table)
        self.size += _padded(table.nbytes)

    def _describe(self, number: int, order: Order) -> None:
        record = self._records[number]
        record["count"] = order.count
        match order:
            case Explicit():
                record["kind"] = RingKind.EXPLICIT
                self._append(number, "table", order.offsets())
            case Shuffled():
                record["kind"], record["stride"], record["start"] = RingKind.SHUFFLED, order.stride, order.start
                record["seed"], record["half"] = order.seed, feistel_half_bits(order.count)
            case Sequential():
                record["kind"], record["stride"], record["start"] = RingKind.SEQUENTIAL, order.stride, order.start


def _padded(size: int) -> int:
    return -(-size // 8) * 8

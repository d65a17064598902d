"""What the kernels that write chains read: one `CHAIN` record each, explicit offsets, picked positions."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.chase.plan import ChaseLaunch
from gpudissect.device.cuda.layout import CHAIN, POINTER_BYTES, TRAITS, UNCHAINED, ChainKind, first_link
from gpudissect.workload import Explicit, Sequential, Shuffled, Timing
from gpudissect.workload.order import feistel_half_bits

_FIRST_OFFSET = CHAIN.fields["first"][1] if CHAIN.fields else 0


class ChainTable:
    """The chains of one launch as one piece of memory: `CHAIN` records, then tables aligned to 8 bytes."""

    def __init__(self, launch: ChaseLaunch, base: int) -> None:
        self.records = np.zeros(len(launch.chains), CHAIN)
        self._tables: list[NDArray[Any]] = []
        self._pointers: list[tuple[int, str, int]] = []  # record, field, offset of the table that it points to
        self.size = self.records.nbytes
        for number, chain in enumerate(launch.chains):
            if chain.path in UNCHAINED:
                continue
            record, traits = self.records[number], TRAITS[chain.path]
            record["region"] = base + chain.region
            record["origin"] = first_link(chain.path, base, chain.region)
            record["link_bytes"], record["shift"] = min(chain.path.word, POINTER_BYTES), traits.shift
            record["mark"] = traits.mark if chain.timed and launch.first.timing is Timing.EACH else 0
            record["count"] = chain.order.count
            match chain.order:
                case Explicit() as order:
                    record["kind"] = ChainKind.EXPLICIT
                    self._append(number, "table", order.offsets())
                case Shuffled() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SHUFFLED, order.stride, order.start
                    record["seed"], record["half"] = order.seed, feistel_half_bits(order.count)
                case Sequential() as order:
                    record["kind"], record["stride"], record["start"] = ChainKind.SEQUENTIAL, order.stride, order.start
            if chain.picks is not None:
                record["pick_count"] = len(chain.picks)
                self._append(number, "picks", np.array(chain.picks, np.uint32))

    @staticmethod
    def start(address: int, number: int) -> int:
        """Address at which the link to the first position of a chain stands, given the address of the table."""
        return address + number * CHAIN.itemsize + _FIRST_OFFSET

    def content(self, address: int) -> NDArray[np.uint8]:
        """Bytes to upload to `address`."""
        for number, field, offset in self._pointers:
            self.records[number][field] = address + offset
        padded = [np.pad(table.view(np.uint8), (0, -table.nbytes % 8)) for table in self._tables]
        return np.concatenate([self.records.view(np.uint8), *padded])

    def _append(self, number: int, field: str, table: NDArray[Any]) -> None:
        self._pointers.append((number, field, self.size))
        self._tables.append(table)
        self.size += -(-table.nbytes // 8) * 8

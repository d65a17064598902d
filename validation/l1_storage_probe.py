"""Fill the data storage of the L1 of GPU 0: ``python validation/l1_storage_probe.py FILE.npz [SEED]``.

Takes eight seconds; see `l1_storage.py`.
"""

from typing import Any

import gpu_probe
import numpy as np
from l1_chains import KERNELS, Chains
from l1_storage import BANKS, KINDS, LINE, LINES, ROOMS, SECTORS, TEXTURE, banks_of
from numpy.typing import NDArray

RESERVED_BYTES = 1088  # of shared memory: by the driver, and for the variables of a kernel
SMALLEST_LAST_KIB = 100  # of shared memory: kernels with as much run after a change to the smallest carve-out
LAPS = 4

Numbers = NDArray[np.int64]


class Probe:
    """Runs chains on every SM, each in a kernel of its own that begins with an empty L1."""

    def __init__(self, seed: int) -> None:
        self._memory = Chains()
        self.rng = np.random.default_rng(seed)
        self._shared = {kib: 1024 * kib - RESERVED_BYTES for kib in ROOMS}
        self._kernels = {
            (kind, kib): self._memory.function(name, self._shared[kib], 0)
            for kind, name in KERNELS.items()
            for kib in ROOMS
        }
        self._changes = [self._memory.function(b"change_carveout", 0, each) for each in (100, 0)]
        self.rows: list[tuple[int, ...]] = []
        self.units: list[Numbers] = []
        self.missed: list[NDArray[np.uint8]] = []

    def run(self, kib: int, kind: int, units: Numbers, laps: int) -> None:
        """Access sectors in this order, by number; a line at most three times. Keep which accesses miss."""
        start = self._link(kind, units)
        for change in self._changes[:: 1 if kib >= SMALLEST_LAST_KIB else -1]:
            self._memory.launch(change, 1024)
        count = laps * len(units)
        self._memory.follow(self._kernels[kind, kib], self._shared[kib], start, count, self._memory.out)
        bits = self._memory.missed(count)
        self.rows.append((kib, kind, laps, len(units), int((bits == bits[0]).all(axis=1).sum())))
        self.units.append(units)
        self.missed.append(bits[0])

    def _link(self, kind: int, units: Numbers) -> int:
        """Write the chain: each visit of a line has words of its own. Returns where it starts."""
        order = np.argsort(units // SECTORS, kind="stable")  # the visits of a line follow each other
        lines = (units // SECTORS)[order]
        visit = np.empty_like(units)
        visit[order] = np.arange(units.size) - np.searchsorted(lines, lines)
        words = units * (LINE // SECTORS // 4) + 2 * visit
        after = np.roll(words, -1)
        image = np.zeros(LINES * LINE // 8, np.uint64)
        image[words // 2] = after if kind == TEXTURE else 4 * after + self._memory.base
        self._memory.gpu.upload(self._memory.base, image)
        return int(words[0]) if kind == TEXTURE else int(4 * words[0]) + self._memory.base

    def some_of_a_bank(self, kind: int, count: int) -> Numbers:
        """`count` lines of a random bank, in random order."""
        bank = self.rng.integers(BANKS)
        return self.rng.choice(np.flatnonzero(banks_of(kind, np.arange(LINES)) == bank), count, replace=False)

    def shuffled(self, lines: Numbers, visits: int) -> Numbers:
        """`visits` accesses to each line, in random order, each time in one of two of its sectors."""
        order = self.rng.permutation(np.repeat(lines, visits))
        return order * SECTORS + self.rng.integers(2, size=order.size)


def measure(seed: int) -> dict[str, NDArray[Any]]:
    """All runs; see `l1_storage` for the arrays."""
    probe = Probe(seed)
    for kib, room in ROOMS.items():
        for kind in KINDS:
            for more in (2, room // 8, room // 2):
                probe.run(kib, kind, probe.some_of_a_bank(kind, room + more) * SECTORS, LAPS)
            for more in (1, room // 2, room):
                probe.run(kib, kind, probe.shuffled(probe.some_of_a_bank(kind, room + more), 3), 1)
            for count in (5 * room, 7 * room):
                probe.run(kib, kind, probe.shuffled(probe.rng.permutation(LINES)[:count], 2), 1)
    return {
        "rows": np.array(probe.rows, np.int32),
        "units": np.concatenate(probe.units).astype(np.uint16),
        "missed": np.packbits(np.concatenate(probe.missed)),
    }


if __name__ == "__main__":
    gpu_probe.main(measure)

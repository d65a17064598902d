"""Measure how many random loads an H200 serves: ``python validation/tlb_rates_probe.py FILE.csv``; see `tlb_rates.py`.

Takes nearly all memory of the GPU, and eleven seconds.
"""

import csv
import sys
from collections.abc import Sequence

import numpy as np
from gpu_probe import U32, U64
from l2_rules import Numbers
from tlb_map import groups_of
from tlb_map_probe import AREA, AREAS, GIB, KEPT_BYTES, LINE, PIECE, Probe, free_bytes, measure_sharing
from tlb_rates import COLUMNS, Rate

THREADS, BLOCKS = 1024, 2  # of each block; of each SM
LOADS = {1: 512, 32: 64}  # active threads of a warp, and loads of each
REPEATS = 3
MAPPED = (8, 16, 20, 32, 64, 256, 1024, 2048, 2560, 3072, 4096, 6144, 8192, 9216, 12288, 16384)
"""Areas of 32 MiB, in each of which the same 2 MiB are mapped: all loads hit in the L2."""
SOME_MAPPED = (256, 4096, 16384)
ORDINARY = (1, 4, 16, 32, 48, 56, 60, 64, 68, 72, 80, 96, 112, 128)  # GiB


class Rates:
    """Random loads of many warps.

    Attributes:
        rows: what was measured.

    """

    def __init__(self, probe: Probe) -> None:
        self.rows: list[Rate] = []
        self._gpu, self._kernel = probe.gpu, probe.scatter
        self._windows, self._out = probe.gpu.allocate(256), probe.gpu.allocate(256)

    def measure(self, memory: str, start: int, step: int, pages: int, lanes: int, split: str, windows: Numbers) -> None:
        """Keep the rate of loads of `pages` pages of 2 MiB, `step` bytes apart; see `scatter` for the windows."""
        self._gpu.upload(self._windows, np.resize(windows, 256).astype(np.uint8))
        arguments = (
            (start, U64),
            (step.bit_length() - 1, U32),
            (pages, U32),
            (PIECE // LINE, U32),
            (LOADS[lanes], U32),
            (lanes, U32),
            (self._windows, U64),
            (self._out, U64),
        )
        shape = self._gpu.sms * BLOCKS, THREADS
        milliseconds = min(self._gpu.time(self._kernel, shape, 0, *arguments) for _ in range(REPEATS))
        sms = int(np.count_nonzero(windows))
        loads = sms * BLOCKS * THREADS // 32 * lanes * LOADS[lanes]
        self.rows.append(Rate(memory, pages * step / GIB, lanes, split, sms, loads / milliseconds / 1e6))
        print(self.rows[-1], flush=True)


def only(chosen: Sequence[int], sms: int) -> Numbers:
    """Windows of `scatter` with which only these SMs load."""
    return np.isin(np.arange(sms), chosen).astype(np.int64)


def measure(probe: Probe) -> Sequence[Rate]:
    """Measure all rates."""
    measure_sharing(probe)
    groups = groups_of(probe.kept["sharing"])
    rates, sms = Rates(probe), probe.gpu.sms
    every = np.ones(sms, np.int64)
    by_group, by_sm = every.copy(), 1 + np.arange(sms) % 2
    for group in groups[::2]:
        by_group[[*group]] = 2
    spread = [group[0] for group in groups[: len(groups[0])]]
    for lanes in LOADS:
        for areas in MAPPED:
            rates.measure("mapped", probe.base, AREA, areas, lanes, "no", every)
        for areas in SOME_MAPPED:
            for name, chosen in (("one SM", groups[0][:1]), ("other TLBs", spread)):
                rates.measure("mapped", probe.base, AREA, areas, lanes, name, only(chosen, sms))
            for group in groups:
                rates.measure("mapped", probe.base, AREA, areas, lanes, "one TLB", only(group, sms))
        for name, windows in (("by TLB", by_group), ("by SM", by_sm)):
            rates.measure("mapped", probe.base, AREA, AREAS // 8, lanes, name, windows)
    size = (free_bytes() - KEPT_BYTES) // (2 * AREA) * 2 * AREA
    memory = probe.gpu.allocate(size)
    for lanes in LOADS:
        for gib in (*ORDINARY, size / GIB):
            pages = int(gib * GIB) // PIECE
            rates.measure("ordinary", memory, PIECE, pages, lanes, "no", every)
            for name, windows in (("by TLB", by_group), ("by SM", by_sm)):
                rates.measure("ordinary", memory, PIECE, pages // 2, lanes, name, windows)
    return rates.rows


if __name__ == "__main__":
    with open(sys.argv[1], "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(measure(Probe(1)))

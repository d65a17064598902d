"""Measure which SMs share the walk caches of an H200: ``python validation/tlb_walks_probe.py FILE.npz [SEED]``.

See `tlb_walks.py`. Takes eight seconds.
"""

from typing import Any

import gpu_probe
import numpy as np
from gpu_probe import U32, U64
from l2_rules import Numbers
from numpy.typing import NDArray
from tlb_map_probe import AREA, AREAS, FLUSH, GIB, PIECE, SHARED_BYTES, SOURCE, Probe
from tlb_walks import LARGE, LOADS, SMALL

LARGE_REGIONS, FIRST_LARGE, LAST_LARGE = 60, 2, 126  # of 1 TiB: how many, and where in the address space
FLUSHED_LARGE = 30  # regions of 1 TiB in which all walk caches are flushed, more than one of them holds


def pairs_by_region(probe: Probe) -> dict[int, list[tuple[Numbers, Numbers]]]:
    """For entries of each size: lines of two groups of candidates in each of many regions that an entry covers."""
    addresses = probe.base + np.arange(AREAS) * AREA
    regions = addresses >> SMALL
    small = []
    for region in np.unique(regions[FLUSH:]):
        lines = probe.rng.permutation(probe.every[(regions == region) & (np.arange(AREAS) >= FLUSH)])
        if lines.size == (1 << SMALL) // AREA:  # no part of it is flushed
            small.append((lines[: lines.size // 2], lines[lines.size // 2 :]))
    large: list[tuple[Numbers, Numbers]] = []
    for number in probe.rng.permutation(np.arange(FIRST_LARGE, LAST_LARGE)).tolist():
        starts = (number << LARGE) + np.arange(2) * 8 * GIB
        mapped = probe.map_some(starts, 2)
        if mapped.size == 2 and len(large) < LARGE_REGIONS:
            first, second = np.sort(mapped)
            large.append((probe.lines(np.array([first]), PIECE), probe.lines(np.array([second]), PIECE)))
    return {SMALL: small, LARGE: large}


class Relay:
    """The kernel, and its memory."""

    def __init__(self, probe: Probe) -> None:
        self._gpu, self._rng = probe.gpu, probe.rng
        self._kernel = self._gpu.function(self._gpu.compile(SOURCE), b"relay", SHARED_BYTES)
        self._list, self._out, self._turn = (self._gpu.allocate(size) for size in (1 << 18, 1 << 10, 1 << 8))
        self._flush, self._regions = probe.every[:FLUSH], pairs_by_region(probe)
        if len(self._regions[SMALL]) < LOADS or len(self._regions[LARGE]) < LOADS + FLUSHED_LARGE:
            raise RuntimeError("too few regions of the address space could be mapped")

    def excess(self, bits: int, first: int, second: int, *, idle: bool) -> Numbers:
        """Excess of loads by the second SM, each after one by the first SM in the same region of 2^bits bytes."""
        regions = self._regions[bits]
        order = self._rng.permutation(len(regions))
        chosen = [regions[number] for number in order[:LOADS]]
        loads = np.array([[self._rng.choice(side) for side in pair] for pair in chosen]).T.ravel()
        flush = np.append(loads, self._flush)  # so that the L2 cache holds what the page walks read
        if bits == LARGE:
            others = [regions[number][0][0] for number in order[LOADS:][:FLUSHED_LARGE]]
            flush = np.append(flush, others)
        self._gpu.upload(self._list, np.append(flush, loads).astype(np.uint64))
        self._gpu.upload(self._turn, np.zeros(1, np.uint32))
        self._gpu.upload(self._out, np.zeros(2 * LOADS, np.uint16))
        arguments = (first, U32), (second, U32), (int(idle), U32), (self._list, U64), (flush.size, U32)
        results = (LOADS, U32), (self._out, U64), (self._turn, U64)
        self._gpu.launch(self._kernel, (self._gpu.sms, 32), SHARED_BYTES, *arguments, *results)
        cycles = self._gpu.download(self._out, 2 * LOADS, np.uint16).astype(np.int64).reshape(-1, 2)
        if not cycles.all():
            raise RuntimeError(f"no block ran on SM {first} or {second}")
        return np.asarray(cycles[:, 0] - cycles[:, 1])


def measure(seed: int) -> dict[str, NDArray[Any]]:
    """What `tlb_walks.py` reads."""
    probe = Probe(seed)
    relay, sms = Relay(probe), probe.gpu.sms
    rows = []
    for bits in (SMALL, LARGE):
        for second in range(sms):
            for first, idle in (
                (second, True),
                (second, False),
                (second ^ 1, False),
                (int(probe.rng.integers(sms)), False),
            ):
                rows.append([bits, first, second, idle, *relay.excess(bits, first, second, idle=idle)])
    return {"walks": np.minimum(rows, np.iinfo(np.int16).max).astype(np.int16)}


if __name__ == "__main__":
    gpu_probe.main(measure)

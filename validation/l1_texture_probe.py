"""Measure what texture fetches leave in the L1 of GPU 0: ``python validation/l1_texture_probe.py FILE.npz [SEED]``.

Takes three seconds; see `l1_texture.py`.
"""

from itertools import accumulate
from typing import Any

import gpu_probe
import numpy as np
from gpu_probe import U32, U64
from l1_chains import KERNELS, Chains
from l1_storage import GLOBAL, LINE, LINES, READONLY, SETS, TEXTURE, sets_of
from l1_texture import CHANGE, KIB_PER_SM, SET_BITS
from numpy.typing import NDArray

SHARED_BYTES = 7136  # with the reserved 1 KiB and the variables of a kernel, the smallest carve-out
REPEATED = {GLOBAL: b"repeat_loads", TEXTURE: b"repeat_fetches"}
THREADS, REPEATS, TIMES = 256, 200, 5
KEPT_SMS = 4
LAPS = 6
RANDOM = (  # lines of a texture kernel, then of a kernel with loads: no bank has more lines than it stores
    *((0, 1500), (100, 1500), (300, 1300), (600, 1000), (800, 800), (1000, 600), (1200, 400), (1400, 200)),
)
OVERFULL = ((1929, 1800), (1000, 1800), (100, 1800), (1929, 1000), (1929, 1100), (1929, 1400))  # banks have more

Lines = NDArray[np.int64]
Chain = tuple[int, Lines]  # kind of access, lines in their order
Step = tuple[int, int]  # number of a chain, laps


class Probe:
    """Runs kernels one after the other on every SM, starting with an empty L1."""

    def __init__(self, seed: int) -> None:
        self._memory = Chains()
        self._gpu = self._memory.gpu
        self.rng = np.random.default_rng(seed)
        self._kernels = {kind: self._memory.function(name, SHARED_BYTES, 0) for kind, name in KERNELS.items()}
        self._repeated = {kind: self._memory.function(name) for kind, name in REPEATED.items()}
        self._change, self._shrink = (self._memory.function(b"change_carveout", 0, each) for each in (100, 0))
        self.chains: list[tuple[int, ...]] = []  # kind, first of `lines`, number of lines
        self.steps: list[tuple[int, ...]] = []  # run, chain, laps, SMs that agree with the first
        self.lines: list[Lines] = []
        self.missed: list[NDArray[np.uint8]] = []
        self._runs = 0

    def run(self, chains: list[Chain], steps: list[Step]) -> None:
        """One run. A step is a kernel that follows a chain, or a change of the carve-out."""
        image, first = np.zeros((LINES, LINE), np.uint8), len(self.chains)
        for kind, lines in chains:
            after = np.roll(lines, -1) * LINE
            links = (after // 4).astype(np.uint32) if kind == TEXTURE else (after + self._memory.base).astype(np.uint64)
            image[lines, : links.itemsize] = links[:, None].view(np.uint8)
            self.chains.append((kind, sum(map(len, self.lines)), len(lines)))
            self.lines.append(lines)
        self._gpu.upload(self._memory.base, image)
        self._memory.launch(self._change, 1024)
        for number, laps in steps:
            if number == CHANGE:
                self._memory.launch(self._change, 1024)
                self.steps.append((self._runs, CHANGE, 0, 0))
            else:
                self.steps.append((self._runs, first + number, laps, self._follow(*chains[number], laps)))
        self._runs += 1

    def _follow(self, kind: int, lines: Lines, laps: int) -> int:
        """Run a kernel. Keep which loads miss; return on how many SMs the same ones do."""
        is_texture, offset, count = kind == TEXTURE, int(lines[0]) * LINE, laps * len(lines)
        start, out = (offset // 4, 0) if is_texture else (self._memory.base + offset, self._memory.out)
        self._memory.follow(self._kernels[kind], SHARED_BYTES, start, count, out)
        if is_texture:
            return 0
        flags = self._memory.missed(count)
        self.missed.append(flags[:KEPT_SMS])
        return int((flags == flags[0]).all(axis=1).sum())

    def repeat(self, kib: int) -> list[float]:
        """Milliseconds that loads of `kib` KiB per SM take; see `l1_texture` for the three conditions.

        Neither kernel uses shared memory or prefers a carve-out. They run with the last one, the smallest.
        """
        words, shape = kib << 8, (self._gpu.sms, THREADS)
        array = self._gpu.allocate(self._gpu.sms * kib << 10)
        self._gpu.upload(array, np.zeros(self._gpu.sms * words, np.uint32))
        texture = self._gpu.texture(array, self._gpu.sms * kib << 10)
        arguments = (array, U64), (texture, U64), (words, U32), (REPEATS, U32), (self._memory.out, U64)
        self._gpu.launch(self._repeated[GLOBAL], shape, 0, *arguments)  # the first time is longer
        times = []
        for fetches, changes in ((False, True), (True, False), (True, True)):
            self._empty_l1()
            if fetches:
                self._gpu.launch(self._repeated[TEXTURE], shape, 0, *arguments)
            if changes:
                self._empty_l1()
            times.append(self._gpu.time(self._repeated[GLOBAL], shape, 0, *arguments))
        return times

    def _empty_l1(self) -> None:
        for kernel in (self._change, self._shrink):
            self._memory.launch(kernel, 1024)

    def choose(self, *counts: int) -> list[Lines]:
        """As many distinct lines as each of the counts, in random order."""
        order = self.rng.permutation(LINES)[: sum(counts)]
        return np.split(order, [*accumulate(counts)][:-1])

    def lines_of_sets(self, kind: int, sets: Lines, each: int, half: int) -> Lines:
        """`each` lines in each of these sets, from the lower or upper half of the memory, in random order."""
        lines = np.arange(LINES // 2) + half * LINES // 2
        of_lines = sets_of(kind, lines)
        chosen = [self.rng.choice(lines[of_lines == number], each, replace=False) for number in sets.tolist()]
        return self.rng.permutation(np.concatenate(chosen))


def measure(seed: int) -> dict[str, NDArray[Any]]:
    """All runs; see `l1_texture` for the arrays."""
    probe = Probe(seed)
    numbers = np.arange(SETS)
    first, second, third = [(number, LAPS) for number in range(3)]
    for bit in range(SET_BITS):  # which sets are the same for both kinds
        held = probe.lines_of_sets(TEXTURE, numbers[numbers >> bit & 1 == 1], 2, 0)
        for half in np.split(numbers, 2):
            probe.run([(TEXTURE, held), (GLOBAL, probe.lines_of_sets(GLOBAL, half, 3, 1))], [first, second])
    for kind in (GLOBAL, READONLY):
        for fetched, loaded in RANDOM:
            texture, plain = probe.choose(fetched, loaded)
            chains = [(kind, plain), *([(TEXTURE, texture)] if fetched else [])]
            probe.run(chains, [second, first] if fetched else [first])
    kinds = TEXTURE, GLOBAL, GLOBAL, TEXTURE
    chains = [*zip(kinds, probe.choose(600, 1000, 900, 20), strict=True)]
    for steps in (
        [first, second, third, second, third],  # later kernels
        [first, (CHANGE, 0), second],
        [first, (3, LAPS), second],  # another kernel with texture fetches
        [(0, 1), second],  # without hits
        [second, third],  # without texture fetches
    ):
        probe.run(chains, steps)
    for fetched, loaded in OVERFULL:
        probe.run([*zip(kinds, probe.choose(fetched, loaded), strict=False)], [first, second])
    return {
        "chains": np.array(probe.chains, np.int32),
        "steps": np.array(probe.steps, np.int32),
        "lines": np.concatenate(probe.lines).astype(np.uint16),
        "ms": np.array([[probe.repeat(kib) for kib in KIB_PER_SM] for _ in range(TIMES)]),
        "missed": np.packbits(np.concatenate(probe.missed, axis=1), axis=1),
    }


if __name__ == "__main__":
    gpu_probe.main(measure)

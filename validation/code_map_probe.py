"""Measure the instruction caches of GPU 0: ``python validation/code_map_probe.py FILE.npz [SEED]``; see `code_map.py`.

Takes about seven seconds. Each line begins with the return that its function ends with, so the arithmetic in it never
runs.
"""

from pathlib import Path
from typing import Any

import gpu_probe
import numpy as np
from code_map import DISTANCES, LAUNCH_VISITS, SECOND_MISS, SECOND_WAYS, THIRD_MISS, THIRD_WAYS, UNIT_LINES
from gpu_probe import U32, U64, Gpu
from numpy.typing import NDArray

from gpudissect.machine_code.elf import read_elf

SOURCE = Path(__file__).with_name("code_map.cu")
LINE, LINES, MODULES = 128, 8192, 6
INSTRUCTION, RETURN = 16, b"\x50\x79"  # bytes, and the first ones of RET
SHARED_BYTES = 200 << 10
BLOCK = 160  # threads: five warps, two of which have the same scheduler
PADS = (0, 8, 16, 24)
POOLS = {"near": (8, 48), "third": (8, 128), "second": (16, 128), "wide": (16, 512)}
"""Traces of random visits: step between lines, in lines, and number of lines."""
TRACE_VISITS = 40_000
SPACING = 16  # lines: no visit prefetches another visited line
CONSTANT_UNIT, CONSTANT_UNITS = 2048, 32
REPEATS = 48  # of each experiment with a single visit
STRIDES, MAX_LAP, LAPS, KEPT_LAPS = (16, 32, 64, 128, 256), 24, 40, 10
FLUSH_VISITS, HOT_VISITS = 400, 4
SECOND_STEP, THIRD_STEP = 64, 128  # lines after which the sets of the second and third cache repeat
OTHER_LINES, OTHER_SETS, RIVAL_VISITS = 6, (20, 29, 38, 47), 4_000
SHARED_SPAN, SHARED_STEP = 64, 8  # lines; those that are visited are in different sets of each cache
OFFSETS = np.arange(0, SHARED_SPAN, SHARED_STEP, dtype=np.uint64) * np.uint64(LINE)

Visits = NDArray[np.uint64]
Cycles = NDArray[np.uint16]


class Probe:
    """The kernels, and lines of code to visit.

    Attributes:
        bases: addresses of the first line of each module.
        rng: of all random choices.
        sms: number of SMs.

    """

    def __init__(self, seed: int) -> None:
        self._gpu = Gpu()
        self.rng = np.random.default_rng(seed)
        self.sms = self._gpu.sms
        self._list, self._out = (self._gpu.allocate(LAUNCH_VISITS * size) for size in (8, 2))
        kernels = {pad: self._gpu.compile(SOURCE, f"PAD {pad}") for pad in PADS}
        self._visits = {pad: self._gpu.function(cubin, b"visit", SHARED_BYTES) for pad, cubin in kernels.items()}
        self._turns = self._gpu.function(kernels[0], b"visit_by_warps")
        lines = insert_returns(self._gpu.compile(SOURCE, "LINES"))
        self.bases = np.array([self._first_line(lines) for _ in range(MODULES)], np.uint64)

    def visit(self, visits: Visits, pad: int = 0, sm: int = 0) -> Cycles:
        """Cycles of visits by one warp."""
        parts = [visits[at : at + LAUNCH_VISITS] for at in range(0, visits.size, LAUNCH_VISITS)]
        return np.concatenate([self._run(self._visits[pad], part, SHARED_BYTES, sm) for part in parts])

    def visit_by_warps(self, visits: Visits, warps: NDArray[np.uint64]) -> Cycles:
        """Cycles of up to `LAUNCH_VISITS` visits, each by a given warp."""
        return self._run(self._turns, visits | warps << np.uint64(48), 0, 0)

    def lines(self, module: int, count: int, step: int = SPACING) -> Visits:
        """Addresses of `count` lines, `step` lines apart."""
        addresses: Visits = self.bases[module] + np.arange(count, dtype=np.uint64) * np.uint64(LINE * step)
        return addresses

    def flush(self) -> Visits:
        """Random visits that evict all other lines."""
        visits: Visits = self.rng.choice(self.lines(MODULES - 1, LINES, 1), FLUSH_VISITS)
        return visits

    def _first_line(self, cubin: bytes) -> int:
        self._gpu.launch(self._gpu.function(cubin, b"locate"), (1, 1), 0, (self._out, U64))
        return int(self._gpu.download(self._out, 1, np.uint64)[0])

    def _run(self, function: Any, visits: Visits, shared: int, sm: int) -> Cycles:
        self._gpu.upload(self._list, visits)
        arguments = (sm, U32), (self._list, U64), (visits.size, U32), (self._out, U64)
        self._gpu.launch(function, (self.sms, BLOCK), shared, *arguments)
        return self._gpu.download(self._out, visits.size, np.uint16)


def insert_returns(cubin: bytes) -> bytes:
    """The machine code, the first instruction of each line replaced by the return at the end of the function."""
    before = read_elf(cubin).content(".text._Z5linesjj")
    after = bytearray(before)
    starts = range(0, len(after), INSTRUCTION)
    instruction = next(after[at : at + INSTRUCTION] for at in starts if after[at : at + 2] == RETURN)
    for at in range(0, LINES * LINE, LINE):
        after[at : at + INSTRUCTION] = instruction
    return cubin.replace(before, bytes(after))


def measure(probe: Probe) -> dict[str, NDArray[Any]]:
    """All runs; see `code_map` for the arrays."""
    found: dict[str, NDArray[Any]] = {"bases": probe.bases}

    def trace(name: str, pool: Visits, pad: int = 0, visits: int = TRACE_VISITS) -> None:
        order = probe.rng.integers(0, pool.size, visits).astype(np.uint16)
        cycles = probe.visit(pool[order], pad)
        found.update({f"{name}_pool": pool, f"{name}_order": order, f"{name}_cycles": cycles})

    for name, (step, count) in POOLS.items():
        trace(name, probe.lines(0, count, step))
    far = np.concatenate([probe.lines(each, LINES // SPACING) for each in range(MODULES)])
    trace("far", probe.rng.choice(far, 128, replace=False))
    constants = np.arange(CONSTANT_UNITS, dtype=np.uint64) * np.uint64(CONSTANT_UNIT)
    trace("mixed", np.concatenate([probe.lines(0, 64), constants]))
    for pad in PADS:
        trace(f"pad{pad}", probe.lines(0, 128), pad)
    for distance in range(UNIT_LINES):
        for name, step, count in (("rival2", SECOND_STEP, SECOND_WAYS), ("rival3", THIRD_STEP, THIRD_WAYS)):
            trace(f"{name}_{distance}", rivals(probe, step, count, distance), visits=RIVAL_VISITS)
    neighbours = [[time_neighbour(probe, each) for _ in range(REPEATS)] for each in DISTANCES]
    found["starts"], found["neighbours"] = np.moveaxis(np.array(neighbours), 2, 0)
    for stride in STRIDES:
        found[f"laps_{stride}"] = np.array([time_laps(probe, stride, count) for count in range(2, MAX_LAP + 1)])
    found["warps"] = np.array([[time_after_warp(probe, warp) for _ in range(REPEATS)] for warp in range(BLOCK // 32)])
    found["sharing"] = np.array(sharing(probe))
    return found


def rivals(probe: Probe, step: int, count: int, distance: int) -> Visits:
    """Lines `step` apart, as many `distance` lines behind others of them, and lines of other sets that fill caches.

    The first ones share sets with the second ones only if lines this far apart are in the same set.
    """
    near, far = np.arange(count) * step, np.arange(count, 2 * count) * step + distance
    others = np.add.outer(np.arange(OTHER_LINES) * SECOND_STEP, OTHER_SETS).ravel()
    addresses: Visits = probe.bases[0] + (np.concatenate([near, far, others]) * LINE).astype(np.uint64)
    return addresses


def some_line(probe: Probe) -> int:
    """Number of a line that has neighbours on both sides."""
    return int(probe.rng.integers(64, LINES - 64))


def time_neighbour(probe: Probe, distance: int) -> tuple[int, int]:
    """A line that is visited after a flush, and cycles of one so many lines behind it, visited a little later."""
    line = some_line(probe)
    first, other = (np.uint64(int(probe.bases[0]) + each * LINE) for each in (line, line + distance))
    hot = [probe.bases[MODULES - 1]] * HOT_VISITS
    return line, int(probe.visit(np.array([*probe.flush(), first, *hot, other], np.uint64))[-1])


def time_laps(probe: Probe, stride: int, count: int) -> Cycles:
    """Cycles of the last laps over `count` lines a stride apart, padded with zeros."""
    cycles = probe.visit(np.tile(probe.lines(0, count, stride), LAPS))[-KEPT_LAPS * count :]
    return np.pad(cycles, (0, KEPT_LAPS * (MAX_LAP - count)))


def time_after_warp(probe: Probe, warp: int) -> int:
    """Cycles of a line that another warp visited before, after a flush."""
    line, hot = np.uint64(int(probe.bases[0]) + some_line(probe) * LINE), [probe.bases[MODULES - 1]] * HOT_VISITS
    visits = np.array([*probe.flush(), line, *hot, line], np.uint64)
    warps = np.zeros(visits.size, np.uint64)
    warps[FLUSH_VISITS] = warp
    return int(probe.visit_by_warps(visits, warps)[-1])


def sharing(probe: Probe) -> list[tuple[int, int, int, int]]:
    """For each SM: another one that visited lines before, hits in the first or second cache, hits in any cache."""
    rows, firsts = list[tuple[int, int, int, int]](), list[int]()
    for sm in range(probe.sms):
        for other in dict.fromkeys((sm, sm ^ 1, *firsts)):
            start = int(probe.rng.integers(LINES // SHARED_SPAN)) * SHARED_SPAN
            lines = probe.bases[int(probe.rng.integers(MODULES - 1))] + np.uint64(LINE * start) + OFFSETS
            probe.visit(probe.flush(), sm=sm)
            probe.visit(lines, sm=other)
            cycles = probe.visit(lines, sm=sm)
            rows.append((sm, other, int(np.sum(cycles < SECOND_MISS)), int(np.sum(cycles < THIRD_MISS))))
        near = {other for observer, other, _, hits in rows if observer == sm and hits > OFFSETS.size // 2}
        if near.isdisjoint(firsts):
            firsts.append(sm)
    return rows


if __name__ == "__main__":
    gpu_probe.main(lambda seed: measure(Probe(seed)))

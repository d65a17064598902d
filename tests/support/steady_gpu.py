"""A GPU in closed form: throughput is what is in flight over a latency, up to a rate; banks take turns."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.shared_memory.infer_banks import Layout
from gpudissect.simulation.sm.banks import addresses, passes
from gpudissect.simulation.sm.description import SharedMemory
from gpudissect.trace import Context, Trace
from gpudissect.workload import Access, Clock, Instruction, Launch, LaunchMethod, Mix, Path, Stream, Transfer, Workload
from gpudissect.workload.digest import digest

SMS = 8
CLOCK = 2e9
FACTS: dict[str, int | float | str] = {
    "l2_size": 8 << 20, "memory_clock_hz": 2e9, "memory_bus_bits": 512, "shared_per_block": 48 << 10,
    "shared_per_sm": 96 << 10, "threads_per_sm": 2048, "registers_per_sm": 65536, "clock_hz": CLOCK,
    "compute_capability": "9.9",
}  # fmt: skip
PEAK = 2 * 2e9 * 512 / 8
INFO = DeviceInfo(
    "fake:0",
    "fake",
    Origin.MEASURED,
    SMS,
    {Path.GLOBAL: 4 << 30, Path.GLOBAL_L2: 4 << 30, Path.SHARED: 48 << 10},
    facts=FACTS,
    streams=(Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED),
    instructions=tuple(Instruction),
    launch_methods=tuple(LaunchMethod),
)


MODERN = Layout(32, 4, 4, 32)


@dataclass
class Level:
    """Latency in seconds and rate in B/s (of all SMs) of a memory, or in cycles and B/cycle of one SM."""

    latency: float
    rate: float

    def __call__(self, in_flight: float) -> float:
        return min(in_flight / self.latency, self.rate)


@dataclass
class SteadyGpu:
    """A device; what it does may be changed by a test.

    `units`: cycles of an instruction, and cycles between two of an SM (of any warp).
    """

    info: DeviceInfo = INFO
    noise: float = 0.002
    dram: Callable[[float], float] = field(default_factory=lambda: Level(600e-9, 0.93 * PEAK))
    l2: Callable[[float], float] = field(default_factory=lambda: Level(250e-9, 900e9))
    l1: Callable[[float], float] = field(default_factory=lambda: Level(32, 120))
    shared: Callable[[float], float] = field(default_factory=lambda: Level(24, 127.5))
    unit: Callable[[Instruction], tuple[float, float]] = lambda instruction: (6.0, 0.25)
    layout: Layout = MODERN
    way: float = 2.0
    turn: float = 1.0  # cycles for which an access to shared memory keeps the banks, each turn
    loop: float = 7.0  # cycles that an iteration takes beside its body
    start: float = 5000.0
    interval: float = 1500.0
    wait: float = 220.0
    overlap: bool = False  # blocks take nobody's place
    anew: float = 1.0  # factor on what is measured again
    many: float = 1.0  # factor on what more blocks move than run at once

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        return [self._trace(workload) for workload in batch]

    def _luck(self, workload: Workload, size: int = 1) -> np.ndarray:
        rng = np.random.default_rng(zlib.crc32(digest(workload).encode()))
        return 1 + self.noise * rng.standard_normal(size)

    def _trace(self, workload: Workload) -> Trace:
        if isinstance(workload, Stream):
            arrays = self._stream(workload)
        elif isinstance(workload, Mix):
            arrays = self._replaced(workload) if workload.waves > 1 else self._mix(workload)
        else:
            assert isinstance(workload, Launch)
            first = self.start - self.interval if workload.clock is Clock.HOST else self.interval
            rate = first + workload.kernels * self.interval
            arrays = {"nanoseconds": np.rint(rate * self._luck(workload, workload.runs))}
        return Trace(digest(workload), arrays, Context("fake", clock_hz=CLOCK))

    def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
        registers = stream.threads * (stream.ilp * stream.width // 4 + 24)
        at_once = min(stream.blocks // SMS, 2048 // stream.threads, 65536 // registers)
        per_sm = at_once * stream.threads * stream.ilp * stream.width
        copies = 2 if stream.transfer is Transfer.COPY else 1
        if stream.path is Path.SHARED or (stream.path is Path.GLOBAL and stream.footprint <= SMS * (64 << 10)):
            level = self.shared if stream.path is Path.SHARED else self.l1
            rate = level(copies * per_sm) * SMS * CLOCK
        else:
            rate = (self.dram if stream.footprint > 8 << 20 else self.l2)(copies * per_sm * SMS)
        rate *= self.anew if stream.repetition else 1
        rate *= self.many if at_once < stream.blocks // SMS else 1
        took = stream.moved / rate * 1e9 * self._luck(stream, stream.runs)
        cycles = np.repeat(np.rint(took * CLOCK / 1e9)[:, None], stream.blocks, axis=1)
        moved = np.full(stream.runs, stream.moved)
        return {"nanoseconds": np.rint(took) + 1000, "bytes": moved, "cycles": cycles}

    def _turns(self, stride: int, width: int) -> int:
        """As `processor` counts them, not as the inference that is under test does."""
        banks = SharedMemory(self.layout.banks, self.layout.width, self.layout.interleave, self.layout.at_once)
        return passes(banks, addresses(stride), width)

    def _mix(self, mix: Mix) -> dict[str, np.ndarray]:
        (step,) = mix.body
        latency, interval = self.unit(step.instruction)
        turns = self._turns(mix.stride, mix.width) if step.instruction in ("lds", "sts") else 1
        more = self.way * (turns - self._turns(mix.width // 4, mix.width) + mix.width // 4 - 1)
        if mix.access is not Access.RESIDENT:
            latency, interval = latency * 10, interval * 40
        each = max(latency + more, mix.warps * mix.ilp * max(interval, self.turn * turns * (step.instruction == "lds")))
        took = mix.iterations * (step.count * each + self.loop) * (self.anew if mix.repetition else 1)
        sms = SMS if mix.sms is None else mix.sms
        sm = np.repeat(np.arange(sms), mix.warps)
        begin = np.full(sm.size, 1000)
        end = begin + 20 + np.rint(took * (1 + abs(self._luck(mix, sm.size) - 1)))
        blocks = np.arange(sm.size) // (mix.block_size // 32)
        return {"begin": begin, "end": end, "sm": sm, "block": blocks, "nanoseconds": np.array([took])}

    def _replaced(self, mix: Mix) -> dict[str, np.ndarray]:
        """Every SM runs its blocks in as many lanes as run at once."""
        per_block, at_once = mix.block_size // 32, mix.warps * 32 // mix.block_size
        rows = []
        for sm in range(SMS):
            for lane in range(at_once):
                now = 1000.0 * sm + 37 * lane
                for turn in range(mix.waves):
                    took = 6000 * float(self._luck(replace(mix, repetition=1000 + 100 * sm + 10 * lane + turn))[0])
                    block = (turn * SMS + sm) * at_once + lane
                    rows += [(now, now + took, sm, block)] * per_block
                    now += (took + self.wait) if not self.overlap else 1.0
        begin, end, sm_of, block_of = np.rint(np.array(rows)).astype(int).T
        return {"begin": begin, "end": end, "sm": sm_of, "block": block_of, "nanoseconds": np.array([1])}

"""A GPU in closed form: throughput is what is in flight over a latency, up to a rate; bank conflicts add passes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.shared_memory.infer_banks import Layout
from gpudissect.simulation.sm.description import SharedMemory, lane_addresses
from gpudissect.trace import Context, Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Clock, Instruction, Launch, LaunchMethod, Mix, Path, Stream, Transfer, Workload
from gpudissect.workload.digest import digest

SMS = 8
CLOCK = 2e9
FACTS: dict[str, int | float | str] = {
    "l2_size": 8 << 20,
    "memory_clock_hz": 2e9,
    "memory_bus_bits": 512,
    "shared_per_block": 48 << 10,
    "shared_per_sm": 96 << 10,
    "threads_per_sm": 2048,
    "registers_per_sm": 65536,
    "clock_hz": CLOCK,
    "compute_capability": "9.9",
}
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
MODERN_BANKS = Layout(32, 4, 4, 32)


@dataclass
class Level:
    """Latency in seconds and rate in B/s (of all SMs) of a memory, or in cycles and B/cycle of one SM."""

    latency: float
    rate: float

    def __call__(self, in_flight: float) -> float:
        return min(in_flight / self.latency, self.rate)


@dataclass
class SteadyGpu(Device):
    """A device with noise; `unit` gives latency and issue interval (of an SM) of an instruction, in cycles."""

    info: DeviceInfo = INFO
    noise: float = 0.002
    dram: Callable[[float], float] = field(default_factory=lambda: Level(600e-9, 0.93 * PEAK))
    l2: Callable[[float], float] = field(default_factory=lambda: Level(250e-9, 900e9))
    l1: Callable[[float], float] = field(default_factory=lambda: Level(32, 120))
    shared: Callable[[float], float] = field(default_factory=lambda: Level(24, 127.5))
    unit: Callable[[Instruction], tuple[float, float]] = lambda instruction: (6.0, 0.25)
    layout: Layout = MODERN_BANKS
    accesses: float = 1.0  # of warps that an SM starts per cycle, streams
    conflict_latency: float = 2.0  # cycles of each further bank pass
    pass_interval: float = 1.0  # cycles for which a bank pass keeps the banks
    loop: float = 7.0  # cycles of an iteration besides its body
    start: float = 5000.0
    interval: float = 1500.0
    wait: float = 220.0
    overlap: bool = False  # blocks begin before others end
    repeat_factor: float = 1.0  # on what is measured again
    oversubscription_factor: float = 1.0  # on the rate of more blocks than run at once

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        return [self._trace(workload) for workload in batch]

    def _trace(self, workload: Workload) -> Trace:
        arrays = {Stream: self._stream, Mix: self._mix, Launch: self._launch}[type(workload)](workload)
        return Trace(digest(workload), arrays, Context("fake", clock_hz=CLOCK))

    def _noise(self, workload: Workload, size: int = 1) -> np.ndarray:
        rng = np.random.default_rng(zlib.crc32(digest(workload).encode()))
        return 1 + self.noise * rng.standard_normal(size)

    def _launch(self, launch: Launch) -> dict[str, np.ndarray]:
        first = self.start - self.interval if launch.clock is Clock.HOST else self.interval
        duration = first + launch.kernels * self.interval
        return {"nanoseconds": np.rint(duration * self._noise(launch, launch.runs))}

    def _stream(self, stream: Stream) -> dict[str, np.ndarray]:
        registers = stream.threads * (stream.ilp * stream.width // 4 + 24)
        resident = min(stream.blocks // SMS, 2048 // stream.threads, 65536 // registers)
        in_flight = resident * stream.threads * stream.ilp * stream.width * (1 + (stream.transfer is Transfer.COPY))
        if stream.path is Path.SHARED:
            rate = self.shared(in_flight) * SMS * CLOCK
        elif stream.path is Path.GLOBAL and stream.footprint <= SMS * (64 << 10):
            rate = self.l1(in_flight) * SMS * CLOCK
        else:
            rate = (self.dram if stream.footprint > 8 << 20 else self.l2)(in_flight * SMS)
        rate = min(rate, self.accesses * WARP_SIZE * stream.width * SMS * CLOCK)
        rate *= self.repeat_factor if stream.repetition else 1
        rate *= self.oversubscription_factor if resident < stream.blocks // SMS else 1
        duration = stream.moved / rate * 1e9 * self._noise(stream, stream.runs)
        cycles = np.repeat(np.rint(duration * CLOCK / 1e9)[:, None], stream.blocks, axis=1)
        return {"nanoseconds": np.rint(duration) + 1000, "bytes": np.full(stream.runs, stream.moved), "cycles": cycles}

    def _passes(self, stride: int, width: int) -> int:
        """Bank passes as the simulator counts them, not as the inference that is under test does."""
        banks = SharedMemory(self.layout.banks, self.layout.width, self.layout.interleave, self.layout.lanes)
        return banks.passes(lane_addresses(stride), width)

    def _mix(self, mix: Mix) -> dict[str, np.ndarray]:
        if mix.waves > 1:
            return self._waves(mix)
        (step,) = mix.body
        latency, interval = self.unit(step.instruction)
        count = self._passes(mix.stride, mix.width) if step.instruction in ("lds", "sts") else 1
        conflicts = count - self._passes(mix.width // 4, mix.width) + mix.width // 4 - 1
        if mix.access is not Access.RESIDENT:
            latency, interval = latency * 10, interval * 40
        if step.instruction == "lds":
            interval = max(interval, self.pass_interval * count)
        cycles = max(latency + self.conflict_latency * conflicts, mix.warps * mix.ilp * interval)
        duration = mix.iterations * (step.count * cycles + self.loop) * (self.repeat_factor if mix.repetition else 1)
        sm = np.repeat(np.arange(SMS if mix.sms is None else mix.sms), mix.warps)
        begin = np.full(sm.size, 1000)
        end = begin + 20 + np.rint(duration * (1 + abs(self._noise(mix, sm.size) - 1)))
        block = np.arange(sm.size) // (mix.block_size // WARP_SIZE)
        return {"begin": begin, "end": end, "sm": sm, "block": block, "nanoseconds": np.array([duration / CLOCK * 1e9])}

    def _waves(self, mix: Mix) -> dict[str, np.ndarray]:
        """Every SM runs its blocks in as many slots as run at once."""
        block_warps, slots = mix.block_size // WARP_SIZE, mix.warps * WARP_SIZE // mix.block_size
        rows = []
        for sm in range(SMS):
            for slot in range(slots):
                now = 1000.0 * sm + 37 * slot
                for wave in range(mix.waves):
                    sample = replace(mix, repetition=1000 + 100 * sm + 10 * slot + wave)
                    duration = 6000 * float(self._noise(sample)[0])
                    rows += [(now, now + duration, sm, (wave * SMS + sm) * slots + slot)] * block_warps
                    now += duration + self.wait if not self.overlap else 1.0
        begin, end, sm_of, block_of = np.rint(np.array(rows)).astype(int).T
        return {"begin": begin, "end": end, "sm": sm_of, "block": block_of, "nanoseconds": np.array([1])}

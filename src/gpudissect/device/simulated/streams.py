"""A stream on a simulated GPU: warps with accesses in flight, against the tier that serves them.

One SM is run, the one with most blocks; of what all SMs share it gets the part that its blocks are of all that run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gpudissect.device.simulated.noise import Noise
from gpudissect.device.simulated.sm import disturbed
from gpudissect.device.simulated.tiers import Tier, share_of, tiers_on
from gpudissect.errors import OutOfMemory, UnsupportedWorkload
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.sm.banks import addresses, ways
from gpudissect.simulation.sm.description import Pipe, Processor
from gpudissect.simulation.sm.engine import Cost, Job, Queue, run_long
from gpudissect.trace import Array
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Instruction, Path, Stream, Transfer
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

STREAMED = (Path.GLOBAL, Path.GLOBAL_L2, Path.SHARED)
MOST_BLOCKS = 1 << 20  # so many fill any GPU hundreds of times over
MOST_ISSUES = 1 << 16  # instructions simulated one by one, see `run_long`
RUN_TO_RUN = 0.01  # standard deviation of runs, relative, at a jitter of 1


@dataclass(frozen=True)
class Wave:
    """Blocks that one SM runs at once, and the part that they are of all blocks on the GPU then."""

    blocks: int
    part: float


class Streams:
    """Runs streams on a simulated GPU: `shared` is the shared memory of an SM and of a block, `limits` bytes a path."""

    def __init__(
        self, processor: Processor, hierarchy: Hierarchy, name: str, shared: tuple[int, int], limits: Mapping[Path, int]
    ) -> None:
        self._processor = processor
        self._hierarchy = hierarchy
        self._name = name
        self._shared = shared
        self._limits = limits

    def run(self, stream: Stream, noise: Noise, seed: int) -> dict[str, Array]:
        """Run a stream: `nanoseconds` and `bytes` of each run, `cycles` of each block.

        Raises `DeviceError` for one that this GPU cannot run, `OutOfMemory`.
        """
        waves = self._waves(stream)
        counts = [count for _, count in waves]
        took = np.repeat([self._time(stream, wave, count, seed) / count for wave, count in waves], counts)
        between = self._processor.launches.block_replacement * (took.size - 1)
        draws = np.random.default_rng([seed, noise.seed])
        runs = 1 + RUN_TO_RUN * noise.jitter * draws.standard_normal((stream.runs, 1))
        whole = disturbed(runs * (float(took.sum()) + between), noise, draws)
        arrays = {
            "nanoseconds": np.rint(whole[:, 0] / self._processor.clock_hz * 1e9).astype(np.int64),
            "bytes": np.full(stream.runs, stream.moved, dtype=np.int64),
        }
        if stream.blocks <= MAX_TIMED_BLOCKS:
            at_once = np.repeat([wave.blocks * self._processor.sms for wave, _ in waves], counts)
            blocks = np.repeat(took, at_once)[: stream.blocks]
            arrays["cycles"] = np.rint(disturbed(runs * blocks, noise, draws)).astype(np.int64)
        return arrays

    def _waves(self, stream: Stream) -> list[tuple[Wave, int]]:
        """What the SM with most blocks runs, one wave after the other: so many full ones, and what is left."""
        sms, room = self._processor.sms, self._room(stream)
        full, left = divmod(stream.blocks, room * sms)
        waves = [(Wave(room, 1 / sms), full)] if full else []
        if left:
            most = -(-left // sms)
            waves.append((Wave(most, most / left), 1))
        return waves

    def _room(self, stream: Stream) -> int:
        """How many blocks of a stream an SM holds at once."""
        processor, name = self._processor, self._name
        of_sm, of_block = self._shared
        wanted = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        if stream.blocks > MOST_BLOCKS:
            raise UnsupportedWorkload(
                f"{name}: streams are simulated with up to {MOST_BLOCKS} blocks, asked for {stream.blocks}"
            )
        if stream.threads > processor.block_size:
            raise UnsupportedWorkload(
                f"a block of {name} has at most {processor.block_size} threads, not {stream.threads}"
            )
        room = min(processor.blocks, processor.warps // -(-stream.threads // WARP_SIZE))
        if stream.path is not Path.SHARED:
            if wanted > self._limits[stream.path]:
                raise OutOfMemory(f"{name}: path {stream.path.value!r} has {self._limits[stream.path]} bytes, "
                                  f"asked for {wanted}")  # fmt: skip
            return room
        if wanted > of_block:
            raise UnsupportedWorkload(
                f"a block of this stream needs {format_bytes(wanted)} of shared memory, {name} has "
                f"{format_bytes(of_block)}"
            )
        return min(room, of_sm // wanted)

    def _time(self, stream: Stream, wave: Wave, count: int, seed: int) -> float:
        """Cycles of so many equal waves: as soon as a block ends another does the same, so that queues never empty."""
        tiles = stream.footprint // (stream.threads * stream.ilp * stream.width)
        if stream.path is Path.SHARED:
            return self._cycles(stream, wave, self._shared_body(stream), count * tiles * stream.passes, seed)
        each = count * -(-tiles // stream.blocks_per_wave)
        first, again = self._tiers(stream, wave)
        cold = 1 if again != first else 0
        time = 0.0
        if cold:
            time += self._cycles(stream, wave, self._body(stream, first, wave), each, seed)
        if stream.passes > cold:
            body = self._body(stream, again, wave)
            time += self._cycles(stream, wave, body, each * (stream.passes - cold), seed)
        return time

    def _tiers(self, stream: Stream, wave: Wave) -> tuple[Tier, Tier]:
        """What serves the first pass of a run, and those after it: an L1 is empty when a kernel starts."""
        tiers = tiers_on(stream.path, self._processor, self._hierarchy)
        size = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        first = next(tier for tier in tiers if not tier.private and size <= tier.capacity)
        own = stream.footprint / stream.blocks_per_wave * wave.blocks
        near = tiers[0]
        kept = near.private and stream.transfer is Transfer.READ and own <= near.capacity
        return first, near if kept else first

    def _body(self, stream: Stream, tier: Tier, wave: Wave) -> tuple[Cost, ...]:
        """One access of a thread, from and to a tier; a copy reads and writes. An L1 on the way writes through."""
        size, operation = WARP_SIZE * stream.width, self._processor.operations[Instruction.LDG]
        interval = operation.interval * stream.width / 4
        rate = tier.rate(stream.transfer)
        if tier.private:
            return (Cost(operation.pipe, max(interval, size / rate), tier.latency),)
        service = size / (rate * share_of(self._processor, wave.part))
        queue = Queue(tier.name, service, tier.variability)
        load = Cost(operation.pipe, interval, tier.latency, queue=queue)
        near = tiers_on(stream.path, self._processor, self._hierarchy)[0]
        taken = max(interval, size / near.bandwidth.write) if near.private else interval
        store = Cost(operation.pipe, taken, 1.0, queue=replace(queue, awaited=False))
        return {Transfer.READ: (load,), Transfer.WRITE: (store,), Transfer.COPY: (load, store)}[stream.transfer]

    def _shared_body(self, stream: Stream) -> tuple[Cost, ...]:
        """One access of a thread to words of shared memory that lie side by side."""
        taken = ways(self._processor.shared, addresses(stream.width // 4), stream.width)
        costs = []
        for instruction in {
            Transfer.READ: (Instruction.LDS,), Transfer.WRITE: (Instruction.STS,),
            Transfer.COPY: (Instruction.LDS, Instruction.STS),
        }[stream.transfer]:  # fmt: skip
            operation = self._processor.operations[instruction]
            costs.append(Cost(Pipe.MEMORY, operation.interval * taken, operation.latency))
        return tuple(costs)

    def _cycles(self, stream: Stream, wave: Wave, body: tuple[Cost, ...], iterations: int, seed: int) -> float:
        """Cycles in which the blocks of a wave run a body so often, with as many chains as accesses in flight."""
        per_block = -(-stream.threads // WARP_SIZE)
        job = Job(body, wave.blocks * per_block, per_block, iterations, stream.ilp)
        return float(run_long(self._processor, job, MOST_ISSUES, seed).end.max())

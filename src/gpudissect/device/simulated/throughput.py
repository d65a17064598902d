"""Mixes, streams and launches on simulated SMs.

One SM is simulated cycle by cycle. In a mix the others do the same, each with its own clock. Of a stream it is the SM
with most blocks; of bandwidth that all SMs share it gets its share of the running blocks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np

from gpudissect.device.simulated.costs import Tier, mix_costs, sm_share, tiers_of
from gpudissect.device.simulated.noise import Noise
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.sm.description import Launches, Pipe, Processor
from gpudissect.simulation.sm.engine import MIN_ITERATIONS, Cost, Job, Queue, Run, is_random, run_long
from gpudissect.trace import Array, totals_by_sm
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Clock, Instruction, Launch, LaunchMethod, Mix, Path, Stream, Transfer
from gpudissect.workload.chase import MAX_RECORDS
from gpudissect.workload.stream import MAX_TIMED_BLOCKS

STREAM_PATHS: Mapping[Path, tuple[Instruction, ...]] = {
    Path.GLOBAL: (Instruction.LDG,),
    Path.GLOBAL_L2: (Instruction.LDG,),
    Path.READONLY: (Instruction.LDG,),
    Path.TEXTURE: (Instruction.LDG,),
    Path.SHARED: (Instruction.LDS, Instruction.STS),
    Path.HOST: (Instruction.LDG,),
}
"""Paths of streams, each with the instructions that a GPU file must describe for them."""
MAX_STREAM_BLOCKS = 1 << 20  # fill any GPU hundreds of times
MAX_STREAM_ISSUES = 1 << 16  # instructions simulated one by one, see `run_long`
MAX_MIX_ISSUES = 1 << 15  # the same for mixes
MAX_SAMPLED_ISSUES = 1 << 21  # the same for mixes with timed loads
MAX_MIN_ISSUES = 1 << 26  # of any mix, however long its body: some seconds
MAX_WAVES_ISSUES = 1 << 25  # of mixes in several waves, which are simulated to the end
MAX_KEPT = 256  # runs of mixes, for their repetitions
MAX_CLOCK_OFFSET = 1 << 20  # cycles between the clocks of two SMs
STREAM_DEVIATION = 0.01  # relative standard deviation of runs at a jitter of 1
LAUNCH_DEVIATION = {Clock.HOST: 0.1, Clock.GPU: 0.002}
HOST_OUTLIER_RATIO = 100  # frequency of delays of the host, relative to outliers of a GPU's clock
HOST_DELAY_MEAN = 10_000.0  # ns


def stream_paths(hierarchy: Hierarchy, processor: Processor | None) -> tuple[Path, ...]:
    """The paths on which a GPU runs streams: those with a route and a description of what they need."""
    if processor is None:
        return ()
    rates = {Path.READONLY: processor.l1, Path.TEXTURE: processor.texture, Path.HOST: processor.host}
    unknown = {path for path, rate in rates.items() if not rate}
    return tuple(
        path
        for path, needed in STREAM_PATHS.items()
        if path in hierarchy.routes.keys() - unknown and processor.operations.keys() >= set(needed)
    )


def launch_methods(launches: Launches) -> tuple[LaunchMethod, ...]:
    """The methods that have costs."""
    has_graphs = launches.graph_start is not None and launches.graph_interval is not None
    return (LaunchMethod.STREAM, LaunchMethod.GRAPH) if has_graphs else (LaunchMethod.STREAM,)


@dataclass(frozen=True)
class Wave:
    """Blocks that one SM runs at once, and their share of all blocks then on the GPU."""

    blocks: int
    share: float


@dataclass(frozen=True)
class SimulatedSms:
    """The SMs of a simulated GPU."""

    processor: Processor
    hierarchy: Hierarchy  # the caches before memory
    noise: Noise  # of their timings
    name: str  # of the GPU
    shared: tuple[int, int]  # bytes of shared memory of an SM and of a block
    limits: Mapping[Path, int]  # bytes per path
    _repeated: dict[Mix, Run] = field(default_factory=dict, repr=False, compare=False)
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)  # of writing to `_repeated`

    def run(self, workload: Mix | Stream | Launch, seed: int) -> dict[str, Array]:
        """The arrays of a workload's trace; `seed` and that of the noise determine all randomness.

        Raises `DeviceError` (or a subclass) for a workload that this GPU cannot run.
        """
        match workload:
            case Mix():
                return self._mix(workload, seed)
            case Stream():
                return self._stream(workload, seed)
            case Launch():
                return self._launch(workload, seed)

    def _mix(self, mix: Mix, seed: int) -> dict[str, Array]:
        self._check_mix(mix)
        processor = self.processor
        sms = processor.sms if mix.sms is None else mix.sms
        per_block = mix.block_size // WARP_SIZE
        blocks = mix.waves * mix.warps // per_block
        kind = mix.without_repetition
        run = self._repeated.get(kind) or self._run_mix(kind, per_block, blocks, seed)
        rng = np.random.default_rng([seed, self.noise.seed])
        durations = self.noise.disturb(np.tile(run.end - run.begin, (sms, 1)).astype(np.float64), rng)
        begins = rng.integers(0, MAX_CLOCK_OFFSET, size=(sms, 1)) + run.begin
        ends = np.rint(begins + durations).astype(np.int64)
        span = float((ends.max(axis=1) - begins.min(axis=1)).max())
        sm = np.repeat(np.arange(sms), run.begin.size)
        if mix.per_sm:
            arrays = totals_by_sm(begins.ravel(), ends.ravel(), sm)
        else:
            numbers = (np.repeat(np.arange(blocks), per_block) * sms + np.arange(sms)[:, None]).ravel()
            arrays = {"begin": begins.ravel(), "end": ends.ravel(), "sm": sm, "block": numbers}
        arrays["nanoseconds"] = np.array([round(span / processor.clock_hz * 1e9)], dtype=np.int64)
        if mix.sampled:
            latency = np.flatnonzero(run.samples)
            arrays |= {"latency": latency, "count": run.samples[latency], "overhead": np.zeros(1, dtype=np.int64)}
            arrays["overflow_count"] = run.samples[-1:]
        return arrays

    def _run_mix(self, mix: Mix, per_block: int, blocks: int, seed: int) -> Run:
        """Run the warps of an SM; a run without random service times is kept for repetitions of the mix."""
        costs = mix_costs(mix, self.processor, self.hierarchy)
        job = Job(costs, mix.warps, per_block, mix.iterations, mix.ilp, blocks, mix.sampled)
        run = run_long(self.processor, job, MAX_SAMPLED_ISSUES if mix.sampled else MAX_MIX_ISSUES, seed)
        if not is_random(costs):
            with self._lock:
                if len(self._repeated) == MAX_KEPT:
                    self._repeated.pop(next(iter(self._repeated)))
                self._repeated[mix] = run
        return run

    def _check_mix(self, mix: Mix) -> None:
        processor, name = self.processor, self.name
        if missing := [step.instruction for step in mix.body if step.instruction not in processor.operations]:
            raise DeviceError(f"{name} runs no {missing[0].value!r}: its GPU file does not describe it")
        if mix.sms is not None and mix.sms > processor.sms:
            raise UnsupportedWorkload(f"{name} has {processor.sms} SMs: a mix cannot run on {mix.sms}")
        blocks = mix.warps * WARP_SIZE // mix.block_size
        if mix.warps > processor.warps or blocks > processor.blocks or mix.block_size > processor.block_size:
            limits = f"{processor.warps} warps in {processor.blocks} blocks of at most {processor.block_size} threads"
            raise UnsupportedWorkload(
                f"an SM of {name} holds {limits}, not {mix.warps} in {blocks} of {mix.block_size}"
            )
        if mix.footprint < (footprint := mix.min_footprint(processor.sms)):
            raise UnsupportedWorkload(
                f"{format_bytes(mix.footprint)} are too few for separate operands of every chain: use a footprint of "
                f"{format_bytes(footprint)} or more"
            )
        body = mix.warps * mix.ilp * sum(step.count for step in mix.body)
        if (issues := 2 * MIN_ITERATIONS * body) > MAX_MIN_ISSUES and mix.instructions * mix.warps > MAX_MIN_ISSUES:
            raise UnsupportedWorkload(
                f"{name}: {2 * MIN_ITERATIONS} iterations of a mix are simulated one by one, up to {MAX_MIN_ISSUES} "
                f"instructions per SM, got {issues}: shorten the body"
            )
        if mix.waves > 1 and (issues := mix.waves * mix.warps * mix.instructions) > MAX_WAVES_ISSUES:
            limits = f"mixes in several waves are simulated up to {MAX_WAVES_ISSUES} instructions per SM"
            raise UnsupportedWorkload(f"{name}: {limits}, got {issues}")
        traced = (mix.sms or processor.sms) * mix.warps * mix.waves
        if traced > MAX_RECORDS:
            raise UnsupportedWorkload(f"{name}: a mix is traced up to {MAX_RECORDS} warps, got {traced}: use --sms")

    def _launch(self, launch: Launch, seed: int) -> dict[str, Array]:
        launches = self.processor.launches
        start, interval = launches.kernel_start, launches.kernel_interval
        if launch.method is LaunchMethod.GRAPH:
            if launches.graph_start is None or launches.graph_interval is None:
                raise DeviceError(f"{self.name} launches no graphs: its GPU file does not describe them")
            start, interval = launches.graph_start, launches.graph_interval
        rng = np.random.default_rng([seed, self.noise.seed])
        by_host = launch.clock is Clock.HOST
        whole = start + (launch.kernels - 1) * interval if by_host else (launch.kernels + 1) * interval
        deviation = LAUNCH_DEVIATION[launch.clock] * self.noise.jitter
        spread = 1 + deviation * np.abs(rng.standard_normal(launch.runs))
        odds = min(1.0, HOST_OUTLIER_RATIO * self.noise.outliers) if by_host else 0.0
        delays = rng.exponential(HOST_DELAY_MEAN, launch.runs) * (rng.random(launch.runs) < odds)
        return {"nanoseconds": np.rint(whole * spread + delays).astype(np.int64)}

    def _stream(self, stream: Stream, seed: int) -> dict[str, Array]:
        processor, noise = self.processor, self.noise
        waves = self._waves(stream)
        counts = [count for _, count in waves]
        durations = np.repeat([self._time(stream, wave, count, seed) / count for wave, count in waves], counts)
        replacements = processor.launches.block_replacement * (durations.size - 1)
        rng = np.random.default_rng([seed, noise.seed])
        runs = 1 + STREAM_DEVIATION * noise.jitter * rng.standard_normal((stream.runs, 1))
        whole = noise.disturb(runs * (float(durations.sum()) + replacements), rng)
        arrays = {
            "nanoseconds": np.rint(whole[:, 0] / processor.clock_hz * 1e9).astype(np.int64),
            "bytes": np.full(stream.runs, stream.moved, dtype=np.int64),
        }
        if stream.blocks <= MAX_TIMED_BLOCKS:
            sizes = np.repeat([wave.blocks * processor.sms for wave, _ in waves], counts)
            blocks = np.repeat(durations, sizes)[: stream.blocks]
            arrays["cycles"] = np.rint(noise.disturb(runs * blocks, rng)).astype(np.int64)
        return arrays

    def _waves(self, stream: Stream) -> list[tuple[Wave, int]]:
        """Waves of the SM with most blocks, each with its count: full ones, and the remainder."""
        sms, room = self.processor.sms, self._blocks_per_sm(stream)
        full, rest = divmod(stream.blocks, room * sms)
        waves = [(Wave(room, 1 / sms), full)] if full else []
        if rest:
            blocks = -(-rest // sms)
            waves.append((Wave(blocks, blocks / rest), 1))
        return waves

    def _blocks_per_sm(self, stream: Stream) -> int:
        """Blocks of a stream that an SM holds at once."""
        processor, name = self.processor, self.name
        sm_bytes, block_bytes = self.shared
        size = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        if stream.blocks > MAX_STREAM_BLOCKS:
            limits = f"streams are simulated with up to {MAX_STREAM_BLOCKS} blocks"
            raise UnsupportedWorkload(f"{name}: {limits}, got {stream.blocks}")
        if stream.threads > processor.block_size:
            limits = f"a block of {name} has at most {processor.block_size} threads"
            raise UnsupportedWorkload(f"{limits}, not {stream.threads}")
        room = min(processor.blocks, processor.warps // -(-stream.threads // WARP_SIZE))
        if stream.path is not Path.SHARED:
            if size > (limit := self.limits[stream.path]):
                raise OutOfMemory(f"{name}: path {stream.path.value!r} has {limit} bytes, got {size}")
            return room
        if size > block_bytes:
            need = f"a block of this stream needs {format_bytes(size)} of shared memory"
            raise UnsupportedWorkload(f"{need}, {name} has {format_bytes(block_bytes)}")
        return min(room, sm_bytes // size)

    def _time(self, stream: Stream, wave: Wave, count: int, seed: int) -> float:
        """Cycles of `count` equal waves: a block that ends is replaced at once, so that queues never empty."""
        tiles = stream.footprint // (stream.threads * stream.ilp * stream.width)
        if stream.path is Path.SHARED:
            return self._cycles(stream, wave, self._shared_costs(stream), count * tiles * stream.passes, seed)
        tiles_per_pass = count * -(-tiles // stream.blocks_per_wave)
        first, later = self._tiers(stream, wave)
        cold_passes = 1 if later != first else 0
        time = 0.0
        if cold_passes:
            time += self._cycles(stream, wave, self._costs(stream, first, wave), tiles_per_pass, seed)
        if stream.passes > cold_passes:
            costs = self._costs(stream, later, wave)
            time += self._cycles(stream, wave, costs, tiles_per_pass * (stream.passes - cold_passes), seed)
        return time

    def _tiers(self, stream: Stream, wave: Wave) -> tuple[Tier, Tier]:
        """The tiers that serve the first and the later passes of a run: an L1 is empty when a kernel starts."""
        tiers = tiers_of(stream.path, self.processor, self.hierarchy)
        size = stream.footprint * (2 if stream.transfer is Transfer.COPY else 1)
        first = next(tier for tier in tiers if not tier.private and size <= tier.capacity)
        size_per_sm = stream.footprint / stream.blocks_per_wave * wave.blocks
        near = tiers[0]
        is_kept = near.private and stream.transfer is Transfer.READ and size_per_sm <= near.capacity
        return first, near if is_kept else first

    def _costs(self, stream: Stream, tier: Tier, wave: Wave) -> tuple[Cost, ...]:
        """Costs of one access of a thread to a tier; a copy reads and writes. An L1 before the tier writes through."""
        size, operation = WARP_SIZE * stream.width, self.processor.operations[Instruction.LDG]
        interval = operation.interval * max(1.0, stream.width / 4)
        rate = tier.rate(stream.transfer)
        if stream.path is Path.TEXTURE and (fetches := self.processor.texture) is not None:
            interval = max(fetches.access_interval, size / fetches.read_rate)
        if tier.private:
            return (Cost(operation.pipe, max(interval, size / rate), tier.latency),)
        queue = Queue(tier.name, size / (rate * sm_share(self.processor, wave.share)), tier.variability)
        load = Cost(operation.pipe, interval, tier.latency, queue=queue)
        near = tiers_of(stream.path, self.processor, self.hierarchy)[0]
        store_interval = max(interval, size / near.bandwidth.write) if near.private else interval
        store = Cost(operation.pipe, store_interval, 1.0, queue=replace(queue, awaited=False))
        return {Transfer.READ: (load,), Transfer.WRITE: (store,), Transfer.COPY: (load, store)}[stream.transfer]

    def _shared_costs(self, stream: Stream) -> tuple[Cost, ...]:
        """Costs of one access of a thread to adjacent words of shared memory."""
        ways = self.processor.shared.conflict_ways(np.arange(WARP_SIZE) * stream.width, stream.width)
        load, store = (Instruction.LDS,), (Instruction.STS,)
        used = {Transfer.READ: load, Transfer.WRITE: store, Transfer.COPY: load + store}[stream.transfer]
        operations = [self.processor.operations[instruction] for instruction in used]
        return tuple(Cost(Pipe.MEMORY, each.interval * ways, each.latency) for each in operations)

    def _cycles(self, stream: Stream, wave: Wave, costs: tuple[Cost, ...], iterations: int, seed: int) -> float:
        """Cycles of the blocks of a wave for so many iterations, with one chain per access in flight."""
        per_block = -(-stream.threads // WARP_SIZE)
        job = Job(costs, wave.blocks * per_block, per_block, iterations, stream.ilp)
        return float(run_long(self.processor, job, MAX_STREAM_ISSUES, seed).end.max())

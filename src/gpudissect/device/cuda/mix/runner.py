"""Runs mixes: a set number of warps on each of a set number of SMs, all at once.

How many blocks an SM runs at once is set by the shared memory that each requests. That leaves little of the L1, where
every load in flight has a line: random loads of an H200 reach 0.122 operations per cycle of an SM so, 0.164 with the
largest L1. Mixes of them rather start as many blocks as are to run at once, which an idle GPU distributes evenly. Every
warp reports its SM, so that the distribution is checked after each run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext, Kernel, LaunchBuffers
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import GRID_BARRIER, MIX_REPORT, SAMPLES
from gpudissect.device.cuda.memory import Arena
from gpudissect.device.cuda.mix.body import Body, build_body
from gpudissect.device.cuda.mix.operands import Operands, write_links
from gpudissect.errors import DeviceError, KernelFailed, UnsupportedWorkload
from gpudissect.trace import Array, Context, Trace
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Access, Mix
from gpudissect.workload.digest import digest

_EVERY_SM = 1 << 30
_SHARED_GRANULE = 256  # bytes: shared memory is allocated in multiples of it
_ALL_SHARED = 100  # percent of what an SM can have
_MAX_ATTEMPTS = 3  # launches until every SM has its share
_TIMEOUT_S, _TIMEOUT_S_PER_INSTRUCTION = 20.0, 2e-6
_CLOCK_CYCLES = 100_000  # over which the clock rate is measured


@dataclass(frozen=True)
class Grid:
    """The blocks of a launch."""

    sms: int  # that count
    per_sm: int  # blocks of each SM at a time
    resident: int  # blocks that fit onto all SMs at once: the first wave
    blocks: int  # all blocks; those behind `resident` replace some that count

    @property
    def at_once(self) -> int:
        """Blocks that run at once and count."""
        return self.sms * self.per_sm


@dataclass(eq=False)
class MixRunner:
    """Runs mixes one after the other. `arena` holds their operands in global memory."""

    context: CudaContext
    buffers: LaunchBuffers
    arena: Arena
    _links: tuple[object, Operands] | None = None
    _position: int = 0  # of the links, behind what mixes have read so far

    def run(self, mix: Mix) -> Trace:
        """Run a mix. Raises `DeviceError`, also when SMs keep having other than their share of warps."""
        body = build_body(mix, self.context.capability)
        grid = self._grid(mix)
        kernel = self.context.kernel("mix.cu", "mix", *body.macros)
        limit = self._limit_occupancy(mix, body, grid, kernel)
        operands = self._operands(mix, body, grid)
        attempts = [limit] * _MAX_ATTEMPTS
        if mix.access is Access.RANDOM and mix.waves == 1:
            attempts = [self._least_shared(body, grid)] * _MAX_ATTEMPTS + attempts
        for shared, carveout in attempts:
            kernel.configure(shared=shared, carveout=carveout)
            if mix.cold:
                self.buffers.sweep_l2()
                self.buffers.read_back_sweep()
            barrier, reports, samples = self._launch(mix, body, grid, kernel, shared, operands)
            problem = _wrong_shares(mix, grid, reports)
            if problem is None:
                break
        else:
            raise DeviceError(problem)
        arrays = _arrays(mix, reports) | ({} if samples is None else _histogram(samples))
        notes = {"shared_bytes": str(shared), "all_at_once": "yes" if _all_at_once(mix, grid, reports) else "no"}
        context = Context(
            device=self.context.device.name,
            clock_hz=clock_rate(barrier["cycles"], barrier["ns"]),
            sm=int(arrays["sm"][0]) if grid.sms == 1 else None,
            notes=notes,
        )
        return Trace(workload=digest(mix), arrays=arrays, context=context)

    def release(self) -> None:
        """Free the operands."""
        self.arena.release()
        self._links = None

    def _grid(self, mix: Mix) -> Grid:
        sm_count = self.context.properties.multiprocessor_count
        sms = sm_count if mix.sms is None else mix.sms
        if sms > sm_count:
            raise UnsupportedWorkload(f"this device has {sm_count} SMs, the mix needs {sms}")
        per_sm = mix.warps * WARP_SIZE // mix.block_size
        resident = sm_count * per_sm
        return Grid(sms, per_sm, resident, resident + sms * per_sm * (mix.waves - 1))

    def _least_shared(self, body: Body, grid: Grid) -> tuple[int, int]:
        """Bytes of shared memory that a block needs, and percent of an SM's that the blocks at once need."""
        properties = self.context.properties
        needed = grid.per_sm * (body.shared + int(properties.reserved_shared_memory_per_block))
        return body.shared, -(-100 * needed // int(properties.max_shared_memory_per_multiprocessor))

    def _limit_occupancy(self, mix: Mix, body: Body, grid: Grid, kernel: Kernel) -> tuple[int, int]:
        """Bytes of shared memory of a block with which an SM runs exactly `grid.per_sm` at once, and percent of it."""
        properties = self.context.properties
        share = int(properties.max_shared_memory_per_multiprocessor) // grid.per_sm // _SHARED_GRANULE * _SHARED_GRANULE
        share -= int(properties.reserved_shared_memory_per_block)
        shared = min(share // _SHARED_GRANULE * _SHARED_GRANULE, self.context.max_shared_bytes)
        if shared < body.shared:
            needed, available = format_bytes(body.shared), format_bytes(max(shared, 0))
            raise UnsupportedWorkload(
                f"a block of this mix needs {needed} of shared memory, each of {grid.per_sm} on an SM can have "
                f"{available}"
            )
        kernel.configure(shared=shared, carveout=_ALL_SHARED)
        blocks = self.context.max_active_blocks(kernel, mix.block_size, shared)
        if blocks != grid.per_sm:
            raise UnsupportedWorkload(
                f"an SM of this device runs {blocks * mix.block_size // WARP_SIZE} warps of this mix at once "
                f"in blocks of {mix.block_size} threads, the mix needs {mix.warps}"
            )
        return shared, _ALL_SHARED

    def _operands(self, mix: Mix, body: Body, grid: Grid) -> Operands:
        """Write what chains go through in global memory, or reserve counters."""
        if not body.uses_links:
            self._links = None
            if body.spread:
                return Operands(self.arena.reserve(mix.footprint), mix.footprint // body.spread)
            warps = grid.blocks * mix.block_size // WARP_SIZE
            return Operands(self.arena.reserve(max(body.counter_stride, 1) * warps))
        chains = grid.sms * mix.warps * mix.ilp
        key = (mix.access, mix.footprint, mix.width, mix.stride, chains)
        if self._links is None or self._links[0] != key:
            self._links = None
            self._links = (key, write_links(mix, chains, self.context, self.arena))
            self._position = 0
        return self._links[1]

    def _launch(
        self, mix: Mix, body: Body, grid: Grid, kernel: Kernel, shared: int, operands: Operands
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]:
        """The barrier, the reports of all warps, and the histogram of single loads if any were timed."""
        parts = [np.zeros(1, GRID_BARRIER), np.zeros(grid.blocks * mix.block_size // WARP_SIZE, MIX_REPORT)]
        if mix.sampled:
            parts.append(np.zeros(1, SAMPLES))
            parts[-1]["overhead"] = np.iinfo(np.uint32).max  # the kernel keeps the least of all SMs
        ends = np.cumsum([part.nbytes for part in parts]).tolist()
        buffer = self.buffers.reserve(ends[-1])
        for part, end in zip(parts, ends, strict=True):
            self.context.upload(buffer + end - part.nbytes, part)
        keeps_off = grid.at_once < grid.resident and mix.waves > 1
        arguments = {
            "reports": buffer + ends[0],
            "barrier": buffer,
            "loops": body.loops,
            "zero": 0,
            "one": 1,
            "resident": grid.resident,
            "sms": _EVERY_SM if mix.sms is None else mix.sms,
            "awaited": grid.sms * mix.warps * mix.waves if keeps_off else 0,
            "last": grid.blocks - grid.at_once if mix.waves > 1 else 0,
            "memory": operands.address,
            "stride": mix.stride * 4,
            "count": operands.count,
            "half": operands.half,
            "blocks": grid.at_once,
            "samples": buffer + ends[1] if mix.sampled else 0,
            "offset": self._position,
        }
        if operands.count:  # a chain of tiles advances by the number of chains, one of lines by one
            loads = (mix.iterations * (mix.waves + 1)) * (mix.loads // mix.iterations // mix.ilp)
            step = grid.sms * mix.warps * mix.ilp if mix.access is Access.STREAMING else 1
            self._position = (self._position + loads * step) % operands.count
        self.context.launch(kernel, (grid.blocks, 1), mix.block_size, shared, *arguments.values())
        clock = self.context.kernel("mix_links.cu", "measure_clock", f"WIDTH={mix.width}")
        self.context.launch(clock, (1, 1), 1, 0, buffer, _CLOCK_CYCLES)
        self.context.wait(_TIMEOUT_S + _TIMEOUT_S_PER_INSTRUCTION * mix.instructions * mix.waves)
        content = self.context.download(buffer, ends[-1])
        samples = content[ends[1] :].view(SAMPLES) if mix.sampled else None
        return content[: ends[0]].view(GRID_BARRIER), content[ends[0] : ends[1]].view(MIX_REPORT), samples


def _wrong_shares(mix: Mix, grid: Grid, reports: NDArray[Any]) -> str | None:
    """How the distribution of warps over SMs differs from the requested one, None if it does not."""
    ran = reports["end"] > 0
    if mix.silent:
        warps, expected = int(ran.sum()), grid.sms * mix.warps
        return None if warps == expected else f"{warps} warps of the last wave of a mix ran, not {expected}"
    first_wave = np.arange(ran.size) < grid.resident * mix.block_size // WARP_SIZE
    sms, counts = np.unique(reports["sm"][ran & first_wave], return_counts=True)
    if sms.size != grid.sms or (counts != mix.warps).any():
        observed = f"{counts.min()} to {counts.max()} warps on each of {sms.size}" if sms.size else "none"
        return (
            f"of a mix of {mix.warps} warps on each of {grid.sms} SMs, {observed} ran: another process uses this GPU, "
            "or it numbers its SMs otherwise"
        )
    elsewhere = int((~np.isin(reports["sm"][ran], sms)).sum())
    if elsewhere or int(ran.sum()) != grid.sms * mix.warps * mix.waves:
        return f"of a mix on {grid.sms} SMs, {elsewhere} warps ran on others: another process uses this GPU"
    return None


def _all_at_once(mix: Mix, grid: Grid, reports: NDArray[Any]) -> bool:
    """Whether on each SM there was a moment at which all warps of the first wave ran."""
    wave = reports[: grid.resident * mix.block_size // WARP_SIZE]
    wave = wave[wave["end"] > 0]
    by_sm = (wave[wave["sm"] == sm] for sm in np.unique(wave["sm"]))
    return all(part["begin"].max() < part["end"].min() for part in by_sm)


def _arrays(mix: Mix, reports: NDArray[Any]) -> dict[str, Array]:
    """Arrays of a trace from the reports of all warps. Raises `KernelFailed` for a chain with a wrong result."""
    ran = np.flatnonzero(reports["end"] > 0)
    warps = reports[ran]
    if warps["broken"].any():
        raise KernelFailed("chain broken: a mix did not give the result of its instructions")
    begin_ns, end_ns = reports["begin_ns"], warps["end_ns"]
    blocks = np.unique(ran * WARP_SIZE // mix.block_size, return_inverse=True)[1]
    arrays: dict[str, Array] = {name: warps[name].astype(np.int64) for name in ("begin", "end", "sm")}
    span = int(end_ns.max()) - int(begin_ns[begin_ns > 0].min())
    return arrays | {"block": blocks.astype(np.int64), "nanoseconds": np.array([span], np.int64)}


def _histogram(samples: NDArray[Any]) -> dict[str, Array]:
    """Arrays of single loads: cycles, their counts, loads longer than the last bin, cycles of an empty window."""
    bins = samples["bins"][0].astype(np.int64)
    arrays = {"latency": np.flatnonzero(bins), "count": bins[bins > 0], "overflow_count": bins[-1:]}
    return arrays | {"overhead": samples["overhead"].astype(np.int64)}

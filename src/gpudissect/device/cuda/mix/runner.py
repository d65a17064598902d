"""Runs mixes: a set number of warps on each of a set number of SMs, all at once.

How many blocks an SM runs at once is set by the shared memory that each requests. That leaves little of the L1, where
every load in flight has a line: random loads of an H200 reach 0.122 operations per cycle of an SM so, 0.164 with the
largest L1. Mixes of them rather start as many blocks as are to run at once, which an idle GPU distributes evenly. Every
warp reports its SM, so that the distribution is checked after each run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.context import CudaContext, Kernel, LaunchBuffers
from gpudissect.device.cuda.info import clock_rate
from gpudissect.device.cuda.layout import GRID_BARRIER, MIX_REPORT, SAMPLES
from gpudissect.device.cuda.memory import Arena, ResultMemory, Slots
from gpudissect.device.cuda.mix.body import Body, build_body
from gpudissect.device.cuda.mix.operands import Operands, links_code, write_links
from gpudissect.errors import DeviceError, KernelFailed, UnsupportedWorkload
from gpudissect.trace import Array, Context, Trace, totals_by_sm
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Access, Mix
from gpudissect.workload.digest import digest

_EVERY_SM = 1 << 30
_SHARED_GRANULE = 256  # bytes: shared memory is allocated in multiples of it
_ALL_SHARED = 100  # percent of what an SM can have
_MAX_ATTEMPTS = 3  # launches until every SM has its share
_TIMEOUT_S, _TIMEOUT_S_PER_INSTRUCTION = 20.0, 2e-6
_CLOCK_CYCLES = 100_000  # over which the clock rate is measured
_RESULT_BYTES, _MIXES_AT_ONCE = 8 << 20, 32  # of mixes that are awaited together
_ALIGNMENT = 256
_MAX_SMS = 1024  # numbers of SMs are lower
_NEVER = np.iinfo(np.int64).max
_ONE = np.uint64(1)
_WHOLE_REPORT = f"V{MIX_REPORT.itemsize}"  # type that numpy copies nine times as fast as by fields
_MOST = np.full(1, np.iinfo(np.uint32).max, np.uint32)


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


@dataclass(frozen=True, eq=False)
class _Queued:
    """A mix in flight."""

    mix: Mix
    grid: Grid
    sizes: tuple[int, ...]  # bytes of the barrier, the reports, and the histogram of single loads if any are timed
    attempts: Sequence[tuple[int, int]]  # this one first; bytes of a block's shared memory, percent of an SM's
    offset: int  # of its results


@dataclass(frozen=True, eq=False)
class QueuedMixes:
    """Mixes in flight: one copy of all results, and one clock measurement after the last mix."""

    mixes: Sequence[_Queued]
    memory: ResultMemory
    host: int  # address of the copy of their results
    size: int  # bytes of it
    end: Any  # event behind it

    @property
    def timeout(self) -> float:
        """Seconds within which all end."""
        instructions = sum(each.mix.instructions * each.mix.waves for each in self.mixes)
        return _TIMEOUT_S + _TIMEOUT_S_PER_INSTRUCTION * instructions


class MixRunner:
    """Runs mixes one after the other. `arena` holds their operands in global memory.

    Many are queued before the host waits: with a wait after each, the GPU was idle for two thirds of the time.
    """

    at_once = 2

    def __init__(self, context: CudaContext, buffers: LaunchBuffers, arena: Arena) -> None:
        self.context, self.buffers, self.arena = context, buffers, arena
        total = context.free_memory()[1]
        self.slots = Slots(ResultMemory(context, total) for _ in range(self.at_once))
        self._links: tuple[object, Operands] | None = None
        self._position = 0  # of the links, behind what mixes have read so far
        self._active: dict[tuple[Kernel, int, int], int] = {}  # blocks that an SM runs

    def split(self, mixes: Mapping[int, Mix]) -> list[dict[int, Mix]]:
        """Mixes by number, in parts that are queued together. Raises `UnsupportedWorkload`."""
        parts: list[dict[int, Mix]] = []
        room = 0
        for number, mix in mixes.items():
            needed = _room(_sizes(mix, self._grid(mix)))
            if not parts or len(parts[-1]) == _MIXES_AT_ONCE or needed > room:
                parts.append({})
                room = _RESULT_BYTES - GRID_BARRIER.itemsize  # of the clock measurement
            parts[-1][number] = mix
            room -= needed
        return parts

    def queue(self, mixes: Sequence[Mix]) -> QueuedMixes:
        """Queue mixes. Raises `DeviceError`."""
        with self.slots.taken() as memory:
            return self._queue([(mix, ()) for mix in mixes], memory)

    def finish(self, queued: QueuedMixes) -> list[Trace]:
        """Wait for mixes; their traces. Some run again, up to a limit, while SMs have other than their share of warps.

        Raises `DeviceError`.
        """
        traces: dict[int, Trace] = {}
        pending = dict(enumerate(queued.mixes))
        while pending:
            for number, trace in zip([*pending], self._finish(queued), strict=True):
                if trace is not None:
                    traces[number] = trace
                    del pending[number]
            if pending:
                again = [(each.mix, each.attempts[1:]) for each in pending.values()]
                queued = self._queue(again, queued.memory)
                pending = dict(zip(pending, queued.mixes, strict=True))
        return [traces[number] for number in range(len(traces))]

    def release(self) -> None:
        """Free the memory of results."""
        for memory in self.slots.all:
            memory.release()

    def _queue(self, wanted: Sequence[tuple[Mix, Sequence[tuple[int, int]]]], memory: ResultMemory) -> QueuedMixes:
        """Queue mixes, with the attempts that are left where there are some, and a clock measurement behind them."""
        mixes, sizes = [], [_sizes(mix, self._grid(mix)) for mix, _ in wanted]
        offsets = np.cumsum([0, *map(_room, sizes)]).tolist()
        used = offsets[-1] + GRID_BARRIER.itemsize
        results = memory.device.reserve(used)
        self.context.fill_zeros(results, used)
        for (mix, attempts), size, offset in zip(wanted, sizes, offsets, strict=False):
            body, grid = build_body(mix, self.context.capability), self._grid(mix)
            kernel = self.context.kernel("mix.cu", "mix", *body.macros)
            mixes.append(_Queued(mix, grid, size, attempts or self._attempts(mix, body, grid, kernel), offset))
            self._launch(mixes[-1], body, kernel, self._operands(mix, body, grid), results + offset)
        source, width = links_code(wanted[-1][0])
        clock = self.context.kernel(source, "measure_clock", width)
        self.context.launch(clock, (1, 1), 1, 0, results + offsets[-1], _CLOCK_CYCLES)
        host = memory.host.reserve(used)
        self.context.copy_to_host(host, results, used)
        return QueuedMixes(mixes, memory, host, used, self.context.mark())

    def _attempts(self, mix: Mix, body: Body, grid: Grid, kernel: Kernel) -> list[tuple[int, int]]:
        """Shared memory of a block, and of an SM, in each attempt."""
        attempts = [self._limit_occupancy(mix, body, grid, kernel)] * _MAX_ATTEMPTS
        if mix.access is Access.RANDOM and mix.waves == 1:
            attempts = [self._least_shared(body, grid)] * _MAX_ATTEMPTS + attempts
        return attempts

    def _finish(self, queued: QueuedMixes) -> list[Trace | None]:
        """Wait for mixes; their traces."""
        self.context.wait_for(queued.end, 2 * queued.timeout)
        content = queued.memory.host.content(queued.host, queued.size)
        measured = content[-GRID_BARRIER.itemsize :].view(GRID_BARRIER)
        clock_hz = clock_rate(measured["cycles"], measured["ns"])
        return [
            self._conclude(each, content[each.offset : each.offset + sum(each.sizes)], clock_hz)
            for each in queued.mixes
        ]

    def _conclude(self, each: _Queued, content: NDArray[np.uint8], clock_hz: float | None) -> Trace | None:
        """The trace of a mix; None if it is to run again. Raises `DeviceError` once it has no attempt left."""
        behind_barrier, behind_reports = each.sizes[0], sum(each.sizes[:2])
        reports = content[behind_barrier:behind_reports].view(MIX_REPORT)
        mix, grid, ran = each.mix, each.grid, reports["end"] > 0
        warps = reports if ran.all() else reports.view(_WHOLE_REPORT)[ran].view(MIX_REPORT)
        begin, end, sm = (warps[name].astype(np.int64) for name in ("begin", "end", "sm"))
        first = int(np.count_nonzero(ran[: grid.resident * mix.block_size // WARP_SIZE]))
        if (problem := _wrong_shares(mix, grid, sm, first)) is not None:
            if len(each.attempts) == 1:
                raise DeviceError(problem)
            return None
        if warps["broken"].any():
            raise KernelFailed("chain broken: a mix did not give the result of its instructions")
        arrays = totals_by_sm(begin, end, sm) if mix.per_sm else {"begin": begin, "end": end, "sm": sm}
        if not mix.per_sm:
            arrays["block"] = _blocks(mix, ran)
        arrays["nanoseconds"] = _nanoseconds(reports["begin_ns"], warps["end_ns"])
        if mix.sampled:
            arrays |= _histogram(content[behind_reports : sum(each.sizes)].view(SAMPLES))
        all_at_once = "yes" if _all_at_once(begin[:first], end[:first], sm[:first]) else "no"
        context = Context(
            device=self.context.device.name,
            clock_hz=clock_hz,
            sm=int(sm[0]) if grid.sms == 1 else None,
            notes={"shared_bytes": str(each.attempts[0][0]), "all_at_once": all_at_once},
        )
        return Trace(workload=digest(mix), arrays=arrays, context=context)

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
        if (key := (kernel, mix.block_size, shared)) not in self._active:
            kernel.configure(shared=shared, carveout=_ALL_SHARED)
            self._active[key] = self.context.max_active_blocks(*key)
        if (blocks := self._active[key]) != grid.per_sm:
            raise UnsupportedWorkload(
                f"an SM of this device runs {blocks * mix.block_size // WARP_SIZE} warps of this mix at once "
                f"in blocks of {mix.block_size} threads, the mix needs {mix.warps}"
            )
        return shared, _ALL_SHARED

    def _operands(self, mix: Mix, body: Body, grid: Grid) -> Operands:
        """Queue what writes the chains in global memory, or reserve counters."""
        if self.arena.user is not self:
            self._links = None
        operands = self._written_operands(mix, body, grid)
        self.arena.user = self
        return operands

    def _written_operands(self, mix: Mix, body: Body, grid: Grid) -> Operands:
        if not body.uses_links:
            warps = grid.blocks * mix.block_size // WARP_SIZE
            size = mix.footprint if body.spread else max(body.counter_stride, 1) * warps
            self._links = None
            return Operands(self.arena.reserve(size), mix.footprint // body.spread if body.spread else 0)
        chains = grid.sms * mix.warps * mix.ilp
        key = (mix.access, mix.footprint, mix.width, mix.stride, chains)
        if self._links is None or self._links[0] != key:
            self._links = None  # until all are written
            self._links = (key, write_links(mix, chains, self.context, self.arena))
            self._position = 0
        return self._links[1]

    def _launch(self, queued: _Queued, body: Body, kernel: Kernel, operands: Operands, buffer: int) -> None:
        """Queue the kernel; its results are written to `buffer`, which holds zeros."""
        mix, grid, sizes = queued.mix, queued.grid, queued.sizes
        shared, carveout = queued.attempts[0]
        kernel.configure(shared=shared, carveout=carveout)
        if mix.cold:
            self.buffers.sweep_l2()
            self.buffers.read_back_sweep()
        samples = buffer + sizes[0] + sizes[1] if mix.sampled else 0
        if mix.sampled:
            self.context.upload(samples, _MOST)  # the kernel keeps the least overhead of all SMs
        keeps_off = grid.at_once < grid.resident and mix.waves > 1
        arguments = {
            "reports": buffer + sizes[0],
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
            "samples": samples,
            "offset": self._position,
        }
        if operands.count:  # a chain of tiles advances by the number of chains, one of lines by one
            loads = (mix.iterations * (mix.waves + 1)) * (mix.loads // mix.iterations // mix.ilp)
            step = grid.sms * mix.warps * mix.ilp if mix.access is Access.STREAMING else 1
            self._position = (self._position + loads * step) % operands.count
        self.context.launch(kernel, (grid.blocks, 1), mix.block_size, shared, *arguments.values())


def _sizes(mix: Mix, grid: Grid) -> tuple[int, ...]:
    """Bytes of the barrier, the reports, and the histogram of single loads if any are timed."""
    warps = grid.blocks * mix.block_size // WARP_SIZE
    return (GRID_BARRIER.itemsize, warps * MIX_REPORT.itemsize, *[SAMPLES.itemsize] * bool(mix.sampled))


def _room(sizes: tuple[int, ...]) -> int:
    """Bytes that the results of a mix take, aligned."""
    return -(-sum(sizes) // _ALIGNMENT) * _ALIGNMENT


def _wrong_shares(mix: Mix, grid: Grid, sm: Array, first: int) -> str | None:
    """How the distribution of warps over SMs differs from the requested one, None if it does not.

    `sm` is that of every warp that ran, shape (warps,); the `first` ones are of the first wave.
    """
    if mix.silent:
        expected = grid.sms * mix.warps
        return None if sm.size == expected else f"{sm.size} warps of the last wave of a mix ran, not {expected}"
    counts = np.bincount(sm[:first], minlength=_MAX_SMS)
    chosen = counts == mix.warps
    if np.count_nonzero(chosen) != grid.sms or first != grid.sms * mix.warps:
        counts = counts[counts > 0]
        observed = f"{counts.min()} to {counts.max()} warps on each of {counts.size}" if counts.size else "none"
        return (
            f"of a mix of {mix.warps} warps on each of {grid.sms} SMs, {observed} ran: another process uses this GPU, "
            "or it numbers its SMs otherwise"
        )
    elsewhere = np.count_nonzero(~chosen[sm[first:]])
    if elsewhere or sm.size != grid.sms * mix.warps * mix.waves:
        return f"of a mix on {grid.sms} SMs, {elsewhere} warps ran on others: another process uses this GPU"
    return None


def _all_at_once(begin: Array, end: Array, sm: Array) -> bool:
    """Whether on each SM there was a moment at which all of these warps ran."""
    if not begin.size or begin.max() < end.min():  # then it holds for each SM
        return True
    last_begin, first_end = np.zeros(_MAX_SMS, np.int64), np.full(_MAX_SMS, _NEVER)
    np.maximum.at(last_begin, sm, begin)
    np.minimum.at(first_end, sm, end)
    return bool((last_begin < first_end).all())


def _blocks(mix: Mix, ran: NDArray[np.bool_]) -> Array:
    """Numbers of the blocks of the warps that ran, without gaps."""
    if ran.all():
        return np.arange(ran.size) // (mix.block_size // WARP_SIZE)
    blocks = np.flatnonzero(ran) * WARP_SIZE // mix.block_size
    return np.concatenate([[0], np.cumsum(blocks[1:] > blocks[:-1])])


def _nanoseconds(begin: NDArray[np.uint64], end: NDArray[np.uint64]) -> Array:
    """From the first begin, where there is one, to the last end, shape (1,)."""
    first = int((begin - _ONE).min()) + 1  # 0 less one is the largest number
    return np.array([int(end.max()) - first], np.int64)


def _histogram(samples: NDArray[Any]) -> dict[str, Array]:
    """Arrays of single loads: cycles, their counts, loads longer than the last bin, cycles of an empty window."""
    bins = samples["bins"][0].astype(np.int64)
    arrays = {"latency": np.flatnonzero(bins), "count": bins[bins > 0], "overflow_count": bins[-1:]}
    return arrays | {"overhead": samples["overhead"].astype(np.int64)}

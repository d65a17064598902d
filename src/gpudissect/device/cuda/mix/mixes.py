"""Runs mixes: as many warps as are wanted on each SM that is wanted, no more, all at once.

How many blocks an SM runs at once is set by the shared memory that each asks for. That every SM had its share is not
believed but seen: each warp tells on which SM it ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import MEETING, MIX_REPORT, SAMPLES
from gpudissect.device.cuda.clocks import clock_rate
from gpudissect.device.cuda.driver import Board, Kernel
from gpudissect.device.cuda.mix.bodies import Body, body_of
from gpudissect.device.cuda.mix.links import Links, lay
from gpudissect.errors import DeviceError, KernelFailed, UnsupportedWorkload
from gpudissect.trace import Context, Trace
from gpudissect.units import WARP_SIZE, format_bytes
from gpudissect.workload import Access, Mix
from gpudissect.workload.digest import digest

_EVERY_SM = 1 << 30
_GRAIN = 256  # bytes: shared memory is given out in so many
_TRIES = 3  # launches, at most, until every SM has its share
_PATIENCE = (20.0, 2e-6)  # seconds a mix may take: this, and this for each instruction of a warp in each round
_CLOCKED = 100_000  # cycles over which the rate of the clock is told
_SWEPT = 4  # times the L2 that is written and read before a mix that is to start cold
_SWEEPERS = (1024, 256)  # blocks, threads


@dataclass(frozen=True)
class Grid:
    """Which blocks there are.

    Attributes:
        sms: SMs that count.
        per_sm: blocks of each SM at a time.
        resident: blocks that fit onto all SMs at once: the first.
        blocks: all blocks; those behind `resident` take the places of some that count.

    """

    sms: int
    per_sm: int
    resident: int
    blocks: int

    @property
    def at_once(self) -> int:
        """Blocks that run at once and count."""
        return self.sms * self.per_sm


@dataclass(frozen=True)
class Told:
    """What a mix told: where its blocks met, every warp's report, how long single loads took if any were timed."""

    meeting: NDArray[Any]
    reports: NDArray[Any]
    samples: NDArray[Any] | None


class Mixer:
    """Runs mixes on one board, one after the other.

    `kernel` gives a kernel of a source with macros, `arena` the memory for operands. `shared` is the shared memory that
    one block may have, `shared_per_sm` that of an SM, `reserved` what the driver takes for itself of each block, `l2`
    the size of the L2, in bytes.
    """

    def __init__(
        self, board: Board, kernel: Callable[..., Kernel], arena: Arena, *, name: str, sm_count: int,
        capability: tuple[int, int], shared: int, shared_per_sm: int, reserved: int, l2: int,
    ) -> None:  # fmt: skip
        self._board = board
        self._kernel = kernel
        self._arena = arena
        self._desk = Arena(board, limit=board.free_memory()[1])
        self._name = name
        self._sm_count = sm_count
        self._capability = capability
        self._shared = shared
        self._shared_per_sm = shared_per_sm
        self._reserved = reserved
        self._l2 = l2
        self._swept = Arena(board, limit=board.free_memory()[1])
        self._laid: tuple[object, Links] | None = None
        self._read = 0  # positions of the links that mixes read so far: the next one begins behind them

    def run(self, mix: Mix) -> Trace:
        """Run a mix.

        Raises `DeviceError` for one that this device cannot run, or when SMs kept having more or less than their share;
        `OutOfMemory`; and `KernelFailed`, also when a chain did not go the way it was meant.
        """
        body = body_of(mix, self._capability)
        grid = self._grid(mix)
        source, *macros = body.code
        kernel = self._kernel(source, "mix", *macros)
        shared = self._set_occupancy(mix, body, grid, kernel)
        links = self._operands(mix, body, grid)
        for _ in range(_TRIES):
            if mix.cold:
                self._sweep()
            told = self._run(mix, body, grid, kernel, shared, links)
            trouble = _shares_wrong(mix, grid, told.reports)
            if trouble is None:
                return _trace(mix, grid, told, self._name, shared)
        raise DeviceError(trouble)

    def release(self) -> None:
        """Give the memory of operands back: a chase may need it."""
        self._arena.release()
        self._swept.release()
        self._laid = None

    def close(self) -> None:
        """Give all memory back."""
        self.release()
        self._desk.release()

    def _sweep(self) -> None:
        """Queue writes and reads over several times the L2: nothing else is left in it, nor has to be written back."""
        count = _SWEPT * self._l2 // 16
        buffer = self._swept.reserve(16 * (count + 1))
        for kernel, *more in (("sweep",), ("skim", buffer + 16 * count)):
            self._board.launch(self._kernel("lay.cu", kernel), (_SWEEPERS[0], 1), _SWEEPERS[1], 0, buffer, count, *more)

    def _grid(self, mix: Mix) -> Grid:
        sms = self._sm_count if mix.sms is None else mix.sms
        if sms > self._sm_count:
            raise UnsupportedWorkload(f"this device has {self._sm_count} SMs, a mix was asked for on {sms}")
        per_sm = mix.warps * WARP_SIZE // mix.block_size
        resident = self._sm_count * per_sm
        return Grid(sms, per_sm, resident, resident + sms * per_sm * (mix.waves - 1))

    def _set_occupancy(self, mix: Mix, body: Body, grid: Grid, kernel: Kernel) -> int:
        """Let an SM run just so many blocks at once; the shared memory each takes for that."""
        share = self._shared_per_sm // grid.per_sm // _GRAIN * _GRAIN - self._reserved
        shared = min(share // _GRAIN * _GRAIN, self._shared)
        if shared < body.shared:
            raise UnsupportedWorkload(
                f"a block of this mix needs {format_bytes(body.shared)} of shared memory, each of "
                f"{grid.per_sm} on an SM can have {format_bytes(max(shared, 0))}"
            )
        kernel.configure(shared=shared, carveout=100)
        found = self._board.blocks_at_once(kernel, mix.block_size, shared)
        if found != grid.per_sm:
            raise UnsupportedWorkload(
                f"an SM of this device runs {found * mix.block_size // WARP_SIZE} warps of this mix at once "
                f"in blocks of {mix.block_size} threads, {mix.warps} were asked for"
            )
        return shared

    def _operands(self, mix: Mix, body: Body, grid: Grid) -> Links:
        """Lay what chains go through in global memory, or make room for counters."""
        if body.links:
            chains = grid.sms * mix.warps * mix.ilp
            what = (mix.access, mix.footprint, mix.width, mix.stride, chains)
            if self._laid is None or self._laid[0] != what:
                self._laid = None
                self._laid = (what, lay(mix, chains, self._board, self._kernel, self._arena))
                self._read = 0
            return self._laid[1]
        self._laid = None
        return Links(self._arena.reserve(max(body.counters, 1) * grid.blocks * mix.block_size // WARP_SIZE))

    def _run(self, mix: Mix, body: Body, grid: Grid, kernel: Kernel, shared: int, links: Links) -> Told:
        """Launch once. Of the reports of all warps also those of warps that do not count."""
        parts = [np.zeros(1, MEETING), np.zeros(grid.blocks * mix.block_size // WARP_SIZE, MIX_REPORT)]
        if mix.sampled:
            parts.append(np.zeros(1, SAMPLES))
            parts[-1]["overhead"] = np.iinfo(np.uint32).max  # the least of all SMs is wanted
        ends = np.cumsum([part.nbytes for part in parts]).tolist()
        desk = self._desk.reserve(ends[-1])
        for part, end in zip(parts, ends, strict=True):
            self._board.upload(desk + end - part.nbytes, part)
        held = grid.sms < self._sm_count and mix.waves > 1
        arguments = {
            "reports": desk + ends[0],
            "meeting": desk,
            "loops": body.loops,
            "zero": 0,
            "one": 1,
            "resident": grid.resident,
            "sms": _EVERY_SM if mix.sms is None else mix.sms,
            "awaited": grid.sms * mix.warps * mix.waves if held else 0,
            "last": grid.blocks - grid.at_once if mix.waves > 1 else 0,
            "memory": links.memory,
            "stride": mix.stride * 4,
            "count": links.count,
            "half": links.half,
            "blocks": grid.at_once,
            "samples": desk + ends[1] if mix.sampled else 0,
            "offset": self._read,
        }
        if links.count:  # a chain of tiles goes on by as many as there are chains, one of lines by one
            once = (mix.iterations * (mix.waves + 1)) * (mix.loads // mix.iterations // mix.ilp)
            step = grid.sms * mix.warps * mix.ilp if mix.access is Access.STREAMING else 1
            self._read = (self._read + once * step) % links.count
        self._board.launch(kernel, (grid.blocks, 1), mix.block_size, shared, *arguments.values())
        clock = self._kernel("mix_lay.cu", "mix_clock", f"WIDTH={mix.width}")
        self._board.launch(clock, (1, 1), 1, 0, desk, _CLOCKED)
        self._board.wait(_PATIENCE[0] + _PATIENCE[1] * mix.instructions * mix.waves)
        seen = self._board.download(desk, ends[-1])
        samples = seen[ends[1] :].view(SAMPLES) if mix.sampled else None
        return Told(seen[: ends[0]].view(MEETING), seen[ends[0] : ends[1]].view(MIX_REPORT), samples)


def _shares_wrong(mix: Mix, grid: Grid, reports: NDArray[Any]) -> str | None:
    """Did every SM that counts run what it should, and no other? What was wrong if not."""
    ran = reports["end"] > 0
    early = np.arange(ran.size) < grid.resident * mix.block_size // WARP_SIZE
    sms, counts = np.unique(reports["sm"][ran & early], return_counts=True)
    if sms.size != grid.sms or (counts != mix.warps).any():
        seen = f"{counts.min()} to {counts.max()} warps on each of {sms.size}" if sms.size else "none"
        return (f"a mix of {mix.warps} warps on each of {grid.sms} SMs came to run {seen}: somebody else uses this "
                "GPU, or it numbers its SMs otherwise")  # fmt: skip
    others = int((~np.isin(reports["sm"][ran], sms)).sum())
    if others or int(ran.sum()) != grid.sms * mix.warps * mix.waves:
        return f"of a mix on {grid.sms} SMs {others} warps ran on others: somebody else uses this GPU"
    return None


def _trace(mix: Mix, grid: Grid, told: Told, device: str, shared: int) -> Trace:
    """The trace of a mix whose SMs all had their share."""
    reports, meeting = told.reports, told.meeting
    ran = np.flatnonzero(reports["end"] > 0)
    every = reports[ran]
    if every["broken"].any():
        raise KernelFailed("chain broken: a mix did not come to what its instructions make of what it began with")
    begin_ns, end_ns = every["begin_ns"], every["end_ns"]
    span = int(end_ns.max()) - int(begin_ns[begin_ns > 0].min())
    first = ran < grid.resident * mix.block_size // WARP_SIZE
    by_sm = [every[first & (every["sm"] == sm)] for sm in np.unique(every["sm"])]
    together = all(part["begin"].max() < part["end"].min() for part in by_sm)
    context = Context(
        device=device,
        clock_hz=clock_rate(meeting["cycles"], meeting["ns"]),
        sm=int(every["sm"][0]) if grid.sms == 1 else None,
        notes={"shared_bytes": str(shared), "all_at_once": "yes" if together else "no"},
    )
    arrays = {
        "begin": every["begin"].astype(np.int64),
        "end": every["end"].astype(np.int64),
        "sm": every["sm"].astype(np.int64),
        "block": np.unique(ran * WARP_SIZE // mix.block_size, return_inverse=True)[1].astype(np.int64),
        "nanoseconds": np.array([span], np.int64),
    }
    if told.samples is not None:
        bins = told.samples["bins"][0]
        arrays["latency"] = np.flatnonzero(bins).astype(np.int64)
        arrays["count"] = bins[bins > 0].astype(np.int64)
        arrays["overflow_count"] = bins[-1:].astype(np.int64)
        arrays["overhead"] = told.samples["overhead"].astype(np.int64)
    return Trace(workload=digest(mix), arrays=arrays, context=context)

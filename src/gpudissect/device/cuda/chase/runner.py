"""Runs one launch: lays the rings, starts the kernel once for every window of the records, reads the slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import JOB, REPORT, SLOT, TRAITS, TURN, TURN_PATHS, UNRINGED
from gpudissect.device.cuda.chase.plan import Launch
from gpudissect.device.cuda.chase.reading import Seen, read
from gpudissect.device.cuda.chase.rings import Rings
from gpudissect.device.cuda.compile import Compiler
from gpudissect.device.cuda.driver import Board, Kernel, Module
from gpudissect.device.cuda.mix.placement import span
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.trace import Trace
from gpudissect.units import MIB
from gpudissect.workload import Path, Timing

CONSTANT_BANK = 65536
"""Bytes of constant memory a module may have."""
_FLUSH_L2 = 4  # times the L2 that a flush writes
_THREADS = 256  # of a block of the laying and flushing kernels
_BLOCKS = 1024  # of those, at most, for one ring
_PATIENCE = (20.0, 5e-6)  # seconds a launch may take: this, and this for each access
_TRIES = 3  # launches, at most, until no two blocks share an SM


class Crowded(KernelFailed):
    """Two blocks of a launch ran on one SM: each would have seen but a part of its caches."""


@dataclass(frozen=True)
class Desk:
    """Addresses of what one launch reads and writes beside the rings themselves."""

    rings: int
    jobs: int
    turns: int
    results: int


class Runner:
    """Runs launches on one board. Kernels are compiled and loaded when first needed."""

    def __init__(self, board: Board, compiler: Compiler, arena: Arena, *, name: str, l2: int, texture_limit: int):
        self._board = board
        self._compiler = compiler
        self._arena = arena
        self._desk = Arena(board, limit=board.free_memory()[1])
        self._scratch = Arena(board, limit=board.free_memory()[1])
        self._name = name
        self._l2 = l2
        self._texture_limit = texture_limit
        self._modules: dict[tuple[str, ...], Module] = {}
        self._kernels: dict[tuple[str, ...], Kernel] = {}
        self._textures: dict[tuple[int, int], int] = {}

    def run(self, launch: Launch) -> dict[int, Trace]:
        """Run a launch, as often as its longest trace needs, and give the trace of every member by its index.

        Raises `OutOfMemory`, `KernelFailed`, and `Crowded` if two blocks kept sharing an SM and so its caches.
        """
        base = self._arena.reserve(launch.arena)
        desk = self._lay(launch, base)
        variant = ["TURNS"] if launch.turns else ["PLACED"] if launch.sm is not None else []
        in_code = launch.path is not Path.CODE and Path.CODE in launch.paths
        code = ["CODE_TURNS", f"TIMING_{launch.timing.upper()}"] if in_code else []
        macros = (TRAITS[launch.path].macro, *variant, *code)
        kernel = self.kernel("chase.cu", f"chase_{launch.timing}", *macros)
        preferred = kernel.configure(shared=launch.shared, carveout=launch.carveout or 0)
        if launch.cluster > 1:
            kernel.allow_any_cluster()
        notes = {"carveout_preferred": f"{preferred} %"}
        if launch.bank is not None:
            bank = self._modules["chase.cu", *macros].symbol("bank")
            self._board.copy(bank, base + launch.bank, CONSTANT_BANK)
        texture = self._texture(base) if Path.TEXTURE in launch.paths else 0
        seen = [self._window(launch, window, base, desk, kernel, texture) for window in range(launch.windows)]
        if any(part.crowded for part in seen):
            raise Crowded(f"chases meant for different SMs ran on one, {_TRIES} times over")
        return {
            member.index: read(launch, at, seen, base, self._name, notes) for at, member in enumerate(launch.members)
        }

    def close(self) -> None:
        """Give the memory back."""
        for arena in (self._arena, self._desk, self._scratch):
            arena.release()

    def _lay(self, launch: Launch, base: int) -> Desk:
        """Lay the rings of a launch and make room for its jobs and results."""
        rings = Rings(launch, base)
        turns = rings.size + len(launch.members) * JOB.itemsize
        results = turns + len(launch.turns) * TURN.itemsize
        address = self._desk.reserve(results + len(launch.members) * _result_bytes(launch))
        if launch.path not in UNRINGED:
            blob = rings.bytes_at(address)  # must outlive the copy: hence the wait
            self._board.upload(address, blob)
            grid = (min(-(-rings.most_links // _THREADS), _BLOCKS), rings.count)
            self._board.launch(self.kernel("lay.cu", "lay"), grid, _THREADS, 0, address)
            if rings.picked:
                self._board.launch(self.kernel("lay.cu", "mark"), grid, _THREADS, 0, address)
            self._board.wait(_PATIENCE[0])
        return Desk(address, address + rings.size, address + turns, address + results)

    def _window(self, launch: Launch, window: int, base: int, desk: Desk, kernel: Kernel, texture: int) -> Seen:
        """Run the kernel for one window; again, up to a limit, while two blocks share an SM and so its caches."""
        jobs = _jobs(launch, window, base, desk)
        accesses = int((jobs["count"].astype(np.int64) * jobs["laps"]).max())
        turns = _turns(launch, desk)
        accesses += int(turns["accesses"].astype(np.int64).sum())
        size = _result_bytes(launch)
        for _ in range(_TRIES):
            self._board.upload(desk.jobs, jobs)
            if turns.size:
                self._board.upload(desk.turns, turns)
            if launch.flush:
                self._flush()
            grid = (launch.blocks, 1)
            self._board.launch(kernel, grid, launch.threads, launch.shared, desk.jobs, texture, cluster=launch.cluster)
            self._board.wait(_PATIENCE[0] + _PATIENCE[1] * accesses)
            self._check_taken(launch, desk)
            rows = self._board.download(desk.results, len(jobs) * size).reshape(len(jobs), size)
            reports = np.ascontiguousarray(rows[:, : REPORT.itemsize]).view(REPORT)[:, 0]
            slots = np.ascontiguousarray(rows[:, REPORT.itemsize :]).view(np.uint64)
            sms = reports["sm"][jobs["laps"] > 0]
            taken = self._taken(desk, turns)
            places = {(0, int(sms[0])), *zip(turns["sm"].tolist(), taken, strict=True)}
            crowded = np.unique(sms).size < sms.size or len({sm for _, sm in places}) < len(places)
            if launch.cluster > 1 and launch.members[0].chase.peer:
                crowded |= bool(reports["peer_sm"][0] == sms[0])
            if not crowded:
                break
        return Seen(reports, slots, crowded, taken)

    def _check_taken(self, launch: Launch, desk: Desk) -> None:
        """Make sure that a chase meant for a certain SM has run at all: its numbers may have gaps."""
        if launch.sm is not None and not self._board.download(desk.jobs, JOB.itemsize).view(JOB)["taken"][0]:
            raise DeviceError(f"no block came to SM {launch.sm}: this device numbers its SMs otherwise, or shares them")

    def _taken(self, desk: Desk, turns: NDArray[Any]) -> tuple[int, ...]:
        """The SMs that turns ran on; checks that every one went the way that was laid."""
        if not turns.size:
            return ()
        taken = self._board.download(desk.turns, turns.nbytes).view(TURN)
        if taken["broken"].any() or not taken["done"].all():
            raise KernelFailed("chain broken: a turn before a chase did not end where it began")
        return tuple(taken["seen_sm"].tolist())

    def _flush(self) -> None:
        """Queue writes over several times the L2, so that nothing of a ring is left in it."""
        size = _FLUSH_L2 * max(self._l2, MIB)
        scratch = self._scratch.reserve(size)
        self._board.launch(self.kernel("lay.cu", "sweep"), (_BLOCKS, 1), _THREADS, 0, scratch, size // 16)

    def kernel(self, source: str, name: str, *macros: str) -> Kernel:
        """A kernel of ``kernels/<source>`` compiled with these macros, loaded when it is first asked for."""
        key = (source, name, *macros)
        if key not in self._kernels:
            code = (source, *macros)
            if code not in self._modules:
                self._modules[code] = self._board.load(self._compiler.cubin(source, *macros))
            self._kernels[key] = self._modules[code].kernel(name)
        return self._kernels[key]

    def _texture(self, base: int) -> int:
        key = (base, min(self._arena.size, self._texture_limit))
        if key not in self._textures:
            self._textures[key] = self._board.texture(*key)
        return self._textures[key]


def _jobs(launch: Launch, window: int, base: int, desk: Desk) -> NDArray[Any]:
    """What the blocks are told for one window; those with nothing left to record idle."""
    jobs = np.zeros(len(launch.members), JOB)
    done = window * launch.slots
    for block, member in enumerate(launch.members):
        if done >= member.records:
            continue
        chase, job = member.chase, jobs[block]
        per_lap = member.records // chase.laps
        timed_laps = -(-min(member.records, done + launch.slots) // per_lap)
        every_access_counts = launch.path is Path.NOTHING and launch.timing is Timing.EACH  # there are no marks
        job["start"] = Rings.first(desk.rings, block)
        job["results"] = desk.results + block * _result_bytes(launch)
        job["slots_at"], job["slots"] = launch.slots_at, launch.slots
        job["count"] = per_lap if every_access_counts else chase.order.count
        job["laps"] = chase.warmup + timed_laps
        job["first"] = -(chase.warmup * per_lap + done)
        job["one"] = 1
        job["peer"] = chase.peer
        if TRAITS[launch.path].ring_inside:
            job["ring"], job["ring_bytes"] = base + member.region, span(chase.path, chase.order)
        job["turns"], job["turn_count"] = desk.turns, len(launch.turns)
        job["sm"] = launch.sm or 0
        if chase.bounds is not None:
            job["hit_max"], job["miss_min"] = chase.bounds.hit_max, chase.bounds.miss_min
            job["miss_max"] = chase.bounds.miss_max
    return jobs


def _turns(launch: Launch, desk: Desk) -> NDArray[Any]:
    """The turns before the chase, none of them taken yet."""
    turns = np.zeros(len(launch.turns), TURN)
    for record, ring, turn in zip(turns, launch.turns, launch.members[0].chase.before, strict=False):
        record["start"] = Rings.first(desk.rings, ring)
        in_code = turn.path is Path.CODE
        record["accesses"], record["laps"] = turn.order.count * (1 if in_code else turn.laps), turn.laps
        record["path"] = TURN_PATHS.index(turn.path)
        record["warp"], record["sm"] = turn.warp, turn.sm
    return turns


def _result_bytes(launch: Launch) -> int:
    return int(REPORT.itemsize) + launch.slots * SLOT

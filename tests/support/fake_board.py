"""A board of host memory: does in Python what the kernels do on a GPU, so that the host side can be tested alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpudissect.device.cuda.chase.layout import JOB, REPORT, RING, TRAITS, TURN, TURN_PATHS, UNRINGED, RingKind
from gpudissect.workload.order import permutation

BASE = 0x7F00_0000_0000
MASK = 0xFFFFFFFF
INSIDE = {"PATH_SHARED": 4, "PATH_CLUSTER": 8}
"""Paths whose ring is copied to shared memory, and the bytes of a link."""
UNRINGED_MACROS = [TRAITS[path].macro for path in UNRINGED]


class FakeKernel:
    def __init__(self, name: str, path: str) -> None:
        self.name, self.path = name, path
        self.shared = self.carveout = -1
        self.any_cluster = False

    def configure(self, *, shared: int, carveout: int) -> int:
        self.shared, self.carveout = shared, carveout
        return carveout

    def allow_any_cluster(self) -> None:
        self.any_cluster = True


class FakeModule:
    def __init__(self, board: FakeBoard, path: str) -> None:
        self._board, self._path = board, path

    def kernel(self, name: str) -> FakeKernel:
        return FakeKernel(name, self._path)

    def symbol(self, name: str) -> int:
        assert name == "bank"
        return self._board.bank


class FakeCompiler:
    """Cubins that say for which path they are."""

    version, arch = "0.0", "sm_00"

    def cubin(self, source: str, *macros: str) -> bytes:
        return "".join(macros).encode()


class FakeBoard:
    """Cycles are 30 + (a number that tells lap and position apart); `tamper` may spoil results before the download."""

    def __init__(self, size: int = 1 << 30) -> None:
        self.memory = np.zeros(size, np.uint8)  # the system gives pages only where something is written
        self.results = 0
        self._end = 0
        self.bank = self.allocate(65536)
        self.launches: list[str] = []
        self.shared_asked: list[int] = []
        self.threads: list[int] = []
        self.turns: list[tuple[str, int]] = []
        self.loaded: set[str] = set()
        self.tamper: Callable[[FakeBoard], None] | None = None
        self.sms: Callable[[int], int] = lambda block: block
        self._textures: dict[int, int] = {}

    def free_memory(self) -> tuple[int, int]:
        return self.memory.size, self.memory.size

    def allocate(self, size: int) -> int:
        address = BASE + self._end
        self._end += -(-size // 256) * 256
        assert self._end <= self.memory.size
        return address

    def free(self, address: int) -> None:
        pass

    def load(self, cubin: bytes) -> FakeModule:
        self.loaded.add(cubin.decode())
        return FakeModule(self, cubin.decode())

    def upload(self, address: int, data: Any) -> None:
        raw = np.ascontiguousarray(data).view(np.uint8).ravel()
        self.memory[address - BASE : address - BASE + raw.size] = raw

    def clear(self, address: int, size: int) -> None:
        self.memory[address - BASE : address - BASE + size] = 0

    def copy(self, target: int, source: int, size: int) -> None:
        self.memory[target - BASE : target - BASE + size] = self.memory[source - BASE : source - BASE + size]

    def download(self, address: int, size: int) -> Any:
        return self.memory[address - BASE : address - BASE + size].copy()

    def texture(self, address: int, size: int) -> int:
        self._textures[77] = address
        return 77

    def wait(self, seconds: float) -> None:
        pass

    def lost(self) -> bool:
        return False

    def launch(
        self, kernel: FakeKernel, grid: tuple[int, int], block: int, shared: int, *arguments: int, cluster: int = 1
    ) -> None:
        self.launches.append(kernel.name)
        assert grid[0] % cluster == 0 and kernel.any_cluster == (cluster > 1)
        if kernel.name == "lay":
            for ring in self._view(arguments[0], RING, grid[1]):
                if ring["count"]:
                    self._lay(ring)
        elif kernel.name == "mark":
            for ring in self._view(arguments[0], RING, grid[1]):
                self._mark(ring)
        elif kernel.name != "sweep":
            self.shared_asked.append(shared)
            self.threads.append(block)
            placed = kernel.path.endswith("PLACED")
            together = placed or "TURNS" in kernel.path or cluster > 1
            jobs = self._view(arguments[0], JOB, 1 if together else grid[0])
            for turn in self._view(int(jobs[0]["turns"]), TURN, int(jobs[0]["turn_count"])):
                assert turn["sm"] < grid[0] and 32 * turn["warp"] < block
                self._take_turn(turn, arguments[1])
            for number in range(grid[0]) if placed else ():
                if jobs[0]["laps"] and self.sms(number) == jobs[0]["sm"] and not jobs[0]["taken"]:
                    jobs[0]["taken"] = 1
                    self._chase(kernel, jobs[0], number, shared, arguments[1])
            for number, job in enumerate(jobs if not placed else ()):
                if job["laps"]:
                    self._chase(kernel, job, number, shared, arguments[1])
            if self.tamper:
                self.tamper(self)

    def _view(self, address: int, dtype: Any, count: int) -> Any:
        at = address - BASE
        return self.memory[at : at + count * dtype.itemsize].view(dtype)

    def _offsets(self, ring: Any) -> Any:
        count = int(ring["count"])
        if ring["kind"] == RingKind.EXPLICIT:
            return self._view(int(ring["table"]), np.dtype(np.int64), count)
        positions = permutation(count, int(ring["seed"])) if ring["kind"] == RingKind.SHUFFLED else np.arange(count)
        return int(ring["start"]) + positions * int(ring["stride"])

    def _word(self, address: int, size: int) -> Any:
        return self._view(address, np.dtype(f"u{size}"), 1)

    def _lay(self, ring: Any) -> None:
        offsets = self._offsets(ring)
        ring["first"] = int(ring["origin"]) + (int(offsets[0]) >> int(ring["shift"]))
        mark = 0 if ring["picks"] else int(ring["mark"])
        for here, there in zip(offsets, np.roll(offsets, -1), strict=True):
            link = (int(ring["origin"]) + (int(there) >> int(ring["shift"]))) | mark
            self._word(int(ring["region"]) + int(here), int(ring["word"]))[0] = link

    def _mark(self, ring: Any) -> None:
        offsets = self._offsets(ring)
        if ring["picks"]:
            for position in self._view(int(ring["picks"]), np.dtype(np.uint32), int(ring["pick_count"])):
                self._word(int(ring["region"]) + int(offsets[position]), int(ring["word"]))[0] |= int(ring["mark"])

    def _load(self, path: str, link: int, texture: int) -> int:
        if path == "PATH_TEXTURE":
            return int(self._word(self._textures[texture] + 4 * link, 4)[0])
        if path == "PATH_CONSTANT":
            return int(self._word(self.bank + link, 4)[0])
        return int(self._word(link, 8)[0])

    def _take_turn(self, turn: Any, texture: int) -> None:
        path = TRAITS[TURN_PATHS[turn["path"]]]
        if path.macro == "PATH_CODE":
            turn["done"], turn["seen_sm"] = 1, self.sms(int(turn["sm"]))
            self.turns.append((path.macro, int(turn["accesses"]) * int(turn["laps"])))
            return
        first = link = int(self._word(int(turn["start"]), 8)[0])
        for _ in range(int(turn["accesses"])):
            link = self._load(path.macro, link, texture) & ~path.mark
        turn["done"], turn["broken"], turn["seen_sm"] = 1, link != first, self.sms(int(turn["sm"]))
        self.turns.append((path.macro, int(turn["accesses"])))

    def _chase(self, kernel: FakeKernel, job: Any, block: int, shared: int, texture: int) -> None:
        path, timing = kernel.path.partition("TURNS")[0].removesuffix("PLACED"), kernel.name
        count, laps, slots = int(job["count"]), int(job["laps"]), int(job["slots"])
        assert int(job["slots_at"]) + 8 * (slots + 1) <= shared
        base = {"PATH_SHARED": 0x400, "PATH_CLUSTER": 0x7E00_0100_0400}.get(path, 0)
        mark = 1 << 31 if path == "PATH_TEXTURE" else 1
        kept = np.zeros(slots + 1, np.uint64)
        start = 0 if path in UNRINGED_MACROS else int(self._word(int(job["start"]), 8)[0])
        link, number = start + base, int(job["first"])
        for lap in range(laps):
            for position in range(count):
                cycles = 30 + (lap * count + position) % 1000
                if path in INSIDE:
                    assert link - base < int(job["ring_bytes"]) <= int(job["slots_at"])
                    link = int(self._word(int(job["ring"]) + link - base, INSIDE[path])[0]) + base
                elif path not in UNRINGED_MACROS:
                    link = self._load(path, link, texture)
                if timing == "chase_each":
                    picked = bool(link & mark) or path == "PATH_NOTHING"
                    kept[min(max(number, 0), slots)] = cycles << 32 | (link & MASK)
                    number += picked
                    link &= ~mark
            if timing == "chase_lap":
                kept[min(max(number, 0), slots)] = (1 << 33) + lap
                number += 1
            elif timing == "chase_count":
                kept[min(max(number, 0), slots)] = lap << 32 | count // 2
                number += 1
        at = self.results = int(job["results"])
        report = self._view(at, REPORT, 1)[0]
        report["start"], report["end"], report["base"] = start, link - base, base
        report["sm"] = self.sms(block)
        report["peer_sm"] = self.sms(int(job["peer"])) if path == "PATH_CLUSTER" else 0
        report["cycles"], report["ns"] = 198_000, 100_000
        self._view(at + REPORT.itemsize, np.dtype(np.uint64), slots)[:] = kept[:slots]

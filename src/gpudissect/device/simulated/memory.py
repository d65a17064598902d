"""One chase on a simulated memory: cold caches, warm-up laps, timed laps, and the clock that reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.simulated.noise import DRIFT_PERIOD, OUTLIER_MEAN, Noise
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.trace import Array
from gpudissect.workload import Bounds, Chase, Order, Path, Timing

CHUNK = 1 << 16  # accesses simulated at a time: their latencies stay in the host's caches, and Ctrl-C gets through


REGION = 2 << 20  # constant memory and code start at multiples of this: the large page, so that they share none


@dataclass(frozen=True)
class Chunk:
    """Some accesses of the timed laps, one after the other.

    Attributes:
        first: number of the first, counted from the first timed access.
        cycles: float64 (n,), latency with noise (and the timer's cost), not yet rounded by the clock.

    """

    first: int
    cycles: NDArray[np.float64]


class Memory:
    """A simulated memory, reused for one chase after another."""

    def __init__(self, model: HierarchyModel, noise: Noise) -> None:
        self._model = model
        self._noise = noise
        self._levels = np.empty(CHUNK, dtype=np.int8)
        self._latencies = np.empty(CHUNK, dtype=np.float64)

    def run(self, chase: Chase, digest: str, timer: float, farther: float = 0.0) -> dict[str, Array]:
        """Run a chase from cold caches.

        Args:
            chase: what to do; its path must be one of the hierarchy's routes.
            digest: the chase's, which with the noise's seed determines all randomness.
            timer: cycles that timing one access adds; not used with whole laps.
            farther: cycles that every access takes longer than the hierarchy says.

        Returns:
            The arrays of the chase's trace, see `Trace`.

        """
        ring = _ring(chase.order)
        match chase.timing:
            case Timing.EACH:
                return self._each(chase, ring, self._timed(chase, ring, digest, timer + farther))
            case Timing.LAP:
                return self._lap(chase, ring, self._timed(chase, ring, digest, farther))
            case Timing.COUNT:
                return self._count(chase, ring, self._timed(chase, ring, digest, timer + farther))

    def reach(self, path: Path) -> int:
        """End of the byte offsets that can be simulated on a path."""
        return self._model.reach(path)

    def _timed(self, chase: Chase, ring: NDArray[np.int64], digest: str, timer: float) -> Iterator[Chunk]:
        """Walk all laps and give the timed ones with their noise, chunk by chunk, in a buffer that is reused."""
        from gpudissect.device.simulated._clock import disturb

        replacement, clock, phase = seeds(self._noise.seed, digest)
        self._model.reset(replacement, end=chase.span)
        for turn in chase.before:
            laid = _ring(turn.order) + region(chase, turn.path)
            self._untimed(turn.path, laid, turn.laps, Actor(turn.sm, turn.warp))
        ring = ring + region(chase, chase.path) if chase.before else ring
        actor = Actor(first_sm=chase.sm or 0)
        position = self._untimed(chase.path, ring, chase.warmup, actor)
        noise = self._noise
        settings = np.array([noise.jitter, noise.outliers, OUTLIER_MEAN, noise.drift, DRIFT_PERIOD, phase])
        draws = np.array([clock], dtype=np.uint64)
        for first, n in _chunks(chase.laps * ring.size):
            latencies = self._latencies[:n]
            position = self._model.walk(chase.path, ring, position, self._levels[:n], latencies, actor)
            disturb(latencies, timer, settings, draws, first)
            yield Chunk(first, latencies)

    def _untimed(self, path: Path, ring: NDArray[np.int64], laps: int, actor: Actor) -> int:
        """Walk some laps that nobody times; gives the position where they end."""
        position = 0
        for _, n in _chunks(laps * ring.size):
            position = self._model.walk(path, ring, position, self._levels[:n], self._latencies[:0], actor)
        return position

    def _each(self, chase: Chase, ring: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
        picks = None if chase.picks is None else np.array(chase.picks, dtype=np.int64)
        cycles = np.empty(chase.laps * chase.timed_per_lap, dtype=np.int64)
        done = 0
        for first, read in _read(chunks):
            if picks is not None:
                read = read[_picked(picks, ring.size, first, read.size)]
            cycles[done : done + read.size] = read
            done += read.size
        visited = ring if picks is None else ring[picks]
        return {"offsets": np.tile(visited, chase.laps), "cycles": cycles}

    @staticmethod
    def _lap(chase: Chase, ring: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
        sums = np.zeros(chase.laps)
        for chunk in chunks:
            laps, starts = _laps(chunk.first, chunk.cycles.size, ring.size)
            sums[laps] += np.add.reduceat(chunk.cycles, starts)
        return {"cycles": np.rint(sums).astype(np.int64)}

    @staticmethod
    def _count(chase: Chase, ring: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
        assert chase.bounds is not None  # Chase sees to it
        counts = np.zeros((chase.laps, 3), dtype=np.int64)
        for first, read in _read(chunks):
            laps, starts = _laps(first, read.size, ring.size)
            counts[laps] += np.add.reduceat(_classes(read, chase.bounds), starts)
        return {"counts": counts}


def region(chase: Chase, path: Path) -> int:
    """Where the memory behind a path begins: constant memory, then code, lie beyond what all rings reach into."""
    if not chase.before:
        return 0
    beyond = {Path.CONSTANT: 1, Path.CODE: 2}.get(path, 0)
    return -(-chase.span // REGION) * REGION * beyond


def _read(chunks: Iterator[Chunk]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Read every access with a clock that counts whole cycles; buffers are reused."""
    from gpudissect.device.simulated._clock import read

    cycles = np.empty(CHUNK, dtype=np.int64)
    phase = 0.5  # half a cycle off, so that the rounding of sums cannot tip whole latencies
    for chunk in chunks:
        part = cycles[: chunk.cycles.size]
        phase = read(chunk.cycles, phase, part)
        yield chunk.first, part


def _classes(cycles: NDArray[np.int64], bounds: Bounds) -> NDArray[np.int64]:
    """Hit, miss and unknown of each access, 0 or 1, shape (n, 3)."""
    classes = np.empty((cycles.size, 3), dtype=np.int64)
    classes[:, 0] = cycles <= bounds.hit_max
    classes[:, 1] = (cycles >= bounds.miss_min) & (cycles <= bounds.miss_max)
    classes[:, 2] = 1 - classes[:, 0] - classes[:, 1]
    return classes


def _chunks(total: int) -> Iterator[tuple[int, int]]:
    """Start and length of the chunks of `total` accesses."""
    for first in range(0, total, CHUNK):
        yield first, min(CHUNK, total - first)


def _laps(first: int, n: int, count: int) -> tuple[slice, NDArray[np.int64]]:
    """The laps that n accesses from number `first` on fall into, and where among them each begins."""
    laps = np.arange(first // count, (first + n - 1) // count + 1)
    return slice(int(laps[0]), int(laps[-1]) + 1), np.maximum(laps * count - first, 0)


def _picked(picks: NDArray[np.int64], count: int, first: int, n: int) -> NDArray[np.int64]:
    """Which of n accesses from number `first` on are picked positions of their lap: indices, rising."""
    laps = np.arange(first // count, (first + n - 1) // count + 1)
    numbers = (laps[:, None] * count + picks - first).reshape(-1)
    return numbers[(numbers >= 0) & (numbers < n)]


@lru_cache(maxsize=2)
def _ring(order: Order) -> NDArray[np.int64]:
    """The ring's offsets, in an array that the compiled loop takes. Chases often repeat an order."""
    return np.array(order.offsets(), dtype=np.int64)


def seeds(seed: int, digest: str) -> tuple[int, int, float]:
    """Seeds of replacement and clock, and the drift's phase in [0, 1): all that is random about one workload."""
    bytes_ = hashlib.sha256(f"{seed}:{digest}".encode()).digest()
    words = [int.from_bytes(bytes_[i : i + 8], "little") for i in (0, 8, 16)]
    return words[0], words[1], words[2] / 2**64

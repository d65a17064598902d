"""One chase on a simulated memory: cold caches, warm-up laps, timed laps, and the clock that reads them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.simulated.noise import DRIFT_PERIOD, OUTLIER_MEAN, Noise
from gpudissect.simulation.cache.models import Actor, HierarchyModel
from gpudissect.trace import Array
from gpudissect.workload import Chase, Order, Path, PriorAccesses, Timing

CHUNK_ACCESSES = 1 << 16  # simulated at a time: latencies stay in the host's caches, and Ctrl-C is handled between
OTHERS_BYTES, OTHERS_GRAIN = 64 << 20, 32  # span of the accesses of other users, and a multiple of their offsets
REGION_BYTES = 2 << 20  # constant memory and code start at multiples: the large page, so that they share none


@dataclass(frozen=True)
class Chunk:
    """Consecutive accesses of the timed laps."""

    first: int  # number of the first, counted from the first timed access
    cycles: NDArray[np.float64]  # (n,) latencies with noise (and the timer's cost), not yet rounded by the clock


class _Laps:
    """Laps over a chain. Those after a lap without a miss repeat it, because hits change no content; they are copied.

    The state of the replacement policies is then not that after all laps: nothing else may run before the next reset.
    """

    def __init__(self, model: HierarchyModel, path: Path, chain: NDArray[np.int64], actor: Actor) -> None:
        self._model, self._path, self._chain, self._actor = model, path, chain, actor
        self._levels = np.empty(CHUNK_ACCESSES, dtype=np.int8)
        self._done = 0
        self._lap: NDArray[np.float64] | None = None  # latencies, by position in the chain

    def skip(self, laps: int) -> None:
        """Run whole laps without their latencies."""
        total, first = laps * self._chain.size, self._done
        for _, n in _chunks(total):
            if self._repeats:
                self._done = first + total
                return
            self._walk(n, np.empty(0))

    def read(self, latencies: NDArray[np.float64]) -> None:
        """Run accesses; `latencies`, shape (n,) and at most `CHUNK_ACCESSES`, receives theirs."""
        size, position = self._chain.size, self._done % self._chain.size
        if self._lap is None and self._repeats and 2 * size <= latencies.size:
            lap = np.empty(size)
            self._walk(size, lap)
            self._done -= size
            self._lap = np.roll(lap, position)
        if self._lap is None:
            self._walk(latencies.size, latencies)
        else:
            latencies[:] = np.resize(np.roll(self._lap, -position), latencies.size)
            self._done += latencies.size

    @property
    def _repeats(self) -> bool:
        return min(self._model.hits_in_a_row, self._done) >= self._chain.size

    def _walk(self, n: int, latencies: NDArray[np.float64]) -> None:
        position = self._done % self._chain.size
        self._model.walk(self._path, self._chain, position, self._levels[:n], latencies, self._actor)
        self._done += n


class Memory:
    """A simulated memory, reused for one chase after another, each of one thread."""

    def __init__(self, model: HierarchyModel, noise: Noise) -> None:
        self._model = model
        self._noise = noise
        self._offsets = lru_cache(maxsize=2)(_offsets)  # chases often repeat an order
        self._levels = np.empty(CHUNK_ACCESSES, dtype=np.int8)
        self._latencies = np.empty(CHUNK_ACCESSES, dtype=np.float64)

    def run(self, chase: Chase, digest: str, timer: float, extra: float = 0.0) -> dict[str, Array]:
        """The measured arrays of a chase's trace, from cold caches.

        Its digest and the noise's seed determine all randomness. `timer`: cycles that timing one access adds, not used
        with whole laps; `extra`: cycles added to the latency of every access.
        """
        chain = self._offsets(chase.order)
        timed = self._timed(chase, chain, digest, extra + (0.0 if chase.timing is Timing.LAP else timer))
        match chase.timing:
            case Timing.EACH:
                return _each(chase, chain, timed)
            case Timing.LAP:
                return _lap(chase, chain, timed)
            case Timing.COUNT:
                return _count(chase, chain, timed)

    def _timed(self, chase: Chase, chain: NDArray[np.int64], digest: str, timer: float) -> Iterator[Chunk]:
        """Run all laps and yield the timed ones with their noise, chunk by chunk, in a buffer that is reused."""
        from gpudissect.device.simulated._clock import disturb

        replacement, clock, phase = seeds(self._noise.seed, digest)
        self._model.reset(replacement, end=chase.span)
        if self._noise.other_users and Path.GLOBAL_L2 in self._model.hierarchy.routes:
            self._untimed(Path.GLOBAL_L2, self._offsets_of_others(chase, clock), 1, Actor())
        for prior in chase.before:
            offsets = self._offsets(prior) + region(chase, prior.path)
            sm = ((chase.sm or 0) + prior.sm) % self._model.hierarchy.sm_count  # among all SMs
            self._untimed(prior.path, offsets, prior.laps, Actor(prior.sm, prior.warp, sm - prior.sm))
        chain = chain + region(chase, chase.path) if chase.before else chain
        laps = _Laps(self._model, chase.path, chain, Actor(first_sm=chase.sm or 0))
        laps.skip(chase.warmup)
        noise = self._noise
        settings = np.array([noise.jitter, noise.outliers, OUTLIER_MEAN, noise.drift, DRIFT_PERIOD, phase])
        draws = np.array([clock], dtype=np.uint64)
        for first, n in _chunks(chase.laps * chain.size):
            latencies = self._latencies[:n]
            laps.read(latencies)
            disturb(latencies, timer, settings, draws, first)
            yield Chunk(first, latencies)

    def _offsets_of_others(self, chase: Chase, seed: int) -> NDArray[np.int64]:
        """Random lines behind the memory of a chase, the same for the same seed."""
        first = region(chase, Path.CODE) + chase.span
        lines = np.random.default_rng(seed).integers(0, OTHERS_BYTES // OTHERS_GRAIN, self._noise.other_users)
        offsets: NDArray[np.int64] = -(-first // REGION_BYTES) * REGION_BYTES + lines * OTHERS_GRAIN
        return offsets

    def _untimed(self, path: Path, chain: NDArray[np.int64], laps: int, actor: Actor) -> None:
        """Run untimed laps."""
        position = 0
        for _, n in _chunks(laps * chain.size):
            position = self._model.walk(path, chain, position, self._levels[:n], self._latencies[:0], actor)


def _chunks(total: int) -> Iterator[tuple[int, int]]:
    """Start and length of the chunks of `total` accesses."""
    for first in range(0, total, CHUNK_ACCESSES):
        yield first, min(CHUNK_ACCESSES, total - first)


def region(chase: Chase, path: Path) -> int:
    """Begin of the memory of a path: constant memory, then code, are beyond the span of all chains."""
    if not chase.before:
        return 0
    return -(-chase.span // REGION_BYTES) * REGION_BYTES * {Path.CONSTANT: 1, Path.CODE: 2}.get(path, 0)


def seeds(seed: int, digest: str) -> tuple[int, int, float]:
    """Seeds of replacement and clock, and the phase of the drift in [0, 1): all randomness of one workload."""
    digits = hashlib.sha256(f"{seed}:{digest}".encode()).digest()
    words = [int.from_bytes(digits[i : i + 8], "little") for i in (0, 8, 16)]
    return words[0], words[1], words[2] / 2**64


def _each(chase: Chase, chain: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
    picks = None if chase.picks is None else np.fromiter(chase.picks, np.int64, len(chase.picks))
    cycles = np.empty(chase.laps * chase.timed_per_lap, dtype=np.int64)
    done = 0
    for first, read in _read(chunks):
        if picks is not None:
            read = read[_picked(picks, chain.size, first, read.size)]
        cycles[done : done + read.size] = read
        done += read.size
    return {"cycles": cycles}


def _lap(chase: Chase, chain: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
    sums = np.zeros(chase.laps)
    for chunk in chunks:
        laps, starts = _laps(chunk.first, chunk.cycles.size, chain.size)
        sums[laps] += np.add.reduceat(chunk.cycles, starts)
    return {"cycles": np.rint(sums).astype(np.int64)}


def _count(chase: Chase, chain: NDArray[np.int64], chunks: Iterator[Chunk]) -> dict[str, Array]:
    from gpudissect.device.simulated._clock import count

    assert chase.bounds is not None  # `Chase` ensures it
    bounds = np.array([chase.bounds.hit_max, chase.bounds.miss_min, chase.bounds.miss_max])
    counts = np.zeros((chase.laps, 3), dtype=np.int64)
    for first, read in _read(chunks):
        count(read, bounds, first, chain.size, counts)
    return {"counts": counts}


def _read(chunks: Iterator[Chunk]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Read every access with a clock that counts whole cycles; buffers are reused."""
    from gpudissect.device.simulated._clock import read

    cycles = np.empty(CHUNK_ACCESSES, dtype=np.int64)
    phase = 0.5  # half a cycle off, so that rounding of sums does not change whole latencies
    for chunk in chunks:
        part = cycles[: chunk.cycles.size]
        phase = read(chunk.cycles, phase, part)
        yield chunk.first, part


def _laps(first: int, n: int, count: int) -> tuple[slice, NDArray[np.int64]]:
    """The laps of n accesses from number `first` on, and where among them each begins."""
    laps = np.arange(first // count, (first + n - 1) // count + 1)
    return slice(int(laps[0]), int(laps[-1]) + 1), np.maximum(laps * count - first, 0)


def _picked(picks: NDArray[np.int64], count: int, first: int, n: int) -> NDArray[np.int64]:
    """Rising indices of those of n accesses from number `first` on that are picked positions of their lap."""
    laps = np.arange(first // count, (first + n - 1) // count + 1)
    numbers = (laps[:, None] * count + picks - first).reshape(-1)
    return numbers[(numbers >= 0) & (numbers < n)]


def _offsets(order: Order | PriorAccesses) -> NDArray[np.int64]:
    """The offsets of a lap, in an array for the compiled loop."""
    return np.array(order.offsets(), dtype=np.int64)

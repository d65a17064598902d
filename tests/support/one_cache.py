"""A device with one cache, in plain Python, whose policy may be one that the package does not know."""

from __future__ import annotations

import random

import numpy as np

from gpudissect.device.base import Device
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.cache.infer_level import Level, Levels, plateau_of
from gpudissect.measure.cache.infer_line import Granularity
from gpudissect.trace import Context, Trace
from gpudissect.workload import Bounds, Path, Timing
from gpudissect.workload.digest import digest

HIT, MISS = 40, 230
BOUNDS = Bounds(hit_max=100, miss_min=180, miss_max=400)
LIMITS = {Path.GLOBAL: 1 << 28, Path.GLOBAL_L2: 1 << 28, Path.CONSTANT: 1 << 16}


def level(line: int, element: str = "l1", path: Path = Path.GLOBAL) -> Level:
    """A cache level with separate hits and misses; all SMs share an L2."""
    hit, miss = (plateau_of([(line, line)], [np.full(8, cycles)]) for cycles in (HIT, MISS))
    return Level(element, path, element == "l2", hit, miss, BOUNDS, Granularity(line, 0.99), ())


def levels(line: int, element: str = "l1", path: Path = Path.GLOBAL) -> Levels:
    return Levels(path, (level(line, element, path),), {})


class ScriptedGpu(Device):
    """Times every access with ``cycles(chase, rng, shape)``, shape (laps, count)."""

    info = None  # set below

    def __init__(self, cycles, limits=LIMITS):
        self.cycles = cycles
        self.info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, dict(limits))

    def run(self, batch):
        return [Trace(digest(chase), self._arrays(chase), Context("fake")) for chase in batch]

    def _arrays(self, chase):
        rng = np.random.default_rng(int(digest(chase)[:8], 16))
        shape = (chase.laps, chase.order.count)
        cycles = np.broadcast_to(np.rint(self.cycles(chase, rng, shape)), shape).astype(np.int64)
        if chase.timing is Timing.LAP:
            return {"cycles": cycles.sum(axis=1)}
        if chase.timing is Timing.COUNT:
            hit, miss = cycles <= chase.bounds.hit_max, cycles >= chase.bounds.miss_min
            return {"counts": np.stack([hit.sum(1), miss.sum(1), (~hit & ~miss).sum(1)], axis=1)}
        picks = slice(None) if chase.picks is None else list(chase.picks)
        return {"offsets": np.tile(chase.order.offsets()[picks], chase.laps), "cycles": cycles[:, picks].ravel()}


def linear(low, high):
    """Latency that changes linearly in time."""
    return lambda chase, rng, shape: np.linspace(low, high, shape[0] * shape[1]).reshape(shape)


def swing(chase, rng, shape):
    """The clock swings by a hundredth, and back."""
    return (400 * (1 + 0.01 * np.sin(np.arange(shape[0] * shape[1]) / 3000))).reshape(shape)


def one_slow_access(chase, rng, shape):
    cycles = np.full(shape, 400)
    cycles[0, shape[1] // 2] = 4000
    return cycles


NO_CACHE = {
    "flat": lambda chase, rng, shape: 400,
    "ramp": lambda chase, rng, shape: 100 + 20 * np.log2(chase.order.span),
    "drift": linear(300, 450),
    "swing": swing,
    "scatter": lambda chase, rng, shape: rng.integers(30, 900, shape),
    "one slow access": one_slow_access,
}
"""Latencies without a cache, as `ScriptedGpu` takes them."""


class OneCache(Device):
    """Sets of `ways` ways, line modulo sets; each set has a `policy(ways, rng)` with `use(way, hit)` and `victim()`.

    Every chase starts cold. A share `misread` of the accesses takes as long as the other kind would.
    """

    info = None  # set below

    def __init__(self, policy, ways, sets=4, line=32, misread=0.0, seed=0):
        self.policy, self.ways, self.sets, self.line, self.misread, self.seed = policy, ways, sets, line, misread, seed
        self.info = DeviceInfo("fake:0", "fake", Origin.SIMULATED, 1, {Path.GLOBAL: 1 << 30})

    def run(self, batch):
        return [Trace(digest(chase), self._arrays(chase), Context("fake")) for chase in batch]

    def _arrays(self, chase):
        rng = random.Random(f"{self.seed}:{digest(chase)}")
        lap = chase.order.offsets()
        sets = [({}, {}, self.policy(self.ways, rng)) for _ in range(self.sets)]
        lines = (lap // self.line).tolist() * (chase.warmup + chase.laps)
        hits = np.array([self._access(line, *sets[line % self.sets]) for line in lines])[chase.warmup * lap.size :]
        hits ^= np.random.default_rng(rng.getrandbits(63)).random(hits.size) < self.misread
        if chase.timing is Timing.COUNT:
            hit = hits.reshape(chase.laps, lap.size).sum(axis=1)
            return {"counts": np.stack([hit, lap.size - hit, np.zeros_like(hit)], axis=1)}
        return {"offsets": np.tile(lap, chase.laps), "cycles": np.where(hits, HIT, MISS)}

    def _access(self, line, way_of, line_in, policy):
        way = way_of.get(line)
        if way is not None:
            policy.use(way, True)
            return True
        way = len(way_of) if len(way_of) < self.ways else policy.victim()
        way_of.pop(line_in.get(way), None)
        way_of[line], line_in[way] = way, line
        policy.use(way, False)
        return False

"""Speed of the cache simulator in million accesses per second, beside the plain-Python oracle of the tests.

    python benchmarks/bench_cachemodel.py

Run from the root of the checkout. Every figure is the best of three on one core. Also prints the cost of the first
simulation in a process: compiling (cold) and loading compiled code (warm).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path as FilePath

import numpy as np

from gpudissect.device.simulated import Noise, SimulatedGpu
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Tlb
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.units import MIB
from gpudissect.workload import Bounds, Chase, Path, Sequential, Shuffled, Timing

sys.path.insert(0, str(FilePath(__file__).parents[1]))
from tests.support.oracle import OracleCache, OracleHierarchy

LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)
SMALL = Cache((4,) * 32, 128, 128, Index(IndexKind.BITS, bits=(7, 8, 9, 10, 11)), LRU)
LARGE = Cache((16,) * 20480, 128, 128, MODULO, LRU)
TEXTURE = Cache((192,) * 4, 32, 32, Index(IndexKind.BITS, bits=(7, 8)), LRU)
L2 = Cache((16,) * 4096, 32, 32, Index(IndexKind.XOR, masks=tuple(0x1001 << bit for bit in range(5, 17))), LRU)
GPU = Hierarchy(
    caches={"l1": SMALL, "l2": L2},
    routes={Path.GLOBAL: Route(("l1", "l2"), (80.0, 230.0), 380.0, translated_from=1, timer=16.0)},
    tlbs=(Tlb((16,), 2 * MIB, MODULO, LRU, 6.0), Tlb((8,) * 8, 2 * MIB, MODULO, LRU, 0.0)),
    tlb_walk_penalty=60.0,
)
ORACLE_ACCESSES = 20_000
FIRST_CALL = """
import time; start = time.perf_counter()
from gpudissect.simulation.cache.geometry import *
from gpudissect.device.simulated import SimulatedGpu
from gpudissect.workload import *
imported = time.perf_counter()
gpu = SimulatedGpu(Hierarchy(caches={}, routes={Path.SHARED: Route((), (1.0,), None)}), spec="", name="")
gpu.run([Chase(path=Path.SHARED, order=Sequential(1, 4), timing=Timing.EACH)])
print(f"import {imported - start:.2f} s, first simulation {time.perf_counter() - imported:.2f} s")
"""


def best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of three runs, after one to warm up."""
    seconds = []
    for _ in range(4):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])


def show(name: str, rate: float, oracle: float) -> None:
    print(f"{name:44s} {rate / 1e6:7.1f} M/s   {rate / oracle:5.0f} x the oracle's {oracle / 1e6:.2f} M/s")


def bench_cache(name: str, cache: Cache, lap: np.ndarray, accesses: int = 4_000_000) -> None:
    sequence = np.tile(lap, -(-accesses // lap.size))
    model, oracle = CacheModel(cache), OracleCache(cache)
    rate = sequence.size / best(lambda: model.access_many(sequence))
    sample = sequence[:ORACLE_ACCESSES].tolist()
    show(name, rate, len(sample) / best(lambda: [oracle.access(address) for address in sample]))


def bench_chase(name: str, chase: Chase, noise: Noise) -> None:
    gpu = SimulatedGpu(GPU, spec="sim:bench", name="bench", noise=noise)
    rate = chase.order.count * (chase.warmup + chase.laps) / best(lambda: gpu.run([chase]))
    oracle = OracleHierarchy(GPU)
    sample = np.resize(chase.order.offsets(), ORACLE_ACCESSES).tolist()
    show(name, rate, len(sample) / best(lambda: [oracle.access(chase.path, address) for address in sample]))


def first_call(cache: str) -> str:
    command, environment = [sys.executable, "-c", FIRST_CALL], {**os.environ, "NUMBA_CACHE_DIR": cache}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    print("One cache")
    too_large = np.arange(192) * 128
    bench_cache("16 KiB 4-way, all hits", SMALL, np.arange(128) * 128)
    bench_cache("16 KiB 4-way, all misses", SMALL, too_large)
    bench_cache("24 KiB 192-way, all hits", TEXTURE, np.arange(768) * 32)
    random = np.random.default_rng(0).permutation(44 * MIB // 128) * 128
    bench_cache("40 MiB 16-way, 44 MiB random", LARGE, random, 2_000_000)
    for kind in PolicyKind:
        weights = (1 / 6, 1 / 2, 1 / 6, 1 / 6) if kind is PolicyKind.WEIGHTED else ()
        policy = Policy(kind, weights, (2, 3, 2, 1, 2, 4) if kind is PolicyKind.ORDER else ())
        bench_cache(f"16 KiB 4-way, 24 KiB in order, {kind}", replace(SMALL, policy=policy), too_large)

    print("\nA whole chase on a simulated GPU: L1, L2, two TLBs")
    for label, noise in (("no noise", Noise.none()), ("noise", Noise())):
        for timing in Timing:
            bounds = Bounds(150, 200, 1000) if timing is Timing.COUNT else None
            hits = Chase(path=Path.GLOBAL, order=Sequential(128, 128), timing=timing, bounds=bounds, laps=20_000)
            bench_chase(f"L1 hits, {timing}, {label}", hits, noise)
            misses = replace(hits, order=Shuffled(MIB // 128, 128, seed=1), laps=200)
            bench_chase(f"L2 hits, {timing}, {label}", misses, noise)
    small = Chase(path=Path.GLOBAL, order=Sequential(16, 128), timing=Timing.EACH)
    gpu = SimulatedGpu(GPU, spec="sim:bench", name="bench")
    print(f"a chase of 16 accesses takes {best(lambda: gpu.run([small] * 1000)) * 1e3:.0f} us")

    print("\nFirst simulation in a process")
    with tempfile.TemporaryDirectory() as cache:
        print("cold:", first_call(cache))
        print("warm:", first_call(cache))


if __name__ == "__main__":
    main()

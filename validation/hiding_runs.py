"""Experiments of VV16 on the simulated GPUs: throughput against occupancy, warps against time, single loads.

`measure` gives the points that models are compared with: one block of warps at every occupancy that gives each
scheduler equally many, on all SMs, adds and accesses back-to-back dependent (VV16 s5.1, 5.2). Throughput is occupancy
over mean warp latency, by Little's law (VV16 s3.4).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from math import inf, nan

import numpy as np
import vv16

from gpudissect import catalogue
from gpudissect.device.base import Device
from gpudissect.device.kinds import open_device
from gpudissect.device.simulated.costs import mix_costs
from gpudissect.errors import UnsupportedWorkload
from gpudissect.measure.instructions.infer_issue import Lifetimes, Occupancy, SmTotals
from gpudissect.measure.latency_hiding.infer_contention import Distribution
from gpudissect.models.base import Loop
from gpudissect.models.evaluation import Measurement
from gpudissect.simulation.sm.description import Processor, Scheduling
from gpudissect.simulation.sm.engine import Job, run
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step

SEED = 1
GPUS = vv16.gpus()
G80, GT200, FERMI, KEPLER, MAXWELL = GPUS
INSTRUCTIONS = 4096  # per warp, about
FOOTPRINT = 1 << 28  # bytes, beyond every cache
ACCESSES = {  # kinds of `models.base.Machine.units`
    "ldg_streaming": (Instruction.LDG, Access.STREAMING, 1),
    "ldg_stride2": (Instruction.LDG, Access.STREAMING, 2),
    "ldg_random": (Instruction.LDG, Access.RANDOM, 1),
    "rsq": (Instruction.RSQ, Access.RESIDENT, 1),
    "lds": (Instruction.LDS, Access.RESIDENT, 1),
}
STEPS, ITERATIONS = 64, 40  # of mixes without loads
LOADS = 1200  # per warp
WAVES = 6  # of blocks, where the GPU is oversubscribed
SAMPLED = 8  # of so many loads of one warp one is timed (VV16 s6.6)
SINGLE_LOADS = 1 << 21  # of all warps
SIZES = tuple(1 << k for k in range(20, 30))  # bytes of the array of random accesses: 1 to 512 MiB
IMBALANCED, BALANCED = 17, 16  # warps of VV16 figure 5.2
MAX_BLOCK_WARPS = 16
CHAINS = (1, 2, 4)


@cache
def measure(gpu: str, loop: Loop) -> Measurement | None:
    """Run the loop, alpha rounded to a whole number of adds or accesses; None for accesses not simulated here."""
    if loop.access not in ACCESSES or (loop.access == "lds" and gpu in (G80, GT200)):
        return None  # these two address shared memory through registers of their own (VV16 s4.7)
    instruction, access, stride = ACCESSES[loop.access]
    adds, accesses = _counts(loop.alpha)
    in_memory = accesses > 0 and access is not Access.RESIDENT
    mixes = [
        Mix(
            body=tuple(Step(k, count) for k, count in ((instruction, accesses), (Instruction.FADD, adds)) if count),
            warps=warps,
            block_size=size,
            iterations=max(4, INSTRUCTIONS // (adds + accesses)),
            ilp=loop.ilp,
            stride=stride if accesses else 1,
            access=access if in_memory else Access.RESIDENT,
            footprint=FOOTPRINT if in_memory else 0,
        )
        for warps, size in _occupancies(gpu)
    ]
    cycles = [float(np.mean(trace.end - trace.begin)) for trace in _device(gpu).run(mixes)]
    rates = np.array([mix.warps * mix.instructions / time for mix, time in zip(mixes, cycles, strict=True)])
    alpha = adds / accesses if accesses else inf
    return Measurement(replace(loop, alpha=alpha), np.array([mix.warps for mix in mixes], float), rates)


def _counts(alpha: float) -> tuple[int, int]:
    """Adds and accesses of one iteration."""
    if alpha in (0, inf):
        return (1, 0) if alpha else (0, 1)
    return (round(alpha), 1) if alpha >= 1 else (1, round(1 / alpha))


def _occupancies(gpu: str) -> list[tuple[int, int]]:
    """Warps per SM and threads per block, in as few blocks as possible."""
    processor = processor_of(gpu)
    found = []
    for warps in range(processor.schedulers, processor.warps + 1, processor.schedulers):
        sizes = (warps // blocks * WARP_SIZE for blocks in range(1, processor.blocks + 1) if warps % blocks == 0)
        if fitting := [size for size in sizes if size <= processor.block_size]:
            found.append((warps, fitting[0]))
    return found


def processor_of(gpu: str) -> Processor:
    """The SM of a GPU of the catalogue."""
    processor = catalogue.load(gpu).processor()
    assert processor is not None, f"{gpu} has no processor"
    return processor


@cache
def _device(gpu: str) -> Device:
    return open_device(f"sim:{gpu}?seed={SEED}", seed=SEED)


def run_mix(gpu: str, mix: Mix, **options: object) -> Trace:
    """Run a mix on a simulated GPU; `options` replace fields of it."""
    return _device(gpu).run([replace(mix, **options)])[0]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Timeline:
    """One mix: instructions per cycle of an SM, and warps of its first SM against time."""

    rate: float
    warps: Occupancy


@dataclass(frozen=True)
class SingleLoads:
    """Latencies of single loads at one occupancy, and throughput of the whole GPU in GB/s."""

    warps: int
    gbs: float
    latencies: Distribution


def timeline(
    gpu: str, instruction: Instruction, warps: int, block: int, *, waves: int = 1, ilp: int = 1, iterations: int = 0
) -> Timeline:
    """Run `warps` warps in blocks of `block`; loads are streaming ones. `iterations`: 0 for as many as usual."""
    is_load = instruction is Instruction.LDG
    mix = Mix(
        body=(Step(instruction, 1 if is_load else STEPS),),
        warps=warps,
        block_size=block * WARP_SIZE,
        iterations=iterations or (LOADS if is_load else ITERATIONS),
        waves=waves,
        ilp=ilp,
        access=Access.STREAMING if is_load else Access.RESIDENT,
        footprint=FOOTPRINT if is_load else 0,
    )
    trace = run_mix(gpu, mix)
    lifetimes = Lifetimes.of(trace)
    return Timeline(lifetimes.totals.attained_rate(mix.instructions), lifetimes.occupancy(int(trace.sm.min())))


@cache
def jigsaw() -> dict[int, float]:
    """Reciprocal roots on Kepler, one block of up to 32 warps, two of more (VV16 figure 5.2)."""
    counts = [*range(1, 33), *range(34, 65, 2)]
    return {n: timeline(KEPLER, Instruction.RSQ, n, n if n <= 32 else n // 2).rate for n in counts}


@cache
def imbalanced() -> Timeline:
    """17 warps of reciprocal roots on four schedulers (VV16 figure 5.2, right)."""
    return timeline(KEPLER, Instruction.RSQ, IMBALANCED, IMBALANCED)


@cache
def by_block() -> dict[int, Timeline]:
    """All 64 warps of Kepler load, in many blocks of 4 to 32 warps (VV16 figure 5.3)."""
    return {block: timeline(KEPLER, Instruction.LDG, 64, block, waves=WAVES) for block in (4, 8, 16, 32)}


@cache
def persistent_and_not() -> tuple[Timeline, Timeline]:
    """20 warps of accesses to shared memory on G80 in blocks of 10, persistent and oversubscribed (VV16 figure 5.4)."""
    return timeline(G80, Instruction.LDS, 20, 10), timeline(G80, Instruction.LDS, 20, 10, waves=WAVES)


@cache
def best_bandwidth(gpu: str) -> float:
    """GB/s of streaming loads, the best over occupancies and chains (VV16 s6.3)."""
    machine = vv16.machine(gpu)
    counts = {machine.warps, machine.warps // 2 // machine.schedulers * machine.schedulers}
    rates = [timeline(gpu, Instruction.LDG, n, _block(n), ilp=ilp).rate for n in counts for ilp in CHAINS]
    return float(machine.bytes_per_second("ldg_streaming", max(rates))) / 1e9


def _block(warps: int) -> int:
    """Warps per block: a divisor, at most 16."""
    return next(size for size in range(min(MAX_BLOCK_WARPS, warps), 0, -1) if warps % size == 0)


def _loads(warps: int, iterations: int, **options: object) -> Mix:
    block = _block(warps) * WARP_SIZE
    step = (Step(Instruction.LDG, 1),)
    return Mix(body=step, warps=warps, block_size=block, iterations=iterations, **options)  # type: ignore[arg-type]


@cache
def single_loads() -> tuple[SingleLoads, ...]:
    """Loads of one warp in eight on Kepler, at the throughputs of VV16 table 6.6, as near as occupancies allow."""
    machine = vv16.machine(KEPLER)
    found = []
    for warps in (1, *range(machine.schedulers, machine.warps + 1, machine.schedulers)):
        options = {"access": Access.STREAMING, "footprint": FOOTPRINT, "sampled": SAMPLED}
        mix = _loads(warps, SINGLE_LOADS // max(warps, MAX_BLOCK_WARPS), **options)
        trace = run_mix(KEPLER, mix)
        rate = SmTotals.of(trace).steady_rate(mix.loads)
        gbs = float(machine.bytes_per_second("ldg_streaming", rate)) / 1e9
        latencies = Distribution(trace.latency - float(trace.overhead[0]), trace.count)
        found.append(SingleLoads(warps, gbs, latencies))
    targets = vv16.tables()["table_6_6"]["gbs"]
    return tuple(min(found, key=lambda each: abs(each.gbs - gbs)) for gbs in targets)


@cache
def random_bandwidth(gpu: str) -> tuple[float, ...]:
    """GB/s of random words of 4 bytes, for each of `SIZES`, the best over occupancies (VV16 figure 6.6).

    NaN for an array too small for every chain of accesses to have its own words.
    """
    machine = vv16.machine(gpu)
    counts = sorted({machine.schedulers, machine.warps // 2, machine.warps})
    found = []
    for size in SIZES:
        rates = []
        for warps in counts:
            mix = _loads(warps, LOADS // 4, access=Access.RANDOM, footprint=size)
            with suppress(UnsupportedWorkload):
                trace = run_mix(gpu, mix)
                rates.append(SmTotals.of(trace).attained_rate(mix.instructions))
        best = max(rates, default=nan)
        found.append(best * machine.sms * machine.clock_hz * WARP_SIZE * 4 / 1e9)
    return tuple(found)


def l2_size(gpu: str) -> int:
    """Bytes of the L2 of the simulated GPU; 0 without one."""
    size = _device(gpu).info.facts.get("l2_size")
    return size if isinstance(size, int) else 0


def scheduled(gpu: str, rule: Scheduling, mix: Mix) -> Lifetimes:
    """Run a mix on an SM of a GPU whose schedulers follow another rule."""
    processor = replace(processor_of(gpu), scheduling=rule)
    per_block = mix.block_size // WARP_SIZE
    body = mix_costs(mix, processor, catalogue.load(gpu).hierarchy())
    job = Job(body, mix.warps, per_block, mix.iterations, 1, mix.waves * mix.warps // per_block)
    done = run(processor, job, SEED)
    return Lifetimes(done.begin, done.end, np.zeros(done.begin.size, np.int64))

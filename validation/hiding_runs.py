"""What VV16 chapters 5 and 6 see in single runs, on the simulated GPUs: every warp's begin and end, single loads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from hiding_figures import FERMI, G80, GPUS, KEPLER
from hiding_measured import FOOTPRINT, SEED

from gpudissect.device.find import open_device
from gpudissect.measure.latency_hiding.infer_contention import Distribution, distribution
from gpudissect.measure.latency_hiding.infer_warps import Lifetimes, Occupancy, attained, occupancy, steady
from gpudissect.models import published
from gpudissect.trace import Trace
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix
from gpudissect.workload.mix import Step

REPEATED = 64  # instructions of an iteration without loads
ITERATIONS = 40  # of these
LOADS = 1200  # of a warp
ROUNDS = 6  # times as many blocks as run at once, of which the GPU is oversubscribed
EVERY = 8  # of the loads of one warp one is timed (VV16 s6.6)
TIMED = 1 << 21  # loads of all warps while single ones are timed
SIZES = tuple(1 << k for k in range(16, 30))  # bytes of the array of random accesses: 64 KiB to 512 MiB
IMBALANCED, LIKE_IT = 17, 16  # warps of VV16 figure 5.2
CHAINS = (1, 2, 4)


@dataclass(frozen=True)
class Timeline:
    """One mix: instructions a cycle of an SM, and warps of its first SM against time."""

    rate: float
    warps: Occupancy


@dataclass(frozen=True)
class Load:
    """Single loads at one occupancy, and throughput in GB/s of the whole GPU."""

    warps: int
    gbs: float
    single: Distribution


def _trace(gpu: str, mix: Mix) -> Trace:
    with open_device(f"sim:{gpu}?seed={SEED}", seed=SEED) as device:
        return device.run([mix])[0]


def timeline(
    gpu: str, instruction: Instruction, warps: int, block: int, *, waves: int = 1, ilp: int = 1
) -> Timeline:  # fmt: skip
    """Run so many warps in blocks of so many; loads are streaming ones."""
    loads = instruction is Instruction.LDG
    count, iterations = (1, LOADS) if loads else (REPEATED, ITERATIONS)
    mix = Mix(body=(Step(instruction, count),), warps=warps, block_size=block * WARP_SIZE, iterations=iterations,
              waves=waves, ilp=ilp, access=Access.STREAMING if loads else Access.RESIDENT,
              footprint=FOOTPRINT if loads else 0)  # fmt: skip
    trace = _trace(gpu, mix)
    seen = Lifetimes(trace.begin, trace.end, trace.sm)
    return Timeline(attained(seen, mix.instructions), occupancy(seen, int(seen.sm.min())))


@cache
def jigsaw() -> tuple[tuple[int, float], ...]:
    """Reciprocal roots on Kepler, one block of every number of warps up to 32, two up to 64 (VV16 figure 5.2)."""
    counts = [*range(1, 33), *range(34, 65, 2)]
    return tuple((n, timeline(KEPLER, Instruction.RSQ, n, n if n <= 32 else n // 2).rate) for n in counts)


@cache
def imbalanced() -> Timeline:
    """17 warps of reciprocal roots on four schedulers (VV16 figure 5.2, right)."""
    return timeline(KEPLER, Instruction.RSQ, IMBALANCED, IMBALANCED)


@cache
def by_block() -> dict[int, Timeline]:
    """All 64 warps of Kepler read, in blocks of 4 to 32 warps; many more than fit (VV16 figure 5.3)."""
    return {block: timeline(KEPLER, Instruction.LDG, 64, block, waves=ROUNDS) for block in (4, 8, 16, 32)}


@cache
def persistent_or_not() -> tuple[Timeline, Timeline]:
    """20 warps of shared memory accesses on G80 in blocks of 10, persistent and oversubscribed (VV16 figure 5.4)."""
    one = timeline(G80, Instruction.LDS, 20, 10)
    return one, timeline(G80, Instruction.LDS, 20, 10, waves=ROUNDS)


@cache
def best_bandwidth(gpu: str) -> float:
    """GB/s of streaming loads, the best over occupancies and chains (VV16 s6.3)."""
    machine = published.machine(gpu)
    most, each = machine.warps, machine.schedulers
    rates = [timeline(gpu, Instruction.LDG, n, _block(n), ilp=ilp).rate
             for n in {most, most // 2 // each * each} for ilp in CHAINS]  # fmt: skip
    return float(machine.bytes_per_second("ldg_streaming", max(rates))) / 1e9


def _block(warps: int) -> int:
    """Warps of a block: at most 16, a whole number of blocks."""
    return next(size for size in range(min(16, warps), 0, -1) if warps % size == 0)


@cache
def single_loads() -> tuple[Load, ...]:
    """Loads of one warp in eight on Kepler, at the throughputs of VV16 table 6.6, as near as occupancies allow."""
    machine = published.machine(KEPLER)
    found = []
    for warps in (1, *range(machine.schedulers, machine.warps + 1, machine.schedulers)):
        iterations = TIMED // max(warps, 16)
        mix = Mix(body=(Step(Instruction.LDG, 1),), warps=warps, block_size=_block(warps) * WARP_SIZE,
                  iterations=iterations, access=Access.STREAMING, footprint=FOOTPRINT, sampled=EVERY)  # fmt: skip
        trace = _trace(KEPLER, mix)
        rate = steady(Lifetimes(trace.begin, trace.end, trace.sm), mix.loads)
        gbs = float(machine.bytes_per_second("ldg_streaming", rate)) / 1e9
        found.append(Load(warps, gbs, distribution(trace.latency, trace.count, float(trace.overhead[0]))))
    wanted = published.tables()["table_6_6"]["gbs"]
    return tuple(min(found, key=lambda each: abs(each.gbs - gbs)) for gbs in wanted)


@cache
def random_bandwidth(gpu: str) -> tuple[float, ...]:
    """GB/s of random words, 4 bytes a thread, by size of the array: the best over occupancies (VV16 figure 6.6)."""
    machine = published.machine(gpu)
    counts = sorted({machine.schedulers, machine.warps // 2, machine.warps})
    found = []
    for size in SIZES:
        rates = []
        for warps in counts:
            mix = Mix(body=(Step(Instruction.LDG, 1),), warps=warps, block_size=_block(warps) * WARP_SIZE,
                      iterations=LOADS // 4, access=Access.RANDOM, footprint=size)  # fmt: skip
            trace = _trace(gpu, mix)
            rates.append(attained(Lifetimes(trace.begin, trace.end, trace.sm), mix.instructions))
        found.append(max(rates) * machine.sms * machine.clock_hz * WARP_SIZE * 4 / 1e9)
    return tuple(found)


def l2_of(gpu: str) -> int:
    """Bytes of the L2 that the simulated GPU states; 0 for none."""
    with open_device(f"sim:{gpu}", seed=SEED) as device:
        size = device.info.facts.get("l2_size")
    return size if isinstance(size, int) else 0


WITH_L2 = (FERMI, KEPLER, GPUS[-1])

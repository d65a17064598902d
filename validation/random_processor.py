"""A random simulated GPU with an SM of its own, and the truth of its throughput: banks, units, bandwidths, launches."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Scope
from gpudissect.simulation.sm.description import (
    Bandwidth,
    Launches,
    MemorySystem,
    Operation,
    Pipe,
    Processor,
    SharedMemory,
    lane_addresses,
)
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Path, Step

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SHARE = 0.95  # of the rate, for warps_needed
ARITHMETIC = {
    Instruction.FADD: Pipe.CORE,
    Instruction.DFMA: Pipe.DOUBLE,
    Instruction.RSQ: Pipe.SPECIAL,
    Instruction.I2F: Pipe.CONVERT,
}
STEPS = 4096  # instructions per warp: start and end count little
Truth = dict[tuple[str, str], float]


@dataclass(frozen=True)
class RandomProcessor:
    """A GPU, the truth of its throughput, and its cache sizes, which are taken as known."""

    device: SimulatedGpu
    truth: Truth
    l1: int
    l2: int


def random_processor(seed: int) -> RandomProcessor:
    """A GPU of 4 to 24 SMs; with random units, banks and bandwidths."""
    rng = random.Random(seed)
    sms, schedulers, clock = rng.choice([4, 8, 15, 16, 24]), rng.choice([2, 4]), rng.uniform(0.8e9, 2e9)
    shared = _shared(rng)
    operations = {each: _operation(pipe, rng) for each, pipe in ARITHMETIC.items()}
    halves = WARP_SIZE // shared.lanes  # per warp, one after the other
    for each, passes in ((Instruction.LDS, halves), (Instruction.STS, halves), (Instruction.LDG, 1)):
        operations[each] = Operation(Pipe.MEMORY, float(passes), rng.randint(20, 40))
    memory = rng.uniform(250, 700)
    l1, l2 = _cache(32 * KIB, Scope.SM), _cache(rng.choice([512, 1024, 2048]) * KIB, Scope.GPU)
    bandwidth = rng.uniform(4, 16) * sms  # bytes a cycle
    dram = Bandwidth(bandwidth, rng.uniform(0.7, 1) * bandwidth, rng.uniform(0.7, 1) * bandwidth)
    l2_bandwidth = Bandwidth(*(rng.uniform(1.5, 4) * bandwidth for _ in range(3)))
    l1_bandwidth = Bandwidth(rng.choice([32.0, 64.0, 128.0]), rng.uniform(8, 32), 32.0)
    launches = Launches(
        kernel_start=rng.uniform(3000, 9000),
        kernel_interval=rng.uniform(800, 4000),
        graph_start=rng.uniform(3000, 9000),
        graph_interval=rng.uniform(300, 2000),
        block_replacement=rng.uniform(100, 400),
    )
    processor = Processor(
        sms=sms,
        clock_hz=clock,
        schedulers=schedulers,
        warps=rng.choice([32, 48, 64]),
        operations=operations,
        shared=shared,
        memory=MemorySystem(
            memory,
            variability=rng.choice([0.5, 0.6, 1.0]),
            transactions=4,
            transaction_latency=6.0,
            random_bandwidth=1.0,
            random_variability=0.6,
            alone=4.0,
        ),
        dram=dram,
        l2=l2_bandwidth,
        l1=l1_bandwidth,
        blocks=rng.choice([8, 16, 32]),
        block_size=1024,
        launches=launches,
    )
    device = _device(seed, processor, l1, l2, rng)
    truth = {**_memory_truth(processor), **_shared_truth(processor), **_launch_truth(launches)}
    truth["issue", "schedulers"] = schedulers
    for each in (*ARITHMETIC, Instruction.LDS):
        truth |= _instruction_truth(each, processor, device)
    return RandomProcessor(device, truth, l1.capacity, l2.capacity)


def _shared(rng: random.Random) -> SharedMemory:
    banks, lanes = rng.choice([(32, 32), (32, 32), (16, 16)])
    width, mode = rng.choice([(4, 4), (4, 4), (8, 8), (8, 4)]) if banks == 32 else (4, 4)
    return SharedMemory(banks, width, mode, lanes, rng.choice([1.0, 2.0, 8.0, 32.0]), rng.choice([1.0, 2.0, 4.0]))


def _operation(pipe: Pipe, rng: random.Random) -> Operation:
    return Operation(pipe, rng.choice([1.0, 1.0, 2.0, 4.0, 8.0]), rng.randint(4, 40))


def _cache(size: int, scope: Scope) -> Cache:
    ways, line = 8, 128
    return Cache((ways,) * (size // line // ways), line, 32, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), scope)


def _device(seed: int, processor: Processor, l1: Cache, l2: Cache, rng: random.Random) -> SimulatedGpu:
    memory = processor.memory.latency
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (40.0, 0.6 * memory), memory, timer=10),
        Path.GLOBAL_L2: Route(("l2",), (0.6 * memory,), memory, timer=10),
        Path.SHARED: Route((), (25.0,), None, timer=10),
    }
    limits = {Path.GLOBAL: 4 * GIB, Path.GLOBAL_L2: 4 * GIB, Path.SHARED: 48 * KIB}
    hierarchy = Hierarchy(
        caches={"l1": l1, "l2": l2}, routes=routes, sm_count=processor.sms, clock_hz=processor.clock_hz, limits=limits
    )
    pins = rng.uniform(1.02, 1.3) * processor.dram.read * processor.clock_hz  # B/s
    facts: dict[str, int | float | str] = {
        "l2_size": l2.capacity,
        "shared_per_block": 48 * KIB,
        "shared_per_sm": 96 * KIB,
        "threads_per_sm": processor.warps * WARP_SIZE,
        "registers_per_sm": 65536,
        "memory_bus_bits": 256,
        "memory_clock_hz": pins / 64,
        "compute_capability": "7.0",
    }
    noise = Noise(
        seed=seed,
        jitter=rng.choice([0.05, 0.1, 0.3]),
        outliers=rng.choice([0, 0.0005, 0.002]),
        drift=rng.choice([0, 0.0002, 0.002]),
    )
    return SimulatedGpu(
        hierarchy, spec=f"sim:random-{seed}", name=f"random {seed}", facts=facts, noise=noise, processor=processor
    )


def _memory_truth(it: Processor) -> Truth:
    """Bandwidths of the GPU in B/s, of an L1 in B/cycle: or of its load units, if they are slower."""
    units = WARP_SIZE * 4 / it.operations[Instruction.LDG].interval
    truth: Truth = {}
    assert it.l2 is not None and it.l1 is not None
    for element, level in (("dram", it.dram), ("l2", it.l2)):
        for transfer in ("read", "write", "copy") if element == "dram" else ("read", "write"):
            truth[element, f"{transfer}_bandwidth"] = getattr(level, transfer) * it.clock_hz
    truth["l1", "read_rate"] = min(it.l1.read, units)
    return truth


def _shared_truth(it: Processor) -> Truth:
    """The best width of shared memory."""
    banks = it.shared
    each = it.operations[Instruction.LDS].interval
    best = max(
        WARP_SIZE * width / each / banks.conflict_ways(lane_addresses(width // 4), width) for width in (4, 8, 16)
    )
    return {
        ("shared", "banks"): banks.banks,
        ("shared", "bank_width"): banks.width,
        ("shared", "conflict_latency"): banks.conflict_latency,
        ("shared", "read_rate"): best,
        ("shared", "write_rate"): best,
        ("shared", "copy_rate"): best,
    }


def _launch_truth(launches: Launches) -> Truth:
    """Times of starts without delays."""
    times = {
        "kernel_start": launches.kernel_start,
        "kernel_interval": launches.kernel_interval,
        "graph_start": launches.graph_start,
        "graph_interval": launches.graph_interval,
        "block_replacement": launches.block_replacement,
    }
    return {("launch", name): float(time) for name, time in times.items() if time is not None}


def _instruction_truth(each: Instruction, it: Processor, device: SimulatedGpu) -> Truth:
    """Latency and rate as described; the minimum warps on the same SM without noise."""
    operation = it.operations[each]
    units = 1 if operation.pipe in it.single else it.schedulers
    passes = it.shared.conflict_ways(lane_addresses(1), 4) if each is Instruction.LDS else 1
    rate = min(WARP_SIZE * units / (operation.interval * passes), WARP_SIZE * it.schedulers)
    truth: Truth = {(each.value, "rate"): rate}
    if passes == 1:
        truth[each.value, "latency"] = max(operation.latency, operation.interval)
    quiet = SimulatedGpu(device.hierarchy, spec="", name="quiet", noise=Noise.none(), processor=it)
    for warps in range(1, it.warps + 1):
        block = next((warps // n * WARP_SIZE for n in (1, 2, 4) if warps % n == 0 and warps // n <= WARP_SIZE), None)
        if block is None:
            continue
        mix = Mix(body=(Step(each, STEPS),), warps=warps, block_size=block, iterations=1, sms=1)
        (trace,) = quiet.run([mix])
        cycles = int(trace.end.max() - trace.begin.min())
        if WARP_SIZE * warps * STEPS / cycles >= SHARE * rate:
            return truth | {(each.value, "warps_needed"): float(warps)}
    return truth

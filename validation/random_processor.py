"""A random simulated GPU with an SM of its own, and the truth of its throughput: banks, units, bandwidths, launches."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.simulation.cache.geometry import Cache, Hierarchy, Index, IndexKind, Policy, PolicyKind, Route, Scope
from gpudissect.simulation.sm.banks import addresses, ways
from gpudissect.simulation.sm.description import (
    Bandwidth,
    Launches,
    MemorySystem,
    Operation,
    Pipe,
    Processor,
    SharedMemory,
)
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Instruction, Mix, Path, Step

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SHARE = 0.95
ARITHMETIC = {
    Instruction.FADD: Pipe.CORE, Instruction.DFMA: Pipe.DOUBLE, Instruction.RSQ: Pipe.SPECIAL,
    Instruction.I2F: Pipe.CONVERT,
}  # fmt: skip
LONG = 4096  # instructions of a warp from which beginning and ending count little
Truth = dict[tuple[str, str], float]


@dataclass(frozen=True)
class RandomProcessor:
    """A GPU, what is true of its throughput, and how large its caches are, which is taken as known."""

    device: SimulatedGpu
    truth: Truth
    l1: int
    l2: int


def random_processor(seed: int) -> RandomProcessor:
    """A GPU of 4 to 24 SMs; every unit, bank and bandwidth as wide and as slow as drawn."""
    draw = random.Random(seed)
    sms, schedulers, clock = draw.choice([4, 8, 15, 16, 24]), draw.choice([2, 4]), draw.uniform(0.8e9, 2e9)
    shared = _shared(draw)
    operations = {each: _operation(pipe, draw) for each, pipe in ARITHMETIC.items()}
    halves = WARP_SIZE // shared.lanes  # of a warp, one after the other
    for each, takes in ((Instruction.LDS, halves), (Instruction.STS, halves), (Instruction.LDG, 1)):
        operations[each] = Operation(Pipe.MEMORY, float(takes), draw.randint(20, 40))
    memory = draw.uniform(250, 700)
    l1, l2 = _cache(32 * KIB, Scope.SM), _cache(draw.choice([512, 1024, 2048]) * KIB, Scope.GPU)
    bandwidth = draw.uniform(4, 16) * sms  # bytes a cycle
    of_memory = Bandwidth(bandwidth, draw.uniform(0.7, 1) * bandwidth, draw.uniform(0.7, 1) * bandwidth)
    of_l2 = Bandwidth(*(draw.uniform(1.5, 4) * bandwidth for _ in range(3)))
    of_l1 = Bandwidth(draw.choice([32.0, 64.0, 128.0]), draw.uniform(8, 32), 32.0)
    launches = Launches(
        draw.uniform(3000, 9000), draw.uniform(800, 4000), draw.uniform(3000, 9000), draw.uniform(300, 2000),
        draw.uniform(100, 400),
    )  # fmt: skip
    processor = Processor(
        sms=sms, clock_hz=clock, schedulers=schedulers, warps=draw.choice([32, 48, 64]), operations=operations,
        shared=shared, memory=MemorySystem(memory, variability=draw.choice([0.5, 0.6, 1.0])), dram=of_memory,
        l2=of_l2, l1=of_l1, blocks=draw.choice([8, 16, 32]), launches=launches,
    )  # fmt: skip
    device = _device(seed, processor, l1, l2, draw)
    truth = {**_of_memory(processor), **_of_shared(processor), **_of_launches(launches)}
    for each in (*ARITHMETIC, Instruction.LDS):
        truth |= _of_instruction(each, processor, device)
    return RandomProcessor(device, truth, l1.capacity, l2.capacity)


def _shared(draw: random.Random) -> SharedMemory:
    banks, lanes = draw.choice([(32, 32), (32, 32), (16, 16)])
    width, mode = draw.choice([(4, 4), (4, 4), (8, 8), (8, 4)]) if banks == 32 else (4, 4)
    return SharedMemory(banks, width, mode, lanes, draw.choice([1.0, 2.0, 8.0, 32.0]), draw.choice([1.0, 2.0, 4.0]))


def _operation(pipe: Pipe, draw: random.Random) -> Operation:
    return Operation(pipe, draw.choice([1.0, 1.0, 2.0, 4.0, 8.0]), draw.randint(4, 40))


def _cache(size: int, scope: Scope) -> Cache:
    ways, line = 8, 128
    return Cache((ways,) * (size // line // ways), line, 32, Index(IndexKind.MODULO), Policy(PolicyKind.LRU), scope)


def _device(seed: int, processor: Processor, l1: Cache, l2: Cache, draw: random.Random) -> SimulatedGpu:
    far = processor.memory.latency
    routes = {
        Path.GLOBAL: Route(("l1", "l2"), (40.0, 0.6 * far), far, timer=10),
        Path.GLOBAL_L2: Route(("l2",), (0.6 * far,), far, timer=10),
        Path.SHARED: Route((), (25.0,), None, timer=10),
    }
    limits = {Path.GLOBAL: 4 * GIB, Path.GLOBAL_L2: 4 * GIB, Path.SHARED: 48 * KIB}
    hierarchy = Hierarchy(
        caches={"l1": l1, "l2": l2}, routes=routes, sm_count=processor.sms, clock_hz=processor.clock_hz, limits=limits
    )
    pins = draw.uniform(1.02, 1.3) * processor.dram.read * processor.clock_hz  # B/s
    facts: dict[str, int | float | str] = {
        "l2_size": l2.capacity, "shared_per_block": 48 * KIB, "shared_per_sm": 96 * KIB,
        "threads_per_sm": processor.warps * WARP_SIZE, "registers_per_sm": 65536, "memory_bus_bits": 256,
        "memory_clock_hz": pins / 64, "compute_capability": "7.0",
    }  # fmt: skip
    noise = Noise(seed=seed, jitter=draw.choice([0.05, 0.1, 0.3]), outliers=draw.choice([0, 0.0005, 0.002]),
                  drift=draw.choice([0, 0.0002, 0.002]))  # fmt: skip
    return SimulatedGpu(hierarchy, spec=f"sim:random-{seed}", name=f"random {seed}", facts=facts, noise=noise,
                        processor=processor)  # fmt: skip


def _of_memory(it: Processor) -> Truth:
    """Bandwidths of the GPU in B/s, of an L1 in B/cycle: as its units let it, if they are slower."""
    units = WARP_SIZE * 4 / it.operations[Instruction.LDG].interval
    truth: Truth = {}
    assert it.l2 is not None and it.l1 is not None
    for element, level in (("dram", it.dram), ("l2", it.l2)):
        for way in ("read", "write", "copy") if element == "dram" else ("read", "write"):
            truth[element, f"{way}_bandwidth"] = getattr(level, way) * it.clock_hz
    truth["l1", "read_rate"] = min(it.l1.read, units)
    return truth


def _of_shared(it: Processor) -> Truth:
    """Of shared memory the best of all widths."""
    banks = it.shared
    each = it.operations[Instruction.LDS].interval
    best = max(WARP_SIZE * width / each / ways(banks, addresses(width // 4), width) for width in (4, 8, 16))
    return {
        ("shared", "banks"): banks.banks, ("shared", "bank_width"): banks.width,
        ("shared", "conflict_latency"): banks.conflict_latency, ("shared", "read_rate"): best,
        ("shared", "write_rate"): best, ("shared", "copy_rate"): best,
    }  # fmt: skip


def _of_launches(launches: Launches) -> Truth:
    """What starts take if nothing delays them."""
    times = {
        "kernel_start": launches.kernel_start, "kernel_interval": launches.kernel_interval,
        "graph_start": launches.graph_start, "graph_interval": launches.graph_interval,
        "block_replacement": launches.block_replacement,
    }  # fmt: skip
    return {("launch", name): float(time) for name, time in times.items() if time is not None}


def _of_instruction(each: Instruction, it: Processor, device: SimulatedGpu) -> Truth:
    """Latency and rate as described; the fewest warps as the same SM needs them when nothing disturbs it."""
    operation = it.operations[each]
    units = 1 if operation.pipe in it.single else it.schedulers
    turns = ways(it.shared, addresses(1), 4) if each is Instruction.LDS else 1
    rate = min(WARP_SIZE * units / (operation.interval * turns), WARP_SIZE * it.schedulers)
    truth: Truth = {(each.value, "rate"): rate}
    if turns == 1:
        truth[each.value, "latency"] = max(operation.latency, operation.interval)
    quiet = SimulatedGpu(device.hierarchy, spec="", name="quiet", noise=Noise.none(), processor=it)
    for warps in range(1, it.warps + 1):
        block = next((warps // n * WARP_SIZE for n in (1, 2, 4) if warps % n == 0 and warps // n <= WARP_SIZE), None)
        if block is None:
            continue
        mix = Mix(body=(Step(each, LONG),), warps=warps, block_size=block, iterations=1, sms=1)
        (trace,) = quiet.run([mix])
        took = int(trace.end.max() - trace.begin.min())
        if WARP_SIZE * warps * LONG / took >= SHARE * rate:
            return truth | {(each.value, "warps_needed"): float(warps)}
    return truth

"""Costs of memory accesses on a simulated SM: the tiers that serve them, and the instructions of a mix."""

import math
from collections import Counter
from dataclasses import dataclass
from itertools import chain, repeat

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Hierarchy, Scope
from gpudissect.simulation.sm.description import Bandwidth, Operation, Pipe, Processor, lane_addresses
from gpudissect.simulation.sm.engine import Cost, Queue
from gpudissect.units import WARP_SIZE
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix, Path, Transfer

L2_VARIABILITY = 0.6  # of the services of an L2, see `MemorySystem`: nearly equal
L1_LINE_BYTES = 128  # of one look-up in an L1
SECTOR_BYTES = 32  # minimum transfer from an L2 to an SM
MAX_REGISTERS = 256  # of a thread
WORD_BYTES = 4  # that each lane of a random access loads


@dataclass(frozen=True)
class Tier:
    """A cache on a path, or the memory behind them."""

    name: str  # l1, l2, dram or host
    capacity: float  # bytes; infinite for memory
    latency: float  # cycles of a single access
    bandwidth: Bandwidth  # B/cycle of one SM if the tier is private, else of the whole GPU
    private: bool  # every SM has its own
    variability: float  # of its services

    def rate(self, transfer: Transfer) -> float:
        """B/cycle of one kind of transfer."""
        bandwidth = self.bandwidth
        rates = {Transfer.READ: bandwidth.read, Transfer.WRITE: bandwidth.write, Transfer.COPY: bandwidth.copy}
        return rates[transfer]


def tiers_of(path: Path, processor: Processor, hierarchy: Hierarchy) -> list[Tier]:
    """The tiers of a path with a known bandwidth, nearest first, memory last."""
    route, tiers = hierarchy.routes[path], []
    if path is Path.HOST and processor.host is not None:
        return [Tier("host", math.inf, route.latency[0], processor.host, False, L2_VARIABILITY)]
    near, fetches = processor.l1, processor.texture
    if path is Path.TEXTURE and fetches is not None:
        near = Bandwidth(fetches.read_rate, fetches.read_rate, fetches.read_rate)
    for name, latency in zip(route.caches, route.latency, strict=True):
        cache, private = hierarchy.caches[name], hierarchy.caches[name].scope is Scope.SM
        bandwidth = near if private else processor.l2
        if bandwidth is None:
            continue
        partition = hierarchy.partition
        capacity = (partition.count if partition is not None and partition.cache == name else 1) * cache.capacity
        tiers.append(Tier("l1" if private else "l2", capacity, latency, bandwidth, private, L2_VARIABILITY))
    memory = processor.memory
    tiers.append(Tier("dram", math.inf, memory.latency, processor.dram, False, memory.variability))
    return tiers


def sm_share(processor: Processor, share: float) -> float:
    """Share of a GPU's bandwidth of an SM with `share` of all requests: limited by its own connection."""
    return min(share, processor.memory.alone / processor.sms)


def mix_costs(mix: Mix, processor: Processor, hierarchy: Hierarchy) -> tuple[Cost, ...]:
    """Costs of the body of a mix, instruction by instruction, on one of its SMs.

    Raises `KeyError` for an instruction that the processor does not have.
    """
    costs = {step.instruction: _cost(step.instruction, mix, processor, hierarchy) for step in mix.body}
    return tuple(chain.from_iterable(repeat(costs[step.instruction], step.count) for step in mix.body))


def _cost(instruction: Instruction, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    operation = processor.operations[instruction]
    pipe, latency, to_core, slots = operation.pipe, operation.latency, operation.latency_to_core, operation.slots
    if instruction in SHARED_INSTRUCTIONS:
        return _shared_cost(instruction, operation, mix, processor)
    if instruction in (Instruction.ATOMG, Instruction.STG):
        queue = Queue("l2", operation.interval, L2_VARIABILITY, awaited=instruction is Instruction.ATOMG)
        return Cost(pipe, 1.0, latency, slots=slots, queue=queue)
    if instruction is Instruction.LDG:
        cost = _random_cost if mix.access is Access.RANDOM else _load_cost
        return cost(operation, mix, processor, hierarchy)
    if mix.source_registers:
        banks = processor.register_banks or MAX_REGISTERS
        reads = Counter(register % banks for register in set(mix.source_registers))
        return Cost(pipe, operation.interval, 1.0, slots=max(slots, *reads.values()))
    is_barrier = instruction is Instruction.BARRIER
    return Cost(pipe, operation.interval, latency, to_core, slots, core=pipe is Pipe.CORE, barrier=is_barrier)


def _shared_cost(instruction: Instruction, operation: Operation, mix: Mix, processor: Processor) -> Cost:
    """Cost of an access to shared memory: each extra pass occupies the banks as long as the first."""
    banks, lanes, merged = processor.shared, lane_addresses(mix.stride), instruction is not Instruction.ATOMS
    interval = operation.interval * banks.conflict_ways(lanes, mix.width, merged=merged)
    per_pass = banks.write_conflict if instruction is Instruction.STS else banks.conflict_latency
    extra = banks.extra_passes(lanes, mix.width, merged=merged) * per_pass
    to_core = None if operation.latency_to_core is None else operation.latency_to_core + extra
    return Cost(operation.pipe, interval, operation.latency + extra, to_core, operation.slots)


def _load_cost(operation: Operation, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    """Cost of a load of nearby words: from the nearest tier, or where a footprint fits that all SMs share."""
    tiers, lanes = tiers_of(Path.GLOBAL, processor, hierarchy), lane_addresses(mix.stride)
    if mix.access is Access.RESIDENT and tiers[0].private:
        if processor.banked_l1:
            interval = operation.interval * processor.shared.conflict_ways(lanes, mix.width)
            return Cost(operation.pipe, interval, operation.latency, slots=operation.slots)
        line_cycles = L1_LINE_BYTES / tiers[0].bandwidth.read
        lines = _granules(lanes, mix.width, L1_LINE_BYTES)
        interval = max(operation.interval, lines * line_cycles)
        return Cost(operation.pipe, interval, operation.latency + (lines - 1) * line_cycles, slots=operation.slots)
    tier = _shared_tier(tiers, mix)
    transaction_bytes = L1_LINE_BYTES // processor.memory.transactions
    transactions = _granules(lanes, mix.width, transaction_bytes)
    coalesced = _granules(lane_addresses(mix.width // WORD_BYTES), mix.width, transaction_bytes)
    latency = tier.latency + (transactions - coalesced) * processor.memory.transaction_latency
    service = transaction_bytes * transactions / (tier.bandwidth.read * _share(mix, processor))
    queue = Queue(tier.name, service, tier.variability)
    return Cost(operation.pipe, operation.interval, latency, slots=operation.slots, queue=queue)


def _random_cost(operation: Operation, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    """Cost of a load of words in different lines for all lanes (VV16 s6.7)."""
    memory, tier = processor.memory, _shared_tier(tiers_of(Path.GLOBAL, processor, hierarchy), mix)
    latency = tier.latency + (WARP_SIZE - memory.transactions) * memory.transaction_latency
    size, bandwidth, variability = WARP_SIZE * SECTOR_BYTES, tier.bandwidth.read, tier.variability
    if tier.name == "dram":
        size, bandwidth, variability = WARP_SIZE * WORD_BYTES, memory.random_bandwidth, memory.random_variability
    service = size / (bandwidth * _share(mix, processor))
    misses = tlb_miss_share(mix.footprint, hierarchy)
    if misses and hierarchy.tlb_walk_interval is not None:
        latency += hierarchy.tlb_walk_penalty * (1 - (1 - misses) ** WARP_SIZE)  # the load awaits its slowest lane
        sms = min(mix.sms or processor.sms, processor.sms)  # that share the page walkers
        service = max(service, WARP_SIZE * misses * hierarchy.tlb_walk_interval * sms)
    queue = Queue(tier.name, service, variability)
    return Cost(operation.pipe, operation.interval, latency, slots=operation.slots, queue=queue)


def tlb_miss_share(footprint: int, hierarchy: Hierarchy) -> float:
    """Share of random accesses to `footprint` bytes that miss every TLB, whatever their policies and sets."""
    reach = max((sum(tlb.ways) * tlb.page for tlb in hierarchy.tlbs), default=math.inf)
    return max(0.0, 1 - reach / footprint)


def _shared_tier(tiers: list[Tier], mix: Mix) -> Tier:
    """The nearest tier that all SMs share and that holds the footprint."""
    return next(tier for tier in tiers if not tier.private and mix.footprint <= tier.capacity)


def _share(mix: Mix, processor: Processor) -> float:
    return sm_share(processor, 1 / min(mix.sms or processor.sms, processor.sms))


def _granules(lanes: NDArray[np.int64], width: int, granule: int) -> int:
    """Number of granules of the operands of a warp; operands are aligned to their width."""
    return int(np.unique(lanes // granule).size) if width <= granule else lanes.size

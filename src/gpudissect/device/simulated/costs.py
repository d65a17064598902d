"""What an instruction of a mix costs on a simulated SM: conflicts of its operands, the tier that serves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gpudissect.device.simulated.tiers import L2_VARIABILITY, share_of, tiers_on
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.sm.banks import addresses, further_turns, ways
from gpudissect.simulation.sm.description import Operation, Pipe, Processor
from gpudissect.simulation.sm.engine import Cost, Queue
from gpudissect.units import WARP_SIZE
from gpudissect.workload import SHARED_INSTRUCTIONS, Access, Instruction, Mix, Path

LINE = 128  # bytes that one look-up in an L1 gives
SECTOR = 32  # the fewest bytes that go from an L2 to an SM
WORD = 4  # bytes that each lane wants of a line of its own


def costs_of(mix: Mix, processor: Processor, hierarchy: Hierarchy) -> tuple[Cost, ...]:
    """The body of a mix, instruction by instruction, as one SM runs it when as many as the mix asks for do.

    Raises `KeyError` for an instruction that the processor does not have.
    """
    costs = {step.instruction: _cost(step.instruction, mix, processor, hierarchy) for step in mix.body}
    return tuple(costs[step.instruction] for step in mix.body for _ in range(step.count))


def _cost(instruction: Instruction, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    operation = processor.operations[instruction]
    if instruction in SHARED_INSTRUCTIONS:
        return _shared(instruction, operation, mix, processor)
    if instruction is Instruction.ATOMG:
        queue = Queue("l2", operation.interval, L2_VARIABILITY)
        return Cost(operation.pipe, 1.0, operation.latency, slots=operation.slots, queue=queue)
    if instruction is Instruction.LDG and mix.access is Access.RANDOM:
        return _random(operation, mix, processor, hierarchy)
    if instruction is Instruction.LDG:
        return _load(operation, mix, processor, hierarchy)
    return Cost(
        operation.pipe, operation.interval, operation.latency, operation.latency_to_core, operation.slots,
        core=operation.pipe is Pipe.CORE, barrier=instruction is Instruction.BARRIER,
    )  # fmt: skip


def _shared(instruction: Instruction, operation: Operation, mix: Mix, processor: Processor) -> Cost:
    """An access to shared memory: each further turn keeps the banks for as long as the first."""
    banks, to_core = processor.shared, operation.latency_to_core
    lanes, merged = addresses(mix.stride), instruction is not Instruction.ATOMS
    taken = ways(banks, lanes, mix.width, merged=merged)
    each = banks.write_conflict if instruction is Instruction.STS else banks.conflict_latency
    more = further_turns(banks, lanes, mix.width, merged=merged) * each
    return Cost(
        operation.pipe, operation.interval * taken, operation.latency + more,
        None if to_core is None else to_core + more, operation.slots,
    )  # fmt: skip


def _load(operation: Operation, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    """A load of words that lie together: from the nearest tier, or where a footprint fits that all SMs share."""
    tiers = tiers_on(Path.GLOBAL, processor, hierarchy)
    resident = mix.access is Access.RESIDENT
    lanes = addresses(mix.stride)
    if resident and tiers[0].private:
        each = LINE / tiers[0].bandwidth.read
        lines = _touched(lanes, mix.width, LINE)
        interval = max(operation.interval, lines * each)
        return Cost(operation.pipe, interval, operation.latency + (lines - 1) * each, slots=operation.slots)
    tier = next(each for each in tiers if not each.private and mix.footprint <= each.capacity)
    rate = tier.bandwidth.read * _share(mix, processor)
    transaction = LINE // processor.memory.transactions
    taken = _touched(lanes, mix.width, transaction)
    coalesced = _touched(addresses(mix.width // WORD), mix.width, transaction)
    latency = tier.latency + (taken - coalesced) * processor.memory.transaction_latency
    queue = Queue(tier.name, transaction * taken / rate, tier.variability)
    return Cost(operation.pipe, operation.interval, latency, slots=operation.slots, queue=queue)


def _random(operation: Operation, mix: Mix, processor: Processor, hierarchy: Hierarchy) -> Cost:
    """A load of which every lane wants a word of another line (VV16 s6.7)."""
    memory, tiers = processor.memory, tiers_on(Path.GLOBAL, processor, hierarchy)
    tier = next(each for each in tiers if not each.private and mix.footprint <= each.capacity)
    latency = tier.latency + (WARP_SIZE - memory.transactions) * memory.transaction_latency
    if tier.name == "dram":
        service = WARP_SIZE * WORD / (memory.random_bandwidth * _share(mix, processor))
        queue = Queue(tier.name, service, memory.random_variability)
    else:
        queue = Queue(tier.name, WARP_SIZE * SECTOR / (tier.bandwidth.read * _share(mix, processor)), tier.variability)
    return Cost(operation.pipe, operation.interval, latency, slots=operation.slots, queue=queue)


def _share(mix: Mix, processor: Processor) -> float:
    return share_of(processor, 1 / min(mix.sms or processor.sms, processor.sms))


def _touched(lanes: NDArray[np.int64], width: int, granule: int) -> int:
    """How many granules the operands of a warp touch; they are aligned to their width, so none lies in two."""
    return int(np.unique(lanes // granule).size) if width <= granule else lanes.size

"""Instruction kinds: what runs, where its operands lie, how many warps and registers it takes, what bounds its rate."""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path as FilePath

from gpudissect.catalogue.compute_capability import (
    allocated_registers,
    dense_matrix_peak,
    max_block_threads,
    warp_issues,
)
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.measure.plan import Bench
from gpudissect.measure.shared_memory.infer_banks import WORD, Layout
from gpudissect.measure.throughput.rate_estimates import Bound, Unbounded
from gpudissect.measure.throughput.stream_search import UNCACHED_BYTES, footprint_beyond_l2
from gpudissect.units import WARP_SIZE
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, SHARED_INSTRUCTIONS, Access, Instruction, Mix, Path, Step
from gpudissect.workload.mix import MAX_WARPS

LONG_BODY, SHORT_BODY = 512, 320
"""Instructions of an iteration: their difference cancels the cost of the loop. The short one has more than half of the
long one, so that a device that unrolls loops up to some length unrolls both alike."""
ITERATIONS = 2
L2_MULTIPLE = 32  # footprint of accesses to memory, in L2 capacities
MAX_LINK_REACH_BYTES = 1984 << 20  # of links of 4 bytes
WARP_COUNTS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64)
"""Warps of an SM at which throughput is measured."""
DEFAULT_SM_WARPS = 16  # of an SM whose size is not stated

BASE_REGISTERS = 24  # of a thread besides its chains
CHAIN_REGISTERS, MMA_REGISTERS, TILE_REGISTERS, LINE_REGISTERS = 2, 6, 4, 7
"""Of each chain: a double; the sums of a matrix instruction; what following links through tiles or lines takes."""
WIDE_INSTRUCTIONS, WIDE_REGISTERS = (Instruction.F2F, Instruction.MMA_F64), 16  # besides
ADDRESS_REGISTERS = 8
MIN_CHAINS_WITH_REGISTERS = 3  # through memory: with fewer, all warps of an SM always have enough registers

ALL_SMS = "all SMs at once"
ONE_SM = "one SM, all others idle"
_CAVEATS = tomllib.loads(FilePath(__file__).with_name("caveats.toml").read_text(encoding="utf-8"))
LATENCY_CAVEATS, RATE_CAVEATS = (
    {name: (text,) for name, text in _CAVEATS[kind].items()} for kind in ("latency", "rate")
)
NO_MATRIX_BOUND = Unbounded("not compared with a bound: the peak of this GPU's tensor cores is not in the catalogue")
NO_SCHEDULER_BOUND = Unbounded("not compared with a bound: the number of schedulers of this GPU's SMs is not published")


FEW_CHAINS = (
    *(Instruction.IMAD_WIDE, Instruction.PRMT, Instruction.FMNMX, Instruction.SELECT),
    *(Instruction.POPC, Instruction.FLO, Instruction.VOTE, Instruction.REDUX, Instruction.MATCH),
    *(Instruction.STG, Instruction.REDG, Instruction.BRANCH),
)
"""Instructions whose rate all warps of an SM reach with two chains each."""


@dataclass(frozen=True)
class Kind:
    """What is measured under the name of an element."""

    element: str
    instruction: Instruction
    access: Access = Access.RESIDENT  # non-resident kinds run on all SMs, which share the memory
    bank_passes: int = 1  # of an access to shared memory; 1 without conflicts

    @property
    def operations(self) -> int:
        """Operations of one instruction of a warp: one per thread, or the multiply-adds of a matrix instruction."""
        return MATRIX_MULTIPLY_ADDS.get(self.instruction, WARP_SIZE)

    @property
    def count(self) -> int:
        """Instructions of an iteration. Of branches fewer: longer code is not fetched in time."""
        return LONG_BODY // 4 if self.instruction is Instruction.BRANCH else LONG_BODY

    @property
    def quick(self) -> bool:
        """Whether a quick survey measures it: only the loads that need the most warps."""
        return self.access is Access.STREAMING

    @property
    def chains(self) -> tuple[int, ...]:
        """Chains of a warp at which the rate is measured.

        Streaming needs many loads in flight: on an H200 some 250 of 128 bytes per SM, and few warps have the registers
        for many chains. Atomics in the far partition of its L2 need some 128 in flight. Where an SM issues an
        instruction alternately to two pipelines, an even number of chains may fall on them unevenly: HFMA2 of an H200
        reaches 92 of 128 with two chains, 127 with three.
        """
        if self.access is Access.STREAMING:
            return (1, 2, 4, 8, 12, 16)
        if self.instruction is Instruction.ATOMG:
            return (1, 2, 4, 8)
        if self.instruction in FEW_CHAINS:
            return (1, 2)
        return (1, 2, 3, 4, 8) if self.instruction is Instruction.HFMA2 else (1, 2, 4)

    def registers(self, chains: int) -> int:
        """Upper bound of a thread's registers as compiled for any architecture."""
        if not self.resident:
            per_chain = TILE_REGISTERS if self.access is Access.STREAMING else LINE_REGISTERS
            return BASE_REGISTERS + ADDRESS_REGISTERS + per_chain * chains * (chains >= MIN_CHAINS_WITH_REGISTERS)
        per_chain = MMA_REGISTERS if self.instruction in MATRIX_MULTIPLY_ADDS else CHAIN_REGISTERS
        return BASE_REGISTERS + per_chain * chains + WIDE_REGISTERS * (self.instruction in WIDE_INSTRUCTIONS)

    @property
    def resident(self) -> bool:
        """Whether its operands stay in its SM (except the counters of global atomics)."""
        return self.access is Access.RESIDENT


KINDS = (
    *(Kind(instruction.value, instruction) for instruction in Instruction),
    Kind("lds_2way", Instruction.LDS, bank_passes=2),
    Kind("ldg_streaming", Instruction.LDG, Access.STREAMING),
    Kind("ldg_random", Instruction.LDG, Access.RANDOM),
)


def why_unsupported(instruction: Instruction, info: DeviceInfo) -> str | None:
    """Why an instruction cannot be measured on this device; None if it can."""
    if instruction in info.instructions:
        return None
    if info.instructions:
        return "this device does not have it, or cannot run it"
    if Origin.SIMULATED in (info.origin, info.recorded_origin):
        return "the file of this simulated GPU describes no instructions"
    return "this device runs no mixes of instructions"


def pattern_of(kind: Kind, bench: Bench, layout: Layout | None) -> tuple[Mix | None, tuple[str, ...]]:
    """The mix with one warp and its caveats; None with the reason if there is no such mix.

    `layout`: the banks of the shared memory, None if unknown.
    """
    body = (Step(kind.instruction, kind.count),)
    plain = Mix(body=body, warps=1, block_size=WARP_SIZE, iterations=ITERATIONS, sms=1)
    if kind.bank_passes > 1:
        if layout is None:
            return replace(plain, stride=kind.bank_passes), ("two words between lanes; the banks were not found",)
        stride = layout.stride_for(kind.bank_passes)
        if stride is None:
            return None, (f"no stride makes {kind.bank_passes} lanes access the same bank",)
        return replace(plain, stride=stride), (f"{stride} words between lanes",)
    if kind.resident:
        return plain, ()
    l2 = bench.info.facts.get("l2_size")
    span = footprint_beyond_l2(L2_MULTIPLE, l2 if isinstance(l2, int) else None, Path.GLOBAL, 1, bench)
    span = min(span, MAX_LINK_REACH_BYTES if l2 else UNCACHED_BYTES) // 4096 * 4096
    return replace(plain, access=kind.access, footprint=span, sms=None, cold=True), ()


def in_warps(pattern: Mix, warps: int, chains: int, info: DeviceInfo) -> Mix:
    """The same instructions of each warp, in this number of warps with this number of chains each."""
    (step,) = pattern.body
    body = (replace(step, count=step.count // chains),)
    return replace(pattern, body=body, warps=warps, ilp=chains, block_size=block_size_of(warps, info) or WARP_SIZE)


def shorter(mix: Mix) -> Mix:
    """The same with a shorter body: the cost of loops and of the start is equal in both."""
    (step,) = mix.body
    return replace(mix, body=(replace(step, count=step.count * SHORT_BODY // LONG_BODY),))


def max_warps(info: DeviceInfo) -> int:
    """Warps that an SM has room for."""
    threads = info.facts.get("threads_per_sm")
    return min(MAX_WARPS, threads // WARP_SIZE) if isinstance(threads, int) else DEFAULT_SM_WARPS


def warp_counts(info: DeviceInfo) -> list[int]:
    """Numbers of warps at which to measure, rising up to the maximum."""
    largest = max_warps(info)
    return [count for count in WARP_COUNTS if count < largest] + ([largest] if block_size_of(largest, info) else [])


def block_size_of(warps: int, info: DeviceInfo) -> int | None:
    """Threads of a block if an SM runs these warps in 1, 2 or 4 equal blocks, as few as possible; None if it cannot."""
    for blocks in (1, 2, 4):
        if warps % blocks == 0 and warps // blocks * WARP_SIZE <= max_block_threads(info.facts):
            return warps // blocks * WARP_SIZE
    return None


def registers_suffice(warps: int, registers: int, info: DeviceInfo) -> bool:
    """Whether an SM has the registers of these warps, whose threads use `registers` each."""
    available = info.facts.get("registers_per_sm")
    return not isinstance(available, int) or warps * WARP_SIZE * allocated_registers(registers) <= available


def issue_bound(kind: Kind, stride: int, info: DeviceInfo, layout: Layout | None) -> Bound | Unbounded:
    """Upper bound of operations per cycle of one SM, by schedulers, tensor cores, or banks of shared memory.

    A bank serves one row per cycle, so an access of a warp takes as many cycles as bank passes.
    """
    if kind.instruction in SHARED_INSTRUCTIONS and layout is not None:
        return Bound(WARP_SIZE / layout.passes(stride, WORD), "the banks")
    if kind.instruction in MATRIX_MULTIPLY_ADDS:
        peak = dense_matrix_peak(info.facts).get(kind.instruction)
        return NO_MATRIX_BOUND if peak is None else Bound(float(peak), "the tensor cores, with dense matrices,")
    issues = warp_issues(info.facts)
    return NO_SCHEDULER_BOUND if issues is None else Bound(float(issues * kind.operations), "the schedulers")

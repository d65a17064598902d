"""What is measured under the name of an instruction: what runs, where its operands lie, what to say of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpudissect.device_info import DeviceInfo
from gpudissect.measure.instructions.mixes import block_of
from gpudissect.measure.plan import Bench, Known
from gpudissect.measure.shared_memory.infer_banks import stride_of
from gpudissect.measure.shared_memory.plan_banks import BANK_LAYOUT
from gpudissect.measure.throughput.footprint import WITHOUT_L2, beyond
from gpudissect.units import WARP_SIZE
from gpudissect.workload import MATRIX_MULTIPLY_ADDS, Access, Instruction, Mix, Path, Step

LONG, SHORT = 512, 320
"""Instructions of an iteration: what the loop costs beside them cancels. More than half, so that a device that unrolls
loops up to some length unrolls both alike."""
ITERATIONS = 2
BEYOND_L2 = 32  # footprint of accesses to memory, in L2 capacities
LINKS_REACH = 1984 << 20  # bytes over which links of 4 bytes lead
NO_BANKS = "two words between lanes; the banks were not found"
BESIDE = 24  # registers of a thread beside its chains
OF_CHAIN, OF_SUMS, OF_TILE, OF_LINE = 2, 6, 4, 7
"""Of each chain: a double; the sums of a matrix instruction; what it takes to follow links through tiles or lines."""
WIDE, OF_WIDE, OF_ADDRESS = (Instruction.F2F, Instruction.MMA_F64), 16, 8  # which need more besides, and how many
FEW_CHAINS = 2  # through memory, of which so many warps as an SM has room for may always have enough
ALL_SMS = "all SMs at once"
ONE_SM = "of one SM, all others idle"
MULTIPLY_ADDS = (
    "each multiply-add of a matrix instruction counts as one operation: of single numbers there are twice as many"
)
OF_THE_WHOLE = "of the whole matrix instruction, from its sums to the next one's"
HALVES = (
    "two multiply-adds of a thread count as one operation; some GPUs start these on two pipelines in turns, and then "
    "what is reached depends on how warps fall on them"
)


@dataclass(frozen=True)
class Kind:
    """What is measured under the name of an element: an instruction, and where its operands lie.

    Attributes:
        element: its name.
        instruction: what runs.
        access: how operands in global memory spread; what is not resident runs on all SMs, who share the memory.
        turns: of an access to shared memory, beside those without conflicts.
    """

    element: str
    instruction: Instruction
    access: Access = Access.RESIDENT
    turns: int = 1

    @property
    def operations(self) -> int:
        """Operations of one instruction of a warp: one a thread, or the multiply-adds of a matrix instruction."""
        return MATRIX_MULTIPLY_ADDS.get(self.instruction, WARP_SIZE)

    @property
    def chains(self) -> tuple[int, ...]:
        """Of a warp, at which its rate is looked at.

        What memory streams takes many loads under way: of an H200 some 250 of 128 bytes on each SM, and few warps have
        the registers for many chains. Atomics in the far part of its L2 take some 128 under way. Where an SM starts an
        instruction on two pipelines in turns, an even number of chains may fall on them unevenly: HFMA2 of an H200
        gives 92 of 128 with two chains, 127 with three.
        """
        if self.access is Access.STREAMING:
            return (1, 2, 4, 8, 12, 16)
        if self.instruction is Instruction.ATOMG:
            return (1, 2, 4, 8)
        return (1, 2, 3, 4, 8) if self.instruction is Instruction.HFMA2 else (1, 2, 4)

    def registers(self, chains: int) -> int:
        """Of a thread, at most, with so many chains, by what compilers make of it on any architecture."""
        if not self.resident:
            each = OF_TILE if self.access is Access.STREAMING else OF_LINE
            return BESIDE + OF_ADDRESS + (each * chains if chains > FEW_CHAINS else 0)
        more = OF_WIDE if self.instruction in WIDE else 0
        return chains * (OF_SUMS if self.instruction in MATRIX_MULTIPLY_ADDS else OF_CHAIN) + more + BESIDE

    @property
    def resident(self) -> bool:
        """Whether nothing that it needs lies beyond its SM (but the counters of global atomics)."""
        return self.access is Access.RESIDENT


KINDS = (
    *(Kind(each.value, each) for each in Instruction),
    Kind("lds_2way", Instruction.LDS, turns=2),
    Kind("ldg_streaming", Instruction.LDG, Access.STREAMING),
    Kind("ldg_random", Instruction.LDG, Access.RANDOM),
)

OF_LATENCIES = {
    "barrier": ("of a block of one warp: a larger one waits for the last of its warps",),
    "ldg": ("words of 4 B: links of 8 B, as the l1's hit_latency follows them, may take longer",),
    "ldg_random": ("until the last of 32 lanes has its word, each of a line of its own; one warp on the whole GPU, as "
                   "in VV16 s6.7",),
    "sts": ("stores give no result: the time from one to the next of the same warp",),
    **dict.fromkeys((each.value for each in MATRIX_MULTIPLY_ADDS), (OF_THE_WHOLE,)),
}  # fmt: skip
OF_RATES = {
    "hfma2": (HALVES,),
    **dict.fromkeys((each.value for each in MATRIX_MULTIPLY_ADDS), (MULTIPLY_ADDS,)),
}


def pattern_of(kind: Kind, bench: Bench, known: Known) -> tuple[Mix | None, tuple[str, ...]]:
    """The mix with one warp, and what to say of it; None with the reason if there is no such mix."""
    plain = Mix(body=(Step(kind.instruction, LONG),), warps=1, block_size=WARP_SIZE, iterations=ITERATIONS, sms=1)
    if kind.turns > 1:
        layout = known[BANK_LAYOUT]
        if layout is None:
            return replace(plain, stride=kind.turns), (NO_BANKS,)
        stride = stride_of(layout, kind.turns)
        if stride is None:
            return None, (f"no stride makes {kind.turns} lanes want the same bank",)
        return replace(plain, stride=stride), (f"{stride} words between lanes",)
    if kind.resident:
        return plain, ()
    l2 = bench.info.facts.get("l2_size")
    span = beyond(BEYOND_L2, l2 if isinstance(l2, int) else None, Path.GLOBAL, 1, bench)
    span = min(span, LINKS_REACH if l2 else WITHOUT_L2) // 4096 * 4096
    return replace(plain, access=kind.access, footprint=span, sms=None, cold=True), ()


def in_warps(pattern: Mix, warps: int, ilp: int, info: DeviceInfo) -> Mix:
    """The same instructions of each warp, in so many warps with so many chains each."""
    count = pattern.body[0].count // ilp
    return replace(pattern, body=(replace(pattern.body[0], count=count),), warps=warps, ilp=ilp,
                   block_size=block_of(warps, info) or WARP_SIZE)  # fmt: skip


def shorter(mix: Mix) -> Mix:
    """The same with a fraction of its body: what loops and starting cost is the same in both."""
    (step,) = mix.body
    return replace(mix, body=(replace(step, count=step.count * SHORT // LONG),))

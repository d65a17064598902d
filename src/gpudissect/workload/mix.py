"""`Mix`: many warps that run instructions repeatedly, at a set occupancy (VV16 ch 5)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.units import WARP_SIZE
from gpudissect.workload.order import convert_whole_numbers

RANDOM_LINE_BYTES = 128
"""Distance of random accesses."""
MAX_WARPS = 128
MAX_ILP = 32
MAX_STRIDE = 1024
MAX_ITERATIONS = 1 << 24
MAX_SAMPLE_INTERVAL = 1024
MAX_SUMMED_WARPS = 1 << 14


class Instruction(StrEnum):
    """One instruction of a warp, named after its operation. Its result is an operand of the next in its chain."""

    FADD = "fadd"
    FMUL = "fmul"
    FFMA = "ffma"
    IADD = "iadd"
    IMAD = "imad"
    IMAD_WIDE = "imad_wide"  # product of 64 bits, as of addresses
    LOP = "lop"
    SHIFT = "shift"
    PRMT = "prmt"  # permutes bytes
    FMNMX = "fmnmx"  # maximum in single precision
    SELECT = "select"  # a comparison and the selection by it: two machine instructions
    HFMA2 = "hfma2"
    DADD = "dadd"
    DFMA = "dfma"
    I2F = "i2f"
    F2I = "f2i"
    F2F = "f2f"  # single to double and back count as two
    RCP = "rcp"
    RSQ = "rsq"
    SIN = "sin"
    EX2 = "ex2"
    LG2 = "lg2"
    POPC = "popc"  # counts bits
    FLO = "flo"  # finds the first bit
    SHUFFLE = "shuffle"
    VOTE = "vote"  # a comparison and the ballot of a warp: two machine instructions
    REDUX = "redux"  # reduction over a warp, and the move of its result
    MATCH = "match"  # lanes with the same value
    LDS = "lds"  # load from shared memory
    STS = "sts"  # store to shared memory: no result, so a chain of stores only keeps their order
    ATOMS = "atoms"  # atomic add on shared memory that returns the old value
    LDG = "ldg"  # load from global memory
    STG = "stg"  # store to global memory: no result
    ATOMG = "atomg"  # atomic add on global memory that returns the old value
    REDG = "redg"  # the same without result
    BARRIER = "barrier"  # of all warps of a block
    BRANCH = "branch"  # taken, to the next instruction
    MMA_F16 = "mma_f16"
    MMA_BF16 = "mma_bf16"
    MMA_TF32 = "mma_tf32"
    MMA_S8 = "mma_s8"
    MMA_F64 = "mma_f64"


SHARED_INSTRUCTIONS = (Instruction.LDS, Instruction.STS, Instruction.ATOMS)
"""Instructions with an operand in shared memory."""
GLOBAL_INSTRUCTIONS = (Instruction.LDG, Instruction.STG, Instruction.ATOMG, Instruction.REDG)
"""Instructions with an operand in global memory."""
MATRIX_MULTIPLY_ADDS = {
    Instruction.MMA_F16: 16 * 8 * 16,
    Instruction.MMA_BF16: 16 * 8 * 16,
    Instruction.MMA_TF32: 16 * 8 * 8,
    Instruction.MMA_S8: 16 * 8 * 32,
    Instruction.MMA_F64: 8 * 8 * 4,
}
"""Multiply-adds of one matrix instruction of a warp."""


MATRIX_NAMES = {
    Instruction.MMA_F16: "mma.sync m16n8k16 f16",  # sums in single precision
    Instruction.MMA_BF16: "mma.sync m16n8k16 bf16",
    Instruction.MMA_TF32: "mma.sync m16n8k8 tf32",
    Instruction.MMA_S8: "mma.sync m16n8k32 s8",
    Instruction.MMA_F64: "mma.sync m8n8k4 f64",
}
"""Names of the matrix instructions in PTX."""


class Access(StrEnum):
    """Distribution of the lanes of a warp over global memory.

    Atomics on a footprint choose at random, all warps in the same: a line of 32 words (STREAMING) or a word for each
    lane (RANDOM).
    """

    RESIDENT = "resident"  # each lane its own word, `stride` apart, always the same: hits in the nearest cache
    STREAMING = "streaming"  # each lane its own word, `stride` apart, other lines in every access: no reuse
    RANDOM = "random"  # every lane of every access in another line


@dataclass(frozen=True)
class Step:
    """`count` times one instruction, each dependent on the one before."""

    instruction: Instruction
    count: int = 1

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        if self.count < 1:
            raise WorkloadError(f"an instruction of a mix runs at least once, got {self.count}")


@dataclass(frozen=True, kw_only=True)
class Mix:
    """`warps` warps on each of `sms` SMs, each of which runs `body` `iterations` times.

    Its trace has `begin` and `end` (cycles of its own SM's clock), `sm` and `block` of every warp, shape (warps,), and
    `nanoseconds` (1,), the time of the whole mix. With `sampled` loads also `latency` (cycles, rising) and `count`, the
    number of single loads with each latency; `overhead` (1,), what the clock shows without a load; and `overflow_count`
    (1,), the number of loads with the last latency or a longer one, which are not distinguished.

    Attributes:
        body: instructions of one iteration, in order; every step depends on the one before, the first on the last of
            the previous iteration.
        warps: warps per SM; all of them run at once.
        block_size: threads per block, whole warps; `warps` must be a whole number of blocks.
        iterations: runs of the body.
        ilp: independent chains per warp, interleaved instruction by instruction.
        sms: number of SMs that run it; None for all.
        stride: distance of neighbouring lanes' operands in memory, in 4-byte words. 0: all lanes share one.
        width: bytes of such an operand: 4, 8 or 16.
        access: distribution of operands in global memory.
        footprint: bytes over which they are distributed, unless `access` is RESIDENT.
        waves: block waves: how many times as many blocks as run at once. When a block ends, another replaces it.
        repetition: distinguishes mixes that are otherwise equal.
        cold: no cache holds anything of the footprint at the start.
        sampled: one warp per SM times one in so many of its loads from global memory (VV16 s6.6); 0 for none.
        source_registers: numbers of the three registers that each multiply-add reads, whatever wrote them: no chains.
            Empty for chains.
        silent: blocks store nothing when they end, except those of the last wave: the trace has only these.
        per_sm: the trace has sums over the warps of each SM (`gpudissect.trace.totals_by_sm`) and `nanoseconds`, not
            the warps themselves.

    Raises `WorkloadError` for parameters that no GPU supports.
    """

    body: tuple[Step, ...]
    warps: int
    block_size: int
    iterations: int
    ilp: int = 1
    sms: int | None = None
    stride: int = 1
    width: int = 4
    access: Access = Access.RESIDENT
    footprint: int = 0
    waves: int = 1
    repetition: int = 0
    cold: bool = False
    sampled: int = 0
    source_registers: tuple[int, ...] = ()
    silent: bool = False
    per_sm: bool = False

    def __post_init__(self) -> None:
        convert_whole_numbers(self)
        for problem in self._problems():
            raise WorkloadError(problem)

    def _problems(self) -> Iterator[str]:
        if not self.body:
            yield "a mix needs at least one instruction"
        if self.block_size < WARP_SIZE or self.block_size % WARP_SIZE or self.block_size > 1024:
            yield f"a block of a mix has whole warps, {WARP_SIZE} to 1024 threads, got {self.block_size}"
        if not 1 <= self.warps <= MAX_WARPS or self.warps * WARP_SIZE % self.block_size:
            limits = f"1 to {MAX_WARPS} warps per SM in whole blocks of {self.block_size} threads"
            yield f"a mix runs {limits}, got {self.warps} warps"
        if not 1 <= self.iterations <= MAX_ITERATIONS or not 1 <= self.ilp <= MAX_ILP:
            limits = f"1 to {MAX_ITERATIONS} iterations and 1 to {MAX_ILP} chains per warp"
            yield f"a mix has {limits}, got {self.iterations} and {self.ilp}"
        if (self.sms is not None and self.sms < 1) or self.waves < 1:
            yield f"a mix runs on at least one SM in at least one wave, got {self.sms} and {self.waves}"
        if self.width not in (4, 8, 16) or not 0 <= self.stride <= MAX_STRIDE:
            limits = f"4, 8 or 16 bytes, 0 to {MAX_STRIDE} words apart"
            yield f"operands in memory have {limits}, got {self.width} and {self.stride}"
        overlapping = self.access is Access.STREAMING and self.stride * 4 < self.width
        if overlapping or self.stride * 4 % self.width:
            yield f"{self.access.value} operands of {self.width} bytes cannot be {self.stride * 4} bytes apart"
        if (self.access is Access.RESIDENT) != (self.footprint == 0) or self.footprint < 0:
            yield "streaming and random accesses of a mix need a footprint, resident ones have none"
        if self.cold and self.access is Access.RESIDENT:
            yield "a mix with resident accesses hits in a cache: it cannot be cold"
        if not 0 <= self.sampled <= MAX_SAMPLE_INTERVAL:
            yield f"a mix times one load in 1 to {MAX_SAMPLE_INTERVAL}, got {self.sampled}"
        if self.sampled and (self.ilp > 1 or self.waves > 1 or self.access is Access.RESIDENT):
            yield "single loads are timed in mixes of one chain per warp and one wave, streaming or random"
        if self.silent and (self.waves < 2 or self.sms is not None):
            yield f"a silent mix has several waves on all SMs, got {self.waves} on {self.sms}"
        if self.per_sm and (self.silent or self.warps * self.waves > MAX_SUMMED_WARPS):
            yield f"at most {MAX_SUMMED_WARPS} warps of an SM are summed, of a mix that is not silent"
        if self.source_registers and {step.instruction for step in self.body} != {Instruction.FFMA}:
            yield "source registers are chosen for multiply-adds alone (ffma)"
        if self.source_registers and (len(self.source_registers) != 3 or not 0 <= min(self.source_registers) < 255):
            yield f"a multiply-add reads three registers, got {list(self.source_registers)}"

    @property
    def without_repetition(self) -> "Mix":
        """The same mix for all repetitions."""
        return replace(self, repetition=0) if self.repetition else self

    def min_footprint(self, sms: int) -> int:
        """Bytes that chains on so many SMs need to have disjoint operands; 0 for resident ones.

        Streaming chains need a word per lane, random ones a line of 128 bytes per lane.
        """
        chains = (self.sms or sms) * self.warps * self.ilp
        sizes = {Access.RESIDENT: 0, Access.STREAMING: 4 * self.stride, Access.RANDOM: RANDOM_LINE_BYTES}
        return chains * WARP_SIZE * sizes[self.access]

    @property
    def loads(self) -> int:
        """Loads from global memory per warp."""
        per_body = sum(step.count for step in self.body if step.instruction is Instruction.LDG)
        return self.iterations * self.ilp * per_body

    @property
    def instructions(self) -> int:
        """Instructions per warp."""
        return self.iterations * self.ilp * sum(step.count for step in self.body)

"""`Mix`: many warps that run instructions again and again, at an occupancy that is set (VV16 ch 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from gpudissect.errors import WorkloadError
from gpudissect.units import WARP_SIZE
from gpudissect.workload.instruction import Instruction

LINE = 128  # bytes that random accesses lie apart
MOST_WARPS = 128
MOST_ILP = 32
MOST_STRIDE = 1024
MOST_ITERATIONS = 1 << 24
MOST_SAMPLED = 1024


class Access(StrEnum):
    """How the lanes of a warp spread over memory."""

    RESIDENT = "resident"  # each lane its own word, `stride` apart, the same again and again: hits in the nearest cache
    STREAMING = "streaming"  # each lane its own word, `stride` apart, all others lines every time: no reuse
    RANDOM = "random"  # every lane of every access another line


@dataclass(frozen=True)
class Step:
    """`count` times one instruction, each dependent on the one before."""

    instruction: Instruction
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 1:
            raise WorkloadError(f"an instruction of a mix runs once or more often, got {self.count}")


@dataclass(frozen=True, kw_only=True)
class Mix:
    """`warps` warps on each of `sms` SMs, each of which runs `body` `iterations` times.

    Yields `begin` and `end` (cycles of its own SM's clock), `sm` and `block` of every warp, shape (warps,), and
    `nanoseconds` (1,), the time of the whole mix. With `sampled` loads also `latency` (cycles, rising) and `count`, the
    number of single loads with each latency; `overhead` (1,), what the clock shows without a load; and `overflow_count`
    (1,), the number of loads with the last latency or a longer one, which are not distinguished.

    Attributes:
        body: what one iteration runs, in order; every step depends on the one before, the first on the last of the
            iteration before.
        warps: warps of an SM; all of them run at once.
        block_size: threads of a block, whole warps; `warps` must be a whole number of blocks.
        iterations: how often.
        ilp: chains of each warp, interleaved instruction by instruction: so many are independent of one another.
        sms: how many SMs run it; None for all.
        stride: of operands in memory: 4-byte words between those of neighbouring lanes. 0: all lanes share one.
        width: bytes of one such operand: 4, 8 or 16.
        access: how operands in global memory spread.
        footprint: bytes over which they do, unless `access` is RESIDENT.
        waves: so many times as many blocks as run at once: when one ends, another takes its place.
        repetition: tells otherwise equal mixes apart.
        cold: no cache holds anything of the footprint when it starts, whatever ran before.
        sampled: one warp of each SM times one load from global memory in so many by itself (VV16 s6.6); 0: none does.

    Raises `WorkloadError` for what no GPU can run.

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

    def __post_init__(self) -> None:
        if not self.body:
            raise WorkloadError("a mix runs at least one instruction")
        if self.block_size < WARP_SIZE or self.block_size % WARP_SIZE or self.block_size > 1024:
            raise WorkloadError(f"a block of a mix has whole warps, 32 to 1024 threads, got {self.block_size}")
        if not 1 <= self.warps <= MOST_WARPS or self.warps * WARP_SIZE % self.block_size:
            raise WorkloadError(f"a mix has whole blocks of {self.block_size} threads, 1 to {MOST_WARPS} warps an SM, "
                                f"got {self.warps}")  # fmt: skip
        if not 1 <= self.iterations <= MOST_ITERATIONS or not 1 <= self.ilp <= MOST_ILP:
            raise WorkloadError(f"a mix has 1 to {MOST_ITERATIONS} iterations and 1 to {MOST_ILP} chains a warp, "
                                f"got {self.iterations} and {self.ilp}")  # fmt: skip
        if (self.sms is not None and self.sms < 1) or self.waves < 1:
            raise WorkloadError(f"a mix runs on one SM or more, in one round or more, "
                                f"got {self.sms} and {self.waves}")  # fmt: skip
        self._check_operands()

    def _check_operands(self) -> None:
        if self.width not in (4, 8, 16) or not 0 <= self.stride <= MOST_STRIDE:
            raise WorkloadError(f"operands in memory have 4, 8 or 16 bytes, 0 to {MOST_STRIDE} words apart, "
                                f"got {self.width} and {self.stride}")  # fmt: skip
        if self.access is Access.STREAMING and self.stride * 4 < self.width:
            raise WorkloadError(f"streaming operands of {self.width} bytes cannot lie {self.stride * 4} bytes apart")
        if self.stride * 4 % self.width:
            raise WorkloadError(f"operands of {self.width} bytes cannot lie {self.stride * 4} bytes apart")
        if (self.access is Access.RESIDENT) != (self.footprint == 0) or self.footprint < 0:
            raise WorkloadError("a mix has a footprint if, and only if, its accesses are streaming or random")
        if self.cold and self.access is Access.RESIDENT:
            raise WorkloadError("a mix whose accesses are resident hits in a cache: it cannot be cold")
        if not 0 <= self.sampled <= MOST_SAMPLED:
            raise WorkloadError(f"of a mix one load in 1 to {MOST_SAMPLED} is timed by itself, got {self.sampled}")
        if self.sampled and (self.ilp > 1 or self.waves > 1 or self.access is Access.RESIDENT):
            raise WorkloadError("single loads are timed in mixes of one chain and one round, streaming or random")

    def least_footprint(self, sms: int) -> int:
        """Bytes over which chains on so many SMs must spread to have places of their own; 0 if they need none.

        A word for each lane of every chain where accesses stream, a line of 128 bytes for each where they are random.
        """
        chains = (self.sms or sms) * self.warps * self.ilp
        lane = {Access.RESIDENT: 0, Access.STREAMING: 4 * self.stride, Access.RANDOM: LINE}[self.access]
        return chains * WARP_SIZE * lane

    @property
    def loads(self) -> int:
        """Loads from global memory that one warp runs."""
        each = sum(step.count for step in self.body if step.instruction is Instruction.LDG)
        return self.iterations * self.ilp * each

    @property
    def instructions(self) -> int:
        """Instructions that one warp runs."""
        return self.iterations * self.ilp * sum(step.count for step in self.body)

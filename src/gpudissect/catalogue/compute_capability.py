"""What is documented of an SM by compute capability: every table of the package that is keyed by it.

Source, unless another is named: CUDA C Programming Guide, "Compute Capabilities" (technical specifications) and
"Arithmetic Instructions" (table of throughputs).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from gpudissect.machine_code.kernel import RESERVED_SHARED_BYTES
from gpudissect.workload import Instruction

T = TypeVar("T")


@dataclass(frozen=True)
class ByCapability(Generic[T]):
    """A table by capability ("8.6") or major version ("8"), called with `DeviceInfo.facts`; `default` for others."""

    table: Mapping[str, T]
    default: T

    def __call__(self, facts: Mapping[str, object]) -> T:
        """The entry of the ``compute_capability``, else that of its major version."""
        capability = str(facts.get("compute_capability", ""))
        return self.table.get(capability, self.table.get(capability.partition(".")[0], self.default))


_FROM_VOLTA = ("7", "8", "9", "10", "12")
schedulers = ByCapability({"1": 1, "2": 2, "6.0": 2}, 4)
"""Warp schedulers of an SM (VV16 table 2.6)."""
warp_issues = ByCapability[int | None](
    {"1": 1, "2.0": 2, "2.1": 4, "3": 8, "6.0": 2} | dict.fromkeys(("5", "6", *_FROM_VOLTA), 4), None
)
"""Warp instructions that an SM starts per cycle: an upper bound, None if unknown.

On capabilities 2.1 and 3 each scheduler starts two. On 1.x and 2.x one takes several cycles: the bound is loose."""
special_function_rate = ByCapability[int | None](
    {"1": 2, "2.0": 4, "2.1": 8, "3": 32, "5": 32, "6": 32, "6.0": 16} | dict.fromkeys(_FROM_VOLTA, 16), None
)
"""Results per cycle of an SM's special function units (also VV16 table 6.1), None if unknown."""
min_blocks_per_sm = ByCapability({"1": 8, "2": 8}, 16)
"""Blocks that an SM of every GPU of this capability can hold."""
max_block_threads = ByCapability({"1": 512}, 1024)
"""Threads that a block can have."""
MAX_SM_THREADS = 2048
"""Threads that an SM of any GPU can hold."""
max_sm_threads = ByCapability({"7.5": 1024} | dict.fromkeys(("8.6", "8.7", "8.9", "12"), 1536), MAX_SM_THREADS)
"""Threads that an SM can hold, from Volta on."""
stores_cross_l1 = ByCapability(dict.fromkeys(_FROM_VOLTA, True), False)
"""Whether all stores of an SM pass through its L1, those that bypass its tags included (Nsight Compute, "L1TEX")."""
reserved_shared = ByCapability({"7": 0}, RESERVED_SHARED_BYTES)
"""Bytes of shared memory that the system takes of each block, from Volta on (Shared Memory of the same guide)."""
_CARVEOUTS_OF_100_KIB = (0, 8, 16, 32, 64, 100)
_CARVEOUTS_OF_164_KIB = (*_CARVEOUTS_OF_100_KIB, 132, 164)
_CARVEOUTS_IN_KIB = ByCapability[tuple[int, ...]](
    {"7": (0, 8, 16, 32, 64, 96), "7.5": (32, 64), "8": _CARVEOUTS_OF_164_KIB}
    | dict.fromkeys(("8.6", "8.9", "12"), _CARVEOUTS_OF_100_KIB),
    (*_CARVEOUTS_OF_164_KIB, 196, 228),
)


def carveouts(facts: Mapping[str, object]) -> tuple[int, ...]:
    """Bytes of shared memory into which the array of an SM can be divided, the least first, from Volta on.

    Without 0, which the same guide has too: ``l1.capacity`` is measured beside the smallest other one.
    """
    return tuple(size << 10 for size in _CARVEOUTS_IN_KIB(facts) if size)


def smallest_carveout(facts: Mapping[str, object]) -> int:
    """Bytes of the smallest share of the L1's array that shared memory takes, from Volta on (measured on an H200)."""
    return carveouts(facts)[0]


SM_REGISTERS, MAX_THREAD_REGISTERS = 65536, 255
"""32-bit registers of an SM from Volta on, and of a thread."""
TEXTURE_BYTES = 4 << 27
"""Largest linear 1D texture: 2^27 texels of 4 bytes."""
FIRST_WITH_INSTRUCTION = dict.fromkeys(
    (
        Instruction.REDUX,
        Instruction.MMA_F16,
        Instruction.MMA_BF16,
        Instruction.MMA_TF32,
        Instruction.MMA_S8,
        Instruction.MMA_F64,
    ),
    (8, 0),
)
"""Capability from which on an instruction exists in the form that the kernels use (PTX ISA, "mma", "redux.sync")."""
_A100_MULTIPLY_ADDS = {
    Instruction.MMA_F16: 1024,
    Instruction.MMA_BF16: 1024,
    Instruction.MMA_TF32: 512,
    Instruction.MMA_S8: 2048,
    Instruction.MMA_F64: 64,
}
dense_matrix_peak = ByCapability[Mapping[Instruction, int]](
    {"8.0": _A100_MULTIPLY_ADDS, "9.0": {name: 2 * rate for name, rate in _A100_MULTIPLY_ADDS.items()}}, {}
)
"""Multiply-adds per cycle that the tensor cores of an SM give for dense matrices, by instruction.

NVIDIA A100 whitepaper: 312 TFLOPS of f16 with 108 SMs at 1410 MHz. NVIDIA Hopper Architecture In-Depth: twice the rate
of an A100's SM, clock for clock; ``wgmma`` reaches it, ``mma.sync`` about two thirds."""
has_double_matrices = ByCapability(dict.fromkeys(("8.0", "9", "10"), True), False)
"""Whether matrix units take double precision; elsewhere such instructions are emulated."""
FIRST_WITH_CLUSTERS, NEEDS_CLUSTERS = 9, "needs compute capability 9.0"
"""Major capability from which on there are thread block clusters and bulk copies (TMA), and the reason without them."""
USUAL_CORES, USUAL_BLOCKS, USUAL_BLOCK_THREADS = 128, 32, 1024
"""FP32 lanes and blocks of an SM, threads of a block: usual values since capability 5.0."""


def allocated_registers(needed: int) -> int:
    """Registers that a thread gets: they are allocated in units of 8."""
    return -(-needed // 8) * 8

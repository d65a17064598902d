"""The instructions that a `Mix` runs, by the operation they stand for; what a device makes of one, its kernels say."""

from __future__ import annotations

from enum import StrEnum


class Instruction(StrEnum):
    """One instruction of a warp. The result of each is an operand of the next in its chain."""

    FADD = "fadd"
    FMUL = "fmul"
    FFMA = "ffma"
    IADD = "iadd"
    IMAD = "imad"
    LOP = "lop"
    SHIFT = "shift"
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
    SHUFFLE = "shuffle"
    LDS = "lds"  # load from shared memory
    STS = "sts"  # store to it: no result, so a chain of stores only keeps their order
    ATOMS = "atoms"  # atomic add on shared memory that returns the old value
    LDG = "ldg"  # load from global memory
    ATOMG = "atomg"  # atomic add on global memory that returns the old value
    BARRIER = "barrier"  # of all warps of a block
    MMA_F16 = "mma_f16"  # m16n8k16, sums in single precision
    MMA_BF16 = "mma_bf16"  # m16n8k16
    MMA_TF32 = "mma_tf32"  # m16n8k8
    MMA_S8 = "mma_s8"  # m16n8k32
    MMA_F64 = "mma_f64"  # m8n8k4


SHARED = (Instruction.LDS, Instruction.STS, Instruction.ATOMS)
"""Those with a place in shared memory."""
GLOBAL = (Instruction.LDG, Instruction.ATOMG)
"""Those with a place in global memory."""
PRODUCTS = {
    Instruction.MMA_F16: 16 * 8 * 16,
    Instruction.MMA_BF16: 16 * 8 * 16,
    Instruction.MMA_TF32: 16 * 8 * 8,
    Instruction.MMA_S8: 16 * 8 * 32,
    Instruction.MMA_F64: 8 * 8 * 4,
}
"""Multiplications and additions that one matrix instruction of a warp makes."""

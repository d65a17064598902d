"""From the body of a mix to the macros that ``kernels/mix.cu`` is compiled with."""

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from gpudissect.catalogue.compute_capability import (
    FIRST_WITH_INSTRUCTION,
    SM_REGISTERS,
    has_double_matrices,
    max_sm_threads,
)
from gpudissect.device.cuda.compile import Code
from gpudissect.device.cuda.mix.patches import BRANCHES, SOURCE_REGISTERS
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step

FIRST_CAPABILITY = (7, 0)  # from which on mixes run: older machine code was never read
SINK_BYTES = 512
"""Bytes at the start of a block's shared memory to which ends of chains are stored, as in ``kernels/mix.cu``; as many
again for the warp that times single loads."""
_MAX_LOOP = 128  # instructions of a loop
_MAX_FAST_LOOP = 512  # of a loop with fast instructions, see `Form`
_MAX_BODY = 8192  # instructions: a loop of 128 KiB
_ALIGNMENT = 128
_COUNTER_PADDING = 160 * 128
"""Bytes of global memory between the counters of one warp and those of the next. Side by side those of 64 warps all lie
in one partition of an H200's L2: with one chain each 6.1 operations a cycle of an SM in the near one, 3.9 in the far
one, by chance. With several waves of blocks there are too many counters for that."""
COUNTER_BYTES, COUNTER_LINE_BYTES = 4, 128
_MAX_CAPPED_CHAINS = 2  # whose state fits into the registers that a full SM has for a thread


class State(StrEnum):
    """The part of a chain that an instruction works on, as ``kernels/mix.cuh`` calls it."""

    WORD = "WORD"
    WIDE = "WIDE"
    BOTH = "WORD WIDE"  # from one to the other and back, alternately
    SUMS = "SUMS"
    PRODUCTS = "PRODUCTS"


@dataclass(frozen=True)
class Form:
    """The kernels' form of an instruction."""

    name: str  # of its struct in ``kernels/arithmetic.cuh``, ``memory.cuh`` or ``matrix.cuh``
    state: State = State.WORD
    neutral: bool = True  # it leaves the chain unchanged, whatever bits that holds
    fast: bool = False  # an SM may start it at the rate at which it fetches instructions
    macro: str | None = None  # to be defined in addition


def _forms(*instructions: Instruction, **fields: Any) -> dict[Instruction, Form]:
    """Forms whose structs have the names of their instructions: ``Fadd``, ``MmaF16``."""
    names = ("".join(map(str.capitalize, instruction.value.split("_"))) for instruction in instructions)
    return {instruction: Form(name, **fields) for instruction, name in zip(instructions, names, strict=True)}


_I = Instruction
FORMS = {
    **_forms(_I.FADD, _I.FMUL, _I.FFMA, _I.IADD, _I.IMAD, _I.LOP, _I.SHIFT, _I.PRMT, _I.FMNMX, _I.SELECT, fast=True),
    **_forms(_I.HFMA2, neutral=False, fast=True),  # half an address may be no number
    **_forms(_I.DADD, _I.DFMA, state=State.WIDE, fast=True),
    **_forms(_I.IMAD_WIDE, state=State.WIDE, neutral=False, fast=True),
    **_forms(_I.F2F, state=State.BOTH),
    **_forms(_I.I2F, _I.F2I, _I.RCP, _I.RSQ, _I.SIN, _I.EX2, _I.LG2, _I.ATOMS, _I.ATOMG, neutral=False),
    **_forms(_I.POPC, _I.FLO, _I.VOTE, _I.REDUX, _I.MATCH, neutral=False),
    **_forms(_I.SHUFFLE, _I.LDS, _I.STS, _I.LDG, _I.STG, _I.REDG, _I.BARRIER),
    **_forms(_I.BRANCH, macro=BRANCHES),
    **_forms(_I.MMA_F16, state=State.SUMS, macro="MATRIX_F16"),
    **_forms(_I.MMA_BF16, state=State.SUMS, macro="MATRIX_BF16"),
    **_forms(_I.MMA_TF32, state=State.SUMS, macro="MATRIX_TF32"),
    **_forms(_I.MMA_S8, state=State.SUMS, macro="MATRIX_S8"),
    **_forms(_I.MMA_F64, state=State.PRODUCTS),
}


def supported_instructions(capability: tuple[int, int]) -> tuple[Instruction, ...]:
    """The instructions that a GPU of this compute capability runs in mixes."""
    return tuple(instruction for instruction in Instruction if _why_unsupported(instruction, capability) is None)


def _why_unsupported(instruction: Instruction, capability: tuple[int, int]) -> str | None:
    """Why a GPU of this compute capability does not run an instruction in mixes, None if it does."""
    major, minor = FIRST_WITH_INSTRUCTION.get(instruction, FIRST_CAPABILITY)
    if capability < (major, minor):
        return f"it needs compute capability {major}.{minor}, this device has {capability[0]}.{capability[1]}"
    if instruction is Instruction.MMA_F64 and not has_double_matrices(_facts(capability)):
        return "its matrix units take no double precision, so the instruction is emulated"
    return None


def _facts(capability: tuple[int, int]) -> dict[str, object]:
    """The fact by which tables of the catalogue are called."""
    return {"compute_capability": f"{capability[0]}.{capability[1]}"}


@dataclass(frozen=True)
class Body:
    """A body ready to be compiled."""

    macros: tuple[str, ...]  # of ``mix.cu``
    loops: int  # iterations of its loop; with the copies behind it, that makes the iterations of the mix
    shared: int  # bytes of shared memory that a block needs
    uses_links: bool  # chains go through global memory
    counter_stride: int  # bytes from the counters of one warp to those of the next, 0 without counters of its own
    spread: int = 0  # bytes of one of the counters, or lines of them, that all warps share; 0 without

    @property
    def code(self) -> Code:
        """What its kernel is compiled of."""
        return ("mix.cu", *self.macros)


@lru_cache(maxsize=4096)
def build_body(mix: Mix, capability: tuple[int, int]) -> Body:
    """The body of a mix. Raises `DeviceError` for one that these kernels have no form of."""
    instructions = {step.instruction for step in mix.body}
    for instruction in instructions:
        if (reason := _why_unsupported(instruction, capability)) is not None:
            raise DeviceError(f"this device does not run {instruction.value} in a mix: {reason}")
    if (reason := _why_no_chain(mix, instructions)) is not None:
        raise UnsupportedWorkload(reason)
    in_shared, in_global = Instruction.LDS in instructions, Instruction.LDG in instructions
    has_address = in_shared or in_global
    states = dict.fromkeys(FORMS[step.instruction].state for step in mix.body)
    unroll, loops, rest = unrolled(mix)
    steps = " ".join(_step(step, has_address) for step in mix.body)
    macros = [f"BODY={steps}", f"UNROLL={unroll}", f"REST={rest}", f"ILP={mix.ilp}", f"WIDTH={mix.width}"]
    macros += dict.fromkeys(f"USES_{part}" for state in states for part in state.split())
    macros += sorted(macro for instruction in instructions if (macro := FORMS[instruction].macro))
    flags = {
        "IN_SHARED": in_shared,
        "IN_GLOBAL": in_global,
        "PLACES": in_shared or Instruction.STS in instructions,
        "STORES": Instruction.STS in instructions,
        "NEUTRAL": not has_address
        and not mix.source_registers
        and all(FORMS[instruction].neutral for instruction in instructions),
        "TILES": in_global and mix.access is Access.STREAMING,
        "LINES": in_global and mix.access is Access.RANDOM,
    }
    macros += [name for name, present in flags.items() if present]
    counter_stride = 0
    counted = not in_global and mix.access is not Access.RESIDENT
    spread = (COUNTER_BYTES if mix.access is Access.RANDOM else COUNTER_LINE_BYTES) if counted else 0
    if spread:
        macros.append(f"SPREAD={spread}")
    elif instructions & {Instruction.ATOMG, Instruction.STG, Instruction.REDG}:
        counter_stride = operand_bytes(mix) + (_COUNTER_PADDING if mix.waves == 1 else 0)
        macros.append(f"COUNTER_STRIDE={counter_stride}")
    if mix.silent:
        macros.append("SILENT")
    if mix.source_registers:
        macros.append(f"{SOURCE_REGISTERS}{'.'.join(map(str, mix.source_registers))}")
    if mix.sampled:
        macros.append(f"SAMPLED={mix.sampled}")
    if in_global and mix.ilp <= _MAX_CAPPED_CHAINS:
        threads = max_sm_threads(_facts(capability))
        macros.append(f"REGISTERS={SM_REGISTERS // threads // 8 * 8}")
    if in_global:
        macros.append(f"LOADS={sum(step.count for step in mix.body if step.instruction is Instruction.LDG)}")
    operands = flags["PLACES"] + (mix.block_size // WARP_SIZE if Instruction.ATOMS in instructions else 0)
    shared = SINK_BYTES * (2 if mix.sampled else 1) + operands * operand_bytes(mix)
    return Body(tuple(macros), loops, shared, uses_links=in_global, counter_stride=counter_stride, spread=spread)


def operand_bytes(mix: Mix) -> int:
    """Bytes over which the operands of a warp spread, if each lane has a word of its own."""
    return -(-((WARP_SIZE - 1) * mix.stride * 4 + mix.width) // _ALIGNMENT) * _ALIGNMENT


def unrolled(mix: Mix) -> tuple[int, int, int]:
    """Copies of the body in the loop, iterations of the loop, copies of the body behind it.

    The loop is long, so that its control is cheap, but within what the smallest instruction cache of an SM holds (8 KiB
    of 12 on Volta); and it divides the iterations, if a length of half as much or more does.
    """
    body = mix.ilp * sum(step.count for step in mix.body)
    fast = any(FORMS[step.instruction].fast for step in mix.body)
    conversions = sum(step.count for step in mix.body if step.instruction is Instruction.F2F)
    multiple = 1 + conversions % 2  # the loop begins with a single every time
    if mix.sampled:  # and with the load that is timed
        multiple = math.lcm(multiple, mix.sampled // math.gcd(mix.sampled, mix.loads // mix.iterations))
    longest = (_MAX_FAST_LOOP if fast else _MAX_LOOP) // body
    longest = max(longest // multiple * multiple, multiple)
    if mix.iterations <= longest:
        return mix.iterations, 1, 0
    for length in range(longest, longest // 2, -multiple):
        if mix.iterations % length == 0:
            return length, mix.iterations // length, 0
    return longest, mix.iterations // longest, mix.iterations % longest


def _step(step: Step, has_address: bool) -> str:
    form = FORMS[step.instruction]
    macro = "STEP" if form.neutral or not has_address else "ASIDE"
    return f"{macro}({form.name},{step.count})"


def _why_no_chain(mix: Mix, instructions: set[Instruction]) -> str | None:
    """Why these kernels cannot run a mix of instructions that the device supports, None if they can."""
    loads, atomics = Instruction.LDG in instructions, instructions & {Instruction.ATOMS, Instruction.ATOMG}
    states = {FORMS[instruction].state for instruction in instructions}
    matrices = sum(FORMS[instruction].state in (State.SUMS, State.PRODUCTS) for instruction in instructions)
    if len(states) > 1 or matrices > 1 or {Instruction.LDS, Instruction.LDG} <= instructions:
        names = ", ".join(sorted(instruction.value for instruction in instructions))
        return f"this device has no chain through all of {names}: run them in separate mixes"
    if mix.ilp * sum(step.count for step in mix.body) > _MAX_BODY:
        return f"a body has at most {_MAX_BODY} instructions on this device, those of all chains together"
    if mix.width != 4 and atomics | (instructions & {Instruction.REDG}):
        return f"atomics on this device have operands of 4 bytes, got {mix.width}"
    if mix.width == 16 and loads and (mix.access is not Access.RESIDENT or len(instructions) > 1):
        return "global loads of 16 bytes are resident on this device, and alone in their mix"
    if mix.sampled and not loads:
        return "only loads from global memory can be sampled on this device"
    counters = instructions & {Instruction.ATOMG, Instruction.REDG, Instruction.STG}
    if mix.access is not Access.RESIDENT and not loads and not counters:
        return "only global loads and atomics can be streaming or random on this device"
    if mix.access is not Access.RESIDENT and counters and (loads or Instruction.STG in counters):
        return "stores to global memory, and atomics beside loads, are resident on this device"
    if mix.access is not Access.RESIDENT and counters and mix.stride != 1:
        return f"atomics on a footprint are one word apart on this device, got {mix.stride}"
    return None

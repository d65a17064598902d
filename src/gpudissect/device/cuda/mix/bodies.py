"""From the body of a mix to the macros that ``kernels/mix.cu`` is compiled with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from gpudissect.catalogue.capabilities import SM_REGISTERS, max_sm_threads
from gpudissect.device.cuda.compile import Code
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step

FIRST_CAPABILITY = (7, 0)
"""Compute capability from which on mixes run: older machine code was never read."""
SINK = 512
"""Bytes at the start of a block's shared memory in which chains end, as in ``kernels/mix.cu``; as many again for the
warp that times single loads."""
TILE = 32
"""Words that a warp reads at once where accesses are streaming: one for each lane."""
_MOST_UNROLLED = 128
_MOST_UNROLLED_FAST = 512  # of instructions that an SM may start at the rate at which it fetches them
_MOST_INSTRUCTIONS = 8192  # of a body: a loop of 128 KiB
_ALIGNMENT = 128
_PADDING = 160 * 128
"""Bytes of global memory between the counters of one warp and those of the next. Side by side those of 64 warps all lie
in one part of an H200's L2: with one chain each 6.1 operations a cycle of an SM in the near one, 3.9 in the far one, as
memory happens to be given out. Where blocks take the place of others there are too many of them for that."""
_FEW_CHAINS = 2  # of which as many registers as a full SM has for a thread can hold the state


class State(StrEnum):
    """What of a chain an instruction works on, as ``kernels/mix.cuh`` calls it."""

    WORD = "WORD"
    WIDE = "WIDE"
    BOTH = "BOTH"  # from word to wide and back, in turns
    SUMS = "SUMS"
    PRODUCTS = "PRODUCTS"


@dataclass(frozen=True)
class Form:
    """What the kernels make of an instruction.

    Attributes:
        name: of its struct in ``kernels/arithmetic.cuh``, ``memory.cuh`` or ``matrix.cuh``.
        state: what of a chain it works on.
        neutral: whether it leaves the chain as it was, whatever bits that holds.
        capability: compute capability from which on there is one.
        macro: what else must be defined.

    """

    name: str
    state: State = State.WORD
    neutral: bool = True
    capability: tuple[int, int] = FIRST_CAPABILITY
    macro: str | None = None


_AMPERE = (8, 0)
_DOUBLE_MATRICES = (9, 10)  # major compute capabilities of which all have units for them
FORMS = {
    Instruction.FADD: Form("Fadd"),
    Instruction.FMUL: Form("Fmul"),
    Instruction.FFMA: Form("Ffma"),
    Instruction.IADD: Form("Iadd"),
    Instruction.IMAD: Form("Imad"),
    Instruction.LOP: Form("Lop"),
    Instruction.SHIFT: Form("Shift"),
    Instruction.HFMA2: Form("Hfma2", neutral=False),  # half an address may be no number
    Instruction.DADD: Form("Dadd", State.WIDE),
    Instruction.DFMA: Form("Dfma", State.WIDE),
    Instruction.I2F: Form("I2f", neutral=False),
    Instruction.F2I: Form("F2i", neutral=False),
    Instruction.F2F: Form("F2f", State.BOTH),
    Instruction.RCP: Form("Rcp", neutral=False),
    Instruction.RSQ: Form("Rsq", neutral=False),
    Instruction.SIN: Form("Sin", neutral=False),
    Instruction.EX2: Form("Ex2", neutral=False),
    Instruction.LG2: Form("Lg2", neutral=False),
    Instruction.SHUFFLE: Form("Shuffle"),
    Instruction.LDS: Form("Lds"),
    Instruction.STS: Form("Sts"),
    Instruction.ATOMS: Form("Atoms", neutral=False),
    Instruction.LDG: Form("Ldg"),
    Instruction.ATOMG: Form("Atomg", neutral=False),
    Instruction.BARRIER: Form("Barrier"),
    Instruction.MMA_F16: Form("MmaF16", State.SUMS, capability=_AMPERE, macro="MATRIX_F16"),
    Instruction.MMA_BF16: Form("MmaBf16", State.SUMS, capability=_AMPERE, macro="MATRIX_BF16"),
    Instruction.MMA_TF32: Form("MmaTf32", State.SUMS, capability=_AMPERE, macro="MATRIX_TF32"),
    Instruction.MMA_S8: Form("MmaS8", State.SUMS, capability=_AMPERE, macro="MATRIX_S8"),
    Instruction.MMA_F64: Form("MmaF64", State.PRODUCTS, capability=_AMPERE),
}
_FAST = (
    Instruction.FADD, Instruction.FMUL, Instruction.FFMA, Instruction.IADD, Instruction.IMAD, Instruction.LOP,
    Instruction.SHIFT, Instruction.HFMA2, Instruction.DADD, Instruction.DFMA,
)  # fmt: skip
_USES = {
    State.WORD: ("USES_WORD",),
    State.WIDE: ("USES_WIDE",),
    State.BOTH: ("USES_WORD", "USES_WIDE"),
    State.SUMS: ("USES_SUMS",),
    State.PRODUCTS: ("USES_PRODUCTS",),
}


def runnable(capability: tuple[int, int]) -> tuple[Instruction, ...]:
    """The instructions that a GPU of this compute capability runs in mixes."""
    return tuple(each for each in FORMS if _lacks(each, capability) is None)


def _lacks(instruction: Instruction, capability: tuple[int, int]) -> str | None:
    """Why a GPU of this compute capability does not run an instruction in mixes, None if it does."""
    needed = FORMS[instruction].capability
    if capability < needed:
        return f"it needs compute capability {needed[0]}.{needed[1]}, this device has {capability[0]}.{capability[1]}"
    if instruction is Instruction.MMA_F64 and not (capability == _AMPERE or capability[0] in _DOUBLE_MATRICES):
        return "its matrix units take no double precision, so that one instruction stands for a long wait"
    return None


@dataclass(frozen=True)
class Body:
    """A body ready to be compiled.

    Attributes:
        macros: what ``mix.cu`` is compiled with.
        loops: how often its loop runs; with what stands behind it, that makes the iterations of the mix.
        shared: bytes of shared memory that a block needs.
        links: whether chains run through global memory.
        counters: bytes of global memory from the counters of one warp to those of the next.

    """

    macros: tuple[str, ...]
    loops: int
    shared: int
    links: bool
    counters: int

    @property
    def code(self) -> Code:
        """What its kernel is compiled of."""
        return ("mix.cu", *self.macros)


def body_of(mix: Mix, capability: tuple[int, int]) -> Body:
    """The body of a mix. Raises `DeviceError` for one that these kernels have no form of."""
    steps = mix.body
    used = {step.instruction for step in steps}
    _check(mix, used, capability)
    in_shared, in_global = Instruction.LDS in used, Instruction.LDG in used
    addressed = in_shared or in_global
    states = dict.fromkeys(FORMS[each].state for each in (step.instruction for step in steps))
    unroll, loops, rest = unrolled(mix)
    macros = [
        "BODY=" + " ".join(_step(step, addressed) for step in steps), f"UNROLL={unroll}", f"REST={rest}",
        f"ILP={mix.ilp}", f"WIDTH={mix.width}",
    ]  # fmt: skip
    macros += dict.fromkeys(macro for state in states for macro in _USES[state])
    macros += sorted(macro for each in used if (macro := FORMS[each].macro))
    flags = {
        "IN_SHARED": in_shared,
        "IN_GLOBAL": in_global,
        "PLACES": in_shared or Instruction.STS in used,
        "STORES": Instruction.STS in used,
        "NEUTRAL": not addressed and all(FORMS[each].neutral for each in used),
        "TILES": in_global and mix.access is Access.STREAMING,
        "LINES": in_global and mix.access is Access.RANDOM,
    }
    macros += [name for name, present in flags.items() if present]
    counters = room(mix) + (_PADDING if mix.waves == 1 else 0) if Instruction.ATOMG in used else 0
    if counters:
        macros.append(f"APART={counters}")
    if mix.sampled:
        macros.append(f"SAMPLED={mix.sampled}")
    if in_global and mix.ilp <= _FEW_CHAINS:
        threads = max_sm_threads({"compute_capability": f"{capability[0]}.{capability[1]}"})
        macros.append(f"REGISTERS={SM_REGISTERS // threads // 8 * 8}")
    if in_global:
        macros.append(f"LOADS={sum(step.count for step in steps if step.instruction is Instruction.LDG)}")
    warps = mix.block_size // WARP_SIZE
    rooms = flags["PLACES"] + (warps if Instruction.ATOMS in used else 0)
    return Body(
        macros=tuple(macros),
        loops=loops,
        shared=SINK * (2 if mix.sampled else 1) + rooms * room(mix),
        links=in_global,
        counters=counters,
    )


def room(mix: Mix) -> int:
    """Bytes over which the operands of a warp spread, if each lane has a word of its own."""
    return -(-(31 * mix.stride * 4 + mix.width) // _ALIGNMENT) * _ALIGNMENT


def unrolled(mix: Mix) -> tuple[int, int, int]:
    """How often the body stands in the loop, how often the loop runs, how often the body stands behind it.

    The loop is long, so that its control is cheap, but within what the smallest instruction cache of an SM holds (8 KiB
    of 12 on Volta); and it divides the iterations, if a length of half as much or more does.
    """
    body = mix.ilp * sum(step.count for step in mix.body)
    fast = any(step.instruction in _FAST for step in mix.body)
    conversions = sum(step.count for step in mix.body if step.instruction is Instruction.F2F)
    even = 1 + conversions % 2  # the loop begins with a single every time
    if mix.sampled:  # and with the load that is timed
        loads = mix.loads // mix.iterations
        even = math.lcm(even, mix.sampled // math.gcd(mix.sampled, loads))
    most = (_MOST_UNROLLED_FAST if fast else _MOST_UNROLLED) // body
    most = max(most // even * even, even)
    if mix.iterations <= most:
        return mix.iterations, 1, 0
    for length in range(most, most // 2, -even):
        if mix.iterations % length == 0:
            return length, mix.iterations // length, 0
    return most, mix.iterations // most, mix.iterations % most


def _step(step: Step, addressed: bool) -> str:
    form = FORMS[step.instruction]
    verb = "STEP" if form.neutral or not addressed else "ASIDE"
    return f"{verb}({form.name},{step.count})"


def _check(mix: Mix, used: set[Instruction], capability: tuple[int, int]) -> None:
    for each in used:
        if (reason := _lacks(each, capability)) is not None:
            raise DeviceError(f"this device runs no {each.value} in a mix: {reason}")
    kinds = {FORMS[each].state for each in used}
    matrices = sum(each in used for each in FORMS if FORMS[each].state in (State.SUMS, State.PRODUCTS))
    if len(kinds) > 1 or matrices > 1 or {Instruction.LDS, Instruction.LDG} <= used:
        names = ", ".join(sorted(each.value for each in used))
        raise UnsupportedWorkload(f"this device has no chain through all of {names}: run them in mixes of their own")
    if mix.ilp * sum(step.count for step in mix.body) > _MOST_INSTRUCTIONS:
        raise UnsupportedWorkload(
            f"a body has at most {_MOST_INSTRUCTIONS} instructions on this device, chains counted singly"
        )
    if mix.width != 4 and used & {Instruction.ATOMS, Instruction.ATOMG}:
        raise UnsupportedWorkload("atomics on this device have operands of 4 bytes")
    if mix.width == 16 and Instruction.LDG in used:
        raise UnsupportedWorkload("global loads of a mix on this device have 4 or 8 bytes: an address, or half of one")
    if mix.sampled and Instruction.LDG not in used:
        raise UnsupportedWorkload("of a mix on this device only loads from global memory can be timed one by one")
    if mix.access is not Access.RESIDENT and Instruction.LDG not in used:
        raise UnsupportedWorkload("of a mix on this device only global loads can be streaming or random")
    if mix.access is not Access.RESIDENT and Instruction.ATOMG in used:
        raise UnsupportedWorkload("atomics on global memory are resident on this device")

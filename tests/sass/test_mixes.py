"""The machine code between the two clock reads of a mix: copies of its body, each instruction a link of its chain.

For every instruction, on every architecture that has it: the right number and nothing else but loop control, each reads
the result of the one before in its chain, the chains are independent, and the second clock read waits for all of them.
"""

import re
from dataclasses import dataclass

import pytest

from gpudissect.device.cuda.mix.body import build_body, supported_instructions, unrolled
from gpudissect.workload import Access, Step
from gpudissect.workload import Instruction as Op
from tests.support.machine_code import Instruction, kernels_of
from tests.support.workloads import mix

ARCHS = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_120"]
FORMS = {
    Op.FADD: r"FADD R\d+,-?R\d+,R\d+",
    Op.FMUL: r"FMUL R.*",
    Op.FFMA: r"FFMA R.*",
    Op.IADD: r"IADD3 R\d+,(PT,PT,)?R\d+,R\d+,R\d+",
    Op.IMAD: r"IMAD R\d+,R\d+,R\d+,R\d+",
    Op.LOP: r"LOP3\.LUT R\d+,R\d+,R\d+,R\d+,0xf8,!PT",
    Op.SHIFT: r"SHF\.L\.W\.U32\.HI R.*",
    Op.IMAD_WIDE: r"IMAD\.WIDE\.U32 R\d+,R\d+,R\d+,RZ",
    Op.PRMT: r"PRMT R\d+,R\d+,R\d+,R\d+",
    Op.FMNMX: r"FMNMX R\d+,R\d+,R\d+,!PT",
    Op.SELECT: r"(ISETP\.(EQ|NE)\.U32\.AND P\d,PT,R\d+,R\d+,PT|SEL R\d+,R\d+,R\d+,!?P\d)",
    Op.HFMA2: r"HFMA2(\.MMA)? R\d+,R\d+,R\d+,[^R].*",
    Op.DADD: r"DADD R.*",
    Op.DFMA: r"DFMA R.*",
    Op.I2F: r"(I2F\.U32|I2FP\.F32\.U32) R.*",
    Op.F2I: r"F2I\.NTZ R.*",
    Op.F2F: r"F2F\.(F64\.F32|F32\.F64) R.*",
    Op.RCP: r"MUFU\.RCP R\d+,\|R\d+\|",
    Op.RSQ: r"MUFU\.RSQ R\d+,R\d+",
    Op.SIN: r"(FMUL\.RZ R\d+,R\d+,0\.15\d+|MUFU\.SIN R\d+,R\d+)",
    Op.EX2: r"MUFU\.EX2 R\d+,-R\d+",
    Op.LG2: r"MUFU\.LG2 R\d+,\|R\d+\|",
    Op.POPC: r"POPC R\d+,R\d+",
    Op.FLO: r"FLO\.U32 R\d+,R\d+",
    Op.VOTE: r"(ISETP\.NE\.U32\.AND P\d,PT,R\d+,R\d+,PT|VOTE\.ANY R\d+,PT,P\d)",
    Op.REDUX: r"(REDUX\.OR UR\d+,R\d+|(IMAD\.U32|MOV) R\d+,(RZ,RZ,)?UR\d+)",
    Op.MATCH: r"MATCH\.ANY R\d+,R\d+",
    Op.SHUFFLE: r"SHFL\.IDX PT,R\d+,R\d+,R\d+,0x1f",
    Op.LDS: r"LDS(\.U)?(\.64|\.128)? R\d+,\[R\d+\]",
    Op.STS: r"STS(\.64|\.128)? \[R\d+(\+0x\w+)?\],R\d+",
    Op.ATOMS: r"ATOMS\.ADD R.*",
    Op.LDG: r"LDG\.E(\.64)?\.STRONG\.(SM|CTA) R.*",
    Op.STG: r"STG\.E(\.64|\.128)?(\.STRONG\.SYS)? .*",
    Op.REDG: r"REDG?\.E\.ADD\.STRONG\.GPU .*",
    Op.ATOMG: r"ATOMG\.E\.ADD\.STRONG\.GPU PT,R.*",
    Op.BARRIER: r"BAR\.SYNC(\.DEFER_BLOCKING)? 0x0",
    Op.MMA_F16: r"HMMA\.16816\.F32 R.*",
    Op.MMA_BF16: r"HMMA\.16816\.F32\.BF16 R.*",
    Op.MMA_TF32: r"HMMA\.1688\.F32\.TF32 R.*",
    Op.MMA_S8: r"IMMA\.16832\.S8\.S8 R.*",
    Op.MMA_F64: r"DMMA\.(884|8x8x4) R.*",
}
MACHINE_INSTRUCTIONS = {Op.SIN: 2, Op.SELECT: 2, Op.VOTE: 2, Op.REDUX: 2}
"""Machine instructions that one instruction takes, if not one."""
MAX_CONTROL = 12
"""Instructions in a loop, or before or behind it: its control, convergence, constants and addresses loaded again."""
MOVES = ("MOV", "IMAD.MOV.U32")
MAX_MOVES = 12
"""Copies in a loop; besides, for each load that additions follow, one of the upper half of the address."""
CONTROL = {"IADD3", "IADD", "ISETP", "BRA", "NOP", "BSSY", "BSYNC", "BMOV", "LDC", "LDCU", "ULDC", "YIELD", "WARPSYNC"}
CONTROL |= {"CALL", "UMOV", "S2UR", "S2R", "ULEA", "LEA", "VOTE", "VOTEU", "LOP3", "R2UR", "DEPBAR", "UIADD3", "UISETP"}


@dataclass(frozen=True)
class Window:
    """Instructions between the clock reads: before the loop, in it, behind it; the highest register of the kernel."""

    before: list[Instruction]
    loop: list[Instruction]
    behind: list[Instruction]
    registers: int


def window_of(wanted, arch):
    macros = build_body(wanted, capability(arch)).macros
    code = kernels_of("mix.cu", macros, arch)["mix"]
    first, last = [at for at, i in enumerate(code) if i.reads_clock and i.opcode == "CS2R"][-2:]
    backward = [(i.target, at) for at, i in enumerate(code[:last]) if i.target is not None and first < i.target <= at]
    begin, end = max(backward, key=lambda loop: loop[1] - loop[0])
    highest = max(int(name[1:]) for i in code for name in i.registers)
    assert not any(i.name in ("LDL", "STL") for i in code[first:last]), "local memory"
    parts = (code[first + 1 : begin], code[begin : end + 1], code[end + 1 : last])
    return Window(*([i for i in part if not is_of_divergent_shuffle(i)] for part in parts), highest)


def is_of_divergent_shuffle(instruction):
    """Whether it is part of the branch, never taken, that shuffles when not all lanes of a warp are active."""
    text = f"{instruction.opcode} {instruction.operands}"
    return re.fullmatch(r"CALL.* \$__.*shflsync.*|(IMAD\.)?MOV.* R\d+,(RZ,RZ,)?-?0x[0-9a-f]+", text) is not None


def capability(arch):
    return divmod(int(arch[3:]), 10)


def instruction_of(wanted, instruction):
    """The instruction of the body that this is, None for none."""
    text = f"{instruction.opcode} {instruction.operands}".replace(".reuse", "")
    return next((s.instruction for s in wanted.body if re.fullmatch(FORMS[s.instruction], text)), None)


def written_by(instruction):
    """Registers that hold its result; of most wider results the first."""
    if instruction.name in ("ISETP", "REDUX"):
        return set(re.findall(r"^U?[PR]\d+", instruction.operands))
    name = instruction.registers[0]
    return {name, f"R{int(name[1:]) + 1}"} if instruction.opcode.startswith("LDG.E.64") else {name}


def read_by(instruction):
    """Registers that it reads; of most wider operands the first."""
    if instruction.name in ("ISETP", "SEL", "VOTE", "REDUX") or "UR" in instruction.operands:
        return set(re.findall(r"U?[PR]\d+", instruction.operands.partition(",")[2]))
    names = set(instruction.registers[1:])
    return names | {f"R{int(name[1:]) + 1}" for name in names} if instruction.name == "LDG" else names


def follow(wanted, code, chains):
    """Follow chains, given as sets of registers, through the code; their registers at the end.

    At the start of a loop they are not known: a chain then begins at its first instruction.
    """
    chains = [set(chain) for chain in chains]
    known = len(chains) == wanted.ilp
    for i in code:
        op = instruction_of(wanted, i)
        if op in (Op.STS, Op.STG, Op.REDG, Op.BARRIER):
            continue
        if op is not None or is_bond(i):
            assert not i.predicate
            reads = [n for n, chain in enumerate(chains) if chain & read_by(i)]
            assert len(reads) == 1 or not known, f"{i} depends on {len(reads)} chains"
            for chain in chains:
                chain -= written_by(i)
            if reads:
                chains[reads[0]] = written_by(i)
            else:
                chains.append(written_by(i))
        elif i.opcode in ("MOV", "IMAD.MOV.U32") and i.registers:
            copied = next((chain for chain in chains if chain & set(i.registers[1:])), None)
            for chain in chains:
                chain.discard(i.registers[0])
            if copied is not None:
                copied.add(i.registers[0])
        elif known:
            assert not any(chain & set(i.registers) for chain in chains), f"{i} touches a chain"
        assert len(chains) <= wanted.ilp and all(chains), f"{i} breaks a chain"
    return chains


def is_bond(instruction):
    """Whether it makes an address depend on a result."""
    return instruction.opcode == "LOP3.LUT" and ",0xf8,!PT" in instruction.operands


def check(wanted, arch, bonds=0):
    window = window_of(wanted, arch)
    unroll, _, rest = unrolled(wanted)
    tail = [i for i in window.behind if not (i.name == "STS" and Op.STS in [s.instruction for s in wanted.body])]
    for step in wanted.body:
        count = step.count * wanted.ilp * MACHINE_INSTRUCTIONS.get(step.instruction, 1)
        assert sum(instruction_of(wanted, i) is step.instruction for i in window.loop) == unroll * count
        if step.instruction is not Op.STS:  # chains end in a store
            assert sum(instruction_of(wanted, i) is step.instruction for i in window.behind) == rest * count
    assert sum(is_bond(i) and instruction_of(wanted, i) is None for i in window.loop) == bonds * unroll * wanted.ilp
    for part in (window.before, window.loop, tail):
        others = [i for i in part if instruction_of(wanted, i) is None and not is_bond(i) and i.predicate != "!UPT"]
        loads = sum(instruction_of(wanted, i) is Op.LDG for i in part)
        assert sum(i.opcode in MOVES for i in others) <= (loads if len(wanted.body) > 1 else 0) + MAX_MOVES
        control = [i for i in others if i.opcode not in MOVES and i.name not in ("STS", "LDS")]
        assert len(control) <= MAX_CONTROL, " | ".join(map(str, control))
        arithmetic = ("IMAD.IADD", "IMAD.SHL.U32", "FADD")
        unknown = [i for i in control if i.name not in CONTROL and i.opcode not in arithmetic]
        assert not unknown, " | ".join(map(str, unknown))
    chains = follow(wanted, window.loop, [])
    chains = follow(wanted, window.loop, chains)
    ends = follow(wanted, [i for i in window.behind if i.name != "STS"], chains)
    stored = {name for i in window.behind if i.name == "STS" for name in i.registers[1:]}
    assert all(chain & stored for chain in ends), "the second clock read must wait for every chain"


CHAINED = set(Op) - {Op.BRANCH}
"""Instructions of chains; a branch has no operand."""
OTHER_ON_86 = (Op.HFMA2, Op.I2F, Op.F2F, Op.RCP, Op.RSQ, Op.EX2, Op.LG2, Op.SHUFFLE, Op.LDG, Op.MMA_F16)
"""Instructions whose loops differ from those of sm_80 in an opcode, and two whose loops do not."""
CASES = [
    (arch, op, 1)
    for arch in ARCHS
    for op in supported_instructions(capability(arch))
    if op in CHAINED and (arch != "sm_86" or op in OTHER_ON_86)
]
CASES += [
    (arch, op, 3) for arch in ("sm_90", "sm_120") for op in supported_instructions(capability(arch)) if op in CHAINED
]
CASES += [("sm_100", op, 2) for op in (Op.FADD, Op.LDG, Op.SHUFFLE, Op.MMA_F16, Op.MMA_F64)]


@pytest.mark.parametrize(("arch", "op", "ilp"), CASES)
def test_a_chain_of_one_instruction(arch, op, ilp):
    width = 8 if op is Op.LDG else 4
    check(mix(op, iterations=149, ilp=ilp, width=width, stride=width // 4), arch)


@pytest.mark.parametrize("op", [Op.FFMA, Op.IADD, Op.DADD])
def test_the_longest_loop_and_its_remainder(op):
    longest = mix(op, iterations=521)
    assert unrolled(longest) == (512, 1, 9)
    check(longest, "sm_90")


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("op", "width", "opcode"),
    [(Op.LDS, 8, ".64"), (Op.LDS, 16, ".128"), (Op.STS, 8, ".64"), (Op.STS, 16, ".128"), (Op.LDG, 4, "LDG.E.STRONG")],
)
def test_wider_operands(arch, op, width, opcode):
    wide = mix(Step(op, 2), ilp=2, width=width, stride=max(1, width // 4))
    check(wide, arch)
    assert all(opcode in i.opcode for i in window_of(wide, arch).loop if instruction_of(wide, i) is op)


WIDE = {"width": 8, "stride": 2}


@pytest.mark.parametrize(("arch", "ilp"), [("sm_75", 1), ("sm_80", 2), ("sm_90", 1), ("sm_90", 2), ("sm_120", 2)])
@pytest.mark.parametrize(
    ("body", "fields", "bonds"),
    [
        ((Op.LDG, Step(Op.FADD, 7)), WIDE, 0),
        ((Op.LDG, Step(Op.FADD, 3)), WIDE | {"access": Access.STREAMING, "footprint": 1 << 20}, 0),
        ((Op.LDG, Step(Op.FADD, 2)), {"access": Access.RANDOM, "footprint": 1 << 20}, 0),
        ((Op.LDS, Step(Op.FADD, 5)), {}, 0),
        ((Op.LDG, Step(Op.RSQ, 3)), WIDE, 1),
        ((Op.LDS, Step(Op.RSQ, 2), Step(Op.FADD, 3)), {}, 1),
        ((Step(Op.FADD, 3), Step(Op.FFMA, 2), Op.IMAD), {}, 0),
    ],
)
def test_a_chain_of_several_instructions(arch, body, fields, bonds, ilp):
    """Arithmetic on half of an address leaves it unchanged; after any other, one instruction restores it."""
    check(mix(*body, iterations=48, ilp=ilp, **fields), arch, bonds)


@pytest.mark.parametrize("ilp", [8, 16])
def test_many_chains_stay_in_registers(ilp):
    for op in (Op.FFMA, Op.MMA_F16):
        check(mix(op, ilp=ilp), "sm_90")
        assert window_of(mix(op, ilp=ilp), "sm_90").registers < 128


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_multiply_adds_read_the_registers_that_were_chosen(arch):
    wanted = mix(Op.FFMA, iterations=128, ilp=4, source_registers=(4, 6, 8))
    loop = window_of(wanted, arch).loop
    adds = [i for i in loop if i.name == "FFMA"]
    assert len(adds) == 4 * unrolled(wanted)[0]
    assert all(re.fullmatch(r"FFMA R\d+,R4,R6,-?R8", i.operands.join(("FFMA ", ""))) for i in adds)
    assert sum(i.name not in CONTROL and i.opcode not in MOVES for i in loop) <= len(adds) + MAX_CONTROL


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_branches_lead_to_the_next_instruction(arch):
    wanted = mix(Step(Op.BRANCH, 64), iterations=6)
    code = kernels_of("mix.cu", build_body(wanted, capability(arch)).macros, arch)["mix"]
    assert sum(i.name == "BRA" and i.target == at + 1 and not i.predicate for at, i in enumerate(code)) == 2 * 64
    assert not any(i.name == "PMTRIG" for i in code)
    assert unrolled(wanted) == (2, 3, 0)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
def test_loads_of_16_bytes_have_two_operations_between_them(arch):
    loop = window_of(mix(Step(Op.LDG, 64), iterations=2, width=16, stride=4), arch).loop
    names = [i.name for i in loop if i.name in ("LDG", "LOP3")]
    assert [i.opcode.split(".")[2] for i in loop if i.name == "LDG"] == ["128"] * 128
    assert sum(name == "LOP3" for name in names) - 2 * 128 in (0, 1)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("op", [Op.ATOMG, Op.REDG])
@pytest.mark.parametrize("access", [Access.RANDOM, Access.STREAMING])
def test_random_counters_take_three_multiplications(arch, op, access):
    wanted = mix(Step(op, 4), ilp=4, iterations=24, access=access, footprint=1 << 20)
    loop = window_of(wanted, arch).loop
    atomics = sum(instruction_of(wanted, i) is op for i in loop)
    multiplications = sum(i.opcode in ("IMAD", "IMAD.HI.U32", "IMAD.WIDE.U32") for i in loop)
    assert atomics == 4 * 4 * unrolled(wanted)[0] and multiplications == 3 * atomics
    assert len(loop) < 4 * atomics + 32

"""The mixes of latency hiding (VV16 s5.1): a load and a number of additions, each on the result of the one before.

The assembler may copy the upper half of an address, outside the chain, at most once a load; without additions not even
that, with whole addresses. Where single loads are timed, one load stands between the two clock reads, and the second
waits for it.
"""

import pytest

from gpudissect.device.cuda.mix.body import build_body, unrolled
from gpudissect.workload import Access, Instruction, Step
from tests.sass.test_mixes import MOVES, capability, check, instruction_of, window_of
from tests.support.machine_code import kernels_of
from tests.support.workloads import mix

ARCHS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
MAX_CONTROL = 6  # instructions in a loop: its counter, its branch, and constants that are loaded again
MAX_COPIES = 4  # of constants in a loop


def streaming(alpha, loads=1, **fields):
    body = [Step(Instruction.LDG, loads)] + ([Step(Instruction.FADD, alpha)] if alpha else [])
    return mix(*body, iterations=96, access=Access.STREAMING, footprint=1 << 20, **fields)


def check_loop(wanted, arch):
    """Check that the loop has the copies of the body and little control, besides `check`; the number of its moves."""
    check(wanted, arch)
    loop = window_of(wanted, arch).loop
    times, _, _ = unrolled(wanted)
    for step in wanted.body:
        assert sum(instruction_of(wanted, i) is step.instruction for i in loop) == times * step.count * wanted.ilp
    others = [i for i in loop if instruction_of(wanted, i) is None]
    copies = [i for i in others if i.opcode in MOVES and i.registers]
    loads = sum(instruction_of(wanted, i) is Instruction.LDG for i in loop)
    assert len(copies) <= loads + MAX_COPIES, " | ".join(map(str, copies))
    assert len(others) - len(copies) <= MAX_CONTROL, " | ".join(map(str, others))
    return len(copies)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("alpha", [0, 1, 5, 32, 512])
def test_additions_between_two_loads(arch, alpha):
    check_loop(streaming(alpha), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("alpha", [0, 3, 64])
def test_whole_addresses(arch, alpha):
    copies = check_loop(streaming(alpha, width=8, stride=2), arch)
    if not alpha:
        assert copies <= MAX_COPIES


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "fields",
    [
        {"loads": 4, "alpha": 1},
        {"alpha": 4, "stride": 2},
        {"alpha": 4, "ilp": 2},
        {"alpha": 0, "ilp": 4, "width": 8, "stride": 2},
    ],
)
def test_several_loads_strides_and_chains(arch, fields):
    check_loop(streaming(**fields), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize(("count", "additions"), [(1, 8), (4, 1)])
@pytest.mark.parametrize("instruction", [Instruction.RSQ, Instruction.LDS])
def test_function_units_and_shared_memory(arch, instruction, count, additions):
    check_loop(mix(Step(instruction, count), Step(Instruction.FADD, additions), iterations=96), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("alpha", "width", "every"), [(0, 4, 8), (0, 8, 8), (6, 4, 4)])
def test_a_single_timed_load(arch, alpha, width, every):
    wanted = streaming(alpha, width=width, stride=width // 4, sampled=every)
    code = kernels_of("mix.cu", build_body(wanted, capability(arch)).macros, arch)["mix"]
    reads = [at for at, i in enumerate(code) if i.opcode == "CS2R.32" and i.reads_clock]
    windows = [code[first + 1 : last] for first, last in zip(reads[::2], reads[1::2], strict=True)]
    empty, *timed = windows
    assert [i.name for i in empty if i.name != "NOP"] == ["STS"]
    assert len(timed) == unrolled(wanted)[0] // every
    for first, window in zip(reads[2::2], timed, strict=True):
        load, store = [i for i in window if i.opcode not in MOVES and i.name != "NOP"]
        assert instruction_of(wanted, load) is Instruction.LDG and store.name == "STS"
        assert load.registers[0] == store.registers[-1], "the second clock read waits for the load"
        before = [i.name for i in code[first - 16 : first]]
        assert {"LDS", "ISETP"} <= set(before), "the first waits for earlier stores"
    assert not any(i.name == "S2UR" and i.reads_clock for i in code[reads[0] :])
    begin, end = [at for at, i in enumerate(code) if i.reads_clock and i.opcode == "CS2R"][-2:]
    for step in wanted.body:  # once for the warp that times loads, once for the others
        found = sum(instruction_of(wanted, i) is step.instruction for i in code[begin:end])
        assert found == 2 * unrolled(wanted)[0] * step.count

"""The mixes of latency hiding (VV16 s5.1): a load and so many additions, each on what the one before gave, no more.

The assembler may copy the other half of an address, beside the chain, at most once a load; where nothing is added not
even that, with whole addresses. And where single loads are timed: between the two clock reads stands one load, and the
second waits for it.
"""

from __future__ import annotations

import pytest

from gpudissect.device.cuda.mix.bodies import body_of, unrolled
from gpudissect.workload import Access, Instruction, Mix, Step
from tests.sass.test_mixes import MOVES, capability, check, meant, window_of
from tests.support.machine_code import kernels_of

ARCHS = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"]
MOST_CONTROL = 6
"""In a loop: its counter, its branch, and constants that are readied again."""
MOST_COPIES = 4
"""In a loop, of its constants."""


def mix(*body: tuple[Instruction, int], **fields: object) -> Mix:
    plain = {"warps": 4, "block_size": 128, "iterations": 96}
    return Mix(body=tuple(Step(*each) for each in body), **plain | fields)  # type: ignore[arg-type]


def streaming(alpha: int, loads: int = 1, **fields: object) -> Mix:
    body = [(Instruction.LDG, loads)] + ([(Instruction.FADD, alpha)] if alpha else [])
    return mix(*body, access=Access.STREAMING, footprint=1 << 20, **fields)


def exactly(wanted: Mix, arch: str) -> int:
    """The loop holds the body so many times and a little control; `check` follows the chains. Gives its copies."""
    check(wanted, arch)
    loop = window_of(wanted, arch).loop
    times, _, _ = unrolled(wanted)
    for step in wanted.body:
        assert sum(meant(wanted, i) is step.instruction for i in loop) == times * step.count * wanted.ilp
    others = [i for i in loop if meant(wanted, i) is None]
    copies = [i for i in others if i.opcode in MOVES and i.registers]
    loads = sum(meant(wanted, i) is Instruction.LDG for i in loop)
    assert len(copies) <= loads + MOST_COPIES, " | ".join(map(str, copies))
    assert len(others) - len(copies) <= MOST_CONTROL, " | ".join(map(str, others))
    return len(copies)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("alpha", [0, 1, 5, 32, 512])
def test_additions_between_two_loads(arch: str, alpha: int) -> None:
    exactly(streaming(alpha), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("alpha", [0, 3, 64])
def test_whole_addresses(arch: str, alpha: int) -> None:
    copies = exactly(streaming(alpha, width=8, stride=2), arch)
    if not alpha:
        assert copies <= MOST_COPIES


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("fields", [
    {"loads": 4, "alpha": 1}, {"alpha": 4, "stride": 2}, {"alpha": 4, "ilp": 2},
    {"alpha": 0, "ilp": 4, "width": 8, "stride": 2},
])  # fmt: skip
def test_several_loads_an_addition_strides_and_chains(arch: str, fields: dict[str, int]) -> None:
    exactly(streaming(**fields), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("body", [
    ((Instruction.RSQ, 1), (Instruction.FADD, 8)), ((Instruction.RSQ, 4), (Instruction.FADD, 1)),
    ((Instruction.LDS, 1), (Instruction.FADD, 8)), ((Instruction.LDS, 4), (Instruction.FADD, 1)),
])  # fmt: skip
def test_function_units_and_shared_memory(arch: str, body: tuple[tuple[Instruction, int], ...]) -> None:
    exactly(mix(*body), arch)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("alpha", "width", "every"), [(0, 4, 8), (0, 8, 8), (6, 4, 4)])
def test_a_load_that_is_timed_by_itself(arch: str, alpha: int, width: int, every: int) -> None:
    wanted = streaming(alpha, width=width, stride=width // 4, sampled=every)
    code = kernels_of("mix.cu", body_of(wanted, capability(arch)).macros, arch)["mix"]
    reads = [at for at, i in enumerate(code) if i.opcode == "CS2R.32" and i.reads_clock]
    windows = [code[first + 1 : last] for first, last in zip(reads[::2], reads[1::2], strict=True)]
    empty, *timed = windows
    assert [i.name for i in empty if i.name != "NOP"] == ["STS"]
    assert len(timed) == unrolled(wanted)[0] // every
    for first, window in zip(reads[2::2], timed, strict=True):
        load, store = [i for i in window if i.opcode not in MOVES and i.name != "NOP"]
        assert meant(wanted, load) is Instruction.LDG and store.name == "STS"
        assert load.registers[0] == store.registers[-1], "the second clock read waits for what came"
        before = [i.name for i in code[first - 16 : first]]
        assert {"LDS", "ISETP"} <= set(before), "the first waits for what was under way"
    assert not any(i.name == "S2UR" and i.reads_clock for i in code[reads[0] :])
    begin, end = [at for at, i in enumerate(code) if i.reads_clock and i.opcode == "CS2R"][-2:]
    for step in wanted.body:  # once for the warp that times loads, once for all others
        seen = sum(meant(wanted, i) is step.instruction for i in code[begin:end])
        assert seen == 2 * unrolled(wanted)[0] * step.count

"""How the body of a mix becomes macros, loops and a remainder; what has no form in the kernels."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.device.cuda.mix.body import FORMS, build_body, operand_bytes, supported_instructions, unrolled
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.workload import Access, Instruction, Step
from tests.support.workloads import mix

HOPPER = (9, 0)
LOADS = {"access": Access.STREAMING, "footprint": 1 << 20}


def macros(wanted, capability=HOPPER):
    return build_body(wanted, capability).macros


def test_every_instruction_has_a_form():
    assert set(FORMS) == set(Instruction) == set(supported_instructions(HOPPER))
    assert not set(supported_instructions((6, 1)))
    turing = set(Instruction) - set(supported_instructions((7, 5)))
    matrices = {instruction for instruction in Instruction if instruction.value.startswith("mma")}
    assert turing == matrices | {Instruction.REDUX}
    for capability in ((8, 6), (12, 0)):
        assert Instruction.MMA_F64 not in supported_instructions(capability)


@given(
    iterations=st.integers(1, 1 << 24),
    ilp=st.integers(1, 32),
    count=st.integers(1, 40),
    instruction=st.sampled_from([Instruction.FADD, Instruction.LDG, Instruction.F2F]),
)
def test_copies_of_the_body_make_the_iterations(iterations, ilp, count, instruction):
    unroll, loops, rest = unrolled(mix(Step(instruction, count), iterations=iterations, ilp=ilp, width=8, stride=2))
    assert unroll * loops + rest == iterations and unroll >= 1 and loops >= 1 and 0 <= rest < unroll
    assert unroll * ilp * count <= 512 or unroll <= 2
    if instruction is Instruction.F2F and loops > 1:
        assert unroll * count % 2 == 0, "the loop begins with a single every time"


def test_round_numbers_leave_no_remainder():
    for iterations in (512, 1024, 3000, 10000):
        assert unrolled(mix(Instruction.FFMA, iterations=iterations, ilp=3))[2] == 0


def test_macros():
    body = build_body(
        mix(Instruction.LDS, Step(Instruction.RSQ, 2), Step(Instruction.FADD, 3), ilp=2, stride=2), HOPPER
    )
    assert body.macros[0] == "BODY=STEP(Lds,1) ASIDE(Rsq,2) STEP(Fadd,3)"
    assert {"ILP=2", "UNROLL=32", "REST=0", "WIDTH=4", "USES_WORD", "IN_SHARED", "PLACES"} <= set(body.macros)
    assert body.shared == 512 + 256 and not body.uses_links and not body.counter_stride
    stream = mix(Instruction.LDG, Step(Instruction.FADD, 8), width=8, stride=2, **LOADS)
    assert {"IN_GLOBAL", "TILES", "LOADS=1"} <= set(macros(stream))
    assert {"USES_WORD", "USES_WIDE"} <= set(macros(mix(Instruction.F2F)))
    assert {"NEUTRAL", "USES_SUMS", "MATRIX_S8"} <= set(macros(mix(Instruction.MMA_S8)))
    assert "NEUTRAL" not in macros(mix(Instruction.EX2))


def test_a_full_sm_has_registers_for_loads():
    for capability, registers in (((9, 0), 32), ((8, 6), 40), ((7, 5), 64)):
        assert f"REGISTERS={registers}" in macros(mix(Instruction.LDG, **LOADS), capability)
    assert not any(macro.startswith("REGISTERS") for macro in macros(mix(Instruction.LDG, ilp=4, **LOADS)))


def test_the_loop_has_a_multiple_of_the_sampled_loads():
    timed = mix(Instruction.LDG, Step(Instruction.FADD, 50), sampled=8, **LOADS)
    assert "SAMPLED=8" in macros(timed) and unrolled(timed)[0] % 8 == 0


def test_bytes_of_operands():
    assert operand_bytes(mix(Instruction.LDS, stride=0)) == operand_bytes(mix(Instruction.LDS, stride=1)) == 128
    assert operand_bytes(mix(Instruction.LDS, stride=32)) == 31 * 128 + 128
    assert build_body(mix(Instruction.ATOMS, warps=8, block_size=256), HOPPER).shared == 512 + 8 * 128


def test_counters_of_warps_are_far_apart_in_memory():
    body = build_body(mix(Instruction.ATOMG, stride=64), HOPPER)
    assert body.counter_stride > 4 * 4096 + operand_bytes(mix(Instruction.ATOMG, stride=64))
    assert body.counter_stride % 128 == 0 and f"COUNTER_STRIDE={body.counter_stride}" in body.macros
    waves = mix(Instruction.ATOMG, waves=1000)
    assert build_body(waves, HOPPER).counter_stride == operand_bytes(waves), "so many need too much memory otherwise"


@pytest.mark.parametrize(
    ("wanted", "capability", "message"),
    [
        (mix(Instruction.MMA_F16), (7, 5), "needs compute capability 8.0"),
        (mix(Instruction.MMA_F64), (8, 9), "no double precision"),
        (mix(Instruction.FADD), (6, 1), "needs compute capability 7.0"),
    ],
)
def test_instructions_that_the_gpu_lacks(wanted, capability, message):
    with pytest.raises(DeviceError, match=message) as caught:
        build_body(wanted, capability)
    assert "\n" not in str(caught.value) and not isinstance(caught.value, UnsupportedWorkload)


@pytest.mark.parametrize(("access", "spread"), [(Access.RANDOM, 4), (Access.STREAMING, 128)])
def test_atomics_on_a_footprint_share_its_words_or_lines(access, spread):
    body = build_body(mix(Instruction.REDG, access=access, footprint=1 << 20), HOPPER)
    assert body.spread == spread and f"SPREAD={spread}" in body.macros and not body.counter_stride


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (mix(Instruction.LDS, Instruction.LDG, width=8, stride=2), "no chain through all of"),
        (mix(Instruction.MMA_F16, Instruction.MMA_BF16), "no chain through all of"),
        (mix(Instruction.DADD, Instruction.FADD), "no chain through all of"),
        (mix(Instruction.LDG, Instruction.FADD, width=16, stride=4), "alone in their mix"),
        (mix(Instruction.ATOMS, width=8, stride=2), "4 bytes"),
        (mix(Instruction.FADD, access=Access.RANDOM, footprint=1 << 20), "only global loads"),
        (mix(Instruction.ATOMG, access=Access.RANDOM, footprint=1 << 20, stride=2), "one word apart"),
        (mix(Instruction.STG, access=Access.RANDOM, footprint=1 << 20), "are resident"),
        (mix(Instruction.FADD, sampled=8, **LOADS), "sampled"),
        (mix(Instruction.LDG, Instruction.ATOMG, access=Access.RANDOM, footprint=1 << 20), "are resident"),
        (mix(Step(Instruction.FADD, 5000), ilp=4), "at most 8192"),
    ],
)
def test_mixes_without_a_form(wanted, message):
    with pytest.raises(UnsupportedWorkload, match=message) as caught:
        build_body(wanted, HOPPER)
    assert "\n" not in str(caught.value)

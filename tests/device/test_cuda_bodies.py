"""How the body of a mix becomes macros, loops and a remainder; what has no form here."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.device.cuda.mix.bodies import FORMS, body_of, room, runnable, unrolled
from gpudissect.errors import DeviceError
from gpudissect.workload import Access, Instruction, Mix, Step

HOPPER = (9, 0)


def mix(*steps: Step | Instruction, **fields: Any) -> Mix:
    body = tuple(each if isinstance(each, Step) else Step(each) for each in steps)
    return Mix(**{"body": body, "warps": 4, "block_size": 128, "iterations": 64} | fields)


def test_every_instruction_has_a_form() -> None:
    assert set(FORMS) == set(Instruction) == set(runnable(HOPPER))
    assert not set(runnable((6, 1)))
    turing = set(Instruction) - set(runnable((7, 5)))
    assert turing == {each for each in Instruction if each.value.startswith("mma")}
    assert Instruction.MMA_F64 not in runnable((8, 6)) and Instruction.MMA_F64 not in runnable((12, 0))


@given(iterations=st.integers(1, 1 << 24), ilp=st.integers(1, 32), count=st.integers(1, 40),
       instruction=st.sampled_from([Instruction.FADD, Instruction.LDG, Instruction.F2F]))  # fmt: skip
def test_iterations_come_out_exactly(iterations: int, ilp: int, count: int, instruction: Instruction) -> None:
    wanted = mix(Step(instruction, count), iterations=iterations, ilp=ilp, width=8, stride=2)
    unroll, loops, rest = unrolled(wanted)
    assert unroll * loops + rest == iterations and unroll >= 1 and loops >= 1 and 0 <= rest < unroll
    assert unroll * ilp * count <= 512 or unroll <= 2
    if instruction is Instruction.F2F and loops > 1:
        assert unroll * count % 2 == 0, "the loop begins with a single every time"


def test_round_numbers_leave_no_rest() -> None:
    for iterations in (512, 1024, 3000, 10000):
        assert unrolled(mix(Instruction.FFMA, iterations=iterations, ilp=3))[2] == 0


def test_what_the_kernel_is_told() -> None:
    body = body_of(mix(Instruction.LDS, Step(Instruction.RSQ, 2), Step(Instruction.FADD, 3), ilp=2, stride=2), HOPPER)
    assert body.macros[0] == "BODY=STEP(Lds,1) ASIDE(Rsq,2) STEP(Fadd,3)"
    assert {"ILP=2", "UNROLL=32", "REST=0", "WIDTH=4", "USES_WORD", "IN_SHARED", "PLACES"} <= set(body.macros)
    assert body.shared == 512 + 256 and not body.links and not body.counters
    stream = mix(
        Instruction.LDG, Step(Instruction.FADD, 8), width=8, stride=2, access=Access.STREAMING, footprint=1 << 20
    )
    assert {"IN_GLOBAL", "TILES", "LOADS=1"} <= set(body_of(stream, HOPPER).macros)
    assert "NEUTRAL" in body_of(mix(Instruction.MMA_S8), HOPPER).macros
    assert "NEUTRAL" not in body_of(mix(Instruction.EX2), HOPPER).macros


def test_a_full_sm_has_registers_for_loads() -> None:
    loads = {"access": Access.STREAMING, "footprint": 1 << 20}
    for capability, registers in (((9, 0), 32), ((8, 6), 40), ((7, 5), 64)):
        assert f"REGISTERS={registers}" in body_of(mix(Instruction.LDG, **loads), capability).macros
    assert not any(m.startswith("REGISTERS") for m in body_of(mix(Instruction.LDG, ilp=4, **loads), HOPPER).macros)
    timed = mix(Instruction.LDG, Step(Instruction.FADD, 50), sampled=8, **loads)
    assert "SAMPLED=8" in body_of(timed, HOPPER).macros and unrolled(timed)[0] % 8 == 0


def test_places_of_lanes() -> None:
    assert room(mix(Instruction.LDS, stride=0)) == room(mix(Instruction.LDS, stride=1)) == 128
    assert room(mix(Instruction.LDS, stride=32)) == 31 * 128 + 128
    assert body_of(mix(Instruction.ATOMS, warps=8, block_size=256), HOPPER).shared == 512 + 8 * 128


def test_counters_of_warps_lie_far_apart_in_memory() -> None:
    body = body_of(mix(Instruction.ATOMG, stride=64), HOPPER)
    assert body.counters > 4 * 4096 + room(mix(Instruction.ATOMG, stride=64)) and body.counters % 128 == 0
    assert f"APART={body.counters}" in body.macros
    many = mix(Instruction.ATOMG, waves=1000)
    assert body_of(many, HOPPER).counters == room(many), "there is no room for so many that far apart"


@pytest.mark.parametrize(("wanted", "capability", "message"), [
    (mix(Instruction.MMA_F16), (7, 5), "needs compute capability 8.0"),
    (mix(Instruction.MMA_F64), (8, 9), "no double precision"),
    (mix(Instruction.FADD), (6, 1), "needs compute capability 7.0"),
    (mix(Instruction.LDS, Instruction.LDG, width=8, stride=2), HOPPER, "in mixes of their own"),
    (mix(Instruction.MMA_F16, Instruction.MMA_BF16), HOPPER, "in mixes of their own"),
    (mix(Instruction.DADD, Instruction.FADD), HOPPER, "in mixes of their own"),
    (mix(Instruction.LDG, width=16, stride=4), HOPPER, "4 or 8 bytes"),
    (mix(Instruction.ATOMS, width=8, stride=2), HOPPER, "4 bytes"),
    (mix(Instruction.ATOMG, access=Access.RANDOM, footprint=1 << 20), HOPPER, "only global loads"),
    (mix(Instruction.LDG, Instruction.ATOMG, access=Access.RANDOM, footprint=1 << 20), HOPPER, "are resident"),
    (mix(Step(Instruction.FADD, 5000), ilp=4), HOPPER, "at most 8192"),
])  # fmt: skip
def test_what_has_no_form_here(wanted: Mix, capability: tuple[int, int], message: str) -> None:
    with pytest.raises(DeviceError, match=message) as caught:
        body_of(wanted, capability)
    assert "\n" not in str(caught.value)

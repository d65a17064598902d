"""What a CUDA device refuses because of the workload is told apart from what is wrong with the device."""

from __future__ import annotations

import pytest

from gpudissect.device.cuda.mix.bodies import body_of
from gpudissect.device.cuda.mix.links import _check_room
from gpudissect.device.cuda.stream.backend import check_shared, macros
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload, UsageError
from gpudissect.workload import Access, Instruction, Mix, Path, Step, Stream, Transfer

HOPPER = (9, 0)


def mix(*instructions: Instruction, **fields: object) -> Mix:
    given = {"warps": 4, "block_size": 128, "iterations": 4} | fields
    return Mix(body=tuple(Step(each) for each in instructions), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (mix(Instruction.LDG, width=16, stride=4), "4 or 8 bytes"),
        (mix(Instruction.ATOMS, width=8, stride=2), "operands of 4 bytes"),
        (mix(Instruction.LDS, Instruction.LDG), "no chain through all of"),
        (mix(Instruction.FADD, access=Access.RANDOM, footprint=1 << 20), "only global loads"),
        (mix(*[Instruction.FADD] * 300, ilp=32), "at most 8192 instructions"),
    ],
)
def test_bodies(wanted: Mix, why: str) -> None:
    with pytest.raises(UnsupportedWorkload, match=why):
        body_of(wanted, HOPPER)


def test_registers() -> None:
    fields = {"path": Path.GLOBAL, "transfer": Transfer.READ, "footprint": 1 << 20, "blocks": 1}
    with pytest.raises(
        UnsupportedWorkload, match="more registers than a thread has in a block of 1024: at most 256 threads"
    ):
        macros(Stream(threads=1024, ilp=32, width=16, **{**fields, "footprint": 1 << 19}))  # type: ignore[arg-type]


def test_shared_memory() -> None:
    check_shared(48 << 10, 48 << 10)
    with pytest.raises(UnsupportedWorkload, match=r"needs 48\.0009"):
        check_shared((48 << 10) + 1, 48 << 10)


@pytest.mark.parametrize(("places", "why"), [(7, "ask for more"), (1 << 31, "ask for less")])
def test_places_of_links(places: int, why: str) -> None:
    wanted = mix(Instruction.LDG, access=Access.RANDOM, footprint=1 << 20)
    _check_room(wanted, 8, 8)
    with pytest.raises(UnsupportedWorkload, match=why):
        _check_room(wanted, places, 8)


def test_exit_codes() -> None:
    assert (UsageError.exit_code, UnsupportedWorkload.exit_code, OutOfMemory.exit_code, DeviceError.exit_code) == (
        2,
        2,
        2,
        3,
    )
    assert issubclass(OutOfMemory, UnsupportedWorkload) and issubclass(UnsupportedWorkload, DeviceError)

"""The machine code of a lap of bulk copies: copy, wait, load of the next link, and their control."""

import pytest

from gpudissect.workload import Path
from tests.sass.test_timed_windows import CONTROL, whole_lap
from tests.support.machine_code import kernels

ARCHS = ["sm_90", "sm_100", "sm_120"]
ARRIVE, COPY, WAIT, LOAD = "SYNCS.ARRIVE.TRANS64", "UBLKCP.S.G", "SYNCS.PHASECHK.TRANS64.TRYWAIT", "LDS.64"
STEPS = (ARRIVE, COPY, WAIT, LOAD)
# Moves of the link for the copy engine, and of the addresses of barrier and buffer, once a lap.
READY = {"R2UR", "ELECT", "PLOP3", "S2UR", "ULEA", "HFMA2"}  # (HFMA2: a constant)
every_arch = pytest.mark.parametrize("arch", ARCHS)


def steps(code):
    return [i for i in code if i.opcode.startswith(STEPS)]


@every_arch
def test_a_lap_is_a_chain_of_copies(arch):
    """Every copy reads where the link of the load before it points."""
    lap = whole_lap(kernels(Path.TMA, arch)["chase_lap"])
    assert lap[-1].opcode == "STS"
    found = steps(lap)
    assert len(found) == 4 * (16 + 1)
    for at in range(0, len(found), 4):
        assert tuple(i.opcode for i in found[at : at + 4]) == STEPS, " | ".join(map(str, found[at : at + 4]))
    for i in lap[:-1]:
        known = i.opcode in STEPS or i.name in CONTROL | READY or i.opcode.startswith("IMAD.MOV")
        assert known, f"{i} does not belong in a lap"
    moves = [i for i in lap if i.name == "R2UR"]
    assert len(moves) == 2 * (16 + 1), "a link has two halves"
    assert lap[-1].registers[-1] == found[-1].registers[0], "the store must wait for the last link"


@every_arch
def test_every_copy_follows_the_link_before(arch):
    lap = whole_lap(kernels(Path.TMA, arch)["chase_lap"])
    link = None
    for i in lap:
        if i.opcode == LOAD:
            link = i.registers[0]
        elif i.name == "R2UR" and link is not None:
            low = int(link[1:])
            assert i.registers[-1] in (f"R{low}", f"R{low + 1}"), f"{i} takes another link than {link}"


@every_arch
def test_a_repeated_wait_does_nothing_else(arch):
    """A wait that timed out is repeated out of line, and returns to where it left."""
    code = kernels(Path.TMA, arch)["chase_lap"]
    last = [at for at, i in enumerate(code) if i.reads_clock][2]
    waits = [at for at, i in enumerate(code[:last]) if i.opcode == WAIT]
    assert len(waits) == 16 + 1
    for at in waits:
        exit_at = next(n for n in range(at + 1, last) if code[n].name == "BRA")
        again = code[exit_at].target
        assert again is not None and again > last and code[exit_at].predicate == "!P0"
        assert (code[again].opcode, code[again].operands) == (WAIT, code[at].operands)
        assert (code[again + 1].target, code[again + 1].predicate) == (again, "!P0")
        assert (code[again + 2].target, code[again + 2].predicate) == (exit_at + 1, "")


@every_arch
def test_nothing_else_is_read_through_the_l1(arch):
    code = kernels(Path.TMA, arch)["chase_lap"]
    assert not any(i.name in ("LDL", "STL", "CALL", "BRX") for i in code), "local memory, or a call"
    assert all(".STRONG.GPU" in i.opcode for i in code if i.name in ("LDG", "LD"))

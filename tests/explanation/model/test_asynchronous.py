"""Asynchronous operations: which groups a warp waits for, and the measured pace of matrix instructions."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpudissect.errors import UsageError
from gpudissect.explanation.model.asynchronous import SYNCHRONOUS, Asynchronous, asynchronous_of
from gpudissect.explanation.model.card import card_of
from gpudissect.explanation.model.costs import SHARED_PIPES, cost_of
from gpudissect.explanation.model.sm.engine import Work, run
from gpudissect.machine_code import units
from gpudissect.machine_code.instructions import Instruction
from gpudissect.results.files import load as load_result
from tests.explanation.model.sm.test_engine import SM, load, step

CARD = card_of(load_result(Path("docs/results/h200.json")))
FENCE, WAIT = step(pipe="issue", stall=6), step(pipe="issue", stall=2, asynchronous=Asynchronous(None, 6, 0))


def instruction(text, barrier=None):
    mnemonic, _, operands = text.partition(" ")
    opcode, *modifiers = mnemonic.split(".")
    names = tuple(operands.split(", ")) if operands else ()
    return Instruction(0, opcode, tuple(modifiers), "", names, (0, 0), 1, barrier, None, 0, 0)


def groups(*texts):
    return asynchronous_of(
        tuple(instruction(*each) if isinstance(each, tuple) else instruction(each) for each in texts)
    )


def matrix(text, *, is_last=True):
    each = instruction(text)
    cost = cost_of(each, units.use(each, 90), CARD)
    return step(
        pipe="issue",
        kind="matrix",
        shared_pipe=cost.pipe,
        shared_interval=cost.interval,
        latency=cost.latency,
        operand_interval=cost.operands,
        asynchronous=Asynchronous(1, 6 if is_last else None, None),
    )


def test_groups_of_copies_are_counted_by_the_barrier_that_is_waited_for():
    found = groups(
        "LDGSTS.E.BYPASS.128 [R1], desc[UR4][R2.64]", ("LDGDEPBAR", 0), ("LDG.E R4, [R2]", 1), "DEPBAR.LE SB0, 0x3"
    )
    assert found == (Asynchronous(0, None, None), Asynchronous(0, 0, None), SYNCHRONOUS, Asynchronous(None, 0, 3))


def test_the_last_matrix_instruction_ends_a_group():
    shape = "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24"
    found = groups(shape, f"{shape}, gsb0", "WARPGROUP.DEPBAR.LE gsb0, 0x1")
    assert found == (Asynchronous(1, None, None), Asynchronous(1, 6, None), Asynchronous(None, 6, 1))


def test_a_fence_of_the_gpu_waits_for_copies_and_one_of_the_block_does_not():
    of_gpu = groups("MEMBAR.ALL.GPU", ("FENCE.VIEW.ASYNC.S", 1))
    assert [each.queue for each in of_gpu] == [0, 0]
    assert groups("MEMBAR.ALL.CTA", ("FENCE.VIEW.ASYNC.S", 1)) == (SYNCHRONOUS, SYNCHRONOUS)
    assert groups("MEMBAR.SC.GPU", "EXIT") == (SYNCHRONOUS, SYNCHRONOUS)


@pytest.mark.parametrize(("pending", "latencies"), [(0, 10), (1, 5), (3, 3)])
def test_a_warp_waits_for_all_but_the_last_groups_of_copies(pending, latencies):
    """Ten turns with loads of 281 cycles: with one that may be pending, two overlap."""
    copy = replace(load("l2"), sets=None, asynchronous=Asynchronous(0, None, None))
    commit = step(asynchronous=Asynchronous(0, 0, None))
    wait = step(asynchronous=Asynchronous(None, 0, pending))
    path = np.tile([0, 1, 2], 10)
    cycles = run(SM, Work((copy, commit, wait), (path,), 1, 1, 1)).cycles
    assert cycles == pytest.approx(latencies * 281, rel=0.06)


def test_a_block_ends_after_its_copies():
    copy = replace(load("dram"), sets=None, asynchronous=Asynchronous(0, None, None))
    assert run(SM, Work((copy,), (np.zeros(1, dtype=np.int64),), 1, 1, 1)).cycles >= 668


@pytest.mark.parametrize(
    ("text", "count", "warpgroups", "measured"),
    [
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24", 1, 1, 66.1),
        ("HGMMA.64x8x16.F32 R24, gdesc[UR4], R24", 16, 2, 588.7),
        ("HGMMA.64x32x16.F32 R24, R60, gdesc[UR4], R24", 16, 2, 515.9),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", 1, 1, 96.0),
        ("HGMMA.64x64x16.F32 R24, gdesc[UR4], R24", 16, 1, 576.0),
        ("HGMMA.64x64x8.F32.TF32 R24, gdesc[UR4], R24", 16, 2, 1040.5),
        ("HGMMA.64x128x16.F32 R24, R60, gdesc[UR4], R24", 1, 1, 121.4),
        ("HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24", 4, 3, 1550.9),
        ("QGMMA.64x256x32.F32.E4M3.E4M3 R24, gdesc[UR4], R24", 16, 1, 2121.4),
        ("IGMMA.64x16x32.S8.S8 R24, gdesc[UR4], R24", 16, 4, 1291.6),
    ],
)
def test_groups_of_matrix_instructions_take_as_long_as_on_an_h200(text, count, warpgroups, measured):
    """Cycles from a fence over a group to the end of the wait, by microbenchmarks; N < 64 is bound by shared memory."""
    steps = (FENCE, matrix(text, is_last=False), matrix(text), WAIT)
    path = np.tile([0, *[1] * (count - 1), 2, 3], 64)
    sm = replace(SM, shared_pipes=SHARED_PIPES)
    found = run(sm, Work(steps, (path,), 4 * warpgroups, 1, 1))
    assert found.cycles / 64 == pytest.approx(measured, rel=0.06)
    assert found.busy["tensor"] == pytest.approx(64 * count * 4 * warpgroups * steps[1].shared_interval)


def test_loads_and_stores_take_the_shared_memory_from_operands():
    """Two warpgroups of 64x128 keep shared memory busy for 48 of 64 cycles, stores of as many warps for 32 more."""
    store = step(pipe="issue", shared_pipe="lsu", shared_interval=4.0)
    text = "HGMMA.64x128x16.F32 R24, gdesc[UR4], R24"
    alone, both = ((matrix(text), WAIT), (matrix(text), store, WAIT))
    sm = replace(SM, shared_pipes=SHARED_PIPES)
    cycles = [run(sm, Work(steps, (np.tile(range(len(steps)), 200),), 8, 1, 1)).cycles for steps in (alone, both)]
    assert cycles[0] / 400 == pytest.approx(64, rel=0.02)
    assert cycles[1] / 400 == pytest.approx(48 + 16, rel=0.05)


@pytest.mark.parametrize("name", ["HGMMA.SP.64x64x32.F32", "BGMMA.64x64x256", "UBLKCP.G.S", "UTMALDG.2D"])
def test_what_was_not_measured_is_refused_by_name(name):
    with pytest.raises(UsageError, match=name.partition(".")[0]):
        matrix(name)

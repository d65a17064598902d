"""Turns before a chase: where their rings lie, and that they are taken in order, on the board of host memory."""

from __future__ import annotations

import pytest

from gpudissect.device.cuda.chase.runner import Crowded
from gpudissect.errors import DeviceError, KernelFailed, WorkloadError
from gpudissect.workload import Chase, Path, PriorAccesses, Sequential, Shuffled, Timing
from tests.device.test_cuda_runner import run
from tests.support.fake_board import FakeBoard

MINE, OTHERS = Shuffled(20, 32, seed=1), Sequential(30, 32, start=4096)
CACHED = [Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT]


def chase(path: Path, *before: PriorAccesses, timing: Timing = Timing.EACH) -> Chase:
    return Chase(path=path, order=MINE, timing=timing, warmup=0, before=before)


@pytest.mark.parametrize("path", CACHED)
@pytest.mark.parametrize("other", CACHED)
def test_turns_of_any_path_leave_the_chase_as_it_is(path: Path, other: Path) -> None:
    board = FakeBoard()
    before = (PriorAccesses(path=path, order=MINE, laps=2), PriorAccesses(path=other, order=OTHERS, laps=3, warp=2))
    (trace,) = run([chase(path, *before)], board)
    assert trace.offsets.tolist() == MINE.offsets().tolist()
    assert [accesses for _, accesses in board.turns] == [40, 90]
    assert board.threads == [96]


def test_one_ring_through_two_paths_is_laid_once() -> None:
    (trace,) = run([chase(Path.GLOBAL, PriorAccesses(path=Path.READONLY, order=MINE))])
    assert trace.offsets.tolist() == MINE.offsets().tolist()


def test_a_turn_on_another_sm_has_a_block_of_its_own() -> None:
    board = FakeBoard()
    (trace,) = run([chase(Path.GLOBAL, PriorAccesses(path=Path.GLOBAL, order=OTHERS, sm=2))], board)
    assert trace.context.sm == 0
    assert board.threads == [32]
    assert trace.context.notes["prior_access_sms"] == "2"
    board.sms = lambda block: 5
    with pytest.raises(Crowded):
        run([chase(Path.GLOBAL, PriorAccesses(path=Path.GLOBAL, order=OTHERS, sm=1))], board)
    assert board.launches.count("chase_each") == 1 + 3


def test_chases_with_turns_run_by_themselves() -> None:
    board = FakeBoard()
    alike = [chase(Path.GLOBAL, PriorAccesses(path=Path.GLOBAL, order=OTHERS)) for _ in range(3)]
    run([*alike, Chase(path=Path.GLOBAL, order=MINE, timing=Timing.EACH)], board)
    assert board.launches.count("chase_each") == 4


def test_rings_over_one_word_are_refused() -> None:
    texels = PriorAccesses(path=Path.TEXTURE, order=MINE)
    with pytest.raises(WorkloadError, match="same word"):
        chase(Path.GLOBAL, texels)
    beside = PriorAccesses(path=Path.TEXTURE, order=Shuffled(20, 32, seed=1, start=8))
    (trace,) = run([chase(Path.GLOBAL, beside)])
    assert trace.cycles.size == 20


def test_an_sm_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match="there is no SM 4"):
        run([chase(Path.GLOBAL, PriorAccesses(path=Path.GLOBAL, order=OTHERS, sm=4))])


@pytest.mark.parametrize("timing", [Timing.EACH, Timing.LAP])
def test_a_turn_of_code_lays_no_ring_and_leaves_the_chase_as_it_is(timing: Timing) -> None:
    board = FakeBoard()
    before = (
        PriorAccesses(path=Path.CONSTANT, order=MINE),
        PriorAccesses(path=Path.CODE, order=Sequential(16, 128), laps=3, warp=1),
    )
    (trace,) = run([chase(Path.CONSTANT, *before, timing=timing)], board)
    assert board.turns == [("PATH_CONSTANT", 20), ("PATH_CODE", 48)]
    assert trace.cycles.size == (20 if timing is Timing.EACH else 1)
    (macros,) = board.loaded - {"", "PATH_CONSTANTTURNS"}
    assert macros == f"PATH_CONSTANTTURNSCODE_TURNSTIMING_{timing.upper()}"


def test_nobody_shares_shared_memory() -> None:
    with pytest.raises(WorkloadError, match="no cache"):
        chase(Path.SHARED, PriorAccesses(path=Path.GLOBAL, order=OTHERS))


def test_a_turn_that_goes_astray_is_an_error() -> None:
    class Astray(FakeBoard):
        def _take_turn(self, turn, texture):
            super()._take_turn(turn, texture)
            turn["broken"] = 1

    with pytest.raises(KernelFailed, match="turn before a chase"):
        run([chase(Path.GLOBAL, PriorAccesses(path=Path.GLOBAL, order=OTHERS))], Astray())

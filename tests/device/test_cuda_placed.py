"""A chase that must run on a certain SM: blocks for every SM, one of which works, on the board of host memory."""

from __future__ import annotations

import numpy as np
import pytest

from gpudissect.device.cuda.chase.layout import REPORT
from gpudissect.device.cuda.chase.plan import MOST_BLOCKS, crowd, plan
from gpudissect.errors import DeviceError, KernelFailed
from gpudissect.workload import Chase, Path, Sequential, Shuffled, Timing
from tests.device.test_cuda_runner import RINGED, machine, positions, run
from tests.support.fake_board import BASE, FakeBoard

RING = Shuffled(20, 32, seed=1)


def chase(sm: int, path: Path = Path.GLOBAL_L2, **changed) -> Chase:
    return Chase(path=path, order=RING, timing=Timing.EACH, sm=sm, **changed)


@pytest.mark.parametrize("path", [path for path in [*RINGED, Path.NOTHING] if path is not Path.CLUSTER])
def test_it_runs_there_and_once(path: Path) -> None:
    board = FakeBoard()
    board.sms = lambda block: (3 * block + 1) % 4
    wanted = [chase(sm, path, alone=True, warmup=2, laps=3) for sm in (2, 0, 3, 1)]
    traces = run(list(wanted), board)
    assert [trace.context.sm for trace in traces] == [2, 0, 3, 1]
    assert board.launches.count("chase_each") == 4
    for trace in traces:
        assert np.array_equal(trace.offsets, np.tile(RING.offsets(), 3))
        assert np.array_equal(trace.cycles, 30 + positions(wanted[0]) % 1000)


def test_lone_chases_on_different_sms_visit_the_same_memory() -> None:
    launches = plan([chase(sm, alone=True) for sm in range(4)], machine())
    assert [launch.sm for launch in launches] == [0, 1, 2, 3]
    assert {launch.members[0].region for launch in launches} == {0}
    assert len({(launch.blocks, launch.shared) for launch in launches}) == 1


def test_every_sm_must_get_a_block() -> None:
    """One block an SM where shared memory lets there be one; else as many as fit."""
    assert crowd(227 << 10, machine(shared_per_sm=228 << 10)) == 4
    assert crowd(48 << 10, machine(shared_per_sm=96 << 10)) == 8
    assert crowd(16, machine()) == 4 * MOST_BLOCKS
    (launch,) = plan([chase(1)], machine())
    assert launch.shared == 49152 and launch.blocks == 4
    (plain,) = plan([Chase(path=Path.GLOBAL_L2, order=RING, timing=Timing.EACH)], machine())
    assert plain.shared < launch.shared and plain.blocks == 1 and plain.sm is None


def test_two_blocks_on_the_wanted_sm_do_not_both_run() -> None:
    board = FakeBoard()
    board.sms = lambda block: 2 if block else 1
    ran = []
    board.tamper = lambda board: ran.append(board.results)
    (trace,) = run([chase(2)], board)
    assert trace.context.sm == 2 and len(ran) == 1


def test_windows_stay_on_the_sm() -> None:
    board = FakeBoard()
    (trace,) = run([chase(3, Path.GLOBAL, laps=2)], board, shared_free=88)
    assert trace.context.notes["windows"] == "4" and trace.context.sm == 3
    assert board.launches.count("chase_each") == 4


def test_it_shares_its_launch_with_nobody() -> None:
    board = FakeBoard()
    plain = Chase(path=Path.GLOBAL_L2, order=RING, timing=Timing.EACH)
    run([plain, chase(1), plain, chase(1)], board)
    assert board.launches.count("chase_each") == 3


def test_an_sm_that_is_not_there_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"has 4 SMs: there is no SM 4$"):
        run([chase(4)])


def test_an_sm_that_no_block_comes_to_is_an_error() -> None:
    """Numbers of SMs may have gaps."""
    board = FakeBoard()
    board.sms = lambda block: block + 1
    with pytest.raises(DeviceError, match="no block came to SM 0"):
        run([chase(0)], board)
    (trace,) = run([chase(1)], board)
    assert trace.context.sm == 1


def test_a_report_of_another_sm_is_not_believed() -> None:
    def spoil(board: FakeBoard) -> None:
        at = board.results - BASE
        board.memory[at : at + REPORT.itemsize].view(REPORT)["sm"] = 0

    board = FakeBoard()
    board.tamper = spoil
    with pytest.raises(KernelFailed, match="meant for SM 3 ran on SM 0"):
        run([chase(3)], board)


def test_timings_and_flush_are_as_ever() -> None:
    board = FakeBoard()
    (lap,) = run([Chase(path=Path.GLOBAL_L2, order=Sequential(11, 8), timing=Timing.LAP, laps=3, flush=True, sm=1)], board)  # fmt: skip  # noqa: E501
    assert lap.cycles.size == 3
    assert board.launches == ["lay", "sweep", "chase_lap"]

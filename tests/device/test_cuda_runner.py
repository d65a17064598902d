"""The host side of a launch, on a board that does in Python what the kernels do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.arena import Arena
from gpudissect.device.cuda.chase.layout import CODE_BODY, REPORT
from gpudissect.device.cuda.chase.plan import Machine, plan
from gpudissect.device.cuda.chase.runner import Crowded, Runner
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory
from gpudissect.trace import Trace
from gpudissect.workload import (
    Bounds,
    Chase,
    Explicit,
    Path,
    PriorAccesses,
    Sequential,
    Shuffled,
    Stream,
    Timing,
    Workload,
)
from gpudissect.workload.digest import digest
from gpudissect.workload.stream import Transfer
from tests.support.fake_board import BASE, FakeBoard, FakeCompiler

EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT
# bulk copies and code are timed in laps only
RINGED = [path for path in Path if path not in (Path.NOTHING, Path.TMA, Path.CODE)]


def machine(**changed: Any) -> Machine:
    small = {Path.CONSTANT: 65536, Path.SHARED: 40000, Path.CLUSTER: 40000}
    limits = {path: 1 << 24 for path in Path} | small | changed.pop("limits", {})
    limits = {path: limit for path, limit in limits.items() if path not in changed.get("unsupported", {})}
    known = {"sm_count": 4, "shared_largest": 49152, "shared_per_sm": 65536, "shared_free": 1024, "cluster": 4}
    known |= changed
    return Machine(limits=limits, **known)


def run(batch: list[Workload], board: FakeBoard | None = None, **changed: Any) -> list[Trace]:
    board = board or FakeBoard()
    runner = Runner(board, FakeCompiler(), Arena(board, 1 << 25), name="fake", l2=1 << 20, texture_limit=1 << 25)  # type: ignore[arg-type]
    traces: dict[int, Trace] = {}
    for launch in plan(batch, machine(**changed)):
        traces |= runner.run(launch)
    return [traces[index] for index in range(len(batch))]


def positions(chase: Chase) -> np.ndarray:
    """Accesses since the start of the chase, of every record."""
    count = chase.order.count
    lap = np.arange(count) if chase.picks is None else np.array(chase.picks)
    return np.concatenate([(chase.warmup + number) * count + lap for number in range(chase.laps)])


@pytest.mark.parametrize("path", RINGED)
@pytest.mark.parametrize("order", [
    Sequential(17, 64), Shuffled(50, 24, seed=3, start=8), Explicit(np.array([0, 512, 64, 8, 4096])), Sequential(1, 8),
], ids=["sequential", "shuffled", "explicit", "lone"])  # fmt: skip
def test_each_gives_offsets_and_cycles(path: Path, order: Sequential | Shuffled | Explicit) -> None:
    chase = Chase(path=path, order=order, timing=EACH, warmup=2, laps=3)
    (trace,) = run([chase])
    assert np.array_equal(trace.offsets, np.tile(order.offsets(), 3))
    assert np.array_equal(trace.cycles, 30 + positions(chase) % 1000)
    assert trace.workload == digest(chase)
    assert trace.context.clock_hz == pytest.approx(1.98e9)
    assert trace.context.sm == 0


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.TEXTURE, Path.SHARED])
def test_picks_are_reported_alone(path: Path) -> None:
    chase = Chase(path=path, order=Shuffled(40, 16, seed=9), timing=EACH, warmup=1, laps=2, picks=(0, 7, 39))
    (trace,) = run([chase])
    assert np.array_equal(trace.offsets, np.tile(chase.order.offsets()[[0, 7, 39]], 2))
    assert np.array_equal(trace.cycles, 30 + positions(chase) % 1000)


@pytest.mark.parametrize("picks", [None, (1, 5, 6, 30)])
def test_windows_join_to_one_trace(picks: tuple[int, ...] | None) -> None:
    chase = Chase(path=Path.GLOBAL, order=Sequential(37, 32), timing=EACH, warmup=1, laps=5, picks=picks)
    board = FakeBoard()
    (trace,) = run([chase], board, shared_free=88)  # ten slots and the spare one
    assert np.array_equal(trace.cycles, 30 + positions(chase) % 1000)
    windows = -(-len(trace.cycles) // 10)
    assert board.launches.count("chase_each") == windows
    assert trace.context.notes["windows"] == str(windows)
    assert set(board.shared_asked) == {88}


def test_shorter_members_idle_in_later_windows() -> None:
    short, long = (Chase(path=Path.GLOBAL, order=Sequential(count, 32), timing=EACH) for count in (4, 25))
    first, second = run([short, long], shared_free=88)
    assert len(first.cycles) == 4 and len(second.cycles) == 25
    assert "windows" not in first.context.notes and second.context.notes["windows"] == "3"


def test_lap_and_count() -> None:
    bounds = Bounds(hit_max=50, miss_min=100, miss_max=900)
    lap, count = run([
        Chase(path=Path.GLOBAL_L2, order=Sequential(11, 8), timing=LAP, warmup=1, laps=3),
        Chase(path=Path.GLOBAL_L2, order=Sequential(11, 8), timing=COUNT, warmup=1, laps=2, bounds=bounds),
    ])  # fmt: skip
    assert lap.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]  # needs all 64 bits
    assert count.counts.tolist() == [[5, 1, 5], [5, 2, 4]]


def test_nothing_is_timed_without_a_ring() -> None:
    board = FakeBoard()
    chase = Chase(path=Path.NOTHING, order=Sequential(16, 8), timing=EACH, picks=(2, 3))
    each, lap = run([chase, Chase(path=Path.NOTHING, order=Sequential(16, 8), timing=LAP)], board)
    assert each.offsets.tolist() == [16, 24] and len(each.cycles) == 2
    assert len(lap.cycles) == 1
    assert "lay" not in board.launches


def test_code_runs_without_a_ring_and_in_company() -> None:
    board = FakeBoard()
    chases = [Chase(path=Path.CODE, order=Sequential(8 * n, 128), timing=LAP, warmup=2, laps=3) for n in (1, 4, 2)]
    traces = run([*chases, replace(chases[0], alone=True)], board)
    assert [trace.cycles.tolist() for trace in traces] == [[2**33 + 2, 2**33 + 3, 2**33 + 4]] * 4
    assert board.launches == ["chase_lap"] * 2
    assert [trace.workload for trace in traces[:3]] == [digest(chase) for chase in chases]


def test_more_code_than_there_is_is_refused() -> None:
    with pytest.raises(OutOfMemory, match="513 KiB on path code: this device has 512 KiB"):
        run([Chase(path=Path.CODE, order=Sequential(8 * 513, 128), timing=LAP)], limits={Path.CODE: CODE_BODY})


@pytest.mark.parametrize("path", [Path.CODE, Path.CONSTANT])
def test_a_gpu_without_such_code_says_why(path: Path) -> None:
    code = Chase(path=Path.CODE, order=Sequential(8, 128), timing=LAP)
    turn = PriorAccesses(path=Path.CODE, order=code.order)
    chase = code if path is Path.CODE else Chase(path=path, order=Sequential(8, 64), timing=LAP, before=(turn,))
    with pytest.raises(DeviceError, match="no path 'code': too old"):
        run([chase], unsupported={Path.CODE: "too old"})


def test_a_batch_shares_launches_but_not_when_alone() -> None:
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=LAP, alone=n > 5) for n in range(1, 8)]
    board = FakeBoard()
    traces = run(list(chases), board)
    assert board.launches.count("chase_lap") == 2 + 2  # five on four SMs, two alone
    assert [trace.context.sm for trace in traces] == [0, 1, 2, 3, 0, 0, 0]


def test_constant_rings_share_a_bank_only_if_equal() -> None:
    ring, other = Sequential(8, 64), Sequential(9, 64)
    chases = [
        Chase(path=Path.CONSTANT, order=o, timing=EACH, repetition=r) for o, r in [(ring, 0), (other, 0), (ring, 1)]
    ]
    board = FakeBoard()
    traces = run(list(chases), board)
    assert board.launches.count("chase_each") == 2
    assert [len(trace.cycles) for trace in traces] == [8, 9, 8]


@pytest.mark.parametrize(("path", "carveout", "shared"), [
    (Path.GLOBAL, None, 1024), (Path.TEXTURE, 0, 1024), (Path.READONLY, 1, 1024), (Path.GLOBAL, 50, 65536 // 2 - 16384),
    (Path.GLOBAL, 100, 49152), (Path.GLOBAL_L2, None, 16), (Path.NOTHING, None, 16), (Path.SHARED, None, 4 * 64 + 16),
])  # fmt: skip
def test_what_is_asked_of_shared_memory(path: Path, carveout: int | None, shared: int) -> None:
    """Through the L1 always all that the carve-out offers; elsewhere what is needed."""
    board = FakeBoard()
    run([Chase(path=path, order=Sequential(4, 64), timing=LAP, carveout=carveout)], board)
    assert board.shared_asked == [shared]


def test_a_cluster_works_for_one_chase() -> None:
    board = FakeBoard()
    chases = [Chase(path=Path.CLUSTER, order=Sequential(8, 16), timing=LAP, laps=2, peer=peer) for peer in (1, 3, 0)]
    traces = run(list(chases), board)
    assert board.launches.count("chase_lap") == 3
    assert [trace.context.notes["peer_sm"] for trace in traces] == ["1", "3", "0"]
    assert {trace.context.notes["cluster_size"] for trace in traces} == {"4"}
    assert {trace.context.sm for trace in traces} == {0}
    assert set(board.shared_asked) == {49152}, "no two blocks may fit onto one SM"


def test_a_block_of_a_cluster_on_the_same_sm_is_no_answer() -> None:
    board = FakeBoard()
    board.sms = lambda block: 5
    run([Chase(path=Path.CLUSTER, order=Sequential(8, 16), timing=LAP, peer=0)], board)
    with pytest.raises(Crowded, match="ran on one"):
        run([Chase(path=Path.CLUSTER, order=Sequential(8, 16), timing=LAP)], board)


def test_bulk_copies_have_room_for_what_they_bring() -> None:
    board = FakeBoard()
    (trace,) = run([Chase(path=Path.TMA, order=Shuffled(9, 64, seed=2), timing=LAP, laps=3)], board)
    assert trace.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]
    assert board.shared_asked == [32 + 8 * 4]


def test_flush_sweeps_before_every_window() -> None:
    board = FakeBoard()
    run([Chase(path=Path.GLOBAL, order=Sequential(25, 64), timing=EACH, flush=True)], board, shared_free=88)
    assert board.launches == ["lay"] + ["sweep", "chase_each"] * 3


def test_two_blocks_on_one_sm_run_again_and_give_up() -> None:
    board = FakeBoard()
    board.sms = lambda block: 5
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=LAP) for n in (3, 4)]
    with pytest.raises(Crowded, match="ran on one"):
        run(list(chases), board)
    assert board.launches.count("chase_lap") == 3


def test_what_cannot_be_kept_apart_runs_chase_by_chase() -> None:
    board = FakeBoard()
    board.sms = lambda block: 5
    gpu = object.__new__(CudaGpu)
    gpu._compile_ahead = lambda batch: None  # type: ignore[assignment]
    gpu._machine = machine()
    gpu._runner = Runner(board, FakeCompiler(), Arena(board, 1 << 25), name="fake", l2=1 << 20, texture_limit=1 << 25)  # type: ignore[arg-type]
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=EACH) for n in (3, 4)]
    (launch,) = plan(chases, gpu._machine)
    traces = gpu._run(launch, chases)
    assert [len(traces[index].cycles) for index in range(2)] == [3, 4]
    assert board.launches.count("chase_each") == 3 + 2


def test_lone_chases_run_in_their_order_at_the_same_place() -> None:
    """What is touched after a chase must be the lines that the chase was over."""
    orders = [Sequential(9, 64), Sequential(5, 64), Sequential(7, 128)]
    lone = [Chase(path=Path.GLOBAL, order=order, timing=LAP, alone=True) for order in orders]
    mixed = [lone[0], Chase(path=Path.GLOBAL, order=orders[0], timing=LAP), lone[1], lone[2]]
    launches = [launch for launch in plan(mixed, machine()) if launch.members[0].chase.alone]
    assert [launch.members[0].chase for launch in launches] == lone
    assert {launch.members[0].region for launch in launches} == {0}


def test_a_broken_chain_is_an_error() -> None:
    def spoil(board: FakeBoard) -> None:
        board.memory[board.results - BASE + REPORT.itemsize] ^= 8  # the first link recorded

    board = FakeBoard()
    board.tamper = spoil
    with pytest.raises(KernelFailed, match="chain broken"):
        run([Chase(path=Path.GLOBAL, order=Sequential(9, 64), timing=EACH)], board)


@pytest.mark.parametrize(("workload", "error", "message"), [
    (Chase(path=Path.CONSTANT, order=Sequential(2000, 64), timing=LAP), OutOfMemory, "64 KiB"),
    (Stream(path=Path.GLOBAL, transfer=Transfer.READ, footprint=4, blocks=1, threads=1), DeviceError, "Stream"),
    (Chase(path=Path.CLUSTER, order=Sequential(4, 8), timing=LAP, peer=4), DeviceError, "clusters of 4 .* no rank 4"),
])  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_line(workload: Workload, error: type[DeviceError], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        run([workload])
    assert "\n" not in str(caught.value)


def test_a_path_that_is_not_there_says_why() -> None:
    limits, lacking = {Path.GLOBAL: 1 << 20}, {Path.TMA: "needs compute capability 9"}
    old = Machine(4, limits, shared_largest=49152, shared_per_sm=49152, shared_free=1024, unsupported=lacking)
    with pytest.raises(DeviceError, match="no path 'tma': needs compute capability 9"):
        plan([Chase(path=Path.TMA, order=Sequential(4, 16), timing=LAP)], old)

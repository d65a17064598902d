"""The host side of chases, on a context that does in Python what the kernels do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.chase.plan import plan_launches
from gpudissect.device.cuda.chase.runner import BlocksShareSm
from gpudissect.device.cuda.layout import REPORT
from gpudissect.errors import DeviceError, KernelFailed, WorkloadError
from gpudissect.trace import Trace
from gpudissect.workload import Bounds, Chase, Explicit, Path, PriorAccesses, Sequential, Shuffled, Timing
from gpudissect.workload.digest import digest
from tests.device.test_cuda_chase_plan import limits
from tests.support.fake_context import BASE, FakeContext, chase_runner, fake_gpu

EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT
# bulk copies and code are timed in laps only
CHAINED = [path for path in Path if path not in (Path.NOTHING, Path.TMA, Path.CODE)]
CACHED = [Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT]
CHAIN, OTHER = Shuffled(20, 32, seed=1), Sequential(30, 32, start=4096)
TEN_SLOTS = 88  # bytes of shared memory, with the spare slot


def run(batch: Sequence[Chase], context: FakeContext | None = None, **changed: Any) -> list[Trace]:
    runner = chase_runner(context or FakeContext())
    traces: dict[int, Trace] = {}
    for launch in plan_launches(batch, limits(**changed)):
        traces |= runner.run(launch)
    return [traces[index] for index in range(len(batch))]


def cycles(chase: Chase) -> np.ndarray:
    """Cycles that the fake context gives, by accesses since the start of the chase."""
    count = chase.order.count
    lap = np.arange(count) if chase.picks is None else np.array(chase.picks)
    return 30 + np.concatenate([(chase.warmup + number) * count + lap for number in range(chase.laps)]) % 1000


def prior(path: Path = Path.GLOBAL, order: Any = OTHER, **fields: int) -> PriorAccesses:
    return PriorAccesses(path=path, order=order, **fields)


def after(path: Path, *before: PriorAccesses, timing: Timing = EACH) -> Chase:
    return Chase(path=path, order=CHAIN, timing=timing, warmup=0, before=before)


def on_sm(sm: int, path: Path = Path.GLOBAL_L2, **fields: Any) -> Chase:
    return Chase(path=path, order=CHAIN, timing=EACH, sm=sm, **fields)


@pytest.mark.parametrize("path", CHAINED)
@pytest.mark.parametrize(
    "order",
    [
        Sequential(17, 64),
        Shuffled(50, 24, seed=3, start=8),
        Explicit(np.array([0, 512, 64, 8, 4096])),
        Sequential(1, 8),
    ],
    ids=["sequential", "shuffled", "explicit", "single"],
)
def test_each_returns_offsets_and_cycles(path: Path, order: Sequential | Shuffled | Explicit) -> None:
    chase = Chase(path=path, order=order, timing=EACH, warmup=2, laps=3)
    (trace,) = run([chase])
    assert np.array_equal(trace.offsets, np.tile(order.offsets(), 3))
    assert np.array_equal(trace.cycles, cycles(chase))
    assert trace.workload == digest(chase)
    assert trace.context.clock_hz == pytest.approx(1.98e9)
    assert trace.context.sm == 0


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.TEXTURE, Path.SHARED])
def test_only_picks_are_reported(path: Path) -> None:
    chase = Chase(path=path, order=Shuffled(40, 16, seed=9), timing=EACH, warmup=1, laps=2, picks=(0, 7, 39))
    (trace,) = run([chase])
    assert np.array_equal(trace.offsets, np.tile(chase.order.offsets()[[0, 7, 39]], 2))
    assert np.array_equal(trace.cycles, cycles(chase))


@pytest.mark.parametrize("picks", [None, (1, 5, 6, 30)])
def test_windows_join_to_one_trace(picks: tuple[int, ...] | None) -> None:
    chase = Chase(path=Path.GLOBAL, order=Sequential(37, 32), timing=EACH, warmup=1, laps=5, picks=picks)
    context = FakeContext()
    (trace,) = run([chase], context, shared_beside_l1=TEN_SLOTS)
    assert np.array_equal(trace.cycles, cycles(chase))
    windows = -(-len(trace.cycles) // 10)
    assert context.launches.count("chase_each") == windows
    assert trace.context.notes["windows"] == str(windows)
    assert set(context.shared_requests) == {TEN_SLOTS}


def test_shorter_chases_idle_in_later_windows() -> None:
    short, long = (Chase(path=Path.GLOBAL, order=Sequential(count, 32), timing=EACH) for count in (4, 25))
    first, second = run([short, long], shared_beside_l1=TEN_SLOTS)
    assert len(first.cycles) == 4 and len(second.cycles) == 25
    assert "windows" not in first.context.notes and second.context.notes["windows"] == "3"


def test_lap_and_count() -> None:
    bounds = Bounds(hit_max=50, miss_min=100, miss_max=900)
    chase = Chase(path=Path.GLOBAL_L2, order=Sequential(11, 8), timing=LAP, warmup=1, laps=3)
    lap, count = run([chase, replace(chase, timing=COUNT, laps=2, bounds=bounds)])
    assert lap.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]  # needs all 64 bits
    assert count.counts.tolist() == [[5, 1, 5], [5, 2, 4]]


def test_no_chain_is_written_on_path_nothing() -> None:
    context = FakeContext()
    chase = Chase(path=Path.NOTHING, order=Sequential(16, 8), timing=EACH, picks=(2, 3))
    each, lap = run([chase, Chase(path=Path.NOTHING, order=Sequential(16, 8), timing=LAP)], context)
    assert each.offsets.tolist() == [16, 24] and len(each.cycles) == 2
    assert len(lap.cycles) == 1
    assert "write_chains" not in context.launches


def test_code_runs_without_a_chain_several_chases_a_launch() -> None:
    context = FakeContext()
    chases = [Chase(path=Path.CODE, order=Sequential(8 * n, 128), timing=LAP, warmup=2, laps=3) for n in (1, 4, 2)]
    traces = run([*chases, replace(chases[0], alone=True)], context)
    assert [trace.cycles.tolist() for trace in traces] == [[2**33 + 2, 2**33 + 3, 2**33 + 4]] * 4
    assert context.launches == ["chase_lap"] * 2
    assert [trace.workload for trace in traces[:3]] == [digest(chase) for chase in chases]


def test_a_batch_shares_launches_except_lone_chases() -> None:
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=LAP, alone=n > 5) for n in range(1, 8)]
    context = FakeContext()
    traces = run(chases, context)
    assert context.launches.count("chase_lap") == 2 + 2  # five on four SMs, two alone
    assert [trace.context.sm for trace in traces] == [0, 1, 2, 3, 0, 0, 0]


def test_constant_chains_share_a_bank_only_if_equal() -> None:
    order, other = Sequential(8, 64), Sequential(9, 64)
    chase = Chase(path=Path.CONSTANT, order=order, timing=EACH)
    context = FakeContext()
    traces = run([chase, replace(chase, order=other), replace(chase, repetition=1)], context)
    assert context.launches.count("chase_each") == 2
    assert [len(trace.cycles) for trace in traces] == [8, 9, 8]


def test_a_cluster_serves_one_chase() -> None:
    context = FakeContext()
    chases = [Chase(path=Path.CLUSTER, order=Sequential(8, 16), timing=LAP, laps=2, peer=peer) for peer in (1, 3, 0)]
    traces = run(chases, context)
    assert context.launches.count("chase_lap") == 3
    assert [trace.context.notes["peer_sm"] for trace in traces] == ["1", "3", "0"]
    assert {trace.context.notes["cluster_size"] for trace in traces} == {"4"}
    assert {trace.context.sm for trace in traces} == {0}
    assert set(context.shared_requests) == {49152}, "no two blocks may fit onto one SM"


def test_bulk_copies_have_room_for_a_copy() -> None:
    context = FakeContext()
    (trace,) = run([Chase(path=Path.TMA, order=Shuffled(9, 64, seed=2), timing=LAP, laps=3)], context)
    assert trace.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]
    assert context.shared_requests == [32 + 8 * 4]


def test_every_window_starts_with_a_flush() -> None:
    context = FakeContext()
    chase = Chase(path=Path.GLOBAL, order=Sequential(25, 64), timing=EACH, flush=True)
    run([chase], context, shared_beside_l1=TEN_SLOTS)
    assert context.launches == ["write_chains"] + ["sweep", "chase_each"] * 3


# ---- blocks that share an SM -----------------------------------------------------------------------------------
def test_blocks_on_one_sm_run_again_up_to_a_limit() -> None:
    context = FakeContext()
    context.sms = lambda block: 5
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=LAP) for n in (3, 4)]
    with pytest.raises(BlocksShareSm):
        run(chases, context)
    assert context.launches.count("chase_lap") == 3


def test_a_peer_on_the_same_sm_is_refused() -> None:
    context = FakeContext()
    context.sms = lambda block: 5
    chase = Chase(path=Path.CLUSTER, order=Sequential(8, 16), timing=LAP)
    run([replace(chase, peer=0)], context)
    with pytest.raises(BlocksShareSm):
        run([chase], context)


def test_chases_that_keep_sharing_an_sm_run_one_by_one() -> None:
    context = FakeContext()
    context.sms = lambda block: 5
    chases = [Chase(path=Path.GLOBAL, order=Sequential(n, 64), timing=EACH) for n in (3, 4)]
    assert [len(trace.cycles) for trace in fake_gpu(context).run(chases)] == [3, 4]
    assert context.launches.count("chase_each") == 3 + 2


# ---- a certain SM ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [path for path in [*CHAINED, Path.NOTHING] if path is not Path.CLUSTER])
def test_a_chase_for_an_sm_runs_there_once(path: Path) -> None:
    context = FakeContext()
    context.sms = lambda block: (3 * block + 1) % 4
    chases = [on_sm(sm, path, alone=True, warmup=2, laps=3) for sm in (2, 0, 3, 1)]
    traces = run(chases, context)
    assert [trace.context.sm for trace in traces] == [2, 0, 3, 1]
    assert context.launches.count("chase_each") == 4
    for trace in traces:
        assert np.array_equal(trace.offsets, np.tile(CHAIN.offsets(), 3))
        assert np.array_equal(trace.cycles, cycles(chases[0]))


def test_of_two_blocks_on_the_sm_only_one_runs() -> None:
    context = FakeContext()
    context.sms = lambda block: 2 if block else 1
    runs = []
    context.tamper = lambda context: runs.append(context.results)
    (trace,) = run([on_sm(2)], context)
    assert trace.context.sm == 2 and len(runs) == 1


def test_windows_stay_on_the_sm() -> None:
    context = FakeContext()
    (trace,) = run([on_sm(3, Path.GLOBAL, laps=2)], context, shared_beside_l1=TEN_SLOTS)
    assert trace.context.notes["windows"] == "4" and trace.context.sm == 3
    assert context.launches.count("chase_each") == 4


def test_a_chase_for_an_sm_shares_no_launch() -> None:
    context = FakeContext()
    plain = replace(on_sm(1), sm=None)
    run([plain, on_sm(1), plain, on_sm(1)], context)
    assert context.launches.count("chase_each") == 3


def test_an_sm_without_a_block_is_an_error() -> None:
    """SM numbers may have gaps."""
    context = FakeContext()
    context.sms = lambda block: block + 1
    with pytest.raises(DeviceError, match="no block came to SM 0"):
        run([on_sm(0)], context)
    (trace,) = run([on_sm(1)], context)
    assert trace.context.sm == 1


def test_a_report_of_another_sm_is_an_error() -> None:
    context = FakeContext()
    context.tamper = lambda context: context.view(context.results, REPORT, 1)["sm"].fill(0)
    with pytest.raises(KernelFailed, match="meant for SM 3 ran on SM 0"):
        run([on_sm(3)], context)


def test_laps_and_flush_on_an_sm() -> None:
    context = FakeContext()
    chase = Chase(path=Path.GLOBAL_L2, order=Sequential(11, 8), timing=LAP, laps=3, flush=True, sm=1)
    assert run([chase], context)[0].cycles.size == 3
    assert context.launches == ["write_chains", "sweep", "chase_lap"]


# ---- accesses before a chase -----------------------------------------------------------------------------------
@pytest.mark.parametrize("path", CACHED)
@pytest.mark.parametrize("other", CACHED)
def test_prior_accesses_on_any_path_leave_the_chase_unchanged(path: Path, other: Path) -> None:
    context = FakeContext()
    (trace,) = run([after(path, prior(path, CHAIN, laps=2), prior(other, laps=3, warp=2))], context)
    assert trace.offsets.tolist() == CHAIN.offsets().tolist()
    assert [accesses for _, accesses in context.prior] == [40, 90]
    assert context.threads == [96]


def test_one_chain_serves_two_paths() -> None:
    (trace,) = run([after(Path.GLOBAL, prior(Path.READONLY, CHAIN))])
    assert trace.offsets.tolist() == CHAIN.offsets().tolist()


def test_prior_accesses_on_another_sm_have_a_block_of_their_own() -> None:
    context = FakeContext()
    (trace,) = run([after(Path.GLOBAL, prior(sm=2))], context)
    assert trace.context.sm == 0
    assert context.threads == [32]
    assert trace.context.notes["prior_access_sms"] == "2"
    context.sms = lambda block: 5
    with pytest.raises(BlocksShareSm):
        run([after(Path.GLOBAL, prior(sm=1))], context)
    assert context.launches.count("chase_each") == 1 + 3


def test_chases_with_prior_accesses_share_no_launch() -> None:
    context = FakeContext()
    run([*[after(Path.GLOBAL, prior())] * 3, after(Path.GLOBAL)], context)
    assert context.launches.count("chase_each") == 4


def test_chains_over_one_word_are_refused() -> None:
    with pytest.raises(WorkloadError):
        after(Path.GLOBAL, prior(Path.TEXTURE, CHAIN))
    (trace,) = run([after(Path.GLOBAL, prior(Path.TEXTURE, replace(CHAIN, start=8)))])
    assert trace.cycles.size == 20


@pytest.mark.parametrize("timing", [EACH, LAP])
def test_prior_code_writes_no_chain_and_leaves_the_chase_unchanged(timing: Timing) -> None:
    context = FakeContext()
    before = (prior(Path.CONSTANT, CHAIN), prior(Path.CODE, Sequential(16, 128), laps=3, warp=1))
    (trace,) = run([after(Path.CONSTANT, *before, timing=timing)], context)
    assert context.prior == [("PATH_CONSTANT", 20), ("PATH_CODE", 48)]
    assert trace.cycles.size == (20 if timing is EACH else 1)
    macros = ("PATH_CONSTANT", "PRIOR", "PRIOR_CODE", f"TIMING_{timing.upper()}")
    assert ("chase.cu", f"chase_{timing}", *macros) in context.kernels


def test_shared_memory_has_no_prior_accesses() -> None:
    with pytest.raises(WorkloadError):
        after(Path.SHARED, prior())


# ---- broken chains ---------------------------------------------------------------------------------------------
def test_a_broken_chain_is_an_error() -> None:
    def tamper(context: FakeContext) -> None:
        context.memory[context.results - BASE + REPORT.itemsize] ^= 8  # the first link recorded

    context = FakeContext()
    context.tamper = tamper
    with pytest.raises(KernelFailed, match="chain broken"):
        run([Chase(path=Path.GLOBAL, order=Sequential(9, 64), timing=EACH)], context)


def test_broken_prior_accesses_are_an_error() -> None:
    class Broken(FakeContext):
        def run_prior(self, prior: Any, texture: int) -> None:
            super().run_prior(prior, texture)
            prior["broken"] = 1

    with pytest.raises(KernelFailed, match="accesses before a chase"):
        run([after(Path.GLOBAL, prior())], Broken())

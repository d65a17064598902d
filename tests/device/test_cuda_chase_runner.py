"""The host side of chases, on a context that does in Python what the kernels do."""

from dataclasses import replace

import numpy as np
import pytest

from gpudissect.device.cuda.chase.plan import plan_launches
from gpudissect.device.cuda.chase.runner import BlocksShareSm
from gpudissect.device.cuda.layout import REPORT
from gpudissect.errors import DeviceError, KernelFailed, WorkloadError
from gpudissect.workload import Bounds, Explicit, Path, PriorAccesses, Sequential, Shuffled
from gpudissect.workload.digest import digest
from tests.device.test_cuda_chase_plan import limits
from tests.support.fake_context import BASE, FakeContext, chase_runner, fake_gpu, run_tasks
from tests.support.workloads import CHAINED, COUNT, EACH, LAP, chase

CACHED = [Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT]
CHAIN, OTHER = Shuffled(20, 32, seed=1), Sequential(30, 32, start=4096)
ORDERS = {
    "sequential": Sequential(17, 64),
    "shuffled": Shuffled(50, 24, seed=3, start=8),
    "explicit": Explicit(np.array([0, 512, 64, 8, 4096])),
    "single": Sequential(1, 8),
}
SMS = limits().sm_count
TEN_SLOTS = 88  # bytes of shared memory, with the spare slot


@pytest.fixture
def context():
    return FakeContext()


def run(batch, context=None, **changed):
    runner, traces = chase_runner(context or FakeContext()), {}
    for launch in plan_launches(batch, limits(**changed)):
        traces |= dict(zip(launch.indices, run_tasks(runner, [launch]), strict=True))
    return [traces[index] for index in range(len(batch))]


def cycles(chase):
    """Cycles that the fake context gives, by accesses since the start of the chase."""
    count = chase.order.count
    lap = np.arange(count) if chase.picks is None else np.array(chase.picks)
    return 30 + np.concatenate([(chase.warmup + number) * count + lap for number in range(chase.laps)]) % 1000


def prior(path=Path.GLOBAL, order=OTHER, **fields):
    return PriorAccesses(path=path, order=order, **fields)


def after(path, *before, timing=EACH):
    return chase(path, CHAIN, timing, warmup=0, before=before)


def on_sm(sm, path=Path.GLOBAL_L2, **fields):
    return chase(path, CHAIN, sm=sm, **fields)


@pytest.mark.parametrize("path", CHAINED)
@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_each_returns_offsets_and_cycles(path, order):
    each = chase(path, order, warmup=2, laps=3)
    (trace,) = run([each])
    assert np.array_equal(trace.offsets, np.tile(order.offsets(), 3))
    assert np.array_equal(trace.cycles, cycles(each))
    assert trace.workload == digest(each)
    assert trace.context.clock_hz == pytest.approx(1.98e9)
    assert trace.context.sm == (None if "windows" in trace.context.notes else 0)


@pytest.mark.parametrize("path", [Path.GLOBAL, Path.TEXTURE, Path.SHARED])
def test_only_picks_are_reported(path):
    picked = chase(path, Shuffled(40, 16, seed=9), laps=2, picks=(0, 7, 39))
    (trace,) = run([picked])
    assert np.array_equal(trace.offsets, np.tile(picked.order.offsets()[[0, 7, 39]], 2))
    assert np.array_equal(trace.cycles, cycles(picked))


@pytest.mark.parametrize("picks", [None, (1, 5, 6, 30)])
def test_windows_join_to_one_trace(context, picks):
    long = chase(Path.GLOBAL, Sequential(37, 32), laps=5, picks=picks)
    (trace,) = run([long], context, shared_beside_l1=TEN_SLOTS)
    assert np.array_equal(trace.cycles, cycles(long))
    windows = -(-len(trace.cycles) // 10)
    assert context.launches.count("chase_each") == -(-windows // SMS)
    assert trace.context.notes["windows"] == str(windows)
    assert set(context.shared_requests) == {TEN_SLOTS}


@pytest.mark.parametrize(("path", "changed"), [(Path.GLOBAL, {"alone": True}), (Path.GLOBAL_L2, {}), (Path.SHARED, {})])
def test_windows_run_one_by_one_where_chases_must_not_run_in_parallel(context, path, changed):
    long = chase(path, Sequential(37, 8), **changed)
    (trace,) = run([long], context, shared_beside_l1=TEN_SLOTS, shared_per_block=37 * 8 * 2)
    assert np.array_equal(trace.cycles, cycles(long))
    assert context.launches.count("chase_each") == int(trace.context.notes.get("windows", 1))


def test_shorter_chases_idle_in_later_windows():
    chases = [chase(Path.GLOBAL, Sequential(count, 32)) for count in (4, 25)]
    short, long = run(chases, shared_beside_l1=TEN_SLOTS)
    assert len(short.cycles) == 4 and len(long.cycles) == 25
    assert "windows" not in short.context.notes and long.context.notes["windows"] == "3"


def test_lap_and_count():
    lap = chase(Path.GLOBAL_L2, Sequential(11, 8), LAP, laps=3)
    count = replace(lap, timing=COUNT, laps=2, bounds=Bounds(hit_max=50, miss_min=100, miss_max=900))
    lap, count = run([lap, count])
    assert lap.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]  # needs all 64 bits
    assert count.counts.tolist() == [[5, 1, 5], [5, 2, 4]]


def test_no_chain_is_written_on_path_nothing(context):
    each = chase(Path.NOTHING, Sequential(16, 8), picks=(2, 3))
    each, lap = run([each, replace(each, timing=LAP, picks=None)], context)
    assert each.offsets.tolist() == [16, 24] and len(each.cycles) == 2
    assert len(lap.cycles) == 1
    assert "write_chains" not in context.launches


def test_code_runs_without_a_chain_several_chases_a_launch(context):
    chases = [chase(Path.CODE, Sequential(8 * n, 128), LAP, warmup=2, laps=3) for n in (1, 4, 2)]
    traces = run([*chases, replace(chases[0], alone=True)], context)
    assert [trace.cycles.tolist() for trace in traces] == [[2**33 + 2, 2**33 + 3, 2**33 + 4]] * 4
    assert context.launches == ["chase_lap"] * 2
    assert [trace.workload for trace in traces[:3]] == [digest(chase) for chase in chases]


def test_a_batch_shares_launches_except_lone_chases(context):
    traces = run([chase(Path.GLOBAL, Sequential(n, 64), LAP, alone=n > 5) for n in range(1, 8)], context)
    assert context.launches.count("chase_lap") == 2 + 2  # five on four SMs, two alone
    assert [trace.context.sm for trace in traces] == [0, 1, 2, 3, 0, 0, 0]


def test_constant_chains_have_words_of_their_own_in_the_bank(context):
    first = chase(Path.CONSTANT, Sequential(8, 64))
    other = replace(first, order=Explicit(np.array([68, 0, 4, 192, 196])), picks=(1, 3))
    traces = run([first, other, replace(first, repetition=1)], context)
    assert context.launches.count("chase_each") == 1
    assert [trace.offsets.tolist() for trace in traces] == [[*range(0, 512, 64)], [0, 192], [*range(0, 512, 64)]]


def test_constant_chains_that_leave_no_words_are_launched_apart(context):
    first = chase(Path.CONSTANT, Sequential(8, 4))
    traces = run([first, replace(first, order=Sequential(9, 64)), replace(first, order=Sequential(2, 24))], context)
    assert context.launches.count("chase_each") == 2
    assert [len(trace.cycles) for trace in traces] == [8, 9, 2]


def test_a_cluster_serves_one_chase(context):
    traces = run([chase(Path.CLUSTER, Sequential(8, 16), LAP, laps=2, peer=peer) for peer in (1, 3, 0)], context)
    assert context.launches.count("chase_lap") == 3
    assert [trace.context.notes["peer_sm"] for trace in traces] == ["1", "3", "0"]
    assert {trace.context.notes["cluster_size"] for trace in traces} == {"4"}
    assert {trace.context.sm for trace in traces} == {0}
    assert set(context.shared_requests) == {49152}, "no two blocks may fit onto one SM"


def test_bulk_copies_have_room_for_a_copy(context):
    (trace,) = run([chase(Path.TMA, Shuffled(9, 64, seed=2), LAP, laps=3)], context)
    assert trace.cycles.tolist() == [2**33 + 1, 2**33 + 2, 2**33 + 3]
    assert context.shared_requests == [32 + 8 * 4]


def test_every_window_starts_with_a_flush(context):
    run([chase(Path.GLOBAL, Sequential(25, 64), flush=True)], context, shared_beside_l1=TEN_SLOTS)
    assert context.launches == ["write_chains"] + ["sweep", "empty", "chase_each"] * 3


@pytest.mark.parametrize("carveout", [None, 0, 49, 50, 100])
@pytest.mark.parametrize("path", [Path.GLOBAL, Path.READONLY, Path.TEXTURE, Path.PEER_L1])
def test_another_carveout_before_every_run_frees_the_l1(path, carveout):
    context = FakeContext()
    run([chase(path, Sequential(25, 64), carveout=carveout)], context, shared_beside_l1=TEN_SLOTS)
    assert context.launches[-2:] == ["empty", "chase_each"]
    assert context.launches.count("empty") == context.launches.count("chase_each")
    before, after = (
        [each for each in context.kernels.values() if each.name == name] for name in ("empty", "chase_each")
    )
    assert abs(before[0].carveout - after[0].carveout) >= 50


@pytest.mark.parametrize("path", [Path.GLOBAL_L2, Path.CONSTANT, Path.SHARED])
def test_chases_beside_the_l1_leave_it(context, path):
    run([chase(path, Sequential(25, 64))], context)
    assert "empty" not in context.launches


# ---- blocks that share an SM -----------------------------------------------------------------------------------
def test_blocks_on_one_sm_run_again_up_to_a_limit(context):
    context.sms = lambda block: 5
    with pytest.raises(BlocksShareSm):
        run([chase(Path.GLOBAL, Sequential(n, 64), LAP) for n in (3, 4)], context)
    assert context.launches.count("chase_lap") == 3


def test_a_peer_on_the_same_sm_is_refused(context):
    context.sms = lambda block: 5
    far = chase(Path.CLUSTER, Sequential(8, 16), LAP)
    run([replace(far, peer=0)], context)
    with pytest.raises(BlocksShareSm):
        run([far], context)


@pytest.mark.parametrize("records", [(5000,), (5000, 6000)])
def test_windows_that_keep_sharing_an_sm_run_one_by_one(context, records):
    context.sms = lambda block: 5
    traces = fake_gpu(context).run([chase(Path.GLOBAL, Sequential(n, 64)) for n in records])
    assert [len(trace.cycles) for trace in traces] == [*records]
    assert {trace.context.sm for trace in traces} == {5}


def test_chases_that_keep_sharing_an_sm_run_one_by_one(context):
    context.sms = lambda block: 5
    traces = fake_gpu(context).run([chase(Path.GLOBAL, Sequential(n, 64)) for n in (3, 4)])
    assert [len(trace.cycles) for trace in traces] == [3, 4]
    assert context.launches.count("chase_each") == 3 + 2


# ---- a certain SM ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize("path", [path for path in [*CHAINED, Path.NOTHING] if path is not Path.CLUSTER])
def test_a_chase_for_an_sm_runs_there_once(context, path):
    context.sms = lambda block: (3 * block + 1) % 4
    chases = [on_sm(sm, path, alone=True, warmup=2, laps=3) for sm in (2, 0, 3, 1)]
    traces = run(chases, context)
    assert [trace.context.sm for trace in traces] == [2, 0, 3, 1]
    assert context.launches.count("chase_each") == 4
    for trace in traces:
        assert np.array_equal(trace.offsets, np.tile(CHAIN.offsets(), 3))
        assert np.array_equal(trace.cycles, cycles(chases[0]))


def test_prior_accesses_run_on_the_required_sm(context):
    (trace,) = run([replace(on_sm(2, warmup=0), before=(prior(Path.GLOBAL_L2, threads=30),))], context)
    assert trace.context.sm == 2 and trace.context.notes["prior_access_sms"] == "2"
    assert context.kernels and ("PATH_GLOBAL_L2", "PRIOR", "ON_SM") in {
        kernel.macros for kernel in context.kernels.values()
    }


def test_prior_accesses_on_other_sms_are_numbered_from_the_required_one(context):
    before = (prior(Path.GLOBAL_L2), prior(Path.GLOBAL_L2, sm=1), prior(Path.GLOBAL_L2, sm=3))
    (trace,) = run([replace(on_sm(2, warmup=0), before=before)], context)
    assert trace.context.sm == 2 and trace.context.notes["prior_access_sms"] == "2 3 1"  # of four


def test_prior_accesses_on_an_sm_without_a_block_are_an_error():
    class Lost(FakeContext):
        def run_prior(self, prior, texture):
            super().run_prior(prior, texture)
            prior["done"] = int(prior["sm"]) != 3

    with pytest.raises(DeviceError, match="no block came to SM 3"):
        run([replace(on_sm(2, warmup=0), before=(prior(Path.GLOBAL_L2, sm=1),))], Lost())


def test_of_two_blocks_on_the_sm_only_one_runs(context):
    context.sms, runs = lambda block: 2 if block else 1, []
    context.tamper = lambda context: runs.append(context.results)
    (trace,) = run([on_sm(2)], context)
    assert trace.context.sm == 2 and len(runs) == 1


def test_windows_stay_on_the_sm(context):
    (trace,) = run([on_sm(3, Path.GLOBAL, laps=2)], context, shared_beside_l1=TEN_SLOTS)
    assert trace.context.notes["windows"] == "4" and trace.context.sm == 3
    assert context.launches.count("chase_each") == 4


def test_an_sm_without_a_block_is_an_error(context):
    """SM numbers may have gaps."""
    context.sms = lambda block: block + 1
    with pytest.raises(DeviceError, match="no block came to SM 0"):
        run([on_sm(0)], context)
    (trace,) = run([on_sm(1)], context)
    assert trace.context.sm == 1


def test_a_report_of_another_sm_is_an_error(context):
    context.tamper = lambda context: context.view(context.results, REPORT, 1)["sm"].fill(0)
    with pytest.raises(KernelFailed, match="meant for SM 3 ran on SM 0"):
        run([on_sm(3)], context)


def test_laps_and_flush_on_an_sm(context):
    (trace,) = run([chase(Path.GLOBAL_L2, Sequential(11, 8), LAP, laps=3, flush=True, sm=1)], context)
    assert trace.cycles.size == 3
    assert context.launches == ["write_chains", "sweep", "chase_lap"]


# ---- accesses before a chase -----------------------------------------------------------------------------------
@pytest.mark.parametrize("path", CACHED)
@pytest.mark.parametrize("other", CACHED)
def test_prior_accesses_on_any_path_leave_the_chase_unchanged(context, path, other):
    (trace,) = run([after(path, prior(path, CHAIN, laps=2), prior(other, laps=3, warp=2))], context)
    assert trace.offsets.tolist() == CHAIN.offsets().tolist()
    assert [accesses for _, accesses in context.prior] == [40, 90]
    assert context.threads == [96]


def test_one_chain_serves_two_paths():
    (trace,) = run([after(Path.GLOBAL, prior(Path.READONLY, CHAIN))])
    assert trace.offsets.tolist() == CHAIN.offsets().tolist()


@pytest.mark.parametrize("path", CACHED[:-1])
@pytest.mark.parametrize("order", [OTHER, Explicit(OTHER.offsets()[::-1]), Shuffled(33, 64, seed=4, start=4096)])
def test_threads_share_the_laps_of_prior_accesses(context, path, order):
    before = prior(path, order, threads=7, laps=2), prior(path, order, threads=2)
    (trace,) = run([after(Path.GLOBAL, *before)], context)
    assert np.array_equal(trace.offsets, CHAIN.offsets())
    assert [accesses for _, accesses in context.prior] == [2 * order.count, order.count]
    assert context.launches == ["write_chains", "write_starts", "write_starts", "empty", "chase_each"]
    assert context.threads == [32]


def test_prior_accesses_on_another_sm_have_a_block_of_their_own(context):
    (trace,) = run([after(Path.GLOBAL, prior(sm=2))], context)
    assert trace.context.sm == 0 and trace.context.notes["prior_access_sms"] == "2"
    assert context.threads == [32]
    context.sms = lambda block: 5
    with pytest.raises(BlocksShareSm):
        run([after(Path.GLOBAL, prior(sm=1))], context)
    assert context.launches.count("chase_each") == 1 + 3


@pytest.mark.parametrize("lone", [after(Path.GLOBAL, prior()), on_sm(1)], ids=["prior", "sm"])
def test_chases_that_need_a_launch_of_their_own(context, lone):
    run([lone, after(Path.GLOBAL), lone, after(Path.GLOBAL)], context)
    assert context.launches.count("chase_each") == 3


def test_chains_over_one_word_are_refused():
    with pytest.raises(WorkloadError):
        after(Path.GLOBAL, prior(Path.TEXTURE, CHAIN))
    (trace,) = run([after(Path.GLOBAL, prior(Path.TEXTURE, replace(CHAIN, start=8)))])
    assert trace.cycles.size == 20


@pytest.mark.parametrize("timing", [EACH, LAP])
def test_prior_code_writes_no_chain_and_leaves_the_chase_unchanged(context, timing):
    before = (prior(Path.CONSTANT, CHAIN), prior(Path.CODE, Sequential(16, 128), laps=3, warp=1))
    (trace,) = run([after(Path.CONSTANT, *before, timing=timing)], context)
    assert context.prior == [("PATH_CONSTANT", 20), ("PATH_CODE", 48)]
    assert trace.cycles.size == (20 if timing is EACH else 1)
    macros = ("PATH_CONSTANT", "PRIOR", "PRIOR_CODE", f"TIMING_{timing.upper()}")
    assert ("chase.cu", f"chase_{timing}", *macros) in context.kernels


def test_shared_memory_has_no_prior_accesses():
    with pytest.raises(WorkloadError):
        after(Path.SHARED, prior())


# ---- broken chains ---------------------------------------------------------------------------------------------
def test_a_broken_chain_is_an_error(context):
    def tamper(context):
        context.memory[context.results - BASE + REPORT.itemsize] ^= 8  # the first link recorded

    context.tamper = tamper
    with pytest.raises(KernelFailed, match="chain broken"):
        run([chase(Path.GLOBAL, Sequential(9, 64))], context)


def test_broken_prior_accesses_are_an_error():
    class Broken(FakeContext):
        def run_prior(self, prior, texture):
            super().run_prior(prior, texture)
            prior["broken"] = 1

    with pytest.raises(KernelFailed, match="accesses before a chase"):
        run([after(Path.GLOBAL, prior())], Broken())

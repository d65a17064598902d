"""The engine compared with cases counted by hand and with closed forms."""

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sms import SM

from gpudissect.simulation.sm import _state
from gpudissect.simulation.sm.description import Pipe, Scheduling
from gpudissect.simulation.sm.engine import Cost, Job, Queue, run, run_long

ADD = Cost(Pipe.CORE, 1, 6, core=True)
LOAD = Cost(Pipe.MEMORY, 1, 24)
ACCESS = Cost(Pipe.MEMORY, 1, 368, queue=Queue("dram", 12.3, 3.0))
BARRIER = Cost(Pipe.BARRIER, 1, 30, barrier=True)
STEPS = [ADD, LOAD, BARRIER, replace(ADD, interval=1.5), replace(LOAD, slots=2)]
ONE_SCHEDULER = replace(SM, schedulers=1)


def rate(cost, warps, iterations=200, chains=1, **changes):
    """Instructions per cycle."""
    end = run(replace(SM, **changes), Job((cost,) * 8, warps, 1, iterations, chains)).end.max()
    return warps * 8 * iterations * chains / end


def test_a_chain_takes_its_latencies():
    result = run(SM, Job((ADD, LOAD, ADD), 1, 1, 10))
    assert (result.begin[0], result.end[0]) == (0, 10 * (6 + 24 + 6))


def test_a_result_may_reach_the_cores_sooner():
    """VV16 s4.7: 24 cycles to the next load, 22 to an add."""
    load = replace(LOAD, latency_to_core=22)
    assert run(SM, Job((load, ADD), 1, 1, 10)).end[0] == 10 * (22 + 6)
    assert run(SM, Job((load,), 1, 1, 10)).end[0] == 10 * 24


@pytest.mark.parametrize("warps", [1, 3, 4, 8, 20, 24, 28, 64])
def test_one_instruction_is_limited_by_latency_or_rate(warps):
    """VV16 s4.2: min(n / latency, rate); the scheduler with most warps decides."""
    fullest = -(-warps // 4)
    assert rate(ADD, warps) == pytest.approx(warps / fullest * min(fullest / 6, 1), rel=0.005)


@pytest.mark.parametrize("warps", [1, 7, 23, 24, 40, 64])
def test_schedulers_with_equal_warps_share_a_pipe_equally(warps):
    assert rate(LOAD, warps) == pytest.approx(min(warps / 24, 1), rel=0.005)


@given(
    schedulers=st.integers(1, 4),
    step=st.integers(1, 2),
    latency=st.integers(4, 60),
    chains=st.integers(1, 4),
    interval=st.integers(1, 12),
    per_scheduler=st.integers(1, 6),
    single=st.booleans(),
)
@settings(max_examples=60)
def test_closed_form_of_any_unit(schedulers, step, latency, chains, interval, per_scheduler, single):
    """Rate = min(warps * chains / latency, units / interval, issue), latencies in whole issue intervals."""
    warps = schedulers * per_scheduler
    whole_latency = -(-latency // step) * step
    units = 1 if single else schedulers
    bound = min(warps * chains / whole_latency, units / interval, schedulers / step, warps / step)
    cost = Cost(Pipe.MEMORY if single else Pipe.CORE, interval, latency)
    measured = rate(cost, warps, 100, chains, schedulers=schedulers, issue_interval=step)
    assert measured <= bound * 1.001  # the last instruction's pipe is busy for longer than its result takes
    assert measured >= bound * (0.97 if bound < warps * chains / whole_latency else 0.9) * (1 - latency / 800)


def test_littles_law():
    """Warps = throughput x latency, whatever the queue does (VV16 s3.1)."""
    access = Cost(Pipe.MEMORY, 1, 400, queue=Queue("dram", 12.0, 3.0))
    result = run(SM, Job((access,), 48, 1, 400), seed=3)
    throughput = 48 * 400 / result.end.max()
    latency = (result.end - result.begin).mean() / 400
    assert throughput * latency == pytest.approx(48, rel=0.01)


def test_fractions_of_a_cycle_add_up():
    """G80: 6 operations a cycle, an instruction every 5 1/3 cycles, issued every second cycle (VV16 table 6.1)."""
    g80 = rate(Cost(Pipe.MEMORY, 32 / 6, 38), 16, schedulers=1, issue_interval=2)
    assert g80 * 32 == pytest.approx(6, rel=0.005)


def test_two_independent_instructions_of_a_warp_are_issued_at_once():
    """Kepler: 48 cores a scheduler; one chain a warp keeps 32 busy, two chains all (VV16 s6.1)."""
    add = Cost(Pipe.CORE, 32 / 48, 9, core=True)
    assert rate(add, 64, issue_width=2, reissue=3) == pytest.approx(4, rel=0.01)
    assert rate(add, 64, chains=2, issue_width=2, reissue=3) == pytest.approx(6, rel=0.01)


def test_a_warp_waits_for_its_next_issue():
    """VV16 listing 3.2: independent adds of one Fermi warp start 6 cycles apart."""
    fermi = rate(Cost(Pipe.CORE, 2, 18), 1, chains=8, schedulers=2, issue_interval=2, reissue=6)
    assert fermi == pytest.approx(1 / 6, rel=0.02)


def test_slots_take_issue_cycles_from_others():
    """VV16 s4.7: an instruction of three issue cycles leaves one in four for the next."""
    result = run(ONE_SCHEDULER, Job((replace(LOAD, slots=3), ADD), 32, 1, 200))
    assert 32 * 400 / result.end.max() == pytest.approx(2 / 4, rel=0.01)


def test_a_barrier_holds_a_block_together():
    together = run(SM, Job((ADD, BARRIER), 8, 8, 10)).end
    assert len(set(together.tolist())) == 1
    alone = run(SM, Job((ADD, BARRIER), 1, 1, 10)).end[0]
    assert together[0] >= alone == 10 * (6 + 30)


def test_the_last_warp_at_the_barrier_decides():
    """Of 8 warps on one scheduler the last arrives 7 cycles after the first, and all go on together."""
    assert run(ONE_SCHEDULER, Job((BARRIER,), 8, 8, 1)).end.tolist() == [37] * 8


def test_a_block_that_ended_is_replaced():
    result = run(SM, Job((ADD,), 4, 2, 10, blocks=6))
    assert result.begin.tolist() == [0] * 4 + [160] * 4 + [320] * 4
    assert result.end.tolist() == [60] * 4 + [220] * 4 + [380] * 4


def test_a_block_waits_for_its_slowest_warp():
    """Five warps on two schedulers: three share one, and the next block starts when they have ended."""
    result = run(replace(SM, schedulers=2), Job((Cost(Pipe.CORE, 4, 4),), 5, 5, 100, blocks=2))
    assert result.begin[5] == result.end[:5].max() + 100


def test_the_oldest_warp_goes_first():
    job = Job((Cost(Pipe.CORE, 1, 2),), 8, 1, 50)
    fair, oldest = (run(replace(ONE_SCHEDULER, scheduling=each), job).end for each in Scheduling)
    assert fair.max() - fair.min() < 10
    assert oldest.min() == 100
    assert oldest.max() == pytest.approx(400, abs=8)


def test_an_unequal_load_shows():
    """VV16 s5.8, fig 5.2: 17 warps of reciprocal roots on four schedulers are 15 % slower than 16."""
    special = Cost(Pipe.SPECIAL, 4, 9)
    assert rate(special, 16) == pytest.approx(1, rel=0.01)
    assert rate(special, 17) == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize("variability", [0.5, 0.75, 1.0, 3.0])
def test_services_have_their_mean(variability):
    access = Cost(Pipe.MEMORY, 1, 10, queue=Queue("dram", 20.0, variability))
    result = run(SM, Job((access,), 64, 1, 256), seed=1)
    assert result.end.max() / (64 * 256) == pytest.approx(20, rel=0.02)


def test_a_single_access_takes_its_latency():
    result = run(SM, Job((ACCESS,), 1, 1, 2000), seed=1)
    assert result.end[0] / 2000 == pytest.approx(368.5, abs=1)  # a scheduler issues at the next whole cycle


def test_a_store_is_done_when_it_was_served():
    store = Cost(Pipe.MEMORY, 1, 400, queue=Queue("dram", 10.0, awaited=False))
    assert run(SM, Job((store,), 1, 1, 100)).end[0] == 1000


def test_only_the_seed_changes_a_run():
    ends = [run(SM, Job((ACCESS,), 32, 4, 100), seed=seed).end for seed in (1, 1, 2)]
    assert np.array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


@pytest.mark.parametrize("warps", [1, 10, 24, 42, 63])
@pytest.mark.parametrize("cost", [ADD, LOAD], ids=["add", "load"])
def test_a_long_job_is_extrapolated(cost, warps):
    job = Job((cost,) * 4, warps, 1, 500)
    assert run_long(SM, job, 4096).end.max() == pytest.approx(run(SM, job).end.max(), rel=0.002)


@given(
    body=st.lists(st.sampled_from([ACCESS, *STEPS]), max_size=3),
    blocks=st.integers(1, 5),
    warps_per_block=st.integers(1, 3),
    chains=st.integers(1, 3),
    step=st.integers(1, 2),
    width=st.integers(1, 17),
    oldest=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_a_pause_changes_nothing(body, blocks, warps_per_block, chains, step, width, oldest):
    """A long random job is paused where a run half as long begins to differ."""
    scheduling = Scheduling.OLDEST if oldest else Scheduling.ROUND_ROBIN
    sm = replace(SM, issue_interval=step, issue_width=width, scheduling=scheduling)
    job = Job((ACCESS, ADD, *body), blocks * warps_per_block, warps_per_block, 100, chains)
    half, whole = (run(sm, replace(job, iterations=count), 5) for count in (16, 32))
    expected = whole.end + np.rint((whole.end - half.end) / 16 * 68).astype(np.int64)
    assert np.array_equal(run_long(sm, job, 1, 5).end, expected)


def test_warps_must_be_whole_blocks():
    with pytest.raises(ValueError, match="no whole number of blocks"):
        run(SM, Job((ADD,), 5, 2, 1))


@given(
    body=st.lists(
        st.sampled_from([ADD, LOAD, BARRIER, replace(ADD, interval=1.5), replace(LOAD, slots=2)]),
        min_size=1,
        max_size=4,
    ),
    repeats=st.integers(1, 3),
    blocks=st.integers(1, 5),
    warps_per_block=st.integers(1, 3),
    chains=st.integers(1, 3),
    step=st.integers(1, 2),
    width=st.integers(1, 2),
    oldest=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_skipped_periods_change_nothing(body, repeats, blocks, warps_per_block, chains, step, width, oldest):
    scheduling = Scheduling.OLDEST if oldest else Scheduling.ROUND_ROBIN
    sm = replace(SM, issue_interval=step, issue_width=width, scheduling=scheduling)
    job = Job(tuple(body) * repeats, blocks * warps_per_block, warps_per_block, 300, chains)
    result = run(sm, job)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_state, "state_size", lambda *sizes: 0)  # no state is compared
        whole = run(sm, job)
    assert np.array_equal(result.begin, whole.begin) and np.array_equal(result.end, whole.end)


def test_periods_are_skipped():
    """Ten million iterations of 16 warps would take seconds."""
    begin = time.process_time()
    end = run(SM, Job((ADD, LOAD), 16, 4, 10**7)).end
    assert end.max() == pytest.approx(10**7 * 30, rel=0.01)
    assert time.process_time() - begin < 1

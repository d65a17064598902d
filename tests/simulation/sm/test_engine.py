"""The engine against cases counted by hand and against closed forms."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.sms import sm

from gpudissect.simulation.sm.description import Pipe, Scheduling
from gpudissect.simulation.sm.engine import Cost, Job, Queue, run, run_long

ADD = Cost(Pipe.CORE, 1, 6, core=True)
LOAD = Cost(Pipe.MEMORY, 1, 24)


def rate(processor, body, warps: int, iterations: int = 200, **more) -> float:
    """Instructions a cycle."""
    seen = run(processor, Job((body,) * 8, warps, 1, iterations, **more))
    return warps * 8 * iterations * more.get("chains", 1) / seen.end.max()


def test_a_chain_takes_its_latencies() -> None:
    seen = run(sm(), Job((ADD, LOAD, ADD), 1, 1, 10))
    assert (seen.begin[0], seen.end[0]) == (0, 10 * (6 + 24 + 6))


def test_a_result_may_reach_the_cores_sooner() -> None:
    """VV16 s4.7: 24 cycles to the next load, 22 to an add."""
    load = replace(LOAD, latency_to_core=22)
    assert run(sm(), Job((load, ADD), 1, 1, 10)).end[0] == 10 * (22 + 6)
    assert run(sm(), Job((load,), 1, 1, 10)).end[0] == 10 * 24


@pytest.mark.parametrize("warps", [1, 3, 4, 8, 20, 24, 28, 64])
def test_one_instruction_is_bound_by_latency_or_by_rate(warps: int) -> None:
    """VV16 s4.2: min(n / latency, rate); the warps of the fullest scheduler decide."""
    fullest = -(-warps // 4)
    expected = warps / fullest * min(fullest / 6, 1)
    assert rate(sm(), ADD, warps) == pytest.approx(expected, rel=0.005)


@pytest.mark.parametrize("warps", [1, 7, 23, 24, 40, 64])
def test_a_pipe_for_all_schedulers(warps: int) -> None:
    """As far as every scheduler has as many warps: each gets as much of the pipe as the others."""
    assert rate(sm(), LOAD, warps) == pytest.approx(min(warps / 24, 1), rel=0.005)


@given(
    schedulers=st.integers(1, 4), step=st.integers(1, 2), latency=st.integers(4, 60), chains=st.integers(1, 4),
    interval=st.integers(1, 12), per_scheduler=st.integers(1, 6), single=st.booleans(),
)  # fmt: skip
@settings(max_examples=60)
def test_closed_form_of_any_unit(
    schedulers: int, step: int, latency: int, chains: int, interval: int, per_scheduler: int, single: bool
) -> None:
    """Rate = min(warps * chains / latency, units / interval, issue), latencies in whole issue intervals."""
    pipe = Pipe.MEMORY if single else Pipe.CORE
    processor = sm(schedulers=schedulers, issue_interval=step)
    warps = schedulers * per_scheduler
    whole = -(-latency // step) * step
    bound = min(
        warps * chains / whole, (1 if single else schedulers) / interval, schedulers / step, warps / step
    )  # fmt: skip
    measured = rate(processor, Cost(pipe, interval, latency), warps, 100, chains=chains)
    assert measured <= bound * 1.001  # the last instruction's pipe is busy for longer than its result takes
    assert measured >= bound * (0.97 if bound < warps * chains / whole else 0.9) * (1 - latency / 800)


def test_littles_law() -> None:
    """Warps = throughput x latency, whatever the queue does (VV16 s3.1)."""
    access = Cost(Pipe.MEMORY, 1, 400, queue=Queue("dram", 12.0, 3.0))
    seen = run(sm(), Job((access,), 48, 1, 400), seed=3)
    throughput = 48 * 400 / seen.end.max()
    latency = (seen.end - seen.begin).mean() / 400
    assert throughput * latency == pytest.approx(48, rel=0.01)


def test_fractions_of_a_cycle_add_up() -> None:
    """G80: 6 operations a cycle, an instruction every 5 1/3 cycles, issued every second cycle (VV16 table 6.1)."""
    processor = sm(schedulers=1, issue_interval=2)
    assert rate(processor, Cost(Pipe.MEMORY, 32 / 6, 38), 16) * 32 == pytest.approx(6, rel=0.005)


def test_two_at_once_of_one_warp() -> None:
    """Kepler: 48 cores a scheduler; one chain a warp keeps 32 busy, two chains all (VV16 s6.1)."""
    kepler, add = sm(issue_width=2, reissue=3), Cost(Pipe.CORE, 32 / 48, 9, core=True)
    assert rate(kepler, add, 64) == pytest.approx(4, rel=0.01)
    assert rate(kepler, add, 64, chains=2) == pytest.approx(6, rel=0.01)


def test_a_warp_waits_for_its_next_issue() -> None:
    """VV16 listing 3.2: independent adds of one Fermi warp start 6 cycles apart."""
    fermi = sm(schedulers=2, issue_interval=2, reissue=6)
    assert rate(fermi, Cost(Pipe.CORE, 2, 18), 1, chains=8) == pytest.approx(1 / 6, rel=0.02)


def test_slots_take_issue_from_others() -> None:
    """VV16 s4.7: an instruction of three issue cycles leaves one in four for the next."""
    wide = Cost(Pipe.MEMORY, 1, 24, slots=3)
    seen = run(sm(schedulers=1), Job((wide, ADD), 32, 1, 200))
    assert 32 * 400 / seen.end.max() == pytest.approx(2 / 4, rel=0.01)


def test_a_barrier_holds_a_block_together() -> None:
    barrier = Cost(Pipe.BARRIER, 1, 30, barrier=True)
    slow = run(sm(), Job((ADD, barrier), 8, 8, 10))
    assert len(set(slow.end.tolist())) == 1
    alone = run(sm(), Job((ADD, barrier), 1, 1, 10))
    assert alone.end[0] == 10 * (6 + 30)
    assert slow.end[0] >= alone.end[0]


def test_the_last_at_the_barrier_decides() -> None:
    """Of 8 warps on one scheduler the last arrives 7 cycles after the first, and all go on together."""
    barrier = Cost(Pipe.BARRIER, 1, 30, barrier=True)
    assert run(sm(schedulers=1), Job((barrier,), 8, 8, 1)).end.tolist() == [37] * 8


def test_a_block_that_ended_is_replaced() -> None:
    seen = run(sm(), Job((ADD,), 4, 2, 10, blocks=6))
    assert seen.begin.tolist() == [0] * 4 + [160] * 4 + [320] * 4
    assert seen.end.tolist() == [60] * 4 + [220] * 4 + [380] * 4


def test_a_block_waits_for_its_slowest_warp() -> None:
    """Five warps on two schedulers: three share one, and the next block starts when they have ended."""
    seen = run(sm(schedulers=2), Job((Cost(Pipe.CORE, 4, 4),), 5, 5, 100, blocks=2))
    assert seen.begin[5] == seen.end[:5].max() + 100


def test_the_oldest_goes_first() -> None:
    processor, add = sm(schedulers=1), Cost(Pipe.CORE, 1, 2)
    fair = run(processor, Job((add,), 8, 1, 50)).end
    unfair = run(replace(processor, scheduling=Scheduling.OLDEST), Job((add,), 8, 1, 50)).end
    assert fair.max() - fair.min() < 10
    assert unfair.min() == 100
    assert unfair.max() == pytest.approx(400, abs=8)


def test_an_unequal_load_shows() -> None:
    """VV16 s5.8, fig 5.2: 17 warps of reciprocal roots on four schedulers are 15 % slower than 16."""
    special = Cost(Pipe.SPECIAL, 4, 9)
    assert rate(sm(), special, 16) == pytest.approx(1, rel=0.01)
    assert rate(sm(), special, 17) == pytest.approx(0.85, abs=0.01)


@pytest.mark.parametrize("variability", [0.5, 0.75, 1.0, 3.0])
def test_services_are_as_long_as_said(variability: float) -> None:
    access = Cost(Pipe.MEMORY, 1, 10, queue=Queue("dram", 20.0, variability))
    seen = run(sm(), Job((access,), 64, 1, 256), seed=1)
    assert seen.end.max() / (64 * 256) == pytest.approx(20, rel=0.02)


def test_alone_an_access_takes_its_latency() -> None:
    access = Cost(Pipe.MEMORY, 1, 368, queue=Queue("dram", 12.3, 3.0))
    seen = run(sm(), Job((access,), 1, 1, 2000), seed=1)
    assert seen.end[0] / 2000 == pytest.approx(368.5, abs=1)  # a scheduler issues at the next whole cycle


def test_a_store_is_done_when_it_was_served() -> None:
    store = Cost(Pipe.MEMORY, 1, 400, queue=Queue("dram", 10.0, awaited=False))
    assert run(sm(), Job((store,), 1, 1, 100)).end[0] == 1000


def test_the_seed_decides_and_nothing_else() -> None:
    access = Cost(Pipe.MEMORY, 1, 368, queue=Queue("dram", 12.3, 3.0))
    ends = [run(sm(), Job((access,), 32, 4, 100), seed=seed).end for seed in (1, 1, 2)]
    assert np.array_equal(ends[0], ends[1])
    assert not np.array_equal(ends[0], ends[2])


@pytest.mark.parametrize("warps", [1, 10, 24, 42, 63])
def test_a_long_job_goes_on_as_it_began(warps: int) -> None:
    for cost in (ADD, LOAD):
        job = Job((cost,) * 4, warps, 1, 500)
        whole, sampled = run(sm(), job), run_long(sm(), job, 4096)
        assert sampled.end.max() == pytest.approx(whole.end.max(), rel=0.002)


def test_warps_come_in_whole_blocks() -> None:
    with pytest.raises(ValueError, match="no whole number of blocks"):
        run(sm(), Job((ADD,), 5, 2, 1))

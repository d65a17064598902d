"""Warps that queue: against chains of states that are solved one by one, and against what is known at the ends."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from gpudissect.models import by_key
from gpudissect.models.base import Contention, Limit, Loop, Machine, Unit, peak
from gpudissect.models.volkov import visit_rate

QUEUED, REFINED, BASIC = by_key("queued"), by_key("refined"), by_key("basic")
H200_LIKE = Machine(
    name="corner", sms=132, clock_hz=1.98e9, schedulers=4, warps=64, issue=3.99,
    units={"fadd": Unit(resource="cores", latency=4.03, throughput=3.99),
           "lds": Unit(resource="shared memory", latency=23, throughput=1.0),
           "ldg_streaming": Unit(resource="memory", latency=684, throughput=0.0662, bytes=256)},
    contention={"ldg_streaming": Contention(697.7, ((58.8, 0.0698),))},
)  # fmt: skip


def solved(warps, cycles, places, waiting, waiting_places):
    """The same by the balance of a birth-and-death process: times are exponential there, and it must not matter."""
    states = np.arange(warps + 1)
    up = np.minimum(warps - states, waiting_places) / waiting
    down = np.minimum(states, places) / cycles
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(warps + 1)])
    shares, *_ = np.linalg.lstsq(equations, np.r_[np.zeros(warps + 1), 1.0], rcond=None)
    return float((shares * down).sum())


@pytest.mark.parametrize("warps", [1, 2, 5, 9])
@pytest.mark.parametrize(("places", "waiting_places"), [(4.0, inf), (0.7, inf), (3.5, 5.75), (1.0, 0.5)])
def test_visits_are_those_of_the_balance(warps, places, waiting_places):
    found = visit_rate(np.array([warps]), 730.0, places, np.array([698.0]), np.array([waiting_places]))
    assert found == pytest.approx(solved(warps, 730.0, places, 698.0, waiting_places))


def test_no_warps_visit_nothing():
    assert visit_rate(np.array([0]), 10.0, 1.0, np.array([5.0]), np.array([inf])) == 0


def test_random_times_need_not_be_exponential():
    """Three stages of equal length instead of one exponential time: simulated, the same rate."""
    rng = np.random.default_rng(1)
    warps, cycles, places, waiting = 8, 730.0, 4.0, 698.0
    left, adding = rng.uniform(0, waiting, warps), np.zeros(warps, bool)
    done, now = 0, 0.0
    while done < 40_000:
        pace = np.where(adding, min(1.0, places / max(adding.sum(), 1)), 1.0)
        step = (left / pace).min()
        left -= step * pace
        now += step
        for w in np.flatnonzero(left <= 1e-9):
            adding[w] ^= True
            left[w] = cycles if adding[w] else waiting * rng.gamma(6) / 6
            done += adding[w]
    expected = visit_rate(np.array([warps]), cycles, places, np.array([waiting]), np.array([inf]))
    assert done / now == pytest.approx(float(expected[0]), rel=0.02)


def test_one_warp_of_each_scheduler_waits_for_nobody():
    loop = Loop(alpha=181)
    assert QUEUED.throughput(H200_LIKE, loop, 4) == pytest.approx(REFINED.throughput(H200_LIKE, loop, 4), rel=1e-6)


def test_where_the_bounds_meet_a_tenth_is_lost():
    """32 warps at alpha 181: an H200 reaches 3.55 of 3.99, where the refined model promises all of it."""
    loop = Loop(alpha=181)
    assert REFINED.throughput(H200_LIKE, loop, 32) == pytest.approx(3.99, rel=0.005)
    assert QUEUED.throughput(H200_LIKE, loop, 32) == pytest.approx(3.55, rel=0.02)


@pytest.mark.parametrize("access", ["ldg_streaming", "lds"])
@pytest.mark.parametrize("alpha", [1, 6, 45, 181, 512])
def test_queues_only_take(access, alpha):
    loop, warps = Loop(alpha=alpha, access=access), np.arange(1, 65)
    found = QUEUED.throughput(H200_LIKE, loop, warps)
    assert np.all(found <= REFINED.throughput(H200_LIKE, loop, warps) * (1 + 1e-6))


def test_many_warps_reach_the_peak():
    for alpha in (6, 181):
        loop = Loop(alpha=alpha, access="lds")
        assert float(QUEUED.throughput(H200_LIKE, loop, 1024)) == pytest.approx(peak(H200_LIKE, loop), rel=0.01)


def test_between_whole_warps_of_a_scheduler_it_is_a_mean():
    loop = Loop(alpha=181, access="lds")
    four, six, eight = (float(QUEUED.throughput(H200_LIKE, loop, n)) for n in (16, 18, 20))
    assert six == pytest.approx((four + eight) / 2)


def test_what_issues_again_takes_slots_from_additions():
    """An access that is issued 32 times (VV16 s4.7) with 32 additions: half of all that schedulers start."""
    again = replace(H200_LIKE.units["lds"], slots=32.0)
    machine = replace(H200_LIKE, units=dict(H200_LIKE.units) | {"lds": again})
    loop = Loop(alpha=32, access="lds")
    top = machine.issue * 33 / 64
    assert peak(machine, loop) == pytest.approx(top)
    assert float(QUEUED.throughput(machine, loop, 1024)) == pytest.approx(top, rel=0.01)
    knee = [float(model.throughput(machine, loop, 12)) for model in (QUEUED, REFINED)]
    assert knee[0] < 0.98 * knee[1]


def test_the_nearer_bound_is_what_binds():
    loop = Loop(alpha=181)
    assert QUEUED.limit(H200_LIKE, loop, 4) is Limit.LATENCY
    assert QUEUED.limit(H200_LIKE, loop, 64) is REFINED.limit(H200_LIKE, loop, 64) is not Limit.LATENCY


@pytest.mark.parametrize("alpha", [0, inf])
def test_of_one_kind_alone_it_is_the_refined_model(alpha):
    warps = np.arange(1, 65)
    found = QUEUED.throughput(H200_LIKE, Loop(alpha=alpha), warps)
    assert found == pytest.approx(REFINED.throughput(H200_LIKE, Loop(alpha=alpha), warps))

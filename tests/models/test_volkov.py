"""The models of VV16: basic, refined, and with queues, compared with its tables and with solved chains of states."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from needed import cusp

from gpudissect.models.base import Contention, Loop, Machine, Unit, latency, peak, throughput_bounds
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.volkov import Basic, Queued, Refined, visit_rate
from tests.support.machines import EACH_MACHINE, FERMI, G80, GT200, KEPLER, MAXWELL, SYNTHETIC

TABLE_4_2 = {  # VV16 table 4.2: mem_lat, alu_lat, mem_thru, and the bound by cores or issue, per access
    "G80": (444, 20, 0.0268, lambda a: 0.25 / a),
    "GT200": (434, 24, 0.0277, lambda a: 0.25 / a),
    "Fermi": (513, 18, 0.0599, lambda a: 1 / (a + 1)),
    "Kepler": (301, 9, 0.1338, lambda a: 4 / (a + 1)),
    "Maxwell": (368, 6, 0.0814, lambda a: 4 / (a + 1)),
}
ADDS, LOADS = Loop(alpha=inf), Loop(alpha=0)


def needed(machine, loop, share=1.0):
    return warps_needed(Basic(), machine, loop, share)


@EACH_MACHINE
@pytest.mark.parametrize("alpha", (0.25, 1, 7, 16, 32, 49, 64, 512))
def test_solutions_of_table_4_2(machine, alpha):
    mem_lat, alu_lat, mem_thru, compute = TABLE_4_2[machine.name]
    n, loop = np.arange(1, machine.warps + 1), Loop(alpha=alpha)
    expected = 32 * alpha * np.minimum(n / (mem_lat + alu_lat * alpha), min(mem_thru, compute(alpha)))
    assert loop.operations(Basic().throughput(machine, loop, n)) == pytest.approx(expected)


def test_limit_cases_of_s4_2():
    n = np.array([1.0, 24.0, 30.0, 64.0])
    assert Basic().throughput(MAXWELL, ADDS, n) == pytest.approx(np.minimum(n / 6, 4))
    assert Basic().throughput(MAXWELL, LOADS, n) == pytest.approx(np.minimum(n / 368, 0.0814))


def test_warps_needed_at_the_limits():  # VV16 table 3.1, s4.3: 24 and 30 on Maxwell
    assert needed(MAXWELL, ADDS) == pytest.approx(24)
    assert needed(MAXWELL, LOADS) == pytest.approx(29.96, abs=0.01)


def test_the_cusp_on_maxwell():  # VV16 s4.5, figure 4.5: near alpha 49 at about 54 warps, about 30 and 24 at the ends
    loop, warps = cusp(Basic(), MAXWELL, [Loop(alpha=alpha) for alpha in range(1, 513)])
    assert (loop.alpha, warps) == (pytest.approx(49, abs=1), pytest.approx(54, abs=0.7))
    assert warps == pytest.approx(needed(MAXWELL, LOADS) + needed(MAXWELL, ADDS), rel=0.015)  # "the sum"


def test_warps_needed_on_the_branches_of_the_cusp():  # VV16 s4.5: n(small alpha), n(large alpha)
    for alpha in (1, 4):
        assert needed(G80, Loop(alpha=alpha)) == pytest.approx((444 + alpha * 20) * 0.0268)
    for alpha in (32, 256):
        assert needed(G80, Loop(alpha=alpha)) == pytest.approx(444 * 0.25 / alpha + 20 * 0.25)


@pytest.mark.parametrize(("machine", "access"), [(G80, "rsq"), (GT200, "rsq"), (FERMI, "lds"), (KEPLER, "lds")])
def test_cusps_of_figures_4_8_and_4_9(machine, access):  # VV16 s4.7: pronounced there
    loops = [Loop(alpha=2 ** (i / 4), access=access) for i in range(-16, 25)]
    ends = [needed(machine, Loop(alpha=alpha, access=access), 0.9) for alpha in (0, inf)]
    assert cusp(Basic(), machine, loops, 0.9)[1] > 1.2 * max(ends)


def test_figure_4_7():  # VV16 s4.6: alpha 4, latencies 3 and 12, one instruction a cycle: 6 warps, 3 and 3 of each kind
    units = {
        "fadd": Unit(resource="c", latency=3, throughput=1),
        "ldg_streaming": Unit(resource="m", latency=12, throughput=9),
    }
    machine, loop = replace(SYNTHETIC, units=units, issue=9), Loop(alpha=4)
    rate = Basic().throughput(machine, loop, 6)
    assert needed(machine, loop) == pytest.approx(6)
    assert (rate * loop.arithmetic_share * 3, rate * loop.access_share * 12) == (pytest.approx(3), pytest.approx(3))
    assert needed(machine, ADDS) == pytest.approx(3)


def test_patterns_of_s4_3():  # fewer warps: 20 and 3 at 90 % are observed, the basic model is a bound
    assert needed(MAXWELL, Loop(alpha=0, access="ldg_stride2"), 0.9) == pytest.approx(13.9, abs=0.1)
    assert needed(MAXWELL, Loop(alpha=0, access="ldg_random"), 0.9) == pytest.approx(1.4, abs=0.1)


@pytest.mark.parametrize(
    ("access", "alpha", "cycles"),
    [
        ("rsq", 0, 13),
        ("rsq", 1, (9 + 6) / 2),
        ("rsq", 0.5, (9 + 13 + 6) / 3),  # every second one is followed by arithmetic
        ("lds", 4, (22 + 4 * 6) / 5),
    ],
)
def test_special_functions_and_shared_memory_on_maxwell(access, alpha, cycles):  # VV16 s4.7
    assert latency(MAXWELL, Loop(alpha=alpha, access=access)) == pytest.approx(cycles)


def test_resources_that_bound_throughput():
    assert set(throughput_bounds(G80, LOADS)) == {"memory", "issue"}
    assert set(throughput_bounds(G80, Loop(alpha=1))) == {"cores", "memory", "issue"}


def test_kinds_that_share_a_resource_add_up():  # VV16 s3.6
    assert peak(MAXWELL, Loop(alpha=1, arithmetic="lds", access="lds_2way")) == pytest.approx(2 / (1 + 2))


@pytest.mark.parametrize("alpha", (0, 1, 32, 64, 128))
def test_the_refined_model_solves_its_equation(alpha):  # VV16 s6.5, on Kepler
    loop, n = Loop(alpha=alpha), np.arange(1, 65)
    x = loop.accesses(Refined().throughput(KEPLER, loop, n))
    right = np.minimum(n / (300 + 32 * x / (0.14770 - x) + 9 * alpha), min(0.1338, 4 / (alpha + 1)))
    assert x == pytest.approx(right, rel=1e-3)


def test_coefficients_of_the_refined_model():  # VV16 s6.5 prints c as 0.1477 on Kepler; s6.4 has two terms on the G80
    ((b, c),) = KEPLER.contention["ldg_streaming"].terms
    assert (b, round(c, 4)) == (32, 0.1477)
    x = np.array([10.0, 40.0, 70.0])  # GB/s
    expected = 441 + 4 * x / (71 - x) + 156 * x / (121 - x)
    assert G80.contention["ldg_streaming"].latency(x * 1e9 / (128 * 16 * 1.35e9)) == pytest.approx(expected)


def test_the_refined_model_at_its_ends():
    assert Refined().throughput(MAXWELL, ADDS, [6, 64]) == pytest.approx([1, 4])
    assert Refined().throughput(MAXWELL, LOADS, 1) == pytest.approx(1 / 372, rel=2e-3)
    assert Refined().throughput(MAXWELL, Loop(alpha=0, access="lds"), 8) == pytest.approx(8 / 24)  # no coefficients


@pytest.mark.parametrize(
    ("machine", "printed"), [(GT200, (16, 18)), (KEPLER, (56, 64)), (MAXWELL, (40, 46)), (FERMI, (42, 50))]
)
def test_warps_at_90_and_95_percent(machine, printed):  # VV16 table 6.4, per SM; the refined model comes near
    found = [warps_needed(Refined(), machine, LOADS, share) for share in (0.9, 0.95)]
    assert found == pytest.approx(printed, rel=0.12)


def test_chains_count_as_warps_until_a_warp_cannot_issue_faster():  # VV16 s6.3, s3.7
    four = Basic().throughput(FERMI, Loop(alpha=0, ilp=4), 3)
    assert four == pytest.approx(Basic().throughput(FERMI, LOADS, 12))
    assert Basic().throughput(FERMI, Loop(alpha=inf, ilp=9), 2) == pytest.approx(2 / 6)  # 18 / 9 < 6 = ILP latency


def test_contention_is_infinite_at_its_ceiling():
    assert Contention(100, ((10, 0.1),)).latency([0, 0.05, 0.1, 0.2]) == pytest.approx([100, 110, inf, inf])


def test_warps_needed_is_none_where_nothing_suffices():
    assert warps_needed(Refined(), G80, LOADS, 0.99) is None  # the better fit ends at 71 of 74 GB/s
    assert cusp(Refined(), G80, [LOADS], 0.99) is None


H200_LIKE = Machine(
    name="corner",
    sms=132,
    clock_hz=1.98e9,
    schedulers=4,
    warps=64,
    issue=3.99,
    units={
        "fadd": Unit(resource="cores", latency=4.03, throughput=3.99),
        "lds": Unit(resource="shared memory", latency=23, throughput=1.0),
        "ldg_streaming": Unit(resource="memory", latency=684, throughput=0.0662, bytes=256),
    },
    contention={"ldg_streaming": Contention(697.7, ((58.8, 0.0698),))},
)


def both(loop, warps, machine=H200_LIKE):
    """Throughput with queues and without."""
    return [model.throughput(machine, loop, warps) for model in (Queued(), Refined())]


def solve_balance(warps, cycles, servers, wait, wait_servers):
    """`visit_rate` of a birth-and-death process with exponential times, on which it must not depend."""
    states = np.arange(warps + 1)
    up, down = np.minimum(warps - states, wait_servers) / wait, np.minimum(states, servers) / cycles
    generator = np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    generator -= np.diag(generator.sum(axis=1))
    equations = np.vstack([generator.T, np.ones(warps + 1)])
    shares, *_ = np.linalg.lstsq(equations, np.r_[np.zeros(warps + 1), 1.0], rcond=None)
    return float((shares * down).sum())


@pytest.mark.parametrize("warps", [0, 1, 2, 5, 9])
@pytest.mark.parametrize(("servers", "wait_servers"), [(4.0, inf), (0.7, inf), (3.5, 5.75), (1.0, 0.5)])
def test_visits_are_those_of_the_balance(warps, servers, wait_servers):
    found = visit_rate(np.array([warps]), 730.0, servers, np.array([698.0]), np.array([wait_servers]))
    assert found == pytest.approx(solve_balance(warps, 730.0, servers, 698.0, wait_servers) if warps else 0)


def test_times_need_not_be_exponential():
    """Simulated with gamma-distributed waits and constant service, the same rate."""
    rng = np.random.default_rng(1)
    warps, cycles, servers, wait = 8, 730.0, 4.0, 698.0
    left, adding = rng.uniform(0, wait, warps), np.zeros(warps, bool)
    done, now = 0, 0.0
    while done < 40_000:
        pace = np.where(adding, min(1.0, servers / max(adding.sum(), 1)), 1.0)
        step = (left / pace).min()
        left -= step * pace
        now += step
        for w in np.flatnonzero(left <= 1e-9):
            adding[w] ^= True
            left[w] = cycles if adding[w] else wait * rng.gamma(6) / 6
            done += adding[w]
    expected = visit_rate(np.array([warps]), cycles, servers, np.array([wait]), np.array([inf]))
    assert done / now == pytest.approx(float(expected[0]), rel=0.02)


def test_one_warp_per_scheduler_does_not_queue():
    queued, refined = both(Loop(alpha=181), 4)
    assert queued == pytest.approx(refined, rel=1e-6)


def test_a_tenth_is_lost_where_the_bounds_meet():  # an H200 reaches 3.55 of 3.99 with 32 warps at alpha 181
    queued, refined = both(Loop(alpha=181), 32)
    assert refined == pytest.approx(3.99, rel=0.005)
    assert queued == pytest.approx(3.55, rel=0.02)


@pytest.mark.parametrize("access", ["ldg_streaming", "lds"])
@pytest.mark.parametrize("alpha", [1, 6, 45, 181, 512])
def test_queues_never_help(access, alpha):
    queued, refined = both(Loop(alpha=alpha, access=access), np.arange(1, 65))
    assert np.all(queued <= refined * (1 + 1e-6))


@pytest.mark.parametrize("alpha", [0, inf])
def test_one_kind_alone_is_the_refined_model(alpha):
    queued, refined = both(Loop(alpha=alpha), np.arange(1, 65))
    assert queued == pytest.approx(refined)


@pytest.mark.parametrize("alpha", [6, 181])
def test_many_warps_reach_the_peak(alpha):
    loop = Loop(alpha=alpha, access="lds")
    assert float(Queued().throughput(H200_LIKE, loop, 1024)) == pytest.approx(peak(H200_LIKE, loop), rel=0.01)


def test_unequal_schedulers_count_by_a_mean():
    four, six, eight = Queued().throughput(H200_LIKE, Loop(alpha=181, access="lds"), [16, 18, 20])
    assert six == pytest.approx((four + eight) / 2)


def test_reissues_take_slots_from_additions():
    """An access that is issued 32 times (VV16 s4.7) with 32 additions takes half of the issue slots."""
    reissued = replace(H200_LIKE.units["lds"], slots=32.0)
    machine = replace(H200_LIKE, units=dict(H200_LIKE.units) | {"lds": reissued})
    loop = Loop(alpha=32, access="lds")
    top = machine.issue * 33 / 64
    assert peak(machine, loop) == pytest.approx(top)
    assert float(Queued().throughput(machine, loop, 1024)) == pytest.approx(top, rel=0.01)
    queued, refined = both(loop, 12, machine)
    assert queued < 0.98 * refined

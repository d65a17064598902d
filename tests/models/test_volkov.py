from dataclasses import replace
from math import inf

import numpy as np
import pytest

from gpudissect.models.base import Contention, Limit, Loop, Unit, latency, peak, throughput_bounds, tightest
from gpudissect.models.evaluation import cusp, warps_needed
from gpudissect.models.volkov import Basic, Refined
from tests.support.machines import FERMI, FIVE, G80, GT200, KEPLER, MAXWELL, SYNTHETIC

ALPHAS = (0.25, 1, 7, 16, 32, 49, 64, 512)
TABLE_4_2 = {  # VV16 table 4.2: mem_lat, alu_lat, mem_thru, and the bound by cores or issue, per access
    "G80": (444, 20, 0.0268, lambda a: 0.25 / a),
    "GT200": (434, 24, 0.0277, lambda a: 0.25 / a),
    "Fermi": (513, 18, 0.0599, lambda a: 1 / (a + 1)),
    "Kepler": (301, 9, 0.1338, lambda a: 4 / (a + 1)),
    "Maxwell": (368, 6, 0.0814, lambda a: 4 / (a + 1)),
}


@pytest.mark.parametrize("machine", FIVE, ids=lambda machine: machine.name)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_solutions_of_table_4_2(machine, alpha):
    mem_lat, alu_lat, mem_thru, compute = TABLE_4_2[machine.name]
    n = np.arange(1, machine.warps + 1)
    expected = 32 * alpha * np.minimum(n / (mem_lat + alu_lat * alpha), min(mem_thru, compute(alpha)))
    loop = Loop(alpha=alpha)
    assert loop.operations(Basic().throughput(machine, loop, n)) == pytest.approx(expected)


def test_limit_cases_of_s4_2():
    n = np.array([1.0, 24.0, 30.0, 64.0])
    assert Basic().throughput(MAXWELL, Loop(alpha=inf), n) == pytest.approx(np.minimum(n / 6, 4))
    assert Basic().throughput(MAXWELL, Loop(alpha=0), n) == pytest.approx(np.minimum(n / 368, 0.0814))


def test_warps_needed_at_the_limits():  # VV16 table 3.1, s4.3: 24 and 30 on Maxwell
    assert warps_needed(Basic(), MAXWELL, Loop(alpha=inf)) == pytest.approx(24)
    assert warps_needed(Basic(), MAXWELL, Loop(alpha=0)) == pytest.approx(29.96, abs=0.01)


def test_the_cusp_on_maxwell():  # VV16 s4.5, figure 4.5: near alpha 49 at about 54 warps, about 30 and 24 at the ends
    found = cusp(Basic(), MAXWELL, [Loop(alpha=alpha) for alpha in range(1, 513)])
    assert found.alpha == pytest.approx(49, abs=1)
    assert found.warps == pytest.approx(54, abs=0.7)
    ends = [warps_needed(Basic(), MAXWELL, Loop(alpha=alpha)) for alpha in (0, inf)]
    assert found.warps == pytest.approx(sum(ends), rel=0.015)  # "the sum of the two values"


def test_needed_on_the_branches_of_the_cusp():  # VV16 s4.5: n(small alpha), n(large alpha)
    for alpha in (1, 4):
        assert warps_needed(Basic(), G80, Loop(alpha=alpha)) == pytest.approx((444 + alpha * 20) * 0.0268)
    for alpha in (32, 256):
        assert warps_needed(Basic(), G80, Loop(alpha=alpha)) == pytest.approx(444 * 0.25 / alpha + 20 * 0.25)


def test_figure_4_7():  # VV16 s4.6: alpha 4, latencies 3 and 12, one instruction a cycle: 6 warps, 3 and 3 of each kind
    units = {
        "fadd": Unit(resource="c", latency=3, throughput=1),
        "ldg_streaming": Unit(resource="m", latency=12, throughput=9),
    }
    machine = replace(SYNTHETIC, units=units, issue=9)
    loop = Loop(alpha=4)
    assert warps_needed(Basic(), machine, loop) == pytest.approx(6)
    assert Basic().throughput(machine, loop, 6) * loop.arithmetic_share * 3 == pytest.approx(3)
    assert Basic().throughput(machine, loop, 6) * loop.access_share * 12 == pytest.approx(3)
    assert warps_needed(Basic(), machine, Loop(alpha=inf)) == pytest.approx(3)


def test_patterns_of_s4_3():  # fewer warps: 20 and 3 at 90 % are seen, the basic model is a bound
    assert warps_needed(Basic(), MAXWELL, Loop(alpha=0, access="ldg_stride2"), 0.9) == pytest.approx(13.9, abs=0.1)
    assert warps_needed(Basic(), MAXWELL, Loop(alpha=0, access="ldg_random"), 0.9) == pytest.approx(1.4, abs=0.1)


def test_special_functions_and_shared_memory_on_maxwell():  # VV16 s4.7
    assert latency(MAXWELL, Loop(alpha=0, access="rsq")) == 13
    assert latency(MAXWELL, Loop(alpha=1, access="rsq")) == pytest.approx((9 + 6) / 2)
    assert latency(MAXWELL, Loop(alpha=0.5, access="rsq")) == pytest.approx((9 + 13 + 6) / 3)  # every second one
    assert latency(MAXWELL, Loop(alpha=4, access="lds")) == pytest.approx((22 + 4 * 6) / 5)


def test_cusps_of_figures_4_8_and_4_9():
    for machine, access in ((G80, "rsq"), (GT200, "rsq"), (FERMI, "lds"), (KEPLER, "lds")):  # s4.7: pronounced there
        loops = [Loop(alpha=2 ** (i / 4), access=access) for i in range(-16, 25)]
        found = cusp(Basic(), machine, loops, 0.9)
        ends = [warps_needed(Basic(), machine, Loop(alpha=alpha, access=access), 0.9) for alpha in (0, inf)]
        assert found.warps > 1.2 * max(ends)


def test_what_binds():
    assert Basic().limit(KEPLER, Loop(alpha=32), 64) is Limit.LATENCY  # VV16 s7.5: no bound is attained
    assert Basic().limit(MAXWELL, Loop(alpha=0), 64) is Limit.MEMORY
    assert Basic().limit(MAXWELL, Loop(alpha=64), 64) is Limit.ISSUE
    assert Basic().limit(G80, Loop(alpha=32), 24) is Limit.PIPELINE
    assert Basic().limit(MAXWELL, Loop(alpha=0, access="lds"), 64) is Limit.PIPELINE
    assert tightest(FERMI, Loop(alpha=inf)) is Limit.PIPELINE
    assert set(throughput_bounds(G80, Loop(alpha=0))) == {"memory", "issue"}
    assert set(throughput_bounds(G80, Loop(alpha=1))) == {"cores", "memory", "issue"}


def test_kinds_that_share_a_resource_add_up():  # VV16 s3.6
    loop = Loop(alpha=1, arithmetic="lds", access="lds_2way")
    assert peak(MAXWELL, loop) == pytest.approx(2 / (1 + 2))


def test_the_refined_model_solves_its_equation():  # VV16 s6.5, on Kepler
    for alpha in (0, 1, 32, 64, 128):
        loop = Loop(alpha=alpha)
        n = np.arange(1, 65)
        x = loop.accesses(Refined().throughput(KEPLER, loop, n))
        right = np.minimum(n / (300 + 32 * x / (0.14770 - x) + 9 * alpha), min(0.1338, 4 / (alpha + 1)))
        assert x == pytest.approx(right, rel=1e-3)


def test_coefficients_of_the_refined_model():  # VV16 s6.5 prints c as 0.1477 on Kepler; s6.4 has two terms on the G80
    ((b, c),) = KEPLER.contention["ldg_streaming"].terms
    assert (b, round(c, 4)) == (32, 0.1477)
    x = np.array([10.0, 40.0, 70.0])  # GB/s
    rate = x * 1e9 / (128 * 16 * 1.35e9)
    expected = 441 + 4 * x / (71 - x) + 156 * x / (121 - x)
    assert G80.contention["ldg_streaming"].latency(rate) == pytest.approx(expected)


def test_the_refined_model_at_its_ends():
    assert Refined().throughput(MAXWELL, Loop(alpha=inf), [6, 64]) == pytest.approx([1, 4])
    assert Refined().throughput(MAXWELL, Loop(alpha=0), 1) == pytest.approx(1 / 372, rel=2e-3)
    assert Refined().throughput(MAXWELL, Loop(alpha=0, access="lds"), 8) == pytest.approx(8 / 24)  # no coefficients
    assert Refined().limit(FERMI, Loop(alpha=0), 48) is Limit.LATENCY
    assert Refined().limit(FERMI, Loop(alpha=512), 48) is Limit.ISSUE


def test_warps_at_90_and_95_percent():  # VV16 table 6.4, of an SM; the refined model comes near
    printed = {"GT200": (16, 18), "Kepler": (56, 64), "Maxwell": (40, 46), "Fermi": (42, 50)}
    for machine in (GT200, FERMI, KEPLER, MAXWELL):
        found = [warps_needed(Refined(), machine, Loop(alpha=0), share) for share in (0.9, 0.95)]
        assert found == pytest.approx(printed[machine.name], rel=0.12)


def test_chains_count_as_warps_until_a_warp_cannot_issue_faster():  # VV16 s6.3, s3.7
    one, four = Loop(alpha=0), Loop(alpha=0, ilp=4)
    assert Basic().throughput(FERMI, four, 3) == pytest.approx(Basic().throughput(FERMI, one, 12))
    assert Basic().throughput(FERMI, Loop(alpha=inf, ilp=9), 2) == pytest.approx(2 / 6)  # 18 / 9 < 6 = ILP latency


def test_contention_is_infinite_at_its_ceiling():
    under_load = Contention(100, ((10, 0.1),))
    assert under_load.latency([0, 0.05, 0.1, 0.2]) == pytest.approx([100, 110, inf, inf])


def test_needed_is_none_where_nothing_suffices():
    assert warps_needed(Refined(), G80, Loop(alpha=0), 0.99) is None  # the better fit ends at 71 of 74 GB/s
    assert cusp(Refined(), G80, [Loop(alpha=0)], 0.99) is None

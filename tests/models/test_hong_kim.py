"""Hong & Kim 2009 as VV16 s7.1 evaluates it, and Sim et al. 2012 (s7.4)."""

from math import inf

import numpy as np
import pytest
import vv16

from gpudissect.models.base import Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.hong_kim import HongKim, Sim, cwp_full, mwp_peak_bw
from gpudissect.models.volkov import Basic
from tests.support.machines import FERMI, GT200, KEPLER, MAXWELL

LOOP = Loop(alpha=32)
N = np.arange(1, 49)


def test_mwp_and_cwp_on_the_gtx280():  # VV16 s7.1: 12.4 and 4.3
    assert round(mwp_peak_bw(GT200, LOOP), 1) == 12.4
    assert round(cwp_full(GT200, LOOP), 1) == 4.3


def test_times_at_alpha_32():  # VV16 s7.1: 434 + 4 (alpha + 1) up to 4.3 warps, then 4 n (alpha + 1)
    for n in (1, 2, 4):
        assert LOOP.operations(HongKim().throughput(GT200, LOOP, n)) == pytest.approx(32 * n * 32 / (434 + 4 * 33))
    for n in (5, 10, 32):
        assert LOOP.operations(HongKim().throughput(GT200, LOOP, n)) == pytest.approx(32 * n * 32 / (4 * n * 33))


def test_hong_kim_overestimates_small_occupancies():  # VV16 s7.1: 2.1; with 434 + 24 alpha it would not
    quotient = HongKim().throughput(GT200, LOOP, 1) / Basic().throughput(GT200, LOOP, 1)
    assert quotient == pytest.approx((434 + 24 * 32) / (434 + 4 * 33))
    assert round(float(quotient), 1) == 2.1
    n = np.arange(13, 33)  # "at occupancy 10 warps and above the model is highly accurate"
    assert HongKim().throughput(GT200, LOOP, n) == pytest.approx(Basic().throughput(GT200, LOOP, n), rel=0.04)


def test_hong_kim_with_one_kind_alone():  # VV16 s7.1: 4 CPI at all occupancies; accesses as in the basic model
    assert 1 / HongKim().throughput(GT200, Loop(alpha=inf), [1, 6, 32]) == pytest.approx([4, 4, 4])
    n, accesses = np.arange(1, 33), Loop(alpha=0)  # up to its 4 cycles and the bandwidth of the pins
    assert HongKim().throughput(GT200, accesses, n) == pytest.approx(Basic().throughput(GT200, accesses, n), rel=0.04)


def test_table_7_1():
    for machine, printed in zip((FERMI, KEPLER, MAXWELL), vv16.tables()["table_7_1"]["mwp_peak_bw"], strict=True):
        assert Sim.mwp_peak_bw(machine, Loop(alpha=1)) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize("alpha", [1, 8, 32, 128])
def test_equations_of_sim_on_fermi(alpha):  # VV16 s7.4, written out
    alu = np.maximum(18 / N, 1)
    cwp, mwp = np.minimum(N, 1 + 513 / ((alpha + 1) * alu)), np.minimum(N, 513 * 0.0599)
    compute, memory = (alpha + 1) * N * alu, N * 513 / np.minimum(mwp, np.maximum(1, cwp - 1))
    time = np.where(cwp > mwp, np.maximum(compute, memory), np.maximum(compute, memory + compute / N))
    loop = Loop(alpha=alpha)
    assert loop.operations(Sim().throughput(FERMI, loop, N)) == pytest.approx(32 * N * alpha / time)
    assert Sim.cwp_full(FERMI, loop, N) == pytest.approx(1 + 513 / ((alpha + 1) * alu))


def test_sim_with_two_warps():  # VV16 s7.4: CWP - 1 costs a factor of 2 at n = 2, 1.3 at 4; gone with CWP
    loop = Loop(alpha=1)
    basic = Basic().throughput(FERMI, loop, N)
    quotient = Sim().throughput(FERMI, loop, N) / basic
    assert quotient[[1, 3]] == pytest.approx([1 / 2, 1 / 1.3], abs=0.03)
    assert Sim(stalled=0).throughput(FERMI, loop, 2) / basic[1] == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize(("machine", "alpha", "worst"), [(FERMI, 32, 1.8), (KEPLER, 32, 2.0), (MAXWELL, 64, 1.9)])
def test_sim_overestimates_where_latency_binds(machine, alpha, worst):  # VV16 s7.4
    n, loop = np.arange(1, machine.warps + 1), Loop(alpha=alpha)
    quotient = Sim().throughput(machine, loop, n) / Basic().throughput(machine, loop, n)
    assert quotient.max() == pytest.approx(worst, abs=0.25)


def test_sim_with_one_kind_alone():  # VV16 s7.4: fairly accurate
    adds = Loop(alpha=inf)
    assert Sim().throughput(FERMI, adds, N) == pytest.approx(Basic().throughput(FERMI, adds, N))
    assert warps_needed(Sim(), FERMI, Loop(alpha=0), 0.9) == pytest.approx(28.6, abs=1.5)


def test_departure_delay():  # VV16 s7.4: 32 cycles cap the GTX480 at 84 GB/s, 8.6 bind nothing; 103 GB/s on the C2050
    n, loop = 500, Loop(alpha=0)
    capped = Sim(departure_delay=32).throughput(FERMI, loop, n)
    assert round(float(FERMI.bytes_per_second("ldg_streaming", capped)) / 1e9) == 84
    assert Sim(departure_delay=8.6).throughput(FERMI, loop, n) == Sim().throughput(FERMI, loop, n)

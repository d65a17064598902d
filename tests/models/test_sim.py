from math import inf

import numpy as np
import pytest

from gpudissect.models import published
from gpudissect.models.base import Limit, Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.hong_kim import Sim
from gpudissect.models.volkov import Basic
from tests.support.machines import FERMI, KEPLER, MAXWELL

MODEL = Sim()
N = np.arange(1, 49)


def test_table_7_1():
    for machine, printed in zip((FERMI, KEPLER, MAXWELL), published.tables()["table_7_1"]["mwp_peak_bw"], strict=True):
        assert Sim.mwp_peak_bw(machine, Loop(alpha=1)) == pytest.approx(printed, abs=0.06)


@pytest.mark.parametrize("alpha", [1, 8, 32, 128])
def test_the_equations_on_fermi(alpha):  # VV16 s7.4, written out
    alu = np.maximum(18 / N, 1)
    cwp = np.minimum(N, 1 + 513 / ((alpha + 1) * alu))
    mwp = np.minimum(N, 513 * 0.0599)
    comp = (alpha + 1) * N * alu
    mem = N * 513 / np.minimum(mwp, np.maximum(1, cwp - 1))
    time = np.where(cwp > mwp, np.maximum(comp, mem), np.maximum(comp, mem + comp / N))
    loop = Loop(alpha=alpha)
    assert loop.operations(MODEL.throughput(FERMI, loop, N)) == pytest.approx(32 * N * alpha / time)
    assert Sim.cwp_full(FERMI, loop, N) == pytest.approx(1 + 513 / ((alpha + 1) * alu))


def test_half_of_what_two_warps_do():  # VV16 s7.4: CWP - 1 costs a factor of 2 at n = 2, 1.3 at 4; gone with CWP
    loop = Loop(alpha=1)
    quotient = MODEL.throughput(FERMI, loop, N) / Basic().throughput(FERMI, loop, N)
    assert quotient[1] == pytest.approx(1 / 2, abs=0.03)
    assert quotient[3] == pytest.approx(1 / 1.3, abs=0.03)
    assert Sim(stalled=0).throughput(FERMI, loop, 2) / Basic().throughput(FERMI, loop, 2) == pytest.approx(1, abs=0.04)


def test_it_overestimates_where_latency_binds():  # VV16 s7.4: 1.8 on Fermi, 2.0 on Kepler, 1.9 on Maxwell
    for machine, alpha, worst in ((FERMI, 32, 1.8), (KEPLER, 32, 2.0), (MAXWELL, 64, 1.9)):
        n = np.arange(1, machine.warps + 1)
        quotient = MODEL.throughput(machine, Loop(alpha=alpha), n) / Basic().throughput(machine, Loop(alpha=alpha), n)
        assert quotient.max() == pytest.approx(worst, abs=0.25)


def test_the_ends():  # VV16 s7.4: fairly accurate at both
    assert MODEL.throughput(FERMI, Loop(alpha=inf), N) == pytest.approx(Basic().throughput(FERMI, Loop(alpha=inf), N))
    assert warps_needed(MODEL, FERMI, Loop(alpha=0), 0.9) == pytest.approx(28.6, abs=1.5)


def test_departure_delay():  # VV16 s7.4: 32 cycles cap the GTX480 at 84 GB/s, 8.6 bind nothing; 103 GB/s on the C2050
    n, loop = 500, Loop(alpha=0)
    capped = Sim(departure_delay=32).throughput(FERMI, loop, n)
    assert round(float(FERMI.bytes_per_second("ldg_streaming", capped)) / 1e9) == 84
    assert Sim(departure_delay=8.6).throughput(FERMI, loop, n) == MODEL.throughput(FERMI, loop, n)
    assert round(0.335 * 22 * 14) == 103


@pytest.mark.parametrize(
    ("alpha", "n", "limit"),
    [
        (0, 8, Limit.LATENCY),
        (0, 48, Limit.MEMORY),
        (32, 8, Limit.LATENCY),
        (32, 48, Limit.PIPELINE),
        (inf, 4, Limit.LATENCY),
    ],
)
def test_what_binds(alpha, n, limit):
    assert MODEL.limit(FERMI, Loop(alpha=alpha), n) is limit

"""Huang et al. 2014 as VV16 s7.5 to 7.8 evaluates it."""

from math import inf

import numpy as np
import pytest

from gpudissect.models.base import Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.huang import GreedyThenOldest, RoundRobin, WithBandwidth
from gpudissect.models.volkov import Basic
from tests.support.machines import FERMI, KEPLER, MAXWELL, SYNTHETIC

POLICIES = (RoundRobin(), GreedyThenOldest())
EACH_POLICY = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.key)
ADDS, LOADS = Loop(alpha=inf), Loop(alpha=0)


@pytest.mark.parametrize("alpha", [0, 1, 32])
def test_round_robin_has_no_bounds(alpha):  # VV16 s7.5: n (1 + alpha) / (mem_lat + alpha alu_lat)
    n = np.arange(1, 49)
    expected = n * (1 + alpha) / (513 + 18 * alpha)
    assert RoundRobin().throughput(FERMI, Loop(alpha=alpha), n) == pytest.approx(expected)


def test_round_robin_exceeds_pins_and_cores():  # VV16 s7.5
    found = RoundRobin().throughput(FERMI, LOADS, 48)
    assert found == pytest.approx(48 / 513)  # or 252 GB/s, where the pins give 177
    assert round(float(FERMI.bytes_per_second("ldg_streaming", found)) / 1e9) == 252
    assert int(ADDS.operations(RoundRobin().throughput(MAXWELL, ADDS, 64))) == 341  # adds per cycle, of 128


@pytest.mark.parametrize("model", [*POLICIES, Basic()], ids=lambda model: model.key)
def test_no_difference_on_kepler(model):
    # VV16 s7.5, 7.6: all three say 115 a cycle at alpha 32 and full occupancy. That counts the access as well; the adds
    # of table 4.2 are 32 alpha n / (301 + 9 alpha) = 111.
    loop = Loop(alpha=32)
    found = model.throughput(KEPLER, loop, 64)
    assert (round(float(32 * found)), round(float(loop.operations(found)))) == (115, 111)


@pytest.mark.parametrize("alpha", [1, 8, 100])
def test_greedy_then_oldest_on_fermi(alpha):  # VV16 s7.6, written out
    n = np.arange(1, 49)
    p = (1 + alpha) / (513 + 18 * alpha)

    def not_overlapped(latency):
        return np.maximum(0, min(p * (latency - 1), 1) * (n - 1) - latency + 1)

    total = 513 + 18 * alpha + not_overlapped(513) + alpha * not_overlapped(18)
    assert GreedyThenOldest().throughput(FERMI, Loop(alpha=alpha), n) == pytest.approx(n * (1 + alpha) / total)


@pytest.mark.parametrize(("loop", "latency"), [(LOADS, 513), (ADDS, 18)])
def test_greedy_then_oldest_at_the_ends(loop, latency):  # VV16 s7.6: n / max(L, (n - 1) (1 - 1 / L) + 1)
    n = np.arange(1, 1000)
    expected = n / np.maximum(latency, (n - 1) * (1 - 1 / latency) + 1)
    assert GreedyThenOldest().throughput(FERMI, loop, n) == pytest.approx(expected)


def test_peak_issue_is_exceeded():  # VV16 s7.6: CPI 1 - 1 / alu_lat: by 4 % with 25 cycles, by 20 % with 6
    assert GreedyThenOldest().throughput(SYNTHETIC, ADDS, 1e9) == pytest.approx(1.04, abs=0.005)
    assert GreedyThenOldest().throughput(MAXWELL, ADDS, 1e9) / 4 == pytest.approx(1.2)


def test_utilisation_above_one():  # VV16 s7.7, the synthetic GPU: 1.14 at 32 warps, 1.03 at 29; singular near 28.1
    model, n = WithBandwidth(), np.linspace(20, 32, 120001)
    assert model.utilisation(SYNTHETIC, LOADS, [29, 32]) == pytest.approx([1.03, 1.14], abs=0.005)
    assert n[np.argmax(model.utilisation(SYNTHETIC, Loop(alpha=16), n) >= 1)] == pytest.approx(28.1, abs=0.05)
    assert float(model.delay(SYNTHETIC, LOADS, 29)) == pytest.approx(-11, abs=0.1)
    assert 1 / float(model.throughput(SYNTHETIC, LOADS, 29)) == pytest.approx(-0.7, abs=0.01)


@EACH_POLICY
def test_negative_results_on_fermi(policy):
    model, loop = WithBandwidth(policy), Loop(alpha=32)  # VV16 s7.7, figure 7.10: about -12 adds a cycle at n = 34
    assert round(float(loop.operations(model.throughput(FERMI, loop, 34)))) == -12
    stride = Loop(alpha=0, access="ldg_stride2")  # VV16 s7.8: at n = 17 delay about -120, CPI about -89
    assert round(float(model.delay(FERMI, stride, 17))) == -120
    assert int(1 / float(model.throughput(FERMI, stride, 17))) == -89


def test_the_delay_is_capped_before_the_singularity():  # Eq. 21: at most s core_reqs cores / 2
    delay = WithBandwidth().delay(SYNTHETIC, LOADS, [1, 28.1249999, 28.125])
    service = 128 / 192
    assert delay[0] == pytest.approx(16 / 300 * service**2 / 2 / (1 - 16 / 300 * service))
    assert delay[1:] == pytest.approx(service * 28.125 * 16 / 2, rel=1e-6)


def test_accesses_within_the_sm_have_no_memory_delay():
    loop = Loop(alpha=1, access="lds")
    assert WithBandwidth().throughput(MAXWELL, loop, 8) == pytest.approx(RoundRobin().throughput(MAXWELL, loop, 8))


def test_no_peak():  # VV16 s7.10: saturation only at issue, with greedy-then-oldest
    found, basic = (warps_needed(model, FERMI, LOADS) for model in (RoundRobin(), Basic()))
    assert found == pytest.approx(basic)
    assert WithBandwidth(GreedyThenOldest()).key == "huang-gto-bandwidth"

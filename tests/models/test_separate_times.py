"""Baghsorkhi et al. 2010, Zhang & Owens 2011 and added times, as VV16 s7.2, 7.3, 4.11 and 4.12 evaluate them."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import vv16

from gpudissect.models.base import Curve, Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.separate_times import Added, Baghsorkhi, ZhangOwens
from gpudissect.models.volkov import Basic
from tests.support.machines import EACH_MACHINE, FIVE, G80, GT200

N = np.arange(1, 33)
G80_WARPS = np.arange(1, 25)
CURVES = {
    "fadd": Curve((1, 6, 32), (1 / 24, 0.25, 0.25)),
    "ldg_streaming": Curve((1, 12, 18, 32), (1 / 434, 0.0233, 0.0264, 0.0277)),
}


@pytest.mark.parametrize("alpha", [1, 16, 32])
def test_the_smaller_of_both_curves(alpha):  # VV16 s7.3: min(alu(n), alpha mem(n)) adds a cycle
    loop, machine = Loop(alpha=alpha), replace(GT200, curves=CURVES)
    alu, mem = (32 * curve.at(N) for curve in CURVES.values())
    assert loop.operations(ZhangOwens().throughput(machine, loop, N)) == pytest.approx(np.minimum(alu, alpha * mem))


def test_times_alone_without_curves():  # VV16 s4.11 overlapped, s4.12 added
    loop = Loop(alpha=16)
    alu, mem = np.maximum(24 / N, 4), np.maximum(434 / N, 1 / 0.0277)
    for model, time in ((ZhangOwens(), np.maximum(16 * alu, mem)), (Added(), 16 * alu + mem)):
        assert loop.operations(model.throughput(GT200, loop, N)) == pytest.approx(32 * 16 / time)


@EACH_MACHINE
def test_overlapped_and_added_times(machine):  # VV16 s4.11, 4.12: twice too fast at few warps; exact there
    gpu = vv16.gpus()[FIVE.index(machine)]
    loop = Loop(alpha=vv16.value(gpu, "table_4_3", "alpha"))
    basic = Basic().throughput(machine, loop, [1, 512])
    overlapped, added = (model.throughput(machine, loop, [1, 512]) / basic for model in (ZhangOwens(), Added()))
    assert (overlapped[0], overlapped[1]) == (pytest.approx(1.85, abs=0.15), pytest.approx(1, abs=0.07))
    assert (added[0], added[1]) == (pytest.approx(1), pytest.approx(0.6, abs=0.1))


@pytest.mark.parametrize("model", [ZhangOwens(), Added()])
@pytest.mark.parametrize("alpha", [0, inf])
def test_one_kind_alone_is_exact(model, alpha):  # VV16 s7.3
    loop = Loop(alpha=alpha)
    assert model.throughput(GT200, loop, N) == pytest.approx(Basic().throughput(GT200, loop, N))


def test_a_curve_between_and_after_its_points():
    assert Curve((2, 4), (1, 3)).at([1, 2, 3, 9]) == pytest.approx([0.5, 1, 2, 3])
    for warps, rate in (((), ()), ((1, 2), (1,)), ((2, 1), (1, 2))):
        with pytest.raises(ValueError, match="rising"):
            Curve(warps, rate)


def baghsorkhi_and_basic(alpha):
    """Throughput by both models on the G80."""
    return (model.throughput(G80, Loop(alpha=alpha), G80_WARPS) for model in (Baghsorkhi(), Basic()))


@pytest.mark.parametrize("alpha", [0.5, 1, 8, 11, 32, 100])
def test_the_closed_form(alpha):  # VV16 s7.2: max(37, x, 440 - (n - 2) x), x = alpha max(4, 20 / n) + 4
    found, _ = baghsorkhi_and_basic(alpha)
    x = alpha * np.maximum(4, 20 / G80_WARPS) + 4
    expected = np.maximum(np.maximum(1 / 0.0268, x), 440 - (G80_WARPS - 2) * x)
    assert 1 / Loop(alpha=alpha).accesses(found) == pytest.approx(expected)


def test_accesses_alone():  # VV16 s7.2: 1 / max(448 - 4 n, 37), an underestimate by more than 8 at 100 % occupancy
    found, basic = baghsorkhi_and_basic(0)
    assert found == pytest.approx(1 / np.maximum(448 - 4 * G80_WARPS, 37), rel=0.01)
    assert basic[-1] / found[-1] > 8
    assert warps_needed(Baghsorkhi(), G80, Loop(alpha=0)) > 100


def test_arithmetic_alone_is_accurate():  # VV16 s7.2
    found, basic = baghsorkhi_and_basic(inf)
    assert found == pytest.approx(basic)


def test_no_linear_growth_at_alpha_11():  # VV16 s7.2, figure 7.2 b; right at full occupancy
    found, basic = baghsorkhi_and_basic(11)
    assert found[-1] / basic[-1] == pytest.approx(0.8, abs=0.25)
    assert (found / basic).max() / (found / basic).min() > 2


def test_it_overestimates_where_latency_binds():  # VV16 s7.2: alpha 32, by up to 1.7
    found, basic = baghsorkhi_and_basic(32)
    assert (found / basic).max() == pytest.approx(1.7, abs=0.15)
    assert (found / basic)[10:] == pytest.approx(1, abs=0.04)

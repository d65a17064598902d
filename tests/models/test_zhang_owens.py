"""Zhang & Owens 2011 and added times, as VV16 s7.3, 4.11 and 4.12 evaluate them."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from gpudissect.models import published
from gpudissect.models.base import Curve, Limit, Loop
from gpudissect.models.volkov import Basic
from gpudissect.models.zhang_owens import Added, ZhangOwens
from tests.support.machines import EACH_MACHINE, FIVE, GT200, MAXWELL, limits

N = np.arange(1, 33)
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
    gpu = published.gpus()[FIVE.index(machine)]
    loop = Loop(alpha=published.value(gpu, "table_4_3", "alpha"))
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


def test_limits():
    latency = dict.fromkeys([(0, 8), (64, 4)], Limit.LATENCY)
    limits(ZhangOwens(), MAXWELL, latency | {(0, 64): Limit.MEMORY, (64, 64): Limit.PIPELINE})

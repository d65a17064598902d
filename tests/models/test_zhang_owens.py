from dataclasses import replace
from math import inf

import numpy as np
import pytest

from gpudissect.models import published
from gpudissect.models.base import Curve, Limit, Loop
from gpudissect.models.volkov import Basic
from gpudissect.models.zhang_owens import Added, ZhangOwens
from tests.support.machines import FIVE, GT200, MAXWELL

N = np.arange(1, 33)
MEASURED = replace(
    GT200,
    curves={
        "fadd": Curve((1, 6, 32), (1 / 24, 0.25, 0.25)),
        "ldg_streaming": Curve((1, 12, 18, 32), (1 / 434, 0.0233, 0.0264, 0.0277)),
    },
)


@pytest.mark.parametrize("alpha", [1, 16, 32])
def test_the_smaller_of_both_curves(alpha):  # VV16 s7.3: min(alu(n), alpha mem(n)) adds a cycle
    loop = Loop(alpha=alpha)
    alu, mem = (32 * MEASURED.curves[kind].at(N) for kind in ("fadd", "ldg_streaming"))
    assert loop.operations(ZhangOwens().throughput(MEASURED, loop, N)) == pytest.approx(np.minimum(alu, alpha * mem))


def test_times_in_isolation():  # VV16 s4.11 without measured curves, s4.12 with times added
    loop = Loop(alpha=16)
    alu, mem = np.maximum(24 / N, 4), np.maximum(434 / N, 1 / 0.0277)
    adds = loop.operations(ZhangOwens().throughput(GT200, loop, N))
    assert adds == pytest.approx(32 * 16 / np.maximum(16 * alu, mem))
    adds = loop.operations(Added().throughput(GT200, loop, N))
    assert adds == pytest.approx(32 * 16 / (16 * alu + mem))


@pytest.mark.parametrize("machine", FIVE, ids=lambda machine: machine.name)
def test_opposite_characters(machine):  # VV16 s4.11, 4.12: overlapped is twice too fast at few warps, added exact there
    gpu = published.gpus()[FIVE.index(machine)]
    loop = Loop(alpha=published.value(gpu, "table_4_3", "alpha"))
    basic = Basic().throughput(machine, loop, [1, 512])
    assert ZhangOwens().throughput(machine, loop, 1) / basic[0] == pytest.approx(1.85, abs=0.15)
    assert ZhangOwens().throughput(machine, loop, 512) / basic[1] == pytest.approx(1, abs=0.07)
    assert Added().throughput(machine, loop, 1) == pytest.approx(basic[0])
    assert Added().throughput(machine, loop, 512) / basic[1] == pytest.approx(0.6, abs=0.1)


def test_both_are_exact_at_the_ends():  # VV16 s7.3
    for alpha in (0, inf):
        for model in (ZhangOwens(), Added()):
            basic = Basic().throughput(GT200, Loop(alpha=alpha), N)
            assert model.throughput(GT200, Loop(alpha=alpha), N) == pytest.approx(basic)


def test_a_curve_between_and_beyond_its_points():
    assert Curve((2, 4), (1, 3)).at([1, 2, 3, 9]) == pytest.approx([0.5, 1, 2, 3])
    for warps, rate in (((), ()), ((1, 2), (1,)), ((2, 1), (1, 2))):
        with pytest.raises(ValueError, match="rising"):
            Curve(warps, rate)


@pytest.mark.parametrize(
    ("alpha", "n", "limit"),
    [(0, 8, Limit.LATENCY), (0, 64, Limit.MEMORY), (64, 4, Limit.LATENCY), (64, 64, Limit.PIPELINE)],
)
def test_what_binds(alpha, n, limit):
    assert ZhangOwens().limit(MAXWELL, Loop(alpha=alpha), n) is limit

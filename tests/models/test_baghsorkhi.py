"""Baghsorkhi et al. 2010 as VV16 s7.2 evaluates it, on the G80."""

from math import inf

import numpy as np
import pytest

from gpudissect.models.baghsorkhi import Baghsorkhi
from gpudissect.models.base import Limit, Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.volkov import Basic
from tests.support.machines import G80, limits

N = np.arange(1, 25)


def throughputs(alpha):
    """Of the model and of the basic model."""
    return (model.throughput(G80, Loop(alpha=alpha), N) for model in (Baghsorkhi(), Basic()))


@pytest.mark.parametrize("alpha", [0.5, 1, 8, 11, 32, 100])
def test_the_closed_form(alpha):  # VV16 s7.2: max(37, x, 440 - (n - 2) x), x = alpha max(4, 20 / n) + 4
    found, _ = throughputs(alpha)
    x = alpha * np.maximum(4, 20 / N) + 4
    expected = np.maximum(np.maximum(1 / 0.0268, x), 440 - (N - 2) * x)
    assert 1 / Loop(alpha=alpha).accesses(found) == pytest.approx(expected)


def test_accesses_alone():  # VV16 s7.2: 1 / max(448 - 4 n, 37), an underestimate by more than 8 at 100 % occupancy
    found, basic = throughputs(0)
    assert found == pytest.approx(1 / np.maximum(448 - 4 * N, 37), rel=0.01)
    assert basic[-1] / found[-1] > 8
    assert warps_needed(Baghsorkhi(), G80, Loop(alpha=0)) > 100


def test_arithmetic_alone_is_accurate():  # VV16 s7.2
    found, basic = throughputs(inf)
    assert found == pytest.approx(basic)


def test_no_linear_growth_at_alpha_11():  # VV16 s7.2, figure 7.2 b; right at full occupancy
    found, basic = throughputs(11)
    assert found[-1] / basic[-1] == pytest.approx(0.8, abs=0.25)
    assert (found / basic).max() / (found / basic).min() > 2


def test_it_overestimates_where_latency_binds():  # VV16 s7.2: alpha 32, by up to 1.7
    found, basic = throughputs(32)
    assert (found / basic).max() == pytest.approx(1.7, abs=0.15)
    assert (found / basic)[10:] == pytest.approx(1, abs=0.04)


def test_limits():
    latency = dict.fromkeys([(0, 4), (32, 3), (inf, 4)], Limit.LATENCY)
    pipeline = dict.fromkeys([(32, 24), (inf, 5)], Limit.PIPELINE)
    limits(Baghsorkhi(), G80, latency | pipeline | {(0, 200): Limit.MEMORY})

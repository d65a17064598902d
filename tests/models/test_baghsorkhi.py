from math import inf

import numpy as np
import pytest

from gpudissect.models.baghsorkhi import Baghsorkhi
from gpudissect.models.base import Limit, Loop
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.volkov import Basic
from tests.support.machines import G80

MODEL = Baghsorkhi()
N = np.arange(1, 25)


@pytest.mark.parametrize("alpha", [0.5, 1, 8, 11, 32, 100])
def test_the_closed_form_on_the_g80(alpha):  # VV16 s7.2: max(37, x, 440 - (n - 2) x), x = alpha max(4, 20 / n) + 4
    x = alpha * np.maximum(4, 20 / N) + 4
    expected = np.maximum(np.maximum(1 / 0.0268, x), 440 - (N - 2) * x)
    assert 1 / Loop(alpha=alpha).accesses(MODEL.throughput(G80, Loop(alpha=alpha), N)) == pytest.approx(expected)


def test_accesses_alone():  # VV16 s7.2: 1 / max(448 - 4 n, 37), an underestimate by more than 8 at 100 % occupancy
    found = MODEL.throughput(G80, Loop(alpha=0), N)
    assert found == pytest.approx(1 / np.maximum(448 - 4 * N, 37), rel=0.01)
    assert Basic().throughput(G80, Loop(alpha=0), 24) / found[-1] > 8
    assert warps_needed(MODEL, G80, Loop(alpha=0)) > 100


def test_arithmetic_alone():  # VV16 s7.2: accurate there
    assert MODEL.throughput(G80, Loop(alpha=inf), N) == pytest.approx(Basic().throughput(G80, Loop(alpha=inf), N))


def test_the_odd_behaviour_at_alpha_11():  # VV16 s7.2, figure 7.2 b: no linear growth, right at full occupancy
    loop = Loop(alpha=11)
    found, basic = MODEL.throughput(G80, loop, N), Basic().throughput(G80, loop, N)
    assert found[-1] / basic[-1] == pytest.approx(0.8, abs=0.25)
    assert (found / basic).max() / (found / basic).min() > 2


def test_at_alpha_32_it_overestimates_where_latency_binds():  # VV16 s7.2: the worst against experiment is 1.7
    loop = Loop(alpha=32)
    quotient = MODEL.throughput(G80, loop, N) / Basic().throughput(G80, loop, N)
    assert quotient.max() == pytest.approx(1.7, abs=0.15)
    assert quotient[10:] == pytest.approx(1, abs=0.04)


@pytest.mark.parametrize(
    ("alpha", "n", "limit"),
    [
        (0, 4, Limit.LATENCY),
        (0, 200, Limit.MEMORY),
        (32, 3, Limit.LATENCY),
        (32, 24, Limit.PIPELINE),
        (inf, 4, Limit.LATENCY),
        (inf, 5, Limit.PIPELINE),
    ],
)
def test_what_binds(alpha, n, limit):
    assert MODEL.limit(G80, Loop(alpha=alpha), n) is limit

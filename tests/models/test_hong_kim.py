from math import inf

import numpy as np
import pytest

from gpudissect.models.base import Limit, Loop
from gpudissect.models.hong_kim import HongKim, cwp_full, mwp_peak_bw
from gpudissect.models.volkov import Basic
from tests.support.machines import GT200

MODEL, LOOP = HongKim(), Loop(alpha=32)


def test_mwp_and_cwp_on_the_gtx280():  # VV16 s7.1: 12.4 and 4.3
    assert round(mwp_peak_bw(GT200, LOOP), 1) == 12.4
    assert round(cwp_full(GT200, LOOP), 1) == 4.3


def test_times_at_alpha_32():  # VV16 s7.1: 434 + 4 (alpha + 1) up to 4.3 warps, then 4 n (alpha + 1)
    for n in (1, 2, 4):
        adds = LOOP.operations(MODEL.throughput(GT200, LOOP, n))
        assert adds == pytest.approx(32 * n * 32 / (434 + 4 * 33))
    for n in (5, 10, 32):
        adds = LOOP.operations(MODEL.throughput(GT200, LOOP, n))
        assert adds == pytest.approx(32 * n * 32 / (4 * n * 33))


def test_it_overestimates_by_about_two_at_small_occupancies():  # VV16 s7.1: 2.1, and 434 + 24 alpha takes that away
    quotient = MODEL.throughput(GT200, LOOP, 1) / Basic().throughput(GT200, LOOP, 1)
    assert quotient == pytest.approx((434 + 24 * 32) / (434 + 4 * 33))
    assert round(float(quotient), 1) == 2.1
    n = np.arange(13, 33)  # "at occupancy 10 warps and above the model is highly accurate"
    assert MODEL.throughput(GT200, LOOP, n) == pytest.approx(Basic().throughput(GT200, LOOP, n), rel=0.04)


def test_arithmetic_alone_is_flat():  # VV16 s7.1: 4 CPI at all occupancies
    assert 1 / MODEL.throughput(GT200, Loop(alpha=inf), [1, 6, 32]) == pytest.approx([4, 4, 4])


def test_accesses_alone_are_as_in_the_basic_model():  # VV16 s7.1; up to its 4 cycles and the pins' bandwidth
    n = np.arange(1, 33)
    mine = MODEL.throughput(GT200, Loop(alpha=0), n)
    assert mine == pytest.approx(Basic().throughput(GT200, Loop(alpha=0), n), rel=0.04)


@pytest.mark.parametrize(
    ("alpha", "n", "limit"),
    [(32, 4, Limit.LATENCY), (32, 5, Limit.PIPELINE), (0, 12, Limit.LATENCY), (0, 13, Limit.MEMORY)],
)
def test_modes(alpha, n, limit):
    assert MODEL.limit(GT200, Loop(alpha=alpha), n) is limit

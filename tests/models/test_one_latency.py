"""Models that hide one latency only: the programming guide, coarse-grained multithreading, prefetching."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import vv16
from needed import guide_warps, guide_warps_with_access, guide_warps_with_arithmetic

from gpudissect.models.base import Loop
from gpudissect.models.hong_kim import cwp_full
from gpudissect.models.one_latency import (
    Agarwal,
    ChenAamodt,
    CudaGuide,
    Saavedra,
)
from gpudissect.models.volkov import Basic
from tests.support.machines import FERMI, FIVE, GT200, KEPLER, MAXWELL


@pytest.mark.parametrize("gpu", vv16.gpus())
def test_table_4_3(gpu):
    loop = Loop(alpha=vv16.value(gpu, "table_4_3", "alpha"))
    printed = vv16.value(gpu, "table_4_3", "estimate")
    assert guide_warps(vv16.machine(gpu), loop) == pytest.approx(printed, abs=0.5 if printed > 10 else 0.05)


def test_the_better_estimate():  # VV16 s4.8: 74 warps on Kepler, nearly twice as large everywhere
    assert round(guide_warps_with_arithmetic(KEPLER, Loop(alpha=32))) == 74
    for gpu, machine in vv16.machines().items():
        loop = Loop(alpha=vv16.value(gpu, "table_4_3", "alpha"))
        assert 1.7 < guide_warps_with_arithmetic(machine, loop) / guide_warps(machine, loop) < 2.15


def test_the_guide_s_own_example():  # VV16 s4.8: 600 cycles, 4 CPI, alpha 30: about 5 warps
    units = {**GT200.units, "ldg_streaming": replace(GT200.unit("ldg_streaming"), latency=600)}
    machine = replace(GT200, units=units)
    assert guide_warps(machine, Loop(alpha=30)) == pytest.approx(5)
    assert guide_warps_with_access(machine, Loop(alpha=30)) == pytest.approx(150 / 31 + 1)  # with the stalled one: 6


def test_the_guide_as_a_model():
    model, loop = CudaGuide(), Loop(alpha=32)
    assert loop.operations(model.throughput(FERMI, loop, [8, 16.03125, 48])) == pytest.approx(
        [32 * 8 * 32 / 513, 32, 32]
    )
    assert guide_warps(FERMI, Loop(alpha=0)) == inf
    assert model.throughput(FERMI, Loop(alpha=0), 48) == pytest.approx(48 / 513)  # no bandwidth in it
    assert model.throughput(FERMI, Loop(alpha=inf), 1) == pytest.approx(1)  # nor arithmetic latency


@pytest.mark.parametrize("machine", FIVE, ids=lambda machine: machine.name)
@pytest.mark.parametrize("alpha", [1, 16, 64])
def test_without_switches_all_of_them_need_the_same(machine, alpha):  # VV16 s4.9
    loop = Loop(alpha=alpha)
    run, wait, switch = Agarwal().cycles(machine, loop)
    assert (run + wait) / (run + switch) == pytest.approx(cwp_full(machine, loop))
    assert guide_warps_with_access(machine, loop) == pytest.approx(cwp_full(machine, loop))


def test_a_switch_costs_the_processor():
    loop, n = Loop(alpha=9), np.array([1.0, 2.0, 64.0])
    run, wait = 4, 434 / 10
    for model, least in ((Agarwal(switch=10), run + wait), (Saavedra(switch=10), run + wait + 1)):
        assert model.throughput(GT200, loop, n) == pytest.approx(np.minimum(n / least, 1 / (run + 1)))


def test_chen_and_aamodt():  # VV16 s4.13: 1 - (1 - lambda)^n, a scheduler at a time
    loop = Loop(alpha=0)
    assert ChenAamodt().throughput(FERMI, loop, 10) == pytest.approx(1 - (1 - 1 / 513) ** 10)
    assert ChenAamodt().throughput(MAXWELL, loop, 8) == pytest.approx(4 * (1 - (1 - 1 / 368) ** 2))
    n = np.arange(1, 49)
    assert np.all(ChenAamodt().throughput(FERMI, Loop(alpha=inf), n) < 1)
    assert np.all(ChenAamodt().throughput(FERMI, loop, n) <= n / 513 * (1 + 1e-9))
    assert float(ChenAamodt().throughput(FERMI, loop, 48)) > 1.4 * float(Basic().throughput(FERMI, loop, 48))

"""Banks of registers: the fit, and a simulated SM that has them or has none."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.instructions.plan_registers import REGISTERS, fit_banks, reads_of_a_bank
from gpudissect.simulation.sm.description import Operation, Pipe
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates


def found(banks):
    described = load("gtx980")
    operations = {Op.FFMA: Operation(Pipe.CORE, 1.0, 4)}
    processor = replace(described.processor(), operations=operations, register_banks=banks)
    gpu = SimulatedGpu(described.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
    return estimates(gpu, ["registers.ffma"])


@pytest.mark.parametrize("banks", [1, 2, 4])
def test_banks_of_a_simulated_scheduler(banks):
    results = found(banks)
    assert results["registers", "banks"].value == banks
    assert results["registers", "read_interval"].value == pytest.approx(1, rel=0.02)


def test_registers_without_banks_are_not_slower():
    results = found(None)
    assert {each.status for each in results.values()} == {Status.NOT_FOUND}


def test_a_register_that_is_named_twice_is_read_once():
    assert reads_of_a_bank((4, 4, 4), 2) == 1
    assert reads_of_a_bank((4, 5, 6), 2) == 2


def test_times_that_no_banks_explain_have_none():
    times = dict(zip(REGISTERS, (1.0, 3.0, 1.0, 3.0, 2.0), strict=True))
    fit = fit_banks(times)
    assert fit is not None and not fit.counts

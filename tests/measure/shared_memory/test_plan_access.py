"""Bank passes of accesses by stride and width, on simulated SMs with and without banks in the L1."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.sm.description import Operation, Pipe
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates

OPERATIONS = {op: Operation(Pipe.MEMORY, 1.0, 24) for op in (Op.LDG, Op.LDS, Op.STS)}


def found(name, *, banked_l1=True, **operations):
    described = load("gtx980")
    processor = replace(described.processor(), operations={**OPERATIONS, **operations}, banked_l1=banked_l1)
    gpu = SimulatedGpu(described.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
    return estimates(gpu, [name])


def test_banks_of_an_l1_that_conflicts_as_shared_memory_does():
    results = found("access.ldg")
    assert results["lsu", "ldg_banks"].value == 32
    assert results["lsu", "ldg_pass"].value == pytest.approx(1, rel=0.02)


def test_lines_are_no_limit_of_an_l1_that_has_banks_only():
    assert found("access.ldg")["lsu", "ldg_lines_per_cycle"].status is Status.NOT_FOUND


def test_lines_that_an_l1_looks_up_per_cycle():
    """A line of 128 bytes takes 2 cycles at 64 bytes per cycle."""
    described = load("gtx980")
    processor = replace(described.processor(), operations=OPERATIONS)
    read = processor.l1.read
    gpu = SimulatedGpu(described.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
    assert estimates(gpu, ["access.ldg"])["lsu", "ldg_lines_per_cycle"].value == pytest.approx(read / 128, rel=0.02)


def test_no_banks_are_found_where_loads_take_as_long_as_their_lines():
    results = found("access.ldg", banked_l1=False)
    assert results["lsu", "ldg_banks"].status is Status.NOT_FOUND
    assert results["lsu", "ldg_pass"].status is Status.NOT_FOUND


@pytest.mark.parametrize("op", [Op.LDS, Op.STS])
def test_passes_of_shared_memory(op):
    results = found(f"access.{op}")
    assert results["lsu", f"{op}_pass"].value == pytest.approx(1, rel=0.02)
    assert "4 B: 1.0" in results["lsu", f"{op}_one_address"].caveats[0]


def test_an_access_that_is_not_described_is_not_supported():
    results = found("access.atoms")
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}

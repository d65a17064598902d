"""Instructions of a simulated SM are found with the latency and the rate that it was given."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.sm.description import Operation, Pipe
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates

TRUTHS = {  # instruction: pipe, cycles of a unit, latency
    Op.IMAD_WIDE: (Pipe.CORE, 4.0, 5),
    Op.SELECT: (Pipe.INTEGER, 4.0, 9),
    Op.POPC: (Pipe.CONVERT, 8.0, 18),
    Op.REDUX: (Pipe.MEMORY, 2.0, 23),
    Op.STG: (Pipe.MEMORY, 3.0, 4),
}


@pytest.fixture(scope="module")
def processor():
    processor = load("gtx980").processor()
    added = {each: Operation(pipe, interval, latency) for each, (pipe, interval, latency) in TRUTHS.items()}
    return replace(processor, operations={**processor.operations, **added})


@pytest.fixture(scope="module")
def gpu(processor):
    hierarchy = load("gtx980").hierarchy()
    return SimulatedGpu(hierarchy, spec="sim:test", name="Test", noise=Noise.none(), processor=processor)


@pytest.mark.parametrize("op", [op for op in TRUTHS if op is not Op.STG], ids=str)
def test_latency_and_rate_are_found(gpu, processor, op):
    pipe, interval, latency = TRUTHS[op]
    units = 1 if pipe is Pipe.MEMORY else processor.schedulers
    found = estimates(gpu, [f"rate.{op}"])
    assert found[op, "latency"].low <= latency <= found[op, "latency"].high
    assert found[op, "rate"].value == pytest.approx(32 * units / interval, rel=0.02)


def test_stores_are_limited_by_the_l2(gpu):
    assert estimates(gpu, ["rate.stg"])["stg", "rate"].value == pytest.approx(32 / 3, rel=0.05)


def test_an_instruction_that_is_not_described_is_not_supported(gpu):
    found = estimates(gpu, ["rate.match"])
    assert {each.status for each in found.values()} == {Status.NOT_SUPPORTED}

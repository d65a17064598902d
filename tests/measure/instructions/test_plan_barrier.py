"""Barriers by block size, wider loads, and atomics of all SMs, on simulated SMs."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.simulation.sm.description import Operation, Pipe
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates


def found(name, **operations):
    described = load("gtx980")
    processor = replace(described.processor(), operations={Op(op): each for op, each in operations.items()})
    gpu = SimulatedGpu(described.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)
    return estimates(gpu, [name])


@pytest.mark.parametrize("interval", [2.0, 4.0])
def test_warps_that_arrive_at_a_barrier(interval):
    results = found("blocks.barrier", barrier=Operation(Pipe.BARRIER, interval, 14))
    assert results["barrier", "arrival_interval"].value == pytest.approx(interval, rel=0.1)
    assert results["barrier", "block_latency"].value == pytest.approx(14 + 31 * interval, rel=0.1), "of 32 warps"


def test_loads_of_shared_memory_take_longer_by_their_passes():
    results = found("widths.lds", lds=Operation(Pipe.MEMORY, 1.0, 24))
    extra = load("gtx980").processor().shared.conflict_latency
    assert results["lds", "latency_64"].value == pytest.approx(24 + extra, rel=0.02)
    assert results["lds", "latency_128"].value == pytest.approx(24 + 3 * extra, rel=0.02)


@pytest.mark.parametrize("name", ["atomics.atomg", "stores.launch"])
def test_what_simulated_gpus_do_not_model_is_not_supported(name):
    results = found(name, atomg=Operation(Pipe.MEMORY, 1.0, 200), fadd=Operation(Pipe.CORE, 1.0, 6))
    assert {each.status for each in results.values()} == {Status.NOT_SUPPORTED}

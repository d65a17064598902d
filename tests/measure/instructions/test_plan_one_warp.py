"""Independent instructions, loads in flight and latency by consumer of one warp, on simulated GPUs."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load, names
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.instructions.infer_issue import loads_in_flight
from gpudissect.measure.instructions.plan_one_warp import INDEPENDENT, LOAD_CHAINS, PRODUCERS
from gpudissect.workload import Instruction
from tests.support.driving import estimates

WITH_PROCESSOR = [name for name in names() if load(name).processor() is not None]
TO_MEMORY = (Instruction.LDG, Instruction.STG)
LOADS = ("ldg_streaming", "loads_in_flight")


def simulated(name, noise=None, **changes):
    described = load(name)
    processor = replace(described.processor(), **changes)
    return SimulatedGpu(
        described.hierarchy(),
        spec=f"sim:{name}",
        name=name,
        facts=described.facts(),
        noise=noise or Noise.none(),
        processor=processor,
    )


@pytest.mark.parametrize("name", WITH_PROCESSOR)
def test_cycles_between_independent_instructions(name):
    processor = load(name).processor()
    own = [each for each in INDEPENDENT if each in processor.operations and each not in TO_MEMORY]
    found = estimates(simulated(name), [f"ilp.{each}" for each in own])
    for each in own:
        operation = processor.operations[each]
        at_once = processor.issue_width if operation.interval < processor.issue_interval else 1
        truth = max(processor.reissue / at_once, operation.slots * processor.issue_interval, operation.interval)
        estimate = found[each, "ilp_latency"]
        assert estimate.low <= truth <= estimate.high, (each, truth, estimate)


def test_a_latency_that_is_not_hidden_gives_an_upper_bound():
    operations = dict(load("gtx980").processor().operations)
    operations[Instruction.FADD] = replace(operations[Instruction.FADD], latency=100)
    estimate = estimates(simulated("gtx980", operations=operations), ["ilp.fadd"])["fadd", "ilp_latency"]
    assert (estimate.status, estimate.low) == (Status.AMBIGUOUS, None) and estimate.high == pytest.approx(
        100 / 32, abs=0.2
    )


@pytest.mark.parametrize("name", WITH_PROCESSOR)
def test_latency_to_an_addition(name):
    gpu = simulated(name)
    operations = load(name).processor().operations
    supported = [each for each in PRODUCERS if each in operations and each is not Instruction.LDG]
    found = estimates(gpu, [f"consumer.{each}" for each in supported])
    for each in supported:
        operation = operations[each]
        truth = operation.latency if operation.latency_to_core is None else operation.latency_to_core
        estimate = found[each, "latency_to_fadd"]
        assert estimate.low <= truth <= estimate.high, (each, truth, estimate)


@pytest.mark.parametrize("limit", [None, 1, 2, 3, 5, 6, 9, 16, 20])
@pytest.mark.parametrize("noise", [Noise.none(), Noise(seed=3, jitter=0.3, outliers=0.002, drift=0.002)])
def test_loads_in_flight(limit, noise):
    estimate = estimates(simulated("gtx980", noise, loads_in_flight=limit), ["in_flight.ldg_streaming"])[LOADS]
    if limit is None:
        assert estimate.status is Status.NOT_FOUND and estimate.low >= 0.85 * LOAD_CHAINS[-1]
    else:
        assert estimate.value == limit
        assert estimate.low <= limit <= estimate.high


def test_five_loads_of_fermi():
    assert estimates(simulated("gtx480"), ["in_flight.ldg_streaming"])[LOADS].value == 5


def test_an_h200_has_no_limit_up_to_32_chains():
    """Measured cycles: 12 and 24 chains take longer than 16 and 32, so no single number of chains shows a limit."""
    times = {1: 679, 2: 679, 3: 696, 4: 681, 6: 677, 8: 690, 12: 847, 16: 773, 24: 914, 32: 799}
    found = loads_in_flight(times)
    assert found.limit is None and found.low == pytest.approx(27.2, abs=0.1)


def test_loads_in_flight_that_still_rise_are_no_limit():
    assert loads_in_flight({1: 500, 16: 1000, 24: 1200, 32: 1400}).limit is None
    assert loads_in_flight({1: 500, 16: 1000, 24: 1500, 32: 2000}).limit == 8

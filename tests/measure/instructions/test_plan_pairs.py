"""Units that instructions share, from pairs of them on a simulated SM, and the arithmetic of pairs."""

from dataclasses import replace

import pytest

from gpudissect.catalogue import load
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.estimate import Status
from gpudissect.measure.instructions.infer_pairs import Pair, issue_interval, losses, shared_units, undecided
from gpudissect.simulation.sm.description import Operation, Pipe
from gpudissect.workload import Instruction as Op
from tests.support.driving import estimates, outcome

OPERATIONS = {
    Op.FADD: Operation(Pipe.CORE, 1.0, 4),
    Op.IMAD: Operation(Pipe.CORE, 2.0, 4),
    Op.SHIFT: Operation(Pipe.INTEGER, 2.0, 4),
    Op.RSQ: Operation(Pipe.SPECIAL, 8.0, 17),
    Op.SHUFFLE: Operation(Pipe.MEMORY, 1.0, 23),
    Op.STS: Operation(Pipe.MEMORY, 1.0, 4),
}


def gpu_with(operations):
    described = load("gtx980")
    processor = replace(described.processor(), operations=operations)
    return SimulatedGpu(described.hierarchy(), spec="sim:x", name="x", noise=Noise.none(), processor=processor)


def pair(first, second, alone, together):
    return Pair((first, second), alone, together)


def test_overlap_is_one_in_separate_units_and_zero_in_the_same():
    assert pair("a", "b", (2.0, 2.0), 2.0).overlap == 1
    assert pair("a", "b", (2.0, 1.0), 3.0).overlap == 0


def test_instructions_that_share_a_unit_are_one_group():
    pairs = [
        pair("a", "b", (2, 2), 4),
        pair("b", "c", (2, 2), 4),
        pair("a", "c", (2, 2), 4),
        pair("c", "d", (2, 2), 2.2),
    ]
    assert shared_units("abcd", pairs) == (("a", "b", "c"), ("d",))


def test_a_pair_between_the_two_cases_is_undecided():
    doubtful = pair("a", "b", (2.0, 2.0), 3.3)
    assert undecided((("a",), ("b",)), [doubtful]) == [doubtful]
    assert not undecided((("a", "b"),), [doubtful])


def test_loss_is_relative_to_the_slower_one_or_the_issue_of_both():
    pairs = [pair("a", "b", (2.0, 2.0), 3.0), pair("a", "c", (1.0, 1.0), 2.0)]
    assert issue_interval((2.0, 1.0), pairs) == 1
    assert losses((("a",), ("b",), ("c",)), pairs, 1.0) == {("a", "b"): 0.5, ("a", "c"): 0.0}


def test_units_of_a_simulated_scheduler():
    found = estimates(gpu_with(OPERATIONS), ["pairs.issue"])
    assert found["issue", "units"].value == 4
    assert "fadd, imad; shift; rsq; shuffle" in found["issue", "units"].caveats[0]
    assert found["issue", "instructions_per_cycle"].value == pytest.approx(1, rel=0.03)
    assert found["issue", "pair_loss"].value == pytest.approx(0, abs=0.05)


def test_special_functions_of_another_unit_add_nothing():
    found = estimates(gpu_with(OPERATIONS), ["queue.issue"])
    for attribute in ("special_with_shuffle", "special_with_store"):
        assert found["issue", attribute].value == pytest.approx(0, abs=0.1)


def test_special_functions_in_the_unit_of_shuffles_add_all_of_their_time():
    operations = {**OPERATIONS, Op.RSQ: Operation(Pipe.MEMORY, 2.0, 17)}
    found = estimates(gpu_with(operations), ["queue.issue"])
    assert found["issue", "special_with_shuffle"].value == pytest.approx(2, abs=0.1)


def test_series_hold_every_pair():
    from gpudissect.measure.instructions.plan_pairs import pairs_plan
    from gpudissect.measure.plan import Bench, Known

    device = gpu_with(OPERATIONS)
    (series,) = outcome(pairs_plan(Bench(device.info), Known({})), device).series
    assert len(series.columns["both"]) == 10


def test_without_the_instructions_nothing_is_claimed():
    device = gpu_with({Op.FADD: OPERATIONS[Op.FADD]})
    found = estimates(device, ["pairs.issue", "queue.issue"])
    assert {each.status for each in found.values()} == {Status.NOT_SUPPORTED}

"""The driver: order, merged batches, failures, and what an experiment must declare."""

from dataclasses import replace
from types import NoneType

import pytest

from gpudissect.device.queue import Deferred
from gpudissect.device_info import DeviceInfo, Origin
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, StopEarly
from gpudissect.survey import drive as drive_module
from gpudissect.survey.drive import Drive
from gpudissect.trace import Context, Trace
from gpudissect.workload import Path, Sequential
from tests.support.workloads import LAP, chase

INFO = DeviceInfo(spec="", name="", origin=Origin.SIMULATED, sm_count=1, span_limits={})
A, B = Key[int]("test.a", (int,)), Key[None]("test.b", (NoneType,))


def found(value: float, attribute: str = "capacity") -> Estimate:
    return Estimate(element="l1", attribute=attribute, status=Status.FOUND, value=value, confidence=1)


def experiment(key: Key, outcome: Outcome, **declared) -> Experiment:
    def plan(bench: Bench, known: Known):
        yield from ()
        return outcome

    return Experiment(key, plan, element="l1", **declared)


def drive(*experiments: Experiment) -> Drive:
    driver = Drive(None, Bench(INFO), {each.name: each for each in experiments}, lambda *_: None)
    driver.run()
    return driver


def test_a_revision_comes_last_and_both_statements_are_kept():
    emitting = experiment(A, Outcome((found(1),), 1), emits=("capacity",))
    revising = experiment(B, Outcome((found(2),)), revises=("l1.capacity",), needs=(A,))
    statements = drive(emitting, revising).statements({"l1"})["l1", "capacity"]
    assert [(each.experiment, each.estimate.value) for each in statements] == [("test.a", 1), ("test.b", 2)]


@pytest.mark.parametrize("declared", [{}, {"emits": ("line_size",)}, {"revises": ("l2.capacity",)}])
def test_an_undeclared_estimate_is_refused(declared):
    driver = drive(experiment(A, Outcome((found(1),), 1), **declared))
    assert "l1.capacity" in driver.failed["test.a"]
    assert not driver.outcomes


def test_knowledge_of_another_type_than_the_key_declares_is_refused():
    driver = drive(experiment(A, Outcome(knowledge="one")))
    assert {"str", "int"} <= set(driver.failed["test.a"].replace(";", "").split())


def test_a_failure_fails_what_needs_it_but_counts_once():
    broken = experiment(A, Outcome(knowledge="one"), emits=("capacity",))
    needing = experiment(B, Outcome(), needs=(A,))
    driver = drive(broken, needing)
    assert [each.experiment for each in driver.failures] == ["test.a"]
    assert "test.a" in driver.failed["test.b"]
    (statement,) = driver.statements({"l1"})["l1", "capacity"]
    assert statement.estimate.status is Status.SKIPPED


def test_quick_leaves_out_slow_experiments_and_those_that_need_them():
    slow, quick = experiment(A, Outcome(knowledge=1)), experiment(B, Outcome(), needs=(A,), quick=True)
    bench = replace(Bench(INFO), quick=True)
    driver = Drive(None, bench, {each.name: each for each in (slow, quick)}, lambda *_: None)
    assert driver.skipped == {"test.a", "test.b"}


class Logging:
    """A device whose traces all report a clock; keeps the batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def run(self, batch):
        self.batches.append(list(batch))
        return [Trace("", {}, Context("", clock_hz=1e9)) for _ in batch]


def asking(key: Key, batches: int, **declared) -> Experiment:
    def plan(bench: Bench, known: Known):
        for _ in range(batches):
            yield [key.name]
        return Outcome()

    return Experiment(key, plan, element="l1", **declared)


def test_what_comes_last_starts_when_all_others_ended():
    last, quiet = asking(Key("test.a"), 1, last=True), asking(Key("test.b"), 2)
    device = Logging()
    driver = Drive(Deferred(device.run), Bench(INFO), {each.name: each for each in (last, quiet)}, lambda *_: None)
    driver.run()
    assert device.batches == [["test.b"], ["test.b"], ["test.a"]]
    assert [context.clock_hz for context in driver.contexts] == [1e9, 1e9, 1e9]


def test_what_changes_the_clock_runs_last_and_its_clock_is_no_condition():
    loud, quiet = asking(Key("test.a"), 1, changes_clock=True), asking(Key("test.b"), 2)
    device = Logging()
    driver = Drive(Deferred(device.run), Bench(INFO), {each.name: each for each in (loud, quiet)}, lambda *_: None)
    driver.run()
    assert device.batches == [["test.b"], ["test.b"], ["test.a"]]
    assert [context.clock_hz for context in driver.contexts] == [1e9, 1e9, None]


@pytest.mark.parametrize(("compiled", "order"), [(True, ["a", "b"]), (False, ["b", "a"])])
def test_what_simulates_waits_for_others_while_the_simulator_is_compiled(compiled, order):
    simulating, other = asking(Key("test.a"), 1, simulates=True), asking(Key("test.b"), 1)
    last = asking(Key("test.c"), 1, last=True)
    device = Logging()
    driver = Drive(Deferred(device.run), Bench(INFO), {each.name: each for each in (simulating, other, last)}, print)
    driver.can_simulate = lambda: compiled
    driver.run()
    assert [name for batch in device.batches for name in batch] == [f"test.{each}" for each in (*order, "c")]


def test_what_simulates_starts_once_the_simulator_is_compiled():
    simulating, other = asking(Key("test.a"), 1, simulates=True), asking(Key("test.b"), 3)
    device = Logging()
    driver = Drive(Deferred(device.run), Bench(INFO), {each.name: each for each in (simulating, other)}, print)
    driver.can_simulate = lambda: bool(device.batches)
    driver.run()
    assert [name for batch in device.batches for name in batch].index("test.a") < 3


def test_what_begins_the_longest_chain_starts_first():
    alone, first = asking(Key("test.alone"), 1), asking(Key("test.first"), 1)
    second = asking(Key("test.second"), 1, needs=(first.key,))
    device = Logging()
    driver = Drive(
        Deferred(device.run), Bench(INFO), {each.name: each for each in (alone, first, second)}, lambda *_: 0
    )
    driver.run()
    assert device.batches == [["test.first", "test.alone"], ["test.second"]]


def test_batches_have_the_rank_of_their_experiment_as_priority():
    priorities = {}

    class Noting(Deferred):
        def submit(self, batch, priority=0):
            priorities[batch[0]] = priority
            return super().submit(batch, priority)

    first, alone = asking(Key("test.first"), 1), asking(Key("test.alone"), 1)
    second = asking(Key("test.second"), 1, needs=(first.key,))
    experiments = {each.name: each for each in (first, second, alone)}
    Drive(Noting(Logging().run), Bench(INFO), experiments, lambda *_: None).run()
    assert priorities == {"test.first": 2, "test.second": 1, "test.alone": 1}


def test_a_quick_survey_ranks_experiments_by_those_that_it_runs():
    first, second = asking(Key("test.first"), 1, quick=True), asking(Key("test.second"), 1, quick=True)
    third = asking(Key("test.third"), 1, needs=(second.key,), quick=True)
    left_out = asking(Key("test.left_out"), 1, needs=(first.key,))
    experiments = {each.name: each for each in (first, second, third, left_out)}
    device = Logging()
    Drive(Deferred(device.run), Bench(INFO, quick=True), experiments, lambda *_: None).run()
    assert device.batches == [["test.second", "test.first"], ["test.third"]]


@pytest.mark.parametrize(("quick", "started"), [(False, "ab"), (True, "abc")])
def test_a_whole_survey_runs_few_experiments_at_a_time(quick, started, monkeypatch):
    monkeypatch.setattr(drive_module, "MAX_RUNNING", 2)
    experiments = {each.name: each for each in (asking(Key(f"test.{name}"), 2, quick=True) for name in "abc")}
    device = Logging()
    driver = Drive(Deferred(device.run), Bench(INFO, quick=quick), experiments, lambda *_: None)
    driver.run()
    assert device.batches[0] == [f"test.{name}" for name in started]
    assert driver.outcomes.keys() == experiments.keys()


class Refusing(Deferred):
    """A queue that takes no batch of one experiment."""

    def submit(self, batch, priority=0):
        if batch == ["test.a"]:
            raise MemoryError("no room for the batch")
        return super().submit(batch)


def test_a_batch_that_cannot_be_submitted_fails_its_experiment_alone():
    first, other = asking(Key("test.a"), 1), asking(Key("test.b"), 2)
    driver = Drive(Refusing(Logging().run), Bench(INFO), {each.name: each for each in (first, other)}, lambda *_: None)
    driver.run()
    assert [each.experiment for each in driver.failures] == ["test.a"] and "no room" in driver.failures[0].reason
    assert driver.outcomes.keys() == {"test.b"}


def test_every_part_of_an_experiment_may_end_at_an_interrupt():
    def plan(bench, known):
        ended = 0
        for _ in range(2):
            try:
                yield [chase(Path.GLOBAL, Sequential(4, 64), LAP)]
            except StopEarly:
                ended += 1
        return Outcome(knowledge=ended)

    def interrupt(batch):
        raise KeyboardInterrupt

    experiment = Experiment(Key("test.a"), plan)
    driver = Drive(Deferred(interrupt), Bench(INFO), {experiment.name: experiment}, lambda *_: None)
    with pytest.raises(KeyboardInterrupt):
        driver.run()
    driver.conclude()
    assert driver.outcomes["test.a"].knowledge == 2

"""Batches on their way to a device while plans infer."""

import sys
from dataclasses import replace
from threading import Event, current_thread

import pytest

from gpudissect.device.base import Device, Stopped
from gpudissect.device_info import Origin
from gpudissect.errors import DeviceError
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Experiment, Key, Outcome
from gpudissect.survey.drive import Drive
from gpudissect.survey.measuring import Ahead, Immediate, measuring
from gpudissect.trace import Context, Trace
from gpudissect.workload import Chase, Path, Sequential, Timing
from gpudissect.workload.digest import digest
from tests.survey.test_drive import INFO

KEYS = {name: Key[int](f"test.{name}", (int,)) for name in ("a", "b", "c")}
LIMIT_S = 10.0


def chase(repetition: int) -> Chase:
    return Chase(path=Path.GLOBAL, order=Sequential(4, 128), timing=Timing.LAP, repetition=repetition)


class FakeDevice(Device):
    """Counts batches; `refused` are repetitions of workloads that fail a batch."""

    info = replace(INFO, origin=Origin.MEASURED)

    def __init__(self, refused=()):
        self.batches, self.refused, self.threads, self.is_stopped = [], refused, set(), Event()

    def run(self, batch):
        self.batches.append([each.repetition for each in batch])
        self.threads.add(current_thread().name)
        if any(each.repetition in self.refused for each in batch):
            raise DeviceError("refused")
        return [Trace(workload=digest(each), arrays={}, context=Context(device="")) for each in batch]

    def stop(self):
        self.is_stopped.set()


def experiment(name, steps, during=lambda step: None) -> Experiment:
    """Runs a workload in each of some steps; its number is the sum of its traces."""

    def plan(bench, known):
        count = 0
        for step in range(steps):
            count += len((yield [chase(100 * ord(name) + step)]))
            during(step)
        value = Estimate(element="l1", attribute="capacity", status=Status.FOUND, value=count, confidence=1)
        return Outcome((value,), count)

    return Experiment(KEYS[name], plan, ("capacity",), element="l1")


def drive(device, *experiments) -> Drive:
    made = Drive(measuring(device), Bench(INFO), {each.name: each for each in experiments}, lambda *_: None)
    made.run()
    return made


def test_real_gpus_run_batches_in_a_thread_and_simulated_ones_at_once():
    assert isinstance(measuring(FakeDevice()), Ahead)
    simulated = FakeDevice()
    simulated.info = INFO
    assert isinstance(measuring(simulated), Immediate)


def test_every_experiment_gets_its_own_traces():
    device = FakeDevice()
    made = drive(device, experiment("a", 5), experiment("b", 1), experiment("c", 3))
    assert {name: outcome.knowledge for name, outcome in made.outcomes.items()} == {
        "test.a": 5,
        "test.b": 1,
        "test.c": 3,
    }
    assert made.workloads == 9 == sum(map(len, device.batches))
    assert len(device.threads) == 1 and current_thread().name not in device.threads


def test_an_experiment_infers_while_a_batch_of_another_runs():
    infers, runs = Event(), Event()

    class Slow(FakeDevice):
        def run(self, batch):
            if any(each.repetition == 100 * ord("b") for each in batch):
                runs.set()
                assert infers.wait(LIMIT_S), "no plan went on while this batch ran"
            return super().run(batch)

    def during(step):
        if step == 0:
            assert runs.wait(LIMIT_S)
            infers.set()

    made = drive(Slow(), experiment("a", 2, during), experiment("b", 1))
    assert set(made.outcomes) == {"test.a", "test.b"}


def test_a_workload_that_is_refused_fails_its_experiment_only():
    made = drive(FakeDevice({100 * ord("c") + 1}), experiment("a", 3), experiment("b", 3), experiment("c", 3))
    assert set(made.outcomes) == {"test.a", "test.b"}
    assert made.failed == {"test.c": "refused"}


def test_an_interrupt_stops_the_device_and_leaves_no_thread():
    class Waiting(FakeDevice):
        def run(self, batch):
            if any(each.repetition == 100 * ord("b") for each in batch):
                assert self.is_stopped.wait(LIMIT_S)
                raise Stopped
            return super().run(batch)

    def interrupt(step):
        raise KeyboardInterrupt

    device = Waiting()
    with pytest.raises(KeyboardInterrupt):
        drive(device, experiment("a", 2, interrupt), experiment("b", 1))
    assert device.is_stopped.is_set()


def test_the_time_slice_of_threads_is_restored():
    before = sys.getswitchinterval()
    drive(FakeDevice(), experiment("a", 1))
    assert sys.getswitchinterval() == before

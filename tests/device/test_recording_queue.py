"""The queue of a recording answers batches as they were answered, in the same order, with the same errors."""

import itertools
from collections.abc import Sequence

import pytest

from gpudissect.device.base import Device
from gpudissect.device.queue import Deferred, Stepwise
from gpudissect.device.recording.device import RecordedGpu, Recorder
from gpudissect.errors import OutOfMemory
from gpudissect.trace import Trace
from gpudissect.workload import Workload
from tests.device.test_recording_device import EACH, LAP, MIX, FakeGpu


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "rec"


def answers(device: Device, *batches: Sequence[Workload]) -> list[object]:
    """Of a queue to which all batches are submitted before the first is collected."""
    queue, found = device.queue(), list[object]()
    for batch in batches:
        queue.submit(batch)
    for _ in batches:
        _, answer = queue.collect()
        found.append(str(answer) if isinstance(answer, OutOfMemory) else [trace.workload for trace in answer])
    return found


class FailsOnce(FakeGpu):
    """It has no room for the first batch that holds a chase through shared memory."""

    def run(self, batch: Sequence[Workload]) -> list[Trace]:
        if LAP in batch and self.error is None:
            self.error = OutOfMemory("no room")
            raise self.error
        return [self._trace(workload) for workload in batch]


@pytest.mark.parametrize(
    "batches", [[[LAP]], [[], [LAP]], [[LAP], [LAP, EACH]], [[EACH], [LAP], [MIX], [LAP]]], ids=len
)
def test_a_queue_replays_the_errors_of_its_batches(folder, batches):
    class Alone(FailsOnce):
        def queue(self):
            return Deferred(self.run, 0)

    with Recorder(Alone(), folder) as recorder:
        recorded = answers(recorder, *batches)
    assert recorded.count("no room") == 1
    assert answers(RecordedGpu.open(folder), *batches) == recorded


def test_a_batch_that_fails_alone_is_not_run_again():
    assert answers(FailsOnce(), [LAP]) == ["no room"]


@pytest.mark.parametrize(
    "batches",
    [
        [[LAP], [LAP, EACH], [MIX]],
        [[LAP], [EACH, LAP], []],
        [[LAP, EACH, MIX], [LAP, MIX], [EACH, EACH]],
        [[LAP, EACH, MIX], [LAP, LAP, MIX], [LAP, EACH, MIX]],
    ],
)
def test_a_queue_answers_in_the_order_of_the_recording(folder, batches):
    for order in itertools.permutations(range(3)):
        with Recorder(FakeGpu(), folder / str(order)) as recorder:
            for number in order:
                recorder.run(batches[number])
        queue = RecordedGpu.open(folder / str(order)).queue()
        for batch in batches:
            queue.submit(batch)
        found = [batches[queue.collect()[0]] for _ in order]
        assert [each for each in found if each] == [batches[number] for number in order if batches[number]]


def test_a_queue_first_answers_what_the_recording_lacks(folder):
    with Recorder(FakeGpu(), folder) as recorder:
        recorder.run([LAP])
    queue = RecordedGpu.open(folder).queue()
    queue.submit([LAP])
    queue.submit([LAP, LAP])
    assert [queue.collect()[0] for _ in range(2)] == [1, 0]


def test_equal_batches_are_answered_in_the_order_of_submission(folder):
    """The device runs the last batch first; a replay could not know which of two equal batches that was."""

    class Backwards(FakeGpu):
        def queue(self):
            return Stepwise(self.run, 1)

    with Recorder(Backwards(), folder) as recorder:
        recorded, batches = recorder.queue(), [[LAP], [EACH], [LAP]]
        numbers = [recorded.submit(batch, priority) for priority, batch in enumerate(batches)]
        found = [numbers.index(recorded.collect()[0]) for _ in batches]
    replayed = RecordedGpu.open(folder).queue()
    for batch in batches:
        replayed.submit(batch)
    assert found == [0, 1, 2] == [replayed.collect()[0] for _ in batches]

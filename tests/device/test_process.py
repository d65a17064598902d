"""A device in child processes gives the same traces and errors as in this process."""

import os
import pickle
import signal
import time
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.device import kinds, process
from gpudissect.device.process import DeviceProcess, serve
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.workload import Chase, Path, Sequential, Shuffled, Timing

SPEC = "sim:gtx980"
CHASES = [Chase(path=Path.GLOBAL, order=Shuffled(200, 128, seed), timing=Timing.EACH) for seed in range(5)]
REFUSED = Chase(path=Path.GLOBAL, order=Sequential(8, 8), timing=Timing.LAP, sm=9999)
LONG = Chase(path=Path.GLOBAL_L2, order=Sequential(1 << 19, 128), timing=Timing.LAP, laps=100)


@pytest.fixture(params=[1, 3])
def device(request):
    with DeviceProcess(SPEC, 0, request.param) as device:
        yield device


def same(traces, others):
    return len(traces) == len(others) and all(
        one.workload == other.workload and one.context == other.context and np.array_equal(one.cycles, other.cycles)
        for one, other in zip(traces, others, strict=True)
    )


def test_traces_and_info_are_those_of_the_device(device):
    with kinds.open_device(SPEC) as here:
        assert device.info == here.info
        assert same(device.run(CHASES), here.run(CHASES))


def test_traces_and_errors_come_in_the_order_of_submission(device):
    queue, batches = device.queue(), [CHASES[:2], [CHASES[2], REFUSED], CHASES[3:], []]
    for batch in batches:
        queue.submit(batch)
    with kinds.open_device(SPEC) as here:
        assert same(queue.collect(), here.run(batches[0]))
        with pytest.raises(UnsupportedWorkload, match="9999"):
            queue.collect()
        assert same(queue.collect(), here.run(batches[2]))
    assert queue.collect() == []


def test_what_cannot_be_opened_raises_when_its_info_is_read():
    with DeviceProcess("sim:nothing", 0) as device, pytest.raises(DeviceError, match="unknown device"):
        device.info  # noqa: B018


def test_errors_of_libraries_arrive_as_errors_of_the_device(device):
    device.submit([SimpleNamespace(_held_digest="no workload")])
    with pytest.raises(DeviceError, match="AttributeError: "):
        device.collect()


def test_a_process_that_is_killed_is_an_error_of_the_device():
    with DeviceProcess(SPEC, 0) as device:
        device.submit([LONG])
        os.kill(device._process.pid, signal.SIGKILL)
        for _ in range(2):
            with pytest.raises(DeviceError, match=f"{SPEC}.* code -9"):
                device.collect()


def test_closing_ends_processes_that_measure(device):
    for _ in range(4):
        device.submit([LONG])
    begin = time.monotonic()
    device.close()
    device.close()
    assert time.monotonic() - begin < 5


def test_a_process_started_early_is_used_once_or_closed():
    with process.process_started_early(SPEC, 3):
        (ahead,) = process._started_early.values()
        with process.open_in_process(SPEC, seed=3) as device, process.open_in_process(SPEC, seed=3) as other:
            assert device is ahead is not other
    with process.process_started_early(SPEC, 3):
        (ahead,) = process._started_early.values()
    assert ahead._process.poll() is not None and not process._started_early


@pytest.mark.parametrize("spec", [None, "cuda:all", "rec:folder", "nonsense"])
def test_devices_without_a_process_start_none(spec):
    with process.process_started_early(spec, 0):
        assert not process._started_early


class FakeDeviceAndConnection:
    """Both in one: three steps of preparation; the first message arrives after two."""

    def __init__(self, messages):
        self.messages, self.log, self.parts = messages, [], 3

    def poll(self):
        return self.parts < 2  # the first message comes when two parts are prepared

    def recv_bytes(self):
        return self.messages.pop(0)

    def send_bytes(self, message):
        self.log.append("answer")

    def prepare(self):
        self.parts -= 1
        self.log.append("prepare" if self.parts >= 0 else "nothing left")
        return self.parts >= 0

    def run(self, batch):
        self.log.append(f"run {len(batch)}")
        return []


def test_a_device_prepares_while_no_batch_comes():
    device = FakeDeviceAndConnection([pickle.dumps([]), b""])
    serve(device, device)
    assert device.log == ["prepare", "prepare", "run 0", "answer"]

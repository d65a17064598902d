"""A device in child processes gives the same traces and errors as in this process."""

import os
import pickle
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect import child_processes, workload
from gpudissect.device import child, kinds, process
from gpudissect.device.child import start_child
from gpudissect.device.process import DeviceProcess, serve
from gpudissect.device.queue import Deferred, traces_of
from gpudissect.device.simulated import throughput
from gpudissect.errors import DeviceError, UnsupportedWorkload
from gpudissect.workload import Chase, Instruction, Mix, Sequential, Shuffled, Step, Timing

SPEC = "sim:gtx980"
GLOBAL, GLOBAL_L2 = workload.Path.GLOBAL, workload.Path.GLOBAL_L2
linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs /proc and PR_SET_PDEATHSIG of Linux")
CHASES = [Chase(path=GLOBAL, order=Shuffled(200, 128, seed), timing=Timing.EACH) for seed in range(5)]
REFUSED = Chase(path=GLOBAL, order=Sequential(8, 8), timing=Timing.LAP, sm=9999)
LONG = Chase(path=GLOBAL_L2, order=Sequential(1 << 19, 128), timing=Timing.LAP, laps=100)


@pytest.fixture(params=[1, 3])
def device(request):
    with DeviceProcess(SPEC, start_child(SPEC, 0, request.param)) as device:
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


def test_a_batch_of_repeated_mixes_keeps_its_order(device):
    mix = Mix(body=(Step(Instruction.FADD),), warps=1, block_size=32, iterations=4)
    mixes = [replace(mix, iterations=4 * n, repetition=k) for k in range(3) for n in (1, 2)]
    batch = [each for pair in zip(mixes, CHASES, strict=False) for each in pair]
    with kinds.open_device(SPEC) as here:
        ours, theirs = ([trace.begin.tolist() for trace in each.run(batch)[::2]] for each in (device, here))
    assert ours == theirs


def test_a_simulated_gpu_runs_repetitions_of_a_mix_once(monkeypatch):
    runs, run_long = [], throughput.run_long
    monkeypatch.setattr(throughput, "run_long", lambda *given: runs.append(given) or run_long(*given))
    mix = Mix(body=(Step(Instruction.FADD),), warps=1, block_size=32, iterations=4)
    with kinds.open_device(SPEC) as here:
        traces = here.run([replace(mix, repetition=number) for number in range(3)])
    assert len(runs) == 1
    assert len({trace.begin.tobytes() for trace in traces}) == 3


def test_each_batch_gets_its_own_traces_or_error(device):
    queue, batches = device.queue(), [CHASES[:2], [CHASES[2], REFUSED], CHASES[3:], []]
    numbers = [queue.submit(batch) for batch in batches]
    answers = dict(queue.collect() for _ in batches)
    with kinds.open_device(SPEC) as here:
        for kept in (0, 2):
            assert same(traces_of(answers[numbers[kept]]), here.run(batches[kept]))
    with pytest.raises(UnsupportedWorkload, match="9999"):
        traces_of(answers[numbers[1]])
    assert answers[numbers[3]] == []


@pytest.mark.parametrize("processes", [1, 2])
def test_small_batches_overtake_large_ones(processes):
    with DeviceProcess(SPEC, start_child(SPEC, 0, processes)) as device:
        for _ in range(2):
            device.submit([replace(LONG, laps=2, repetition=number) for number in range(4)])
        small = device.submit(CHASES[:1])
        assert small in (device.collect()[0], device.collect()[0])


def test_what_cannot_be_opened_raises_when_its_info_is_read():
    with (
        DeviceProcess("sim:nothing", start_child("sim:nothing", 0, 1)) as device,
        pytest.raises(DeviceError, match="unknown device"),
    ):
        device.info  # noqa: B018


def test_errors_of_libraries_arrive_as_errors_of_the_device(device):
    device.submit([SimpleNamespace(_held_digest="no workload")])
    with pytest.raises(DeviceError, match="AttributeError: "):
        traces_of(device.collect()[1])


def test_a_process_that_is_killed_is_an_error_of_the_device():
    with DeviceProcess(SPEC, start_child(SPEC, 0, 1)) as device:
        numbers = [device.submit([LONG]) for _ in range(2)]
        os.kill(device._process.pid, signal.SIGKILL)
        for number in numbers:
            answered, error = device.collect()
            assert answered == number
            with pytest.raises(DeviceError, match=f"{SPEC}.* code -9"):
                traces_of(error)


def children(pid):
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def has_ended(pid):
    """Whether a process ends within seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


@linux
def test_one_of_several_processes_that_is_killed_is_an_error_too():
    with DeviceProcess(SPEC, start_child(SPEC, 0, 2)) as device:
        device.run(CHASES)
        (other,) = children(device._process.pid)
        os.kill(other, signal.SIGKILL)
        with pytest.raises(DeviceError, match="exited with code"):
            device.run(CHASES)


@linux
def test_all_processes_end_with_the_first_one():
    with DeviceProcess(SPEC, start_child(SPEC, 0, 2)) as device:
        device.run(CHASES)
        (other,) = children(device._process.pid)
        device.submit([LONG] * 4)
        os.kill(device._process.pid, signal.SIGKILL)
        assert has_ended(other)


SURVEY = """
import os, sys, threading
from gpudissect.device.child import start_child
from gpudissect.device.process import DeviceProcess
device = DeviceProcess("sim:gtx980", start_child("sim:gtx980", 0, 1))
device.info
print(device._process.pid, flush=True)
os.kill(device._process.pid, 19)  # SIGSTOP: it hangs
os.kill(os.getpid(), 9)
"""


@linux
def test_a_device_that_hangs_ends_with_the_survey():
    with subprocess.Popen([sys.executable, "-c", SURVEY], stdout=subprocess.PIPE, text=True) as survey:
        pid = int(survey.stdout.readline())
        survey.wait()
        assert has_ended(pid)


@pytest.mark.parametrize("spec", ["sim:a\0b", "sim:\ud800", "sim:" + 300_000 * "x"])
def test_names_that_no_process_can_have_are_refused(spec):
    with pytest.raises(DeviceError, match="could not be started") as refused:
        DeviceProcess(spec, start_child(spec, 0, 1))
    assert len(str(refused.value)) < 300


def test_a_process_that_cannot_be_started_is_an_error_of_the_device(monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(child, "start_process", refuse)
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    with pytest.raises(DeviceError, match="temporarily unavailable"):
        DeviceProcess(SPEC, start_child(SPEC, 0, 1))
    assert len(os.listdir("/proc/self/fd")) == len(before) if before else True


def test_a_path_object_in_the_search_path_is_ignored_as_imports_do(monkeypatch):
    monkeypatch.setattr(sys, "path", [Path("here"), *sys.path])
    with DeviceProcess(SPEC, start_child(SPEC, 0, 1)) as device:
        assert device.info.name


@linux
def test_closing_does_not_wait_for_a_device_that_is_starting():
    with DeviceProcess(SPEC, start_child(SPEC, 0, 1)) as device:
        os.kill(device._process.pid, signal.SIGSTOP)
        begin = time.monotonic()
    assert time.monotonic() - begin < 5


@linux
def test_closing_leaves_a_process_that_cannot_be_killed(monkeypatch):
    """One that hangs in the driver, say."""
    monkeypatch.setattr(child_processes, "KILL_TIMEOUT_S", 0.1)
    device = DeviceProcess(SPEC, start_child(SPEC, 0, 1))
    os.kill(device._process.pid, signal.SIGSTOP)
    with monkeypatch.context() as patch:
        patch.setattr(os, "killpg", lambda *_: None)
        begin = time.monotonic()
        device.close()
    assert time.monotonic() - begin < 5 and device._process.poll() is None
    child_processes.kill_process(device._process)
    assert device._process.poll() is not None


def test_closing_ends_processes_that_measure(device):
    for _ in range(4):
        device.submit([LONG])
    begin = time.monotonic()
    device.close()
    device.close()
    assert time.monotonic() - begin < 5


def test_a_process_started_early_is_used_once_or_closed():
    with child.started_early(SPEC, 3):
        (ahead,) = child._early.values()
        with process.open_in_process(SPEC, seed=3) as device, process.open_in_process(SPEC, seed=3) as other:
            assert device._process is ahead.process is not other._process
    with child.started_early(SPEC, 3):
        (ahead,) = child._early.values()
    assert ahead.process.poll() is not None and not child._early


@pytest.mark.parametrize("spec", [None, "cuda:all", "rec:folder", "nonsense"])
def test_devices_without_a_process_start_none(spec):
    with child.started_early(spec, 0):
        assert not child._early


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

    def queue(self):
        return Deferred(self.run)

    def run(self, batch):
        self.log.append(f"run {len(batch)}")
        return []


def test_a_device_prepares_while_no_batch_comes():
    device = FakeDeviceAndConnection([pickle.dumps((0, [], 0)), b""])
    serve(device, device)
    assert device.log == ["prepare", "prepare", "run 0", "answer"]


def test_batches_that_arrive_meanwhile_are_submitted_with_their_priority():
    waiting = {}

    class Queue:
        def submit(self, batch, priority=0):
            waiting[len(waiting)] = priority
            return len(waiting) - 1

        def collect(self, meanwhile):
            meanwhile()
            number = max(waiting, key=waiting.get)
            del waiting[number]
            return number, []

    messages = [pickle.dumps((number, [], priority)) for number, priority in ((5, 1), (6, 3))]
    connected, sent = FakeDeviceAndConnection([*messages, b""]), []
    connected.parts, connected.queue = 0, Queue
    connected.poll = lambda: bool(connected.messages)
    connected.send_bytes = lambda message: sent.append(pickle.loads(message)[0])
    serve(connected, connected)
    assert sent == [6, 5]


def test_a_simulated_gpu_runs_batches_by_priority():
    queue = kinds.open_device(SPEC).queue()
    numbers = [queue.submit(batch, priority) for priority, batch in enumerate((CHASES[:1], CHASES[:3], CHASES[:2]))]
    assert [queue.collect()[0] for _ in numbers] == numbers[::-1]


def test_of_several_answers_that_of_the_highest_priority_is_collected_first():
    with DeviceProcess(SPEC, start_child(SPEC, 0, 1)) as device:
        numbers = [device.submit([each], priority) for priority, each in enumerate(CHASES[:3])]
        while device._incoming.qsize() < 3:
            time.sleep(0.01)
        assert [device.collect()[0] for _ in numbers] == numbers[::-1]


def test_a_device_that_does_not_prepare_leaves_the_gpu_to_others():
    device = FakeDeviceAndConnection([pickle.dumps((0, [], 0)), b""])
    serve(device, device, prepares=False)
    assert device.log == ["run 0", "answer"]
    with process.open_in_process(SPEC, prepares=False) as other:
        assert len(other.run(CHASES)) == len(CHASES)

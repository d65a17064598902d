"""Launches on a driver that only logs: what is started in which stream, what is timed, what is left after errors."""

from itertools import count

import pytest

from gpudissect.errors import KernelFailed
from gpudissect.workload import Clock, Launch, LaunchMethod
from tests.support.fake_context import fake_gpu, run_tasks
from tests.support.fake_driver import CONTEXT_STREAM, LAUNCH_STREAM, FakeDriver, LaunchContext, launch_runner

WARM_UP = 8
TIMER = "gpudissect.device.cuda.launch.time.perf_counter_ns"
OPENED = [
    ("wait", CONTEXT_STREAM),
    ("create", CONTEXT_STREAM),
    *[("launch", CONTEXT_STREAM), ("wait", CONTEXT_STREAM), ("launch", LAUNCH_STREAM), ("wait", LAUNCH_STREAM)],
]
CALLS = {LaunchMethod.STREAM: ["launch"], LaunchMethod.GRAPH: ["graph launch"]}


@pytest.fixture(autouse=True)
def timer(monkeypatch):
    """Readings of the host's clock are 10 ns apart."""
    ticks = count(0, 10)
    monkeypatch.setattr(TIMER, lambda: next(ticks))


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_the_host_times_runs_after_a_warm_up(method):
    driver = FakeDriver()
    (trace,) = run_tasks(launch_runner(driver), [[Launch(method=method, kernels=3, runs=20)]])
    assert trace.nanoseconds.tolist() == [10] * 20, "from before the first call until the end is known"
    assert trace.context.notes == {"host_clock": "CLOCK_MONOTONIC"}
    calls = CALLS[method] * (3 if method is LaunchMethod.STREAM else 1)
    timed = [(call, LAUNCH_STREAM) for call in (*calls, "sync")]
    assert driver.log[: len(OPENED)] == OPENED, "both streams are used before anything is timed"
    assert [entry for entry in driver.log[len(OPENED) :] if entry[1] == LAUNCH_STREAM] == timed * (WARM_UP + 20)


def test_a_graph_is_in_memory_before_it_starts():
    driver = FakeDriver()
    run_tasks(launch_runner(driver), [[Launch(method=LaunchMethod.GRAPH, kernels=2, runs=8)]])
    calls = [call for call, stream in driver.log[len(OPENED) :] if stream == CONTEXT_STREAM]
    assert calls == ["capture", "launch", "launch", "captured", "graph", "upload", "wait"]
    assert driver.graphs == 0, "destroyed at the end"


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_the_gpu_times_runs_that_are_queued(method):
    """A kernel that holds the GPU, a mark, the kernels, another mark; the first run of a graph does not count."""
    driver = FakeDriver()
    (trace,) = run_tasks(launch_runner(driver), [[Launch(method=method, kernels=3, runs=2, clock=Clock.GPU)]])
    assert trace.nanoseconds.tolist() == [1500, 1500] and driver.graphs == 0
    assert trace.context.notes == {"gpu_clock": "globaltimer"}
    calls = CALLS[method] * (5 if method is LaunchMethod.STREAM else 1)
    runs = [*calls, "wait", *["launch", *calls, "wait"] * 2]
    assert [call for call, stream in driver.log[len(OPENED) :] if stream == LAUNCH_STREAM] == runs
    assert driver.log[-1] == ("download", CONTEXT_STREAM), "read at the end"
    marks = [arguments[0] for arguments in driver.arguments if arguments[0] > 1 << 40]
    assert len(marks) == (6 if method is LaunchMethod.STREAM else 2) and marks[1] == marks[0] + 8


def test_more_kernels_hold_the_gpu_longer():
    held = []
    for kernels in (1, 101):
        driver = FakeDriver()
        run_tasks(
            launch_runner(driver), [[Launch(method=LaunchMethod.STREAM, kernels=kernels, runs=1, clock=Clock.GPU)]]
        )
        held.append(min(driver.arguments)[0])
    assert held[0] >= 100_000 and held[1] - held[0] >= 100 * 12_000


def test_a_host_too_slow_to_queue_kernels(monkeypatch):
    ticks = count(0, 1 << 40)
    monkeypatch.setattr(TIMER, lambda: next(ticks))
    driver = FakeDriver()
    with pytest.raises(KernelFailed, match="less load on the host"):
        run_tasks(launch_runner(driver), [[Launch(method=LaunchMethod.STREAM, kernels=3, runs=1, clock=Clock.GPU)]])
    held = [ns for (ns,) in driver.arguments if ns < 1 << 40]
    assert held == sorted(held) and len(set(held)) == 4, "longer each time"


def test_the_stream_is_destroyed_and_created_again():
    driver = FakeDriver()
    runner = launch_runner(driver)
    for _ in range(2):
        run_tasks(runner, [[Launch(method=LaunchMethod.STREAM, runs=1)]])
        assert driver.streams == 1
        runner.release()
        runner.release()
        assert driver.streams == 0


FAILING = [(clock, call) for clock in Clock for call in ("create", "launch", "capture", "captured", "graph", "upload")]


@pytest.mark.parametrize(("clock", "fail"), [*FAILING, (Clock.HOST, "sync"), (Clock.GPU, "graph launch")])
@pytest.mark.parametrize("interrupts", [False, True])
def test_errors_leave_nothing_behind(clock, fail, interrupts):
    driver = FakeDriver(fail, interrupts=interrupts)
    runner = launch_runner(driver)
    with pytest.raises(KeyboardInterrupt if interrupts else KernelFailed):
        run_tasks(runner, [[Launch(method=LaunchMethod.GRAPH, kernels=3, runs=5, clock=clock)]])
    runner.release()
    assert driver.graphs == driver.streams == 0


@pytest.mark.parametrize("interrupts", [False, True])
def test_an_error_while_a_graph_is_captured(interrupts):
    driver = FakeDriver("launch", times=4, interrupts=interrupts)
    with pytest.raises(KeyboardInterrupt if interrupts else KernelFailed):
        run_tasks(launch_runner(driver), [[Launch(method=LaunchMethod.GRAPH, kernels=3, runs=5)]])
    assert driver.graphs == 0 and driver.streams_of("captured") == [CONTEXT_STREAM]


@pytest.mark.parametrize("hangs", [False, True])
def test_closing_after_a_failure_destroys_the_stream_unless_a_kernel_hangs(hangs):
    """Destroying it would wait for the kernel."""
    driver = FakeDriver("graph launch")
    context = LaunchContext(driver)
    gpu = fake_gpu(context)
    gpu.run([Launch(method=LaunchMethod.STREAM, runs=1)])
    context.hangs = hangs
    with pytest.raises(KernelFailed):
        gpu.run([Launch(method=LaunchMethod.GRAPH, clock=Clock.GPU)])
    gpu.close()
    assert driver.streams == (1 if hangs else 0)

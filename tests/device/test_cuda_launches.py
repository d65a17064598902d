"""Launches on a driver that only counts: what is started in which stream, what counts, and what goes wrong."""

from __future__ import annotations

import ctypes
import os
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda.chase.plan import Machine
from gpudissect.device.cuda.gpu import CudaGpu
from gpudissect.device.cuda.launch.host_clock import HostClock
from gpudissect.device.cuda.launch.host_loop import time_starts
from gpudissect.device.cuda.launch.queues import MANY
from gpudissect.errors import KernelFailed
from gpudissect.workload import Clock, Launch, LaunchMethod
from tests.support.fake_driver import FIRST, KERNEL, OWN, FakeDriver, launcher

WARM_UP = 8
CLOCK = "gpudissect.device.cuda.launch.launches.time.perf_counter_ns"
ALL = list(range(FIRST, FIRST + MANY))


@pytest.fixture(autouse=True)
def bound(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """A host of one core, whatever this one has, and a quick one; gives what the thread was bound to."""
    cores: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {0})
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, wanted: cores.append(set(wanted)))
    monkeypatch.setattr(CLOCK, lambda: 0)
    return cores


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_the_host_times_runs_in_several_streams(method: LaunchMethod) -> None:
    driver = FakeDriver()
    trace = launcher(driver).run(Launch(method=method, kernels=3, runs=20))
    assert trace.nanoseconds.shape == (20,) and (trace.nanoseconds > 0).all()
    calls, what = (3, "launch") if method is LaunchMethod.STREAM else (1, "graph launch")
    runs = [FIRST + MANY // 8 * place for place in range(8) for _ in range(WARM_UP + 3)]
    timed = [(name, stream) for name, stream in driver.log if stream != OWN][2 * MANY :]
    assert timed == [each for stream in runs for each in (*[(what, stream)] * calls, ("sync", stream))]


def test_a_graph_each_is_ready_before_it_is_started_elsewhere() -> None:
    driver = FakeDriver()
    launcher(driver).run(Launch(method=LaunchMethod.GRAPH, kernels=2, runs=8))
    own = [name for name, stream in driver.log if stream == OWN and name != "address"]
    assert own == [
        "wait",
        *["create"] * MANY,
        *["capture", "launch", "launch", "captured", "graph", "upload", "wait"] * 8,
    ]
    assert driver.graphs == 0, "and gone again"


def test_runs_come_from_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there are more than asked for: those of one stream are not left out."""
    told = np.arange(8)[:, None] * 10 + np.arange(2)
    monkeypatch.setattr(HostClock, "time_kernels", lambda *_: told)
    trace = launcher(FakeDriver()).run(Launch(method=LaunchMethod.STREAM, runs=10))
    assert trace.nanoseconds.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 1, 11]


def test_fewer_runs_than_streams() -> None:
    assert launcher(FakeDriver()).run(Launch(method=LaunchMethod.STREAM, runs=3)).nanoseconds.shape == (3,)


def test_all_streams_are_used_before_any_is_timed() -> None:
    driver = FakeDriver()
    launcher(driver).run(Launch(method=LaunchMethod.STREAM, runs=1))
    first = [each for each in driver.log if each[0] in ("launch", "wait")][1 : 1 + 2 * MANY]
    assert first == [*(("launch", stream) for stream in ALL), *(("wait", stream) for stream in ALL)]


def test_what_the_clock_tells_counts() -> None:
    """From right before the start until the end is known, over the end of a second; without the runs that warm up."""
    ticks = iter([(0, 0), (1, 0), (7, 999_999_900), (8, 100), (8, 200), (8, 205)])
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.POINTER(ctypes.c_int64))

    @prototype
    def clock(which: int, at: Any) -> int:
        assert which == time.CLOCK_MONOTONIC
        at[0], at[1] = next(ticks)
        return 0

    nothing = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(lambda _: 0)
    call, told = (ctypes.cast(each, ctypes.c_void_p).value for each in (nothing, clock))
    took = np.zeros(2, np.int64)
    assert time_starts(call, (1,), 1, call, 1, told, 1, took, np.zeros(2, np.int64)) == 0
    assert took.tolist() == [200, 5]


def test_the_quickest_core_counts(monkeypatch: pytest.MonkeyPatch, bound: list[set[int]]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {2, 3, 5})
    told = {2: [30, 30, 30, 30], 3: [10, 10, 10, 90], 5: [20, 20, 20, 20]}  # delays do not count
    monkeypatch.setattr(HostClock, "_fill", lambda self, took, *_: np.copyto(took, told[min(bound[-1])]))
    assert HostClock(FakeDriver()).time_kernels(KERNEL, 32, 1, [1, 2], 4).tolist() == [told[3]] * 2
    assert bound == [{2}, {3}, {5}, {2, 3, 5}], "and the thread may use all of them again"


def test_a_host_with_many_cores_has_not_all_of_them_tried(
    monkeypatch: pytest.MonkeyPatch, bound: list[set[int]]
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: set(range(100)))
    HostClock(FakeDriver()).time_kernels(KERNEL, 32, 1, [1], 1)
    assert bound == [*({core} for core in range(0, 100, 13)), set(range(100))]


def test_a_host_that_binds_no_thread_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {2, 3, 5})
    monkeypatch.setattr(os, "sched_setaffinity", refused)
    driver = FakeDriver()
    assert HostClock(driver).time_kernels(KERNEL, 32, 1, [1], 3).shape == (1, 3)
    assert len(driver.of("sync")) == WARM_UP + 3


def test_a_core_that_is_not_to_be_had_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(who: int, wanted: set[int]) -> None:
        if wanted == {3}:
            raise PermissionError

    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {2, 3, 5})
    monkeypatch.setattr(os, "sched_setaffinity", refused)
    driver = FakeDriver()
    HostClock(driver).time_kernels(KERNEL, 32, 1, [1], 3)
    assert len(driver.of("sync")) == WARM_UP + 3, "what was bound counts"


def test_many_runs_are_interruptible_and_warm_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[tuple[int, int]] = []

    def seen(*given: Any) -> int:
        parts.append((given[6], given[7].size))
        given[7][:] = 1
        return 0

    monkeypatch.setattr("gpudissect.device.cuda.launch.host_loop.time_starts", seen)
    assert HostClock(FakeDriver()).time_kernels(KERNEL, 32, 1, [1], 200).tolist() == [[1] * 200]
    assert parts == [(WARM_UP, 64), (0, 64), (0, 64), (0, 8)], "Python looks in between whether it is interrupted"


@pytest.mark.parametrize("method", list(LaunchMethod))
def test_the_clock_of_the_gpu(method: LaunchMethod) -> None:
    """One that holds the GPU, a mark, the kernels, another mark; what the marks tell counts. Each run in its stream."""
    driver = FakeDriver()
    trace = launcher(driver).run(Launch(method=method, kernels=3, runs=2, clock=Clock.GPU))
    assert trace.nanoseconds.tolist() == [1500, 1500] and driver.memory == driver.graphs == 0
    one, other = FIRST, FIRST + MANY // 2
    all_of_it = {LaunchMethod.STREAM: ["launch"] * 5, LaunchMethod.GRAPH: ["graph launch"]}[method]
    timed = [each for each in driver.log if each[1] != OWN][2 * MANY :]
    first = [(name, one) for name in (*all_of_it, "wait")]
    assert timed == first + [(name, stream) for stream in (one, other) for name in ("launch", *all_of_it, "wait")]
    assert driver.log[-3:] == [*([("launch", other)] if method is LaunchMethod.STREAM else [("graph launch", other)]),
                               ("wait", other), ("download", OWN)], "read when it has ended"  # fmt: skip
    marks = [each for each in driver.arguments if max(each) < 1000]
    assert marks == [(64,), (72,)] * (3 if method is LaunchMethod.STREAM else 1), "a graph has them from its capture"


def test_more_kernels_hold_the_gpu_longer() -> None:
    held = []
    for kernels in (1, 101):
        driver = FakeDriver()
        launcher(driver).run(Launch(method=LaunchMethod.STREAM, kernels=kernels, runs=1, clock=Clock.GPU))
        held.append(max(driver.arguments)[0])
    assert held[0] >= 200_000 and held[1] - held[0] >= 100 * 10_000


def test_another_turn_takes_other_streams() -> None:
    for clock, what in ((Clock.GPU, "graph launch"), (Clock.HOST, "sync")):
        driver = FakeDriver()
        runner = launcher(driver)
        for turn in range(2):
            runner.run(Launch(method=LaunchMethod.GRAPH, runs=4, clock=clock, repetition=turn))
        expected = [FIRST + place * MANY // 4 + turn for place in range(4) for turn in range(2)]
        assert sorted(set(driver.of(what))) == expected


def test_streams_are_given_back() -> None:
    driver = FakeDriver()
    runner = launcher(driver)
    runner.run(Launch(method=LaunchMethod.STREAM, runs=1))
    assert len(driver.streams) == MANY
    runner.release()
    runner.release()
    assert not driver.streams
    runner.run(Launch(method=LaunchMethod.STREAM, runs=1))
    assert len(driver.streams) == MANY, "and made anew"


@pytest.mark.parametrize("fail", ["create", "launch"])
def test_streams_that_cannot_all_be_had_and_used_are_given_back(fail: str) -> None:
    driver = FakeDriver(fail, times=100)
    runner = launcher(driver)
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        runner.run(Launch(method=LaunchMethod.STREAM, runs=1))
    assert not driver.streams
    driver._fail = ""
    runner.run(Launch(method=LaunchMethod.STREAM, runs=1))
    assert Counter(driver.of("launch"))[FIRST + MANY - 1] == 1, "the next run uses all of them again"


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_batch_that_fails_gives_streams_back(lost: bool, interrupted: bool) -> None:
    """Also if it is interrupted; unless something hangs on the GPU, for which that would wait."""
    driver = FakeDriver("graph launch")
    driver.interrupts = interrupted
    gpu = object.__new__(CudaGpu)
    gpu._compile_ahead = lambda batch: None  # type: ignore[assignment]
    gpu._launcher, gpu._closed, gpu._broken = launcher(driver), False, None
    gpu._board = SimpleNamespace(activate=lambda: None, lost=lambda: lost)  # type: ignore[assignment]
    gpu._info = SimpleNamespace(spec="cuda:0", launch_methods=tuple(LaunchMethod))  # type: ignore[assignment]
    gpu._machine = Machine(4, {}, shared_largest=49152, shared_per_sm=49152, shared_free=1024)
    with pytest.raises(KeyboardInterrupt if interrupted else KernelFailed):
        gpu.run([Launch(method=LaunchMethod.GRAPH, clock=Clock.GPU)])
    assert len(driver.streams) == (MANY if lost else 0)


def test_a_host_that_is_too_slow_to_queue_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1 << 60, 1 << 40))
    monkeypatch.setattr(CLOCK, lambda: next(ticks))
    driver = FakeDriver()
    with pytest.raises(KernelFailed, match="too slow to queue 3 kernels"):
        launcher(driver).run(Launch(method=LaunchMethod.STREAM, kernels=3, runs=1, clock=Clock.GPU))
    held = [busy for (busy,) in driver.arguments if busy > 72]
    assert held == sorted(held) and len(set(held)) == 4, "longer each time"
    assert driver.memory == 0


OF_BOTH = ("capture", "captured", "graph", "upload", "graph launch")
FAILING = [*((clock, fail) for clock in Clock for fail in OF_BOTH), (Clock.HOST, "sync"), (Clock.HOST, "address")]


@pytest.mark.parametrize(("clock", "fail"), FAILING)
def test_launches_that_fail_leave_nothing_behind(clock: Clock, fail: str, bound: list[set[int]]) -> None:
    driver = FakeDriver(fail)
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        launcher(driver).run(Launch(method=LaunchMethod.GRAPH, kernels=3, runs=5, clock=clock))
    assert driver.graphs == driver.memory == 0
    assert not bound or bound[-1] == {0}


def test_a_launch_that_fails_while_a_graph_is_made() -> None:
    driver = FakeDriver("launch", times=MANY + 2)
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        launcher(driver).run(Launch(method=LaunchMethod.GRAPH, kernels=3, runs=5))
    assert driver.graphs == 0 and driver.of("captured") == [OWN]


@pytest.mark.parametrize(("what", "times"), [("launch", 100), ("launch", MANY + 2), ("create", 7)])
def test_an_interrupt_leaves_nothing_behind(what: str, times: int) -> None:
    driver = FakeDriver(what, times=times)
    driver.interrupts = True
    runner = launcher(driver)
    with pytest.raises(KeyboardInterrupt):
        runner.run(Launch(method=LaunchMethod.GRAPH, kernels=3, runs=5))
    runner.release()
    assert driver.graphs == 0 and not driver.streams


def test_nothing_is_freed_while_a_kernel_hangs() -> None:
    driver = FakeDriver()
    runner = launcher(driver)
    runner.run(Launch(method=LaunchMethod.STREAM, runs=1))
    runner._board.hangs = True  # type: ignore[attr-defined]
    with pytest.raises(KernelFailed, match="did not finish"):
        runner.run(Launch(method=LaunchMethod.STREAM, runs=1, clock=Clock.GPU))
    assert driver.memory == 1


def test_an_error_that_is_newer_than_the_bindings() -> None:
    with pytest.raises(KernelFailed, match="error 999"):
        HostClock(FakeDriver("launch", code=999)).time_kernels(KERNEL, 32, 1, [1], 5)


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_compiled(*_: object) -> int:
        raise NotImplementedError

    monkeypatch.setattr("gpudissect.device.cuda.launch.host_loop.time_starts", not_compiled)
    with pytest.raises(KernelFailed, match="unset NUMBA_DISABLE_JIT"):
        HostClock(FakeDriver()).time_kernels(KERNEL, 32, 1, [1], 5)

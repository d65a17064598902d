"""Launches on a driver that only counts: what is started in which stream, what counts, and what goes wrong."""

from __future__ import annotations

import os
import time
from collections import Counter

import numpy as np
import pytest
from fake_driver import KERNEL, OWN, FakeDriver, launcher

from gpudissect.device.cuda.host_clock import HostClock
from gpudissect.device.cuda.queues import MANY
from gpudissect.errors import KernelFailed
from gpudissect.workload import Clock, Launch, Means

WARM_UP = 8


@pytest.fixture(autouse=True)
def one_core(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """A host of one core, whatever this one has; gives what the thread was bound to."""
    bound: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {0})
    monkeypatch.setattr(os, "sched_setaffinity", lambda who, cores: bound.append(set(cores)))
    return bound


@pytest.mark.parametrize("means", list(Means))
def test_the_host_times_runs_in_several_streams(means: Means) -> None:
    driver = FakeDriver()
    trace = launcher(driver).run(Launch(means=means, kernels=3, runs=20))
    assert trace.nanoseconds.shape == (20,) and (trace.nanoseconds > 0).all()
    streams = {1000 + MANY // 8 * place: WARM_UP + 3 for place in range(8)}
    assert Counter(driver.waits) == streams, "after each run; in each stream some go before those that count"
    once, made = driver.started[:MANY], driver.started[MANY:]
    assert once == list(range(1000, 1000 + MANY)), "all are used before any is timed"
    called = made if means is Means.STREAM else driver.graphs
    assert Counter(called) == {stream: runs * (3 if means is Means.STREAM else 1) for stream, runs in streams.items()}
    assert made.count(OWN) == (0 if means is Means.STREAM else 3 * 8), "a graph each, made in the board's"


def test_fewer_runs_than_streams() -> None:
    assert launcher(FakeDriver()).run(Launch(means=Means.STREAM, runs=3)).nanoseconds.shape == (3,)


def test_the_quickest_core_counts(monkeypatch: pytest.MonkeyPatch, one_core: list[set[int]]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: {2, 3, 5})
    driver = FakeDriver()
    driver._native_wait = lambda stream: time.sleep({2: 3e-3, 3: 0, 5: 3e-3}[min(one_core[-1])]) or 0  # type: ignore
    took = HostClock(driver).time_kernels(KERNEL, 1, [1, 2], 4)
    assert took.shape == (2, 4) and np.median(took) < 2e6
    assert one_core == [{2}, {3}, {5}, {2, 3, 5}], "and the thread may use all of them again"


def test_a_host_with_many_cores_has_not_all_of_them_tried(
    monkeypatch: pytest.MonkeyPatch, one_core: list[set[int]]
) -> None:  # fmt: skip
    monkeypatch.setattr(os, "sched_getaffinity", lambda who: set(range(100)))
    HostClock(FakeDriver()).time_kernels(KERNEL, 1, [1], 1)
    assert one_core == [*({core} for core in range(0, 100, 13)), set(range(100))]


def test_a_host_that_binds_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    assert HostClock(FakeDriver()).time_kernels(KERNEL, 1, [1], 3).shape == (1, 3)


@pytest.mark.parametrize("means", list(Means))
def test_the_clock_of_the_gpu(means: Means) -> None:
    """One that holds the GPU, a mark, the kernels, another mark; what the marks tell counts. Each run in its stream."""
    driver = FakeDriver()
    trace = launcher(driver).run(Launch(means=means, kernels=3, runs=2, clock=Clock.GPU))
    assert trace.nanoseconds.tolist() == [1500, 1500]
    one, other, started = 1000, 1000 + MANY // 2, driver.started[MANY:]
    if means is Means.STREAM:
        assert started == [one] * (5 + 6) + [other] * 6, "one run goes before"
        assert driver.arguments[:2] == [64, 72] == driver.arguments[3:5] and driver.arguments[2] >= 200_000
    else:
        assert started == [OWN] * 5 + [one, other], "as captured, then what holds the GPU"
        assert driver.graphs == [one, one, other]


def test_another_turn_takes_other_streams() -> None:
    driver = FakeDriver()
    runner = launcher(driver)
    for turn in range(2):
        runner.run(Launch(means=Means.GRAPH, runs=4, clock=Clock.GPU, repetition=turn))
    assert sorted(set(driver.graphs)) == [1000 + place * MANY // 4 + turn for place in range(4) for turn in range(2)]


def test_streams_are_given_back() -> None:
    driver = FakeDriver()
    runner = launcher(driver)
    runner.run(Launch(means=Means.STREAM, runs=1))
    assert len(driver.streams) == MANY
    runner.release()
    assert not driver.streams


def test_streams_of_which_not_all_can_be_had_are_given_back() -> None:
    driver = FakeDriver("launch")
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        launcher(driver).run(Launch(means=Means.STREAM, runs=1))
    assert not driver.streams


def test_a_host_that_is_too_slow_to_queue_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = iter(range(0, 1 << 60, 1 << 40))
    monkeypatch.setattr("gpudissect.device.cuda.launches.time.perf_counter_ns", lambda: next(ticks))
    driver = FakeDriver()
    with pytest.raises(KernelFailed, match="too slow to queue 3 kernels"):
        launcher(driver).run(Launch(means=Means.STREAM, kernels=3, runs=1, clock=Clock.GPU))
    held = driver.arguments[2::3]
    assert held == sorted(held) and len(set(held)) == 4, "longer each time"


@pytest.mark.parametrize("fail", ["launch", "graph", "graph launch", "wait", "stream", "address"])
def test_launches_that_fail(fail: str) -> None:
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        launcher(FakeDriver(fail)).run(Launch(means=Means.GRAPH, kernels=3, runs=5))


def test_a_kernel_that_does_not_start() -> None:
    with pytest.raises(KernelFailed, match="CUDA_ERROR_X"):
        HostClock(FakeDriver("launch")).time_kernels(KERNEL, 1, [1], 5)

"""Kernels of users: how often they are launched to be timed, and which occupancies are measured."""

from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.device.cuda.user_kernel import UserArrays, UserKernel, first_true, launch_count, sweep_blocks
from gpudissect.errors import KernelFailed
from tests.support.fake_user_gpu import NOT_FOUND, FakeUserContext


@pytest.mark.parametrize(
    ("natural", "expected"),
    [
        (0, ()),
        (1, (1,)),
        (5, (1, 2, 3, 4, 5)),
        (12, tuple(range(1, 13))),
        (16, (1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 13, 16)),
        (32, (1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 23, 32)),
    ],
)
def test_occupancies_of_a_sweep(natural, expected):
    assert sweep_blocks(natural) == expected


@pytest.mark.parametrize(("ns", "launches"), [(100, 19995), (1e3, 19995), (1e5, 390), (4e6, 10), (3e7, 5), (1e9, 3)])
def test_short_kernels_are_launched_more_often(ns, launches):
    assert launch_count(ns) == launches


@pytest.mark.parametrize("first", range(6))
def test_bisection_finds_the_first_that_holds(first):
    assert first_true(5, lambda number: number >= first) == min(first, 5)


def kernel_of(context):
    kernel = UserKernel.__new__(UserKernel)
    kernel._context, kernel._driver, kernel._function, kernel.name = context, context.driver, None, "k"
    return kernel


@pytest.mark.parametrize("shared", [0, 5000])
def test_shared_memory_leaves_room_for_exactly_so_many_blocks(shared):
    kernel = kernel_of(FakeUserContext({}, ()))
    for blocks in range(1, 33):
        found = kernel.shared_for(blocks, 64, shared)
        if blocks <= kernel.max_blocks(64, shared):
            assert found >= shared and kernel.max_blocks(64, found) == blocks
            assert found == shared or kernel.max_blocks(64, found - 128) > blocks
        else:
            assert found is None


def test_launches_are_timed_in_batches_without_the_trial():
    context = FakeUserContext({}, ())
    launches, observed = [], []

    def launch():
        launches.append(1)
        context.driver.clock += 1e6 if len(launches) > 1 else 5e6  # the first one is slow

    timing = kernel_of(context).time(launch, None, 1.0, lambda: observed.append(len(launches)) or "clock")
    assert (timing.launches_per_time, len(timing.ns), timing.observed) == (2, 15, "clock")
    assert timing.ns.tolist() == [1e6] * 15 and observed == [len(launches)]
    resets = []
    timing = kernel_of(context).time(launch, lambda: resets.append(len(launches)), 1.0)
    assert timing.ns.tolist() == [1e6] * 15 and resets[-1] == len(launches) - 1


def test_arrays_are_reset_and_compared():
    context = FakeUserContext({}, ())
    arrays = UserArrays(context, [np.arange(100, dtype=np.int32), 64])
    arrays.reset()
    contents = arrays.contents()
    assert (contents[0].view(np.int32) == np.arange(100)).all() and contents[1].tolist() == [0] * 64
    context.bytes_at(arrays.addresses[1], 64)[5] = 1
    assert arrays.differences(contents) == [1]
    arrays.reset()
    assert arrays.differences(contents) == []
    arrays.free()
    assert context.allocations == 0


def test_an_error_of_the_driver_is_one_line():
    context = FakeUserContext({}, ())
    context.driver.cuModuleLoadData = lambda cubin: (NOT_FOUND, SimpleNamespace())
    with pytest.raises(KernelFailed, match=r"did not load.*CUDA_ERROR_NOT_FOUND"):
        UserKernel(context, b"", "k")

"""On a real GPU: instrumented kernels compute what they did, and count and record what the interpreter does."""

import ctypes
from collections import Counter

import numpy as np
import pytest

from gpudissect.explanation.instrument import Sample, counted, traced
from gpudissect.explanation.ptx import parse_ptx
from gpudissect.explanation.user_code import assemble
from tests.explanation.sources import KERNELS, NAMES
from tests.explanation.test_instrument import ARGUMENTS, expected_count
from tests.support.ptx import ptx_of
from tests.support.ptx_interpreter import ARGUMENT_BYTES, Interpreter

pytestmark = pytest.mark.gpu
GRID, BLOCK, WARPS = (4, 1, 1), (64, 1, 1), 8
CONVERGED = ("vectors", "unrolled", "arithmetic", "_Z6powersILi3EEvPjPKjj")
"""Kernels without divergence in a warp."""


def check(result):
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None


@pytest.fixture(scope="module")
def architecture():
    """The current context of the first GPU is made; its architecture."""
    from cuda.bindings import driver

    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    attribute = driver.CUdevice_attribute
    major = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = check(driver.cuDeviceGetAttribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    yield f"sm_{major}{minor}"
    check(driver.cuDevicePrimaryCtxRelease(device))


def run(ptx, name, architecture, arrays=(), initial=()):
    """Run a kernel on copies of `ARGUMENTS`: arrays of the arguments and module by name, addresses of the arguments."""
    from cuda.bindings import driver

    module = check(driver.cuModuleLoadData(assemble(ptx, architecture).data))
    function = check(driver.cuModuleGetFunction(module, name.encode()))
    places, memory = [], {}
    for argument in ARGUMENTS[:2]:
        places.append(int(check(driver.cuMemAlloc(argument.nbytes))))
        check(driver.cuMemcpyHtoD(places[-1], argument.ctypes.data, argument.nbytes))
    for array, data in dict(initial).items():
        address, size = check_two(driver.cuModuleGetGlobal(module, array.encode()))
        assert size == len(data)
        check(driver.cuMemcpyHtoD(address, data, size))
    values = (*places, ARGUMENTS[2]), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32)
    check(driver.cuLaunchKernel(function, *GRID, *BLOCK, 0, 0, values, 0))
    check(driver.cuCtxSynchronize())
    for index, argument in enumerate(ARGUMENTS[:2]):
        memory[index] = download(places[index], argument.nbytes)
        check(driver.cuMemFree(places[index]))
    for array in arrays:
        memory[array] = download(*check_two(driver.cuModuleGetGlobal(module, array.encode())))
    check(driver.cuModuleUnload(module))
    return memory, places


def check_two(result):
    status, address, size = result
    assert int(status) == 0, status
    return int(address), int(size)


def download(address, size):
    from cuda.bindings import driver

    data = np.empty(size, np.uint8)
    check(driver.cuMemcpyDtoH(data.ctypes.data, address, size))
    return data.tobytes()


def interpreted(name):
    return Interpreter(ptx_of(KERNELS)).launch(name, GRID, BLOCK, ARGUMENTS)


@pytest.mark.parametrize("name", NAMES)
def test_counts_are_those_of_the_interpreter_and_results_are_the_same(name, architecture):
    text, reference = ptx_of(KERNELS), interpreted(name)
    module = parse_ptx(text)
    instrumented = counted(module, name)
    plain, _ = run(text, name, architecture)
    memory, _ = run(instrumented.ptx, name, architecture, [instrumented.array])
    assert (memory[0], memory[1]) == (plain[0], plain[1]) == (reference.memory[0], reference.memory[1])
    for block, count in instrumented.read(memory[instrumented.array]).items():
        warps, threads, taken = expected_count(module, reference, block)
        assert (count.threads, count.taken) == (threads, taken)
        assert -(-threads // 32) <= count.warps <= threads
        assert count.warps == warps or name not in CONVERGED


@pytest.mark.parametrize("name", NAMES)
def test_addresses_are_those_of_the_interpreter_and_results_are_the_same(name, architecture):
    reference = interpreted(name)
    instrumented = traced(parse_ptx(ptx_of(KERNELS)), name, warps=WARPS, accesses=4000, visits=4000)
    sample = next(array for array in instrumented.arrays if array.endswith("_sample"))
    data = Sample((0, 1, 4), (0, 1, 2)).data()
    memory, places = run(instrumented.ptx, name, architecture, instrumented.arrays, {sample: data})
    assert (memory[0], memory[1]) == (reference.memory[0], reference.memory[1])
    arrays = {array.rpartition("_")[2]: memory[array] for array in instrumented.arrays}
    spaces = {access.instruction: access.space for access in instrumented.accesses}
    for (block, warp), events in reference.events.items():
        found, expected = Counter(), Counter()
        trace = instrumented.read_accesses(arrays, 2 * block + warp)
        assert trace.overflow_count == 0
        for index, lanes, addresses in zip(trace.index, trace.lanes, trace.addresses, strict=True):
            access = instrumented.accesses[index]
            for lane in range(32):
                if lanes >> lane & 1:
                    found[access.instruction, lane, place(int(addresses[lane]), access.space, places)] += 1
        for number, lanes, addresses in events:
            active = [lane for lane in range(32) if lanes >> lane & 1]
            for lane, address in zip(active, addresses, strict=True):
                expected[number, lane, place(address, spaces[number], [ARGUMENT_BYTES, 2 * ARGUMENT_BYTES])] += 1
        assert found == expected


def place(address, space, places):
    """Argument and offset of an address of global memory; the rest lies where the assembler puts it."""
    for index, start in enumerate(places):
        if space == "global" and start <= address < start + ARGUMENTS[index].nbytes:
            return index, address - start
    assert space != "global"
    return space


def test_visits_are_a_path_through_the_blocks(architecture):
    module = parse_ptx(ptx_of(KERNELS))
    instrumented = traced(module, "nest", warps=WARPS, accesses=1, visits=4000)
    sample = next(array for array in instrumented.arrays if array.endswith("_sample"))
    data = Sample((0, 1, 4), (0, 1, 2)).data()
    memory, _ = run(instrumented.ptx, "nest", architecture, instrumented.arrays, {sample: data})
    arrays = {array.rpartition("_")[2]: memory[array] for array in instrumented.arrays}
    reference, totals = interpreted("nest"), Counter()
    for slot in range(WARPS):
        visits = instrumented.read_visits(arrays, slot)
        assert visits.index[0] == 0 and visits.lanes[0] == 0xFFFFFFFF
        for index, lanes in zip(visits.index, visits.lanes, strict=True):
            totals[int(index)] += int(lanes).bit_count()
    threads = [expected_count(module, reference, block)[1] for block in instrumented.blocks]
    assert [totals[index] for index in range(len(threads))] == threads

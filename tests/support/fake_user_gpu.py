"""A CUDA context whose kernels an interpreter of PTX runs, for the tests of what runs users' kernels."""

import ctypes
import hashlib
from types import SimpleNamespace

import numpy as np

from gpudissect.device.cuda.context import CudaContext
from gpudissect.device.cuda.memory import ClearingTimer
from gpudissect.device.cuda.user_kernel import FULL_CARVEOUT
from gpudissect.device.cuda.waiting import StreamWaiter
from tests.support.fake_context import PROPERTIES
from tests.support.ptx_interpreter import ARGUMENT_BYTES, Interpreter

MEMORY_BYTES = 1 << 26
SHARED_PER_SM, RESERVED, THREADS_PER_SM = 233472, 1024, 2048
OK, NOT_FOUND, CRASHED = (
    SimpleNamespace(name=f"CUDA_{name}") for name in ("SUCCESS", "ERROR_NOT_FOUND", "ERROR_ILLEGAL_ADDRESS")
)
_NAMES = "NUM_REGS", "SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES"
_SETTINGS = "MAX_DYNAMIC_SHARED_SIZE_BYTES", "PREFERRED_SHARED_MEMORY_CARVEOUT"


class FakeUserDriver:
    """Modules are PTX texts by the SHA-256 of their cubins. A launch takes `ns`; `fail_at` is a launch that crashes."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=OK, CUDA_ERROR_OUT_OF_MEMORY=2, CUDA_ERROR_NOT_READY=3)
    CUlimit = SimpleNamespace(CU_LIMIT_MAX_L2_FETCH_GRANULARITY=5)
    CUfunction_attribute = SimpleNamespace(**{f"CU_FUNC_ATTRIBUTE_{name}": name for name in (*_NAMES, *_SETTINGS)})

    def __init__(self, context, ptx_of_cubins, parameters, ns=60e6):
        self.context, self.ptx, self.parameters, self.ns = context, ptx_of_cubins, parameters, ns
        self.clock, self.launches, self.fail_at, self.tamper = 0.0, [], None, None
        self.settings = {}
        self.modules = 0

    def cuModuleLoadData(self, cubin):
        self.modules += 1
        interpreter = Interpreter(self.ptx[hashlib.sha256(cubin).hexdigest()])
        sizes = {name: size for name, (space, _, size) in interpreter.symbols.items() if space == "global"}
        names = {name: self.context.reserve(size) for name, size in sizes.items()}
        return OK, SimpleNamespace(interpreter=interpreter, names=names)

    def cuModuleUnload(self, module):
        self.modules -= 1
        return (OK,)

    def cuModuleGetFunction(self, module, name):
        return OK, SimpleNamespace(module=module, name=name.decode())

    def cuModuleGetGlobal(self, module, name):
        name = name.decode()
        if name not in module.names:
            return NOT_FOUND, 0, 0
        return OK, module.names[name], module.interpreter.symbols[name][2]

    def cuFuncGetAttribute(self, attribute, function):
        return OK, {"NUM_REGS": 32, "SHARED_SIZE_BYTES": 256, "LOCAL_SIZE_BYTES": 0}[attribute]

    def cuFuncSetAttribute(self, function, attribute, value):
        assert 0 <= value <= self.context.max_shared_bytes - 256 or value == -1
        self.settings[attribute] = value
        return (OK,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function, threads, shared):
        per_block = -(-(shared + 256 + RESERVED) // 128) * 128
        return OK, min(SHARED_PER_SM // per_block, THREADS_PER_SM // threads, 32)

    def cuEventCreate(self, flags):
        return OK, SimpleNamespace(ns=None)

    def cuEventDestroy(self, event):
        return (OK,)

    def cuEventRecord(self, event, stream):
        event.ns = self.clock
        return (OK,)

    def cuEventElapsedTime(self, start, end):
        return OK, (end.ns - start.ns) / 1e6

    def cuMemAlloc(self, size):
        self.context.allocations += 1
        return OK, self.context.reserve(size)

    def cuMemFree(self, address):
        self.context.allocations -= 1
        return (OK,)

    def cuMemGetInfo(self):
        return OK, MEMORY_BYTES, MEMORY_BYTES

    def cuCtxGetLimit(self, limit):
        return OK, 128

    def cuMemcpyHtoDAsync(self, address, source, size, stream):
        self.context.bytes_at(address, size)[:] = np.frombuffer(ctypes.string_at(source, size), np.uint8)
        return (OK,)

    def cuMemcpyDtoHAsync(self, target, address, size, stream):
        ctypes.memmove(target, self.context.bytes_at(address, size).tobytes(), size)
        return (OK,)

    def cuMemcpyDtoDAsync(self, target, source, size, stream):
        self.context.bytes_at(target, size)[:] = self.context.bytes_at(source, size)
        return (OK,)

    def cuMemsetD8Async(self, address, value, size, stream):
        self.context.bytes_at(address, size)[:] = value
        return (OK,)

    def cuStreamQuery(self, stream):
        return (CRASHED if self.context.lost else OK,)

    def cuGetErrorName(self, status):
        return OK, status.name.encode()

    def cuGetErrorString(self, status):
        return OK, b"it failed"

    def cuDriverGetVersion(self):
        return OK, 13000

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, places, extra):
        assert shared <= self.settings["MAX_DYNAMIC_SHARED_SIZE_BYTES"] and stream == 3 and extra == 0
        pointers = (ctypes.c_uint64 * len(self.parameters)).from_address(places)
        contents = [ctypes.string_at(place, size) for place, size in zip(pointers, self.parameters, strict=True)]
        values = [int.from_bytes(content, "little") for content in contents]
        carveout = self.settings["PREFERRED_SHARED_MEMORY_CARVEOUT"]
        self.launches.append((shared, carveout, len(function.module.names) > 0))
        self.clock += self.ns * (1 + shared / SHARED_PER_SM)
        if self.fail_at == len(self.launches):
            self.context.lost = True
        if carveout == FULL_CARVEOUT:  # of a sweep: only its time counts
            return (OK,)
        arguments = []
        for index, (value, size) in enumerate(zip(values, self.parameters, strict=True)):
            if size == 8:
                assert value == (index + 1) * ARGUMENT_BYTES
                arguments.append(self.context.bytes_at(value, ARGUMENT_BYTES).view(np.uint32).copy())
            else:
                arguments.append(value)
        initial = {
            name: self.context.bytes_at(address, function.module.interpreter.symbols[name][2]).tobytes()
            for name, address in function.module.names.items()
        }
        run = function.module.interpreter.launch(function.name, (gx, gy, gz), (bx, by, bz), arguments, initial)
        for name, content in run.memory.items():
            address = function.module.names.get(name) if isinstance(name, str) else values[name]
            self.context.bytes_at(address, len(content))[:] = np.frombuffer(content, np.uint8)
        if self.tamper:
            self.tamper(self.context, function)
        return (OK,)


class FakeUserContext(CudaContext):
    """The context on this driver. Allocations lie where the interpreter has the arguments; the first ones are those."""

    def __init__(self, ptx_of_cubins, parameters):
        self.driver = FakeUserDriver(self, ptx_of_cubins, parameters)
        self.index, self.stream = 0, SimpleNamespace(handle=3)
        self.device = SimpleNamespace(name="fake", uuid="1", pci_bus_id="0")
        self.properties = SimpleNamespace(**PROPERTIES)
        self.properties.compute_capability_major, self.properties.compute_capability_minor = 9, 0
        self.properties.max_shared_memory_per_block_optin = SHARED_PER_SM - RESERVED
        self._clearing, self._timed_out = ClearingTimer(), False
        self._waiter = StreamWaiter(self.driver)
        self.memory = np.zeros(MEMORY_BYTES, np.uint8)
        self.end, self.lost, self.allocations = ARGUMENT_BYTES, False, 0

    def bytes_at(self, address, size):
        return self.memory[address : address + size]

    def reserve(self, size):
        """The address of an array, of a module or an allocation."""
        address = self.end
        self.end += -(-size // ARGUMENT_BYTES) * ARGUMENT_BYTES
        assert self.end <= MEMORY_BYTES
        return address

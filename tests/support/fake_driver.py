"""A CUDA driver that starts empty kernels and graphs of them, and keeps a log."""

import threading
from types import SimpleNamespace

import numpy as np

from gpudissect.device.cuda.launch import LaunchRunner
from gpudissect.errors import KernelFailed
from tests.support.fake_context import FakeContext, parts

OK, FAILED = SimpleNamespace(name="SUCCESS"), SimpleNamespace(name="CUDA_ERROR_X")
KERNEL, CAPTURED, EXECUTABLE = 5, 7, 8  # handles
CONTEXT_STREAM, LAUNCH_STREAM = 3, 1000


class FakeDriver:
    """Logs calls as (call, stream). `fail` is a call that fails, or `interrupts`, from the n-th time on."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=OK)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, fail="", times=1, interrupts=False):
        self.log = []
        self.arguments = []
        self.streams = 0
        self.graphs = 0  # captured and executable ones that exist
        self.fail, self._times, self._interrupts = fail, times, interrupts

    def streams_of(self, call):
        """The streams of a call, in order."""
        return [stream for name, stream in self.log if name == call]

    def _log(self, call, stream=CONTEXT_STREAM):
        self.log.append((call, stream))
        if call != self.fail or len(self.streams_of(call)) < self._times:
            return OK
        if self._interrupts:
            raise KeyboardInterrupt
        return FAILED

    def cuDriverGetVersion(self):
        return OK, 13000

    def cuStreamCreate(self, flags):
        assert flags == 1, "one that does not wait for the default stream"
        status = self._log("create")
        self.streams += status is OK
        return status, LAUNCH_STREAM

    def cuStreamDestroy(self, stream):
        assert stream == LAUNCH_STREAM
        self.streams -= 1
        return (OK,)

    def cuStreamSynchronize(self, stream):
        return (self._log("sync", stream),)

    def cuStreamBeginCapture(self, stream, mode):
        return (self._log("capture", stream),)

    def cuStreamEndCapture(self, stream):
        status = self._log("captured", stream)
        self.graphs += status is OK
        return status, CAPTURED if status is OK else None

    def cuGraphInstantiate(self, graph, flags):
        status = self._log("graph")
        self.graphs += status is OK
        return status, EXECUTABLE

    def cuGraphUpload(self, graph, stream):
        return (self._log("upload", stream),)

    def cuGraphExecDestroy(self, graph):
        assert graph == EXECUTABLE
        self.graphs -= 1
        return (OK,)

    def cuGraphDestroy(self, graph):
        assert graph == CAPTURED
        self.graphs -= 1
        return (OK,)

    def cuLaunchKernel(self, function, *arguments):
        assert (function, arguments[:7]) == (KERNEL, (1, 1, 1, 32, 1, 1, 0))
        if arguments[8]:
            self.arguments.append(arguments[8][0])
        return (self._log("launch", arguments[7]),)

    def cuGraphLaunch(self, graph, stream):
        assert graph == EXECUTABLE
        return (self._log("graph launch", stream),)


class BlockingDriver:
    """Waits for streams: stream 7 ends with `end_status` once `finish` is set, others have ended."""

    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_NOT_READY=600)

    def __init__(self):
        self.finish = threading.Event()
        self.end_status = 0
        self.log = []

    def cuStreamQuery(self, stream):
        self.log.append("query")
        return (self.end_status if self.finish.is_set() else 600 if stream == 7 else 0,)

    def cuCtxGetCurrent(self):
        return 0, 11

    def cuCtxSetCurrent(self, context):
        assert context == 11
        self.log.append("current")

    def cuEventCreate(self, flags):
        self.log.append(f"create {flags}")
        return 0, 21

    def cuEventRecord(self, event, stream):
        self.log.append("record")
        return (0 if (event, stream) == (21, 7) else 1,)

    def cuEventSynchronize(self, event):
        self.log.append("synchronize")
        self.finish.wait()
        return (self.end_status,)

    def cuEventDestroy(self, event):
        self.log.append("destroy")


class LaunchContext(FakeContext):
    """A context whose marks are 1500 ns apart; while it `hangs`, nothing ends but in the context's own stream."""

    def __init__(self, driver):
        super().__init__()
        self.driver = driver
        self.stream = SimpleNamespace(handle=CONTEXT_STREAM)
        self.hangs = False

    def download(self, address, size):
        self.driver.log.append(("download", CONTEXT_STREAM))
        return np.array([500, 2000], np.uint64).view(np.uint8)

    def wait(self, seconds, stream=CONTEXT_STREAM):
        self.driver.log.append(("wait", stream))
        if self.hangs and stream != CONTEXT_STREAM:
            raise KernelFailed("a kernel did not finish")

    def is_lost(self):
        return self.hangs


def launch_runner(driver):
    return LaunchRunner(*parts(LaunchContext(driver)))

"""Memory of the host on a fake context: taken at its first use, used by chases and streams, and freed."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.device.cuda import links
from gpudissect.device.cuda.links import MAX_HOST_BYTES, host_limit
from gpudissect.errors import DeviceError, OutOfMemory, UnsupportedWorkload, WorkloadError
from gpudissect.units import KIB
from gpudissect.workload import MOVES, EngineCopy, Path, PriorAccesses, Sequential, Shuffled, Transfer
from gpudissect.workload.digest import digest
from tests.device.test_cuda_stream_runner import StreamContext
from tests.support.fake_context import FakeContext, fake_gpu
from tests.support.workloads import LAP, chase, stream

LINKED = chase(Path.HOST, Shuffled(50, 64, seed=3), LAP, warmup=0, flush=True, alone=True)


class LinkedContext(StreamContext):
    """Keeps the addresses of the host's memory."""

    def __init__(self):
        super().__init__()
        self.locked = {}

    def launch(self, kernel, *arguments, **options):
        chases = "chase" in kernel.name or "chains" in kernel.name
        (FakeContext if chases else StreamContext).launch(self, kernel, *arguments, **options)

    def allocate_host(self, size):
        address = self.allocate(size)
        self.locked[address] = size
        return address

    def free_host(self, address):
        del self.locked[address]


@pytest.fixture
def context(monkeypatch):
    monkeypatch.setattr("gpudissect.device.cuda.gpu.host_limit", lambda: 64 << 20)
    return LinkedContext()


def large(context):
    """Buffers of workloads; result buffers have 8 MiB."""
    return [size for size in context.locked.values() if size > 8 << 20]


def test_memory_of_the_host_is_taken_at_its_first_use_and_freed(context):
    gpu = fake_gpu(context)
    assert gpu.info.limit(Path.HOST) == 64 << 20 and Path.HOST in gpu.info.streams
    gpu.run([chase(Path.GLOBAL_L2, Sequential(4, 64), LAP)])
    assert not large(context)
    gpu.run([LINKED])
    assert len(large(context)) == 1
    gpu.close()
    assert not context.locked


@pytest.mark.parametrize("transfer", MOVES)
def test_streams_run_over_memory_of_the_host(context, transfer):
    gpu = fake_gpu(context)
    (trace,) = gpu.run([stream(Path.HOST, transfer, 1 << 16, 4, 128, ilp=2, width=16, passes=2)])
    assert trace.bytes.tolist() == [(4 if transfer is Transfer.COPY else 2) << 16]
    assert len(large(context)) == 1
    kernel, _ = context.requests[0]
    assert kernel.macros[0] == "PATH_GLOBAL_L2", "the kernels of device memory, past the L1"
    context.missing_words = 1
    if transfer is not Transfer.READ:
        with pytest.raises(Exception, match="not all bytes were moved"):
            gpu.run([stream(Path.HOST, transfer, 1 << 16, 4, 128)])


def test_more_than_may_be_locked_is_refused(context):
    gpu = fake_gpu(context)
    with pytest.raises(OutOfMemory, match="path host: this device has 64 MiB"):
        gpu.run([chase(Path.HOST, Sequential(2, 64 << 20), LAP)])
    with pytest.raises(OutOfMemory, match="64 MiB may be used"):
        gpu.run([stream(Path.HOST, Transfer.COPY, 64 << 20, 4, 128)])
    assert not large(context)


def test_a_quarter_of_the_available_memory_may_be_locked(monkeypatch, tmp_path):
    monkeypatch.setattr(links, "_MEMORY_INFO", tmp_path / "meminfo")
    monkeypatch.setattr(links, "_CONTROL_GROUP", tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 4000 kB\n")
    assert host_limit() == 1000 * KIB
    (tmp_path / "memory.current").write_text("1048576\n")
    for limit, room in (("max", 1000 * KIB), (str(3 << 20), 512 * KIB), ("1", 0)):
        (tmp_path / "memory.max").write_text(limit)
        assert host_limit() == room
    (tmp_path / "memory.max").write_text("max")
    (tmp_path / "meminfo").write_text("MemAvailable: 99999999 kB\n")
    assert host_limit() == MAX_HOST_BYTES
    (tmp_path / "meminfo").unlink()
    assert host_limit() == 0


def test_chains_in_memory_of_the_host_are_followed(context):
    (trace,) = fake_gpu(context).run([LINKED])
    assert np.array_equal(trace.cycles, [1 << 33])


FAR = chase(Path.PEER, Shuffled(50, 64, seed=3), LAP, warmup=0, flush=True, alone=True)


def peer_calls(context):
    """Calls that concern the other GPU, by name."""
    return [name for name, *_ in context.driver.log if name != "cuDriverGetVersion"]


def test_memory_of_another_gpu_is_taken_within_its_own_context(context):
    gpu = fake_gpu(context)
    assert gpu.info.facts["peers"] == "1" and Path.PEER in gpu.info.streams
    assert not peer_calls(context)
    (trace,) = gpu.run([FAR])
    assert np.array_equal(trace.cycles, [1 << 33])
    taken = ["cuDevicePrimaryCtxRetain", "cuCtxEnablePeerAccess", "cuCtxPushCurrent", "cuMemAlloc", "cuCtxPopCurrent"]
    assert peer_calls(context) == taken
    assert ("cuCtxEnablePeerAccess", 101, 0) in context.driver.log and ("cuCtxPushCurrent", 101) in context.driver.log
    gpu.run([FAR, stream(Path.PEER, Transfer.READ, 1 << 16, 4, 128)])
    assert peer_calls(context) == taken, "once for all"
    gpu.close()
    freed = ["cuCtxPushCurrent", "cuMemFree", "cuCtxPopCurrent", "cuDevicePrimaryCtxRelease"]
    assert peer_calls(context) == taken + freed


@pytest.mark.parametrize(
    ("call", "status", "error", "message"),
    [
        ("cuDevicePrimaryCtxRetain", 1, DeviceError, "GPU 1 cannot be used: an error"),
        ("cuCtxEnablePeerAccess", 1, DeviceError, "memory of GPU 1 cannot be accessed"),
        ("cuMemAlloc", 2, OutOfMemory, "GPU 1 has no .* left"),
        ("cuMemAlloc", 1, DeviceError, "memory of GPU 1 could not be allocated"),
    ],
)
def test_a_gpu_whose_memory_cannot_be_taken_is_let_go(context, call, status, error, message):
    gpu = fake_gpu(context)
    context.driver.fail, context.driver.status = call, status
    with pytest.raises(error, match=message):
        gpu.run([FAR])
    calls = peer_calls(context)
    assert calls.count("cuCtxPushCurrent") == calls.count("cuCtxPopCurrent")
    assert calls.count("cuDevicePrimaryCtxRelease") == (
        calls.count("cuDevicePrimaryCtxRetain") if call != "cuDevicePrimaryCtxRetain" else 0
    )


def test_access_may_be_enabled_already(context):
    context.driver.fail, context.driver.status = "cuCtxEnablePeerAccess", 704
    assert fake_gpu(context).run([FAR])


def test_other_gpus_are_refused(context):
    gpu = fake_gpu(context)
    with pytest.raises(UnsupportedWorkload, match="does not access memory of GPU 2"):
        gpu.run([replace(FAR, peer=2)])
    with pytest.raises(UnsupportedWorkload, match="does not access memory of GPU 2"):
        gpu.run([stream(Path.PEER, Transfer.READ, 1 << 16, 4, 128, peer=2)])


def test_without_peers_there_is_a_reason(context):
    context.peers = tuple
    info = fake_gpu(context).info
    assert "no other GPU" in info.unsupported[Path.PEER] and not info.limit(Path.PEER) and "peers" not in info.facts


def test_which_gpu_is_an_option_of_path_peer():
    assert digest(FAR) != digest(replace(FAR, peer=2)) and FAR.peer == 1
    with pytest.raises(WorkloadError, match="number of a GPU"):
        replace(FAR, peer=16)
    with pytest.raises(WorkloadError, match="option of path 'peer'"):
        stream(Path.HOST, Transfer.READ, 1 << 16, 4, 128, peer=2)
    with pytest.raises(WorkloadError, match="not on path 'host'"):
        PriorAccesses(path=Path.HOST, order=Sequential(2, 64))


@pytest.mark.parametrize(("path", "pageable"), [(Path.HOST, False), (Path.HOST, True), (Path.PEER, False)])
def test_copies_go_between_the_gpu_and_memory_behind_the_link(context, path, pageable):
    context.stream = SimpleNamespace(handle=5)
    gpu = fake_gpu(context)
    assert path in gpu.info.copies
    copies = [
        EngineCopy(path=path, transfer=transfer, size=4096, pageable=pageable, runs=3)
        for transfer in (Transfer.READ, Transfer.WRITE)
    ]
    for trace in gpu.run(copies):
        assert trace.nanoseconds.tolist() == [500_000] * 3
    calls = [arguments for name, *arguments in context.driver.log if name == "cuMemcpyAsync"]
    (near, far, size, stream), *_ = calls
    assert (size, stream) == (4096, 5) and len(calls) == 8 and calls[-1][0] != near
    assert (calls[-1][1] == near) and (pageable or calls[-1][0] == far)
    with pytest.raises(UnsupportedWorkload, match="GPU 7"):
        gpu.run([EngineCopy(path=Path.PEER, transfer=Transfer.READ, size=1, peer=7)])
    context.driver.fail = "cuMemcpyAsync"
    with pytest.raises(Exception, match="a copy of a copy engine failed"):
        gpu.run(copies[:1])


def test_the_nearest_numa_node_is_known_where_the_system_states_it(monkeypatch, tmp_path):
    monkeypatch.setattr(links, "_PCI_DEVICES", tmp_path)
    (tmp_path / "0000:1a:00.0").mkdir()
    for text, node in (("1\n", {"numa_node": 1}), ("-1\n", {}), ("", {})):
        (tmp_path / "0000:1a:00.0" / "numa_node").write_text(text)
        assert links.numa_node("0000:1A:00.0") == node
    assert links.numa_node("0000:1B:00.0") == {}

"""No driver, no GPU, no package: one line that says what to do. And what NVML says, or does not."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpudissect.device.cuda import driver as driver_module
from gpudissect.device.cuda.arena import ALIGNMENT, Arena, place
from gpudissect.device.cuda.clearing import Clearing
from gpudissect.device.cuda.clocks import Watch, clock_rate
from gpudissect.device.cuda.driver import Board
from gpudissect.device.cuda.gpu import CudaGpu, probe
from gpudissect.device.cuda.start import start_driver
from gpudissect.errors import DeviceError, KernelFailed, OutOfMemory


def has_driver() -> bool:
    try:
        start_driver()
    except DeviceError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="this machine has a GPU")
@pytest.mark.parametrize("attempt", [probe, lambda: CudaGpu.open(0)], ids=["probe", "open"])
def test_no_driver_is_one_line_with_a_next_step(attempt: Any) -> None:
    pytest.importorskip("cuda.core")
    with pytest.raises(DeviceError, match=r"no NVIDIA driver.*sim:gtx980") as caught:
        attempt()
    assert "\n" not in str(caught.value) and caught.value.exit_code == 3


def test_missing_packages_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(DeviceError, match=r"pip install 'gpudissect\[cuda13\]'"):
        start_driver()


class FakeDriver:
    """``cuda.bindings.driver`` of a machine in some state."""

    CUDA_VERSION = 13000
    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_NO_DEVICE=100)

    def __init__(self, status: int = 0, version: int = 13000) -> None:
        self.status, self.version = status, version

    def cuInit(self, flags: int) -> tuple[int]:
        return (self.status,)

    def cuDriverGetVersion(self) -> tuple[int, int]:
        return 0, self.version

    def cuGetErrorName(self, status: int) -> tuple[int, bytes]:
        return 0, b"CUDA_ERROR_SYSTEM"

    def cuGetErrorString(self, status: int) -> tuple[int, bytes]:
        return 0, b"system not ready"


@pytest.mark.parametrize(("driver", "message"), [
    (FakeDriver(status=100), "finds no GPU"),
    (FakeDriver(status=802), r"did not start: system not ready \(CUDA_ERROR_SYSTEM\)"),
    (FakeDriver(version=12040), r"driver is for CUDA 12\.4, the CUDA packages for 13\.0: .*cuda12"),
])  # fmt: skip
def test_what_the_driver_says_in_one_line(monkeypatch: pytest.MonkeyPatch, driver: FakeDriver, message: str) -> None:
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.driver", driver)
    monkeypatch.setattr(bindings, "driver", driver, raising=False)
    with pytest.raises(DeviceError, match=message):
        start_driver()


def test_no_kernel_is_launched_while_memory_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    core, slept = pytest.importorskip("cuda.core"), []
    monkeypatch.setattr(driver_module.time, "sleep", slept.append)
    monkeypatch.setattr(core, "launch", lambda *_: None)
    board = Board.__new__(Board)
    board.driver = SimpleNamespace(
        cuMemAlloc=lambda size: (0, 4096), cuMemFree=lambda address: (0,),
        CUresult=SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_OUT_OF_MEMORY=2),
    )  # fmt: skip
    board._clearing, board.stream = Clearing(), None
    kernel = SimpleNamespace(handle=None, name="any")
    board.launch(kernel, (1, 1), 32, 0)
    assert slept == []
    board.free(board.allocate(9 << 30))
    board.launch(kernel, (1, 1), 32, 0)
    assert len(slept) == 1 and 0.03 < slept[0] < 0.1


def test_a_board_is_lost_once_a_stream_did_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if it is another than its own, which has ended: freeing memory would wait for all of them."""
    ticks = iter(range(100))
    monkeypatch.setattr(driver_module.time, "perf_counter", lambda: next(ticks))
    monkeypatch.setattr(driver_module.time, "sleep", lambda _: None)
    board = Board.__new__(Board)
    board.driver = SimpleNamespace(
        cuStreamQuery=lambda stream: (stream == 7,),
        CUresult=SimpleNamespace(CUDA_SUCCESS=False, CUDA_ERROR_NOT_READY=True),
    )  # fmt: skip
    board._stuck, board.stream = False, SimpleNamespace(handle=3)
    board.wait(10.0)
    assert not board.lost()
    with pytest.raises(KernelFailed, match="did not finish within 10 s"):
        board.wait(10.0, 7)
    assert board.lost()


class Memory:
    """An allocator that hands out odd addresses and remembers what is out."""

    def __init__(self) -> None:
        self.out: dict[int, int] = {}

    def allocate(self, size: int) -> int:
        address = 0x1000_0100 * (len(self.out) + 1)
        self.out[address] = size
        return address

    def free(self, address: int) -> None:
        del self.out[address]


def test_arena_grows_aligned_and_gives_back() -> None:
    memory = Memory()
    arena = Arena(memory, limit=1 << 30)
    assert not memory.out, "nothing is taken before it is needed"
    first = arena.reserve(100)
    assert first % ALIGNMENT == 0 and arena.reserve(arena.size) == first and len(memory.out) == 1
    arena.reserve(arena.size + 1)
    (address, size) = next(iter(memory.out.items()))
    assert len(memory.out) == 1 and arena.base + arena.size <= address + size
    assert arena.reserve(1 << 30) and arena.size == 1 << 30
    with pytest.raises(OutOfMemory, match="1 GiB may be used"):
        arena.reserve((1 << 30) + 1)
    arena.release()
    arena.release()
    assert not memory.out


def test_regions_are_disjoint_and_aligned() -> None:
    spans = [0, 1, ALIGNMENT, ALIGNMENT + 1, 5 * ALIGNMENT]
    offsets, size = place(spans)
    assert all(offset % ALIGNMENT == 0 for offset in offsets)
    ends = [offset + span for offset, span in zip(offsets, spans, strict=True)]
    assert all(end <= after for end, after in zip(ends, [*offsets[1:], size], strict=True))


def test_clock_rate() -> None:
    assert clock_rate([1980, 3960], [1000, 2000]) == pytest.approx(1.98e9)
    begin = np.random.default_rng(1).uniform(0, 1e6, 20_000)
    read = [np.floor(each / 1024) * 1024 for each in (begin, begin + 1500)]
    assert clock_rate(np.full(20_000, 2970), read[1] - read[0]) == pytest.approx(1.98e9, rel=0.01), (
        "in steps of 1024 ns"
    )
    assert clock_rate([5], [0]) is None


def test_watch_without_nvml_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    watch = Watch("0000:00:00.0")
    assert (watch.driver(), watch.throttling(), watch.others()) == (None, None, None)
    watch.close()


def test_watch_names_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int) -> int:
        raise RuntimeError("not supported")

    nvml = SimpleNamespace(
        init_v2=lambda: None, shutdown=lambda: None, device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        device_get_current_clocks_event_reasons=lambda handle: 0x1 | 0x4 | 0x40,
        device_get_compute_running_processes_v3=refuse, system_get_driver_version=lambda: "580.1",
    )  # fmt: skip
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    watch = Watch("0000:00:00.0")
    assert watch.throttling() == "power cap, thermal (hardware)"
    nvml.device_get_compute_running_processes_v3 = lambda handle: [1, 2, 3]
    other = Watch("0000:00:00.0")
    assert other.others() == "2"
    nvml.device_get_compute_running_processes_v3 = refuse
    assert other.others() == "2"  # not asked again within a second
    assert watch.driver() == "580.1" and watch.others() is None

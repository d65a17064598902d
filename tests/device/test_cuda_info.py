"""What NVML reports, or does not; the clock rate; shared memory beside the L1."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from gpudissect.catalogue.link_rates import describe_pcie, nvlink_bandwidth, pcie_bandwidth
from gpudissect.device.cuda.info import NvmlMonitor, clock_rate, count_processes, driver_facts, shared_bytes_beside_l1
from gpudissect.units import KIB
from tests.support.fake_context import FakeContext


def test_clock_rate():
    assert clock_rate([1980, 3960], [1000, 2000]) == pytest.approx(1.98e9)
    assert clock_rate([5], [0]) is None


def test_clock_rate_of_short_blocks_by_a_coarse_timer():
    begin = np.random.default_rng(1).uniform(0, 1e6, 20_000)
    first, last = (np.floor(time / 1024) * 1024 for time in (begin, begin + 1500))
    assert clock_rate(np.full(20_000, 2970), last - first) == pytest.approx(1.98e9, rel=0.01)


@pytest.mark.parametrize(
    ("capability", "reserved", "size"),
    [((6, 1), 0, 48), ((7, 0), 0, 8), ((7, 5), 0, 32), ((8, 0), KIB, 7), ((9, 0), KIB, 7)],
)
def test_shared_memory_beside_the_l1(capability, reserved, size):
    properties = SimpleNamespace(reserved_shared_memory_per_block=reserved)
    context = SimpleNamespace(capability=capability, properties=properties, max_shared_bytes=48 * KIB)
    assert shared_bytes_beside_l1(context) == size * KIB


def test_facts_are_all_that_mt22_lists():
    """Of section 4.1, and of the output of MT4G; the name and the number of SMs are not facts but fields."""
    facts = driver_facts(FakeContext(1 << 20), SimpleNamespace(cores=lambda: 512, pcie=dict, nvlinks=dict), {})
    assert facts["registers_per_sm"] == 64 * KIB and facts["registers_per_block"] == 32 * KIB
    assert (facts["shared_per_block"], facts["default_shared_per_block"]) == (63 * KIB, 48 * KIB)
    assert (facts["reserved_shared_per_block"], facts["persisting_l2_size"]) == (KIB, 0)
    assert (facts["threads_per_block"], facts["blocks_per_sm"], facts["blocks_per_grid_x"]) == (1024, 32, 2**31 - 1)
    assert (facts["cooperative_launch"], facts["concurrent_kernels"]) == ("yes", "no")
    assert facts["global_l1"] == facts["local_l1"] == "yes" and facts["cores"] == 512
    assert facts.keys() >= {"compute_capability", "shared_per_sm", "constant_size", "memory_size", "l2_size"}
    assert facts.keys() >= {"memory_clock_hz", "clock_hz", "memory_bus_bits"} and "compute_mode" not in facts


def test_a_gpu_that_takes_one_process():
    context = FakeContext(1 << 20)
    context.properties.compute_mode = 3
    facts = driver_facts(context, SimpleNamespace(cores=lambda: None, pcie=dict, nvlinks=dict), {})
    assert facts["compute_mode"] == "exclusive"


@pytest.mark.parametrize(("mig", "cores"), [(0, 16896), (1, None)])
def test_cores_are_of_the_whole_gpu(monkeypatch, mig, cores):
    """The instance of a GPU has a part of its SMs, but NVML states the cores of all."""
    nvml = SimpleNamespace(
        init_v2=lambda: None,
        device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        device_get_mig_mode=lambda handle: (mig, mig),
        device_get_num_gpu_cores=lambda handle: 16896,
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    assert NvmlMonitor("0000:00:00.0").cores() == cores


def test_the_link_to_the_host(monkeypatch):
    nvml = SimpleNamespace(
        init_v2=lambda: None,
        device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        device_get_max_pcie_link_generation=lambda handle: 5,
        device_get_curr_pcie_link_width=lambda handle: 16,
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    assert (facts := NvmlMonitor("0000:00:00.0").pcie()) == {"pcie_generation": 5, "pcie_lanes": 16}
    assert pcie_bandwidth(facts) == pytest.approx(63.0e9, rel=1e-3)
    assert describe_pcie(facts) == "PCIe generation 5 x16"
    del nvml.device_get_curr_pcie_link_width
    assert pcie_bandwidth(NvmlMonitor("0000:00:00.0").pcie()) is None


@pytest.mark.parametrize(("active", "number", "rate"), [(18, 6, 450e9), (17, 6, 425e9), (6, 3, 150e9), (18, 7, 900e9)])
def test_the_nvlinks(monkeypatch, active, number, rate):
    nvml = SimpleNamespace(
        init_v2=lambda: None,
        device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        device_get_nvlink_state=lambda handle, link: int(link < active),
        device_get_nvlink_version=lambda handle, link: number,
        device_get_nvlink_error_counter=lambda handle, link, kind: int((link, kind) == (3, 2)),
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    monitor = NvmlMonitor("0000:00:00.0")
    assert nvlink_bandwidth(monitor.nvlinks()) == rate and monitor.settings()["nvlink_errors"] == "1"
    nvml.device_get_nvlink_state = lambda handle, link: 0
    assert monitor.nvlinks() == {} and "nvlink_errors" not in monitor.settings()


def test_gpus_that_nvlink_connects(monkeypatch):
    """Of four others, NVML has no handle of one, states PCIe for another, and refuses to answer for the third."""

    def handle_of(address):
        if address == "missing":
            raise RuntimeError("not found")
        return address

    def status(own, other, index):
        if other == "refused":
            raise RuntimeError("not supported")
        return 0 if (own, other, index) == ("own", "linked", 2) else 5

    nvml = SimpleNamespace(
        init_v2=lambda: None,
        device_get_handle_by_pci_bus_id_v2=handle_of,
        device_get_p2p_status=status,
        GpuP2PCapsIndex=SimpleNamespace(NVLINK=2),
        GpuP2PStatus=SimpleNamespace(OK=0),
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    addresses = {0: "missing", 2: "pcie", 3: "refused", 5: "linked"}
    monitor = NvmlMonitor("own")
    assert monitor.nvlink_peers([0, 2, 3, 4, 5], addresses.__getitem__) == {"nvlink_peers": "5"}  # 4: no address
    assert monitor.nvlink_peers([2], addresses.__getitem__) == {}


def test_without_nvml_nothing_is_reported(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", None)
    monitor = NvmlMonitor("0000:00:00.0")
    assert (monitor.driver(), monitor.throttling(), monitor.other_processes()) == (None, None, None)
    assert monitor.cores() is None and monitor.pcie() == {} and monitor.nvlink_peers([1], str) == {}
    monitor.close()


def test_nvml_reports_throttling_and_processes(monkeypatch):
    def refuse(handle):
        raise RuntimeError("not supported")

    nvml = SimpleNamespace(
        init_v2=lambda: None,
        shutdown=lambda: None,
        device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        device_get_current_clocks_event_reasons=lambda handle: 0x1 | 0x4 | 0x40,
        device_get_compute_running_processes_v3=refuse,
        system_get_driver_version=lambda: "580.1",
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    first = NvmlMonitor("0000:00:00.0")
    assert first.driver() == "580.1" and first.throttling() == "power cap, thermal (hardware)"
    assert first.other_processes() is None

    class Processes(list):
        pid = property(list)

    parent = os.getppid()  # which holds arrays
    several, single = Processes([-1, -2, -3]), object()  # a single process has no length
    for processes, others in ((several, "2"), (Processes([-1, parent, -3]), "1"), (single, None)):
        nvml.device_get_compute_running_processes_v3 = lambda handle, processes=processes: processes
        monitor = NvmlMonitor("0000:00:00.0")
        assert monitor.other_processes() == others
        nvml.device_get_compute_running_processes_v3 = refuse
        assert monitor.other_processes() == others, "not queried again within a second"


def test_processes_are_counted_once_over_all_gpus(monkeypatch):
    nvml = SimpleNamespace(
        init_v2=lambda: None,
        shutdown=lambda: None,
        device_get_count_v2=lambda: 3,
        device_get_handle_by_index_v2=lambda index: index,
        device_get_compute_running_processes_v3=lambda handle: SimpleNamespace(pid=[[7, 8], 8, []][handle]),
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    assert count_processes() == 2, "a single process has a plain number"
    del nvml.device_get_count_v2
    assert count_processes() == 0


def test_settings_are_those_that_nvml_gives(monkeypatch):
    def refuse(handle):
        raise RuntimeError("not supported")

    nvml = SimpleNamespace(
        init_v2=lambda: None,
        device_get_handle_by_pci_bus_id_v2=lambda bus: 7,
        system_get_driver_version=lambda: "580.1",
        device_get_enforced_power_limit=lambda handle: 700_000,
        device_get_temperature_v=lambda handle, sensor: 37,
        ClockType=SimpleNamespace(CLOCK_SM=1, CLOCK_MEM=2),
        ClockId=SimpleNamespace(APP_CLOCK_TARGET=1),
        device_get_clock=lambda handle, clock, which: {1: 1980, 2: 3201}[clock],
        device_get_max_clock_info=lambda handle, clock: {1: 1995, 2: 3201}[clock],
        device_get_current_clocks_event_reasons=lambda handle: 0x1,
        device_get_mig_mode=refuse,
        device_get_ecc_mode=lambda handle: (1, 1),
        device_get_persistence_mode=lambda handle: 0,
    )
    bindings = pytest.importorskip("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvml", nvml)
    monkeypatch.setattr(bindings, "nvml", nvml, raising=False)
    assert NvmlMonitor("0000:00:00.0").settings() == {
        "driver": "580.1",
        "power_limit": "700 W",
        "temperature": "37 C at the start",
        "sm_clock": "requested 1980 MHz, highest 1995 MHz",
        "memory_clock": "requested 3201 MHz, highest 3201 MHz",
        "throttling": "none at the start",
        "ecc": "on",
        "persistence": "off",
    }

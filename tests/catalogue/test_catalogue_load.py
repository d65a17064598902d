"""Finding and reading: by name, by path, by what a driver calls a GPU."""

import subprocess
import sys
import time
from importlib import resources
from pathlib import Path as FilePath

import pytest

from gpudissect.catalogue import for_name, load, names
from gpudissect.errors import CatalogueError
from gpudissect.simulation.cache.geometry import Partition
from gpudissect.workload import Path


def test_the_example_of_the_readme_loads(example: str, tmp_path: FilePath) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(example)
    for given in (file, str(file)):
        gpu = load(given)
        assert (gpu.key, gpu.name, gpu.architecture) == ("mine", "Example 1", "Example")
    hierarchy = gpu.hierarchy()
    assert hierarchy.caches["l1"].copies == 2
    assert hierarchy.routes[Path.TEXTURE].caches == ("l1", "l2")
    assert hierarchy.routes[Path.GLOBAL].tlbs_at == 1
    assert hierarchy.tlb_cold_walk_penalty == 360
    assert hierarchy.partition == Partition("l2", home=(1 << 7) + (1 << 12), far_penalty=100, far_memory_penalty=110)
    assert gpu.facts()["l2_size"] == 196608
    lacking = {Path.READONLY: "no read-only cache", Path.CONSTANT: "not described"}
    code = "its GPU file does not describe the instruction caches"
    assert gpu.unsupported() == {**lacking, Path.TMA: "its GPU file does not describe it", Path.CODE: code}
    assert (gpu.facts()["cluster_size"], hierarchy.cluster_size) == (8, 8)
    assert hierarchy.routes[Path.CLUSTER].latency == (33, 180)
    near = next(item for item in gpu.published() if item.attribute == "near_latency")
    assert (near.element, near.value, near.low, near.high, near.unit) == ("l2", 190, 185, 198, "cycles")


@pytest.mark.parametrize(
    ("driver", "key"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("A100-PCIE-40GB", "a100"),
        ("NVIDIA GeForce GTX 980", "gtx980"),
        ("GeForce GTX 980", "gtx980"),
        ("nvidia geforce rtx 2080 ti", "rtx2080ti"),
        ("Tesla V100-SXM2-32GB", "v100"),
        ("Tesla K20c", "k20c"),
        ("Tesla C2070", "c2070"),
        ("NVIDIA H200", "h100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GH200 480GB", "h100"),
        ("NVIDIA GeForce GTX 980 Ti", None),
        ("NVIDIA GeForce RTX 4090", None),
        ("", None),
        ("*", None),
    ],
)
def test_for_name(driver: str, key: str | None) -> None:
    gpu = for_name(driver)
    assert (gpu.key if gpu else None) == key


@pytest.mark.parametrize("name", [name for name in names() if load(name).table.run is None])
def test_every_gpu_is_found_by_its_own_name(name: str) -> None:
    gpu = for_name(load(name).name)
    assert gpu is not None and gpu.key == name


def test_documents_go_before_a_measurement_of_the_same_gpu() -> None:
    assert load("h200").table.run is not None
    assert for_name(load("h200").name) is load("h100")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(CatalogueError, match=r"no GPU named 'gtx981'; known: 840m, .*gtx980"):
        load("gtx981")


def test_unsupported_paths_have_reasons() -> None:
    newer = {Path.CLUSTER, Path.TMA}
    assert set(load("gtx280").unsupported()) == {Path.GLOBAL_L2, Path.READONLY, Path.CODE} | newer
    assert {load("gtx280").unsupported()[path] for path in newer} == {"needs compute capability 9.0"}
    assert not newer & set(load("h100").unsupported())
    assert "3.5" in load("gtx560ti").unsupported()[Path.READONLY]
    assert set(load("gtx780").unsupported()) == newer | {Path.CODE}
    assert load("gtx780").unsupported()[Path.CODE] == "its GPU file does not describe the instruction caches"
    assert set(load("v100").unsupported()) == newer
    assert load("840m").hierarchy().routes[Path.GLOBAL].caches == ("l2",)  # no L1 is a route, not a lack


def test_facts_use_the_names_of_device_info() -> None:
    assert load("gtx980").facts() == {
        "compute_capability": "5.2",
        "clock_hz": 1.279e9,
        "memory_size": 2**32,
        "shared_per_block": 48 * 1024,
        "constant_size": 64 * 1024,
        "shared_per_sm": 96 * 1024,
        "memory_clock_hz": 1.753e9,
        "memory_bus_bits": 256,
        "memory_data_rate": 4,
        "warp_size": 32,
        "threads_per_sm": 2048,
        "registers_per_sm": 65536,
        "l2_size": 2 * 1024 * 1024,
    }
    assert "l2_size" not in load("gtx280").facts()


def test_importing_the_catalogue_does_not_import_pydantic() -> None:
    code = "import sys, gpudissect.catalogue as c; c.names(); c.for_name('nothing'); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_reading_one_gpu_is_fast(tmp_path: FilePath) -> None:
    load("gtx980")
    file = tmp_path / "gpu.toml"
    file.write_text((resources.files("gpudissect.catalogue") / "gpus" / "c2070.toml").read_text("utf-8"))
    fastest = 1.0
    for _ in range(5):
        start = time.perf_counter()
        load(file).hierarchy()
        fastest = min(fastest, time.perf_counter() - start)
    assert fastest < 0.05


def test_instructions_have_a_path_where_a_file_describes_it() -> None:
    """Nothing of it is published to the letter: none of it is compared with."""
    for name, second in (("v100", "icache_l1"), ("rtx2080ti", "constant_l15")):
        gpu = load(name)
        assert gpu.hierarchy().routes[Path.CODE].caches == ("icache_l0", second, "l2")
        assert gpu.hierarchy().limits[Path.CODE] == 512 * 1024
        assert not [item for item in gpu.published() if item.element.startswith("icache")]

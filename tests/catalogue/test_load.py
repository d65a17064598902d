"""GPU files are found by name, by path and by the name of a driver, and become what a simulator runs."""

import subprocess
import sys

import pytest

from gpudissect.catalogue import for_name, load, names
from gpudissect.errors import CatalogueError
from gpudissect.simulation.cache.geometry import Distance, Fill, Partition, Room
from gpudissect.workload import Path

NEWER = {Path.CLUSTER, Path.TMA}
LINKS = {Path.HOST, Path.PEER, Path.PEER_L1}
NO_CODE = "its GPU file does not describe the instruction caches"


@pytest.mark.parametrize("convert", [str, lambda path: path])
def test_the_example_of_the_readme(convert, example, tmp_path):
    (tmp_path / "mine.toml").write_text(example)
    gpu = load(convert(tmp_path / "mine.toml"))
    assert (gpu.key, gpu.name, gpu.architecture) == ("mine", "Example 1", "Example")
    hierarchy = gpu.hierarchy()
    assert hierarchy.caches["l1"].copies == 2
    assert hierarchy.routes[Path.TEXTURE].caches == ("l1", "l2")
    assert hierarchy.routes[Path.GLOBAL].tlbs_at == 1
    assert hierarchy.routes[Path.CLUSTER].latency == (33, 180)
    assert hierarchy.tlb_cold_walk_penalty == 360
    assert hierarchy.partition == Partition(
        "l2", home_mask=(1 << 7) + (1 << 12), far_penalty=100, far_memory_penalty=110
    )
    assert gpu.facts()["l2_size"] == 196608
    assert gpu.facts()["cluster_size"] == hierarchy.cluster_size == 8
    stated = {Path.READONLY: "no read-only cache", Path.CONSTANT: "not described"}
    assert gpu.unsupported() == stated | {
        Path.TMA: "its GPU file does not describe it",
        Path.PEER: "GPUs are simulated one by one",
        Path.PEER_L1: "GPUs are simulated one by one",
        Path.CODE: NO_CODE,
    }
    near = next(item for item in gpu.published() if item.attribute == "near_latency")
    assert (near.element, near.value, near.low, near.high, near.unit) == ("l2", 190, 185, 198, "cycles")


def hierarchy_of(text, folder):
    (folder / "mine.toml").write_text(text)
    return load(folder / "mine.toml").hierarchy()


def test_three_partitions(example, tmp_path):
    home = next(line for line in example.splitlines() if line.startswith("home = "))
    three = 'count = { value = 3, assumed = "x" }\ngranule = { value = 4096, assumed = "x" }'
    text = example.replace(home, three).replace("capacity = { value = 196608", "capacity = { value = 294912")
    partition = hierarchy_of(text, tmp_path).partition
    assert partition == Partition("l2", 0, far_penalty=100, far_memory_penalty=110, count=3, granule=4096)


@pytest.mark.parametrize("fill", list(Fill))
def test_what_fills_a_cache(fill, example, tmp_path):
    caches = hierarchy_of(example.replace('scope = "gpu"', f'scope = "gpu"\nfill = "{fill}"', 1), tmp_path).caches
    assert (caches["l1"].fill, caches["l2"].fill) == (Fill.MISSES, fill)


def test_room_for_fewer_lines_than_tags(example, tmp_path):
    room = 'room = { value = { lines = 100 }, assumed = "x" }'
    text = example.replace("count_per_sm = { value = 2,", f"{room}\ncount_per_sm = {{ value = 2,", 1)
    cache = hierarchy_of(text.replace("capacity = { value = 16384", "capacity = { value = 12800"), tmp_path).caches[
        "l1"
    ]
    assert cache.room == Room(100) and cache.capacity == 12800


def test_distances(example, tmp_path):
    distance = hierarchy_of(example, tmp_path).distance
    assert distance == Distance("l2", by_slice=(0, 4, 2, 6, 1, 5))


def test_lines_that_are_no_power_of_two(example, tmp_path):
    l1 = example[example.index("[caches.l1]") : example.index("[caches.l2]")]
    odd = l1.replace("16384", "12288").replace("value = 128", "value = 96")
    odd = odd.replace('kind = "bits", bits = [7, 8, 9, 10, 11]', 'kind = "modulo"')
    paths = 'index_function = { value = { kind = "xor"'
    text = example.replace(l1, odd).replace("capacity = { value = 16384", "capacity = { value = 12288")
    cache = hierarchy_of(text.replace(paths, f"# {paths}"), tmp_path).caches["l1"]
    assert (cache.line, cache.sector, cache.capacity) == (96, 32, 12288)


DRIVERS = {
    "NVIDIA A100-SXM4-40GB": "a100",
    "A100-PCIE-40GB": "a100",
    "NVIDIA GeForce GTX 980": "gtx980",
    "GeForce GTX 980": "gtx980",
    "nvidia geforce rtx 2080 ti": "rtx2080ti",
    "Tesla V100-SXM2-32GB": "v100",
    "Tesla K20c": "k20c",
    "Tesla C2070": "c2070",
    "NVIDIA H200": "h100",  # documents go before the measurement of h200.toml
    "NVIDIA H100 80GB HBM3": "h100",
    "NVIDIA GH200 480GB": "h100",
    "NVIDIA GeForce GTX 980 Ti": None,
    "NVIDIA GeForce RTX 4090": None,
    "": None,
    "*": None,
} | {load(name).name: name for name in names() if load(name).table.run is None}


@pytest.mark.parametrize(("driver_name", "key"), DRIVERS.items())
def test_for_name(driver_name, key):
    gpu = for_name(driver_name)
    assert (gpu.key if gpu else None) == key


def test_the_h200_is_a_measurement():
    assert load("h200").table.run is not None


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(CatalogueError, match=r"no GPU named 'gtx981'; known: 840m, .*gtx980"):
        load("gtx981")


def test_unsupported_paths_have_reasons():
    unsupported = {name: load(name).unsupported() for name in ("gtx280", "h100", "gtx560ti", "gtx780", "v100")}
    assert set(unsupported["gtx280"]) == {Path.GLOBAL_L2, Path.READONLY, Path.CODE} | LINKS | NEWER
    assert {unsupported["gtx280"][path] for path in NEWER} == {"needs compute capability 9.0"}
    assert not NEWER & set(unsupported["h100"])
    assert "3.5" in unsupported["gtx560ti"][Path.READONLY]
    assert set(unsupported["gtx780"]) == NEWER | LINKS | {Path.CODE}
    assert unsupported["gtx780"][Path.CODE] == NO_CODE
    assert set(unsupported["v100"]) == NEWER | LINKS
    assert load("840m").hierarchy().routes[Path.GLOBAL].caches == ("l2",)  # no L1, but a path


def test_facts_have_the_names_of_device_info():
    kib = 1024
    sizes = {"memory_size": 2**32, "shared_per_block": 48 * kib, "constant_size": 64 * kib, "shared_per_sm": 96 * kib}
    memory = {"memory_clock_hz": 1.753e9, "memory_bus_bits": 256, "memory_data_rate": 4, "l2_size": 2048 * kib}
    chip = {"compute_capability": "5.2", "clock_hz": 1.279e9, "warp_size": 32, "threads_per_sm": 2048}
    assert load("gtx980").facts() == sizes | memory | chip | {"registers_per_sm": 65536}
    assert "l2_size" not in load("gtx280").facts()


def test_importing_the_catalogue_does_not_import_pydantic():
    code = "import sys, gpudissect.catalogue as c; c.names(); c.for_name('nothing'); print('pydantic' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_instruction_caches_are_simulated_but_not_published():
    for name, second in (("v100", "icache_l1"), ("rtx2080ti", "constant_l15")):
        gpu = load(name)
        assert gpu.hierarchy().routes[Path.CODE].caches == ("icache_l0", second, "l2")
        assert gpu.hierarchy().limits[Path.CODE] == 512 * 1024
        assert not [item for item in gpu.published() if item.element.startswith("icache")]


def test_similar_names_are_sought_for_the_first_wrong_one_only(monkeypatch):
    """A file of 1 MB may have 300,000."""
    from pydantic import TypeAdapter, ValidationError

    from gpudissect.catalogue import quantity
    from gpudissect.catalogue.schema import Published

    sought = []
    monkeypatch.setattr(quantity, "suggest", lambda name, *_, **__: sought.append(name) or ["ways"])
    with pytest.raises(ValidationError) as error:
        TypeAdapter(Published).validate_python({"l1": {f"way{i}": 1 for i in range(9)}})
    assert quantity.first_problem(error.value).startswith("l1.way0: must be one of ways, ...")
    assert sought == ["way0"]

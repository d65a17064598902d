"""Every built-in file: complete, sourced, and with a geometry that a simulator can run."""

import tomllib
from collections import Counter
from importlib import resources

import numpy as np
import pytest

from gpudissect.catalogue import load, names
from gpudissect.simulation.cache.geometry import Scope
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.simulation.sm.description import Pipe
from gpudissect.workload import Path

GPUS = [
    *("840m", "8800gtx", "a100", "c2070", "c2070-48k", "gtx280", "gtx480", "gtx560ti", "gtx680", "gtx780"),
    *("gtx980", "h100", "h200", "k20c", "p6000", "rtx2080ti", "v100"),
]
ALL = pytest.mark.parametrize("name", GPUS)
UNITS = {"", "B", "cycles", "B/s", "B/cycle", "ops/cycle", "ops/s", "ns"}


def test_the_catalogue_holds_the_documented_gpus():
    assert names() == GPUS


@ALL
def test_every_number_has_a_source(name):
    text = (resources.files("gpudissect.catalogue") / "gpus" / f"{name}.toml").read_text("utf-8")
    bare, sourced = [], []

    def visit(node, place):
        if isinstance(node, dict) and "value" in node:
            assert ("source" in node) != ("assumed" in node), place
            sourced.append(place)
        elif isinstance(node, dict | list):
            for key, child in node.items() if isinstance(node, dict) else enumerate(node):
                visit(child, f"{place}.{key}")
        elif isinstance(node, int | float):
            bare.append(place)

    visit(tomllib.loads(text), name)
    assert bare == [f"{name}.format"]
    assert len(sourced) > 60


@ALL
def test_the_hierarchy_is_complete(name):
    gpu = load(name)
    hierarchy = gpu.hierarchy()
    assert set(hierarchy.routes) | set(gpu.unsupported()) == set(Path)
    assert set(hierarchy.limits) == set(hierarchy.routes)
    assert all(limit > 0 for limit in hierarchy.limits.values())
    for path, route in hierarchy.routes.items():
        cycles = [*route.latency, *([] if route.memory_latency is None else [route.memory_latency])]
        assert cycles == sorted(cycles), path
        assert set(route.caches) <= set(hierarchy.caches), path
        assert route.timer > 0, path
    assert all(tlb.penalty > 0 for tlb in hierarchy.tlbs[:-1])
    assert hierarchy.tlb_walk_penalty >= max((tlb.penalty for tlb in hierarchy.tlbs), default=0)
    if "l2" in hierarchy.caches:
        assert hierarchy.caches["l2"].scope is Scope.GPU
        partitions = 2 if hierarchy.partition is not None and hierarchy.partition.cache == "l2" else 1
        assert partitions * hierarchy.caches["l2"].capacity == gpu.facts()["l2_size"]


@ALL
def test_contiguous_lines_and_pages_fill_caches_and_tlbs_exactly(name):
    hierarchy = load(name).hierarchy()
    arrays = [(cache, cache.line) for cache in hierarchy.caches.values()]
    for array, line in arrays + [(tlb, tlb.page) for tlb in hierarchy.tlbs]:
        addresses = np.arange(sum(array.ways), dtype=np.int64) * line
        sets = len(array.ways)
        filled = np.bincount(set_numbers(array.index, line, sets, addresses), minlength=sets)
        assert filled.tolist() == list(array.ways)


@ALL
def test_published_numbers_are_unique_and_in_their_bracket(name):
    published = load(name).published()
    assert published
    assert max(Counter((item.element, item.attribute) for item in published).values()) == 1
    for item in published:
        assert item.source and item.unit in UNITS
        assert item.low is None or item.low <= item.value
        assert item.high is None or item.value <= item.high


@pytest.mark.parametrize("name", [name for name in GPUS if load(name).table.processor is not None])
def test_the_processor_is_consistent(name):
    gpu = load(name)
    processor, chip = gpu.processor(), gpu.table.chip
    assert processor.warps * 32 == chip.threads_per_sm.value
    assert {Pipe.MEMORY, Pipe.BARRIER} <= processor.single
    assert processor.dram.copy <= 2 * processor.dram.read
    clock, bits, rate = chip.memory_clock_hz, chip.memory_bus_bits, chip.memory_data_rate
    pins = clock.value * bits.value / 8 * (rate.value if rate else 2)
    assert processor.dram.read * processor.clock_hz <= pins
    for instruction, operation in processor.operations.items():
        assert operation.interval > 0 and operation.latency > 0
        # A simulated result is ready at whole cycles: 4.02 would make 5.
        latency = gpu.table.units[instruction].latency
        assert latency is None or latency.value == int(latency.value), instruction

"""Every built-in file: complete, sourced, and geometrically what a simulator can run."""

import tomllib
from collections import Counter
from importlib import resources

import numpy as np
import pytest

from gpudissect.catalogue import load, names
from gpudissect.simulation.cache.geometry import Scope
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.workload import Path

GPUS = [
    "840m", "8800gtx", "a100", "c2070", "c2070-48k", "gtx280", "gtx480", "gtx560ti", "gtx680", "gtx780", "gtx980",
    "h100", "h200", "k20c", "p6000", "rtx2080ti", "v100",
]  # fmt: skip


def raw(name: str) -> dict:
    return tomllib.loads((resources.files("gpudissect.catalogue") / "gpus" / f"{name}.toml").read_text("utf-8"))


def test_the_catalogue_holds_the_gpus_of_the_documents() -> None:
    assert names() == GPUS


@pytest.mark.parametrize("name", GPUS)
def test_every_number_says_where_it_is_from(name: str) -> None:
    bare, sourced = [], []

    def visit(node: object, where: str) -> None:
        if isinstance(node, dict) and "value" in node:
            assert ("source" in node) != ("assumed" in node), where
            sourced.append(where)
        elif isinstance(node, dict):
            for key, child in node.items():
                visit(child, f"{where}.{key}")
        elif isinstance(node, list):
            for place, child in enumerate(node):
                visit(child, f"{where}[{place}]")
        elif isinstance(node, int | float):
            bare.append(where)

    visit(raw(name), name)
    assert bare == [f"{name}.format"]
    assert len(sourced) > 60


@pytest.mark.parametrize("name", GPUS)
def test_hierarchy_is_complete(name: str) -> None:
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
        parts = 2 if hierarchy.partition is not None and hierarchy.partition.cache == "l2" else 1
        assert parts * hierarchy.caches["l2"].capacity == gpu.facts()["l2_size"]


@pytest.mark.parametrize("name", GPUS)
def test_a_block_as_large_as_a_cache_fits_it_exactly(name: str) -> None:
    for element, cache in load(name).hierarchy().caches.items():
        lines = np.arange(0, cache.capacity, cache.line)
        filled = np.bincount(set_numbers(cache.index, cache.line, cache.sets, lines), minlength=cache.sets)
        assert filled.tolist() == list(cache.ways), element


@pytest.mark.parametrize("name", [name for name in GPUS if load(name).hierarchy().tlbs])
def test_as_many_neighbouring_pages_as_a_tlb_has_entries_fit_it_exactly(name: str) -> None:
    for tlb in load(name).hierarchy().tlbs:
        pages = np.arange(sum(tlb.ways), dtype=np.int64) * tlb.page
        filled = np.bincount(set_numbers(tlb.index, tlb.page, len(tlb.ways), pages), minlength=len(tlb.ways))
        assert filled.tolist() == list(tlb.ways)


@pytest.mark.parametrize("name", GPUS)
def test_published_numbers_are_unique_and_in_their_bracket(name: str) -> None:
    published = load(name).published()
    assert published
    assert max(Counter((item.element, item.attribute) for item in published).values()) == 1
    for item in published:
        assert item.source
        assert item.low is None or item.low <= item.value
        assert item.high is None or item.value <= item.high
        assert item.unit in ("", "B", "cycles", "B/s", "B/cycle", "ops/cycle", "ns")

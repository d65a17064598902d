"""A GPU file's tables turned into the `Hierarchy` that a simulator runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudissect.catalogue.capabilities import TEXTURE_BYTES
from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    PageWindow,
    Partition,
    Policy,
    Prefetch,
    Route,
    Tlb,
)
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.schema import Element, GpuTable, PathTable
    from gpudissect.catalogue.structure import CacheTable, IndexTable, PolicyTable, TlbTable

CODE_LIMIT = 512 * 1024  # bytes of straight-line code that can be run: as on a CUDA GPU


def hierarchy_of(gpu: GpuTable) -> Hierarchy:
    """Build the memory hierarchy that `gpu` describes; views are resolved to the arrays they look into."""
    return Hierarchy(
        caches={str(element): _cache(table) for element, table in gpu.caches.items()},
        routes={Path.NOTHING: Route((), (0.0,), None, timer=gpu.chip.timer.value)}
        | {path: _route(gpu, table) for path, table in gpu.paths.items()},
        tlbs=tuple(_tlb(gpu.tlbs[level]) for level in sorted(gpu.tlbs)),
        tlb_walk_penalty=gpu.walk.penalty.value if gpu.walk else 0.0,
        tlb_cold_walk_penalty=gpu.walk.cold_penalty.value if gpu.walk and gpu.walk.cold_penalty else None,
        page_window=PageWindow(gpu.page_window.size.value, gpu.page_window.penalty.value) if gpu.page_window else None,
        prefetch=_prefetch(gpu),
        partition=_partition(gpu),
        sm_count=gpu.chip.sm_count.value,
        clock_hz=gpu.chip.clock_hz.value,
        limits=limits_of(gpu),
        cluster_size=gpu.chip.cluster_size.value if gpu.chip.cluster_size else 1,
    )


def array_of(gpu: GpuTable, element: Element) -> str:
    """Name of the array that serves `element`."""
    return str(element) if element in gpu.caches else gpu.views[element].of.value


def limits_of(gpu: GpuTable) -> dict[Path, int]:
    """Bytes one chase may span on each path that the GPU has."""
    memory = gpu.chip.memory_size.value
    spans = {
        Path.TEXTURE: min(memory, TEXTURE_BYTES),
        Path.CONSTANT: gpu.chip.constant_size.value,
        Path.SHARED: gpu.chip.shared_per_block.value,
        Path.CLUSTER: gpu.chip.shared_per_block.value,
        Path.CODE: CODE_LIMIT,
    }
    return {Path.NOTHING: memory} | {path: spans.get(path, memory) for path in gpu.paths}


def _cache(table: CacheTable) -> Cache:
    return Cache(
        ways=table.ways_of_sets(),
        line=table.line_size.value,
        sector=table.fetch_granularity.value,
        index=index_of(table.index_function.value),
        policy=_policy(table.replacement_policy.value),
        scope=table.scope,
        copies=table.count_per_sm.value if table.count_per_sm else 1,
    )


def _tlb(table: TlbTable) -> Tlb:
    return Tlb(
        ways=table.ways_of_sets(),
        page=table.page_size.value,
        index=index_of(table.index_function.value),
        policy=_policy(table.replacement_policy.value),
        penalty=table.penalty.value if table.penalty else 0.0,
    )


def index_of(table: IndexTable) -> Index:
    """Build the index function that a table describes."""
    masks = tuple(sum(1 << bit for bit in set(mask)) for mask in table.masks)
    return Index(table.kind, bits=table.bits, masks=masks, table=table.table, granule=table.granule)


def _policy(table: PolicyTable) -> Policy:
    total = sum(table.weights)
    return Policy(table.kind, weights=tuple(weight / total for weight in table.weights))


def _route(gpu: GpuTable, table: PathTable) -> Route:
    return Route(
        caches=tuple(array_of(gpu, element) for element in table.caches),
        latency=tuple(entry.value for entry in table.latency),
        memory_latency=table.memory_latency.value if table.memory_latency else None,
        translated_from=table.translated_from.value if table.translated_from else 0,
        timer=(table.timer or gpu.chip.timer).value,
        tlbs_at=table.tlbs_at.value if table.tlbs_at else 0,
    )


def _partition(gpu: GpuTable) -> Partition | None:
    table = gpu.partition
    if table is None:
        return None
    return Partition(
        cache=array_of(gpu, table.cache),
        home=sum(1 << bit for bit in set(table.home.value)),
        far_penalty=table.far_penalty.value,
        far_memory_penalty=table.far_memory_penalty.value if table.far_memory_penalty else 0.0,
    )


def _prefetch(gpu: GpuTable) -> Prefetch | None:
    if gpu.prefetch is None:
        return None
    run = gpu.prefetch.run.value if gpu.prefetch.run else 2
    return Prefetch(array_of(gpu, gpu.prefetch.cache), gpu.prefetch.reach.value, run)

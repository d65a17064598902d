"""The fixed simulated GPUs of `beyond.py`: GPUs of the catalogue with one or two features that these do not have."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations, cycle
from typing import Any

from gpudissect import catalogue
from gpudissect.device.simulated.gpu import SimulatedGpu
from gpudissect.device.simulated.noise import Noise
from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.simulation.cache.geometry import (
    Cache,
    Distance,
    Fill,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Room,
    Rows,
    Tlb,
)
from gpudissect.units import KIB, MIB
from gpudissect.workload import Path

GPU_COUNT = 100
INDEX_BY_PATH = "path: index by path"
BASES = ("c2070", "v100", "gtx560ti")
L2_SIZE = 384 * KIB  # of all bases: time of a survey grows with it
PATHS = (Path.NOTHING, Path.GLOBAL, Path.GLOBAL_L2, Path.TEXTURE)
MODULO, LRU = Index(IndexKind.MODULO), Policy(PolicyKind.LRU)


@dataclass(frozen=True)
class Model:
    """What a feature changes."""

    hierarchy: Hierarchy
    noise: Noise

    def with_(self, **changes: Any) -> Model:
        return replace(self, hierarchy=replace(self.hierarchy, **changes))

    def with_cache(self, name: str, **changes: Any) -> Model:
        cache = replace(self.hierarchy.caches[name], **changes)
        return self.with_(caches={**self.hierarchy.caches, name: cache})

    def with_route(self, path: Path, **changes: Any) -> Model:
        return self.with_(routes={**self.hierarchy.routes, path: replace(self.hierarchy.routes[path], **changes)})


def base(name: str) -> Model:
    """A GPU of the catalogue without its prefetcher and page window, with an L2 of `L2_SIZE`."""
    hierarchy = catalogue.load(name).hierarchy()
    routes = {path: hierarchy.routes[path] for path in PATHS if path in hierarchy.routes}
    used = {cache for route in routes.values() for cache in route.caches}
    caches = {each: cache for each, cache in hierarchy.caches.items() if each in used}
    caches["l2"] = _sized(caches["l2"], L2_SIZE)
    tlbs = tuple(replace(tlb, index=MODULO) for tlb in hierarchy.tlbs)  # a table has no single name
    parts = {"caches": caches, "routes": routes, "tlbs": tlbs, "prefetch": None, "page_window": None, "sm_count": 8}
    return Model(replace(hierarchy, **parts), Noise())


def _sized(cache: Cache, size: int, ways: int = 16) -> Cache:
    return replace(cache, ways=(ways,) * (size // cache.line // ways), index=MODULO)


def _tlbs(*levels: tuple[int, int, float]) -> Callable[[Model], Model]:
    """TLB levels: entries, page size, cycles of a miss."""
    tlbs = tuple(Tlb((entries,), page, MODULO, LRU, penalty) for entries, page, penalty in levels)
    return lambda model: model.with_(tlbs=tlbs, tlb_walk_penalty=tlbs[-1].penalty, tlb_cold_walk_penalty=None)


def _partition(mask: int, count: int = 2, granule: int = 0) -> Callable[[Model], Model]:
    partition = Partition("l2", mask, 90.0, 130.0, count, granule)

    def change(model: Model) -> Model:
        l2 = model.hierarchy.caches["l2"]
        return model.with_cache("l2", **vars(_sized(l2, l2.capacity // 2))).with_(partition=partition)

    return change


def _policy(policy: Policy) -> Callable[[Model], Model]:
    """For the L1, in sets of four ways."""

    def change(model: Model) -> Model:
        l1 = model.hierarchy.caches["l1"]
        return model.with_cache("l1", **(vars(_sized(l1, l1.capacity, 4)) | {"policy": policy}))

    return change


def _lines(name: str, line: int, sector: int) -> Callable[[Model], Model]:
    """About as large a cache with other lines."""

    def change(model: Model) -> Model:
        cache = model.hierarchy.caches[name]
        return model.with_cache(name, **vars(_sized(replace(cache, line=line, sector=sector), cache.capacity, 4)))

    return change


def _size(name: str, size: int, ways: int) -> Callable[[Model], Model]:
    return lambda model: model.with_cache(name, **vars(_sized(model.hierarchy.caches[name], size, ways)))


def _one_line_l1(model: Model) -> Model:
    return model.with_cache("l1", ways=(1,), index=MODULO, policy=LRU)


def _next_lines(name: str, lines: int) -> Callable[[Model], Model]:
    return lambda model: model.with_(prefetch=Prefetch(name, lines * model.hierarchy.caches[name].line, run=0))


def _room(share: float) -> Callable[[Model], Model]:
    def change(model: Model) -> Model:
        lines = int(share * sum(model.hierarchy.caches["l1"].ways))
        return model.with_cache("l1", policy=LRU, room=Room(lines))

    return change


def _filled_by(fill: Fill) -> Callable[[Model], Model]:
    """An L2 with the lines of the L1, filled by what the L1 evicts."""

    def change(model: Model) -> Model:
        l1 = model.hierarchy.caches["l1"]
        model = _lines("l2", l1.line, l1.sector)(model).with_cache("l2", fill=fill)
        return model.with_route(Path.TEXTURE, caches=("l1", "l2"))

    return change


def _victim_cache(model: Model) -> Model:
    """32 lines, fully associative, between L1 and L2."""
    l1, route = model.hierarchy.caches["l1"], model.hierarchy.routes[Path.GLOBAL]
    victim = Cache((32,), l1.line, l1.sector, MODULO, LRU, fill=Fill.EXCLUSIVE)
    near, far = route.latency
    model = model.with_(caches={**model.hierarchy.caches, "victim": victim})
    return model.with_route(Path.GLOBAL, caches=("l1", "victim", "l2"), latency=(near, near + 0.3 * (far - near), far))


def _close_latencies(model: Model) -> Model:
    _, far = model.hierarchy.routes[Path.GLOBAL].latency
    return model.with_route(Path.GLOBAL, latency=(far - 2.0, far))


def _index_by_path(model: Model) -> Model:
    l1 = model.hierarchy.caches["l1"]
    bits = l1.sets.bit_length() - 1
    low = l1.line.bit_length() - 1
    masks = tuple(1 << low + bit | 1 << low + bits + bit + 1 for bit in range(bits))
    model = model.with_cache("l1", index=Index(IndexKind.BITS, bits=tuple(range(low, low + bits))))
    return model.with_route(Path.TEXTURE, caches=("l1", "l2"), index=Index(IndexKind.XOR, masks=masks))


def _tlbs_at_l2(model: Model) -> Model:
    return model.with_route(Path.GLOBAL, tlbs_at=1, translated_from=0)


def _distances(model: Model) -> Model:
    by_slice = tuple(float(7 * n % 23) for n in range(12))
    return model.with_(distance=Distance("l2", tuple(float(5 * n % 17) for n in range(8)), by_slice))


FEATURES: dict[str, Callable[[Model], Model]] = {
    "size: L1 of three quarters of the L2": _size("l1", 3 * L2_SIZE // 4, 12),
    "size: L2 of 96 KiB": _size("l2", 96 * KIB, 16),
    "size: L1 of one line": _one_line_l1,
    "lines: 96 B in the L1": _lines("l1", 96, 32),
    "room: more tags than data": _room(0.9),
    "room: for half of the tags": _room(0.5),
    "policy: victims 2 3 2 1 2 4": _policy(Policy(PolicyKind.ORDER, order=(2, 3, 2, 1, 2, 4))),
    "policy: nearly equal weights": _policy(Policy(PolicyKind.WEIGHTED, (0.26, 0.25, 0.25, 0.24))),
    "policy: bimodal insertion": _policy(Policy(PolicyKind.BIP)),
    "policy: LRU insertion": _policy(Policy(PolicyKind.LIP)),
    INDEX_BY_PATH: _index_by_path,
    "copies: two per SM": lambda model: model.with_cache("l1", copies=2),
    "fill: L2 of victims": _filled_by(Fill.VICTIMS),
    "fill: exclusive L2": _filled_by(Fill.EXCLUSIVE),
    "fill: victim cache": _victim_cache,
    "lines: 96 B in the L2": _lines("l2", 96, 96),
    "partition: three": _partition(0, 3, 4 * KIB),
    "partition: by bit 8": _partition(1 << 8),
    "partition: by bits 27 and 29": _partition(1 << 27 | 1 << 29),
    "prefetch: next line into the L1": _next_lines("l1", 1),
    "prefetch: two lines into the L1": _next_lines("l1", 2),
    "prefetch: next lines into the L2": _next_lines("l2", 2),
    "prefetch: streams into the L2": lambda model: model.with_(prefetch=Prefetch("l2", 64 * KIB, run=2)),
    "tlb: 16 and 24 entries": _tlbs((16, 2 * MIB, 23.0), (24, 2 * MIB, 117.0)),
    "tlb: pages of 64 KiB": _tlbs((32, 64 * KIB, 150.0)),
    "tlbs at the L2": _tlbs_at_l2,
    "window: 64 MiB": lambda model: model.with_(page_window=PageWindow(64 * MIB, 150.0)),
    "rows of DRAM": lambda model: model.with_(rows=Rows(2 * KIB, 16, 40.0)),
    "latency: L1 and L2 two cycles apart": _close_latencies,
    "latency: by distance": _distances,
    "noise: 1 % delayed": lambda model: replace(model, noise=Noise(outliers=0.01, drift=0.002)),
    "noise: other users": lambda model: replace(model, noise=Noise(other_users=128)),
}
"""Features in the order in which they are applied. Two with the same word before the colon exclude each other."""


def beyond_gpus() -> tuple[tuple[str, SimulatedGpu], ...]:
    """`GPU_COUNT` GPUs with their names: every feature alone, then pairs, so that each occurs about equally often."""
    bases = cycle(BASES)
    models = [((name,), _model(next(bases), (name,))) for name in FEATURES]
    models += list(_pairs(GPU_COUNT - len(models), bases))
    gpus = []
    for number, (names, (title, model)) in enumerate(models):
        name = f"{title}, {' + '.join(names)}"
        noise = replace(model.noise, seed=number)
        gpus.append((name, SimulatedGpu(model.hierarchy, spec=f"sim:beyond?number={number}", name=name, noise=noise)))
    return tuple(gpus)


def _pairs(count: int, bases: Iterator[str]) -> Iterator[tuple[tuple[str, str], tuple[str, Model]]]:
    """Possible pairs in an order that favours none: those of the features used least, by a hash of the names."""
    uses = dict.fromkeys(FEATURES, 0)
    left = {pair: hashlib.sha256(" ".join(pair).encode()).hexdigest() for pair in combinations(FEATURES, 2)}
    while count:
        pair = min(
            left, key=lambda each: (max(uses[name] for name in each), sum(uses[name] for name in each), left[each])
        )
        del left[pair]
        if pair[0].split(":")[0] == pair[1].split(":")[0]:
            continue
        try:
            model = _model(next(bases), pair)
        except (UsageError, ValueError):
            continue
        for name in pair:
            uses[name] += 1
        count -= 1
        yield pair, model


def _model(name: str, features: tuple[str, ...]) -> tuple[str, Model]:
    """A base with features; raises `UsageError` or `ValueError` if they exclude each other."""
    model = base(name)
    for feature in features:
        model = FEATURES[feature](model)
    check_hierarchy(model.hierarchy)
    return name, model

"""Hypothesis strategies: small random caches and hierarchies, and accesses that fit them."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from gpudissect.simulation.cache.geometry import (
    Cache,
    Hierarchy,
    Index,
    IndexKind,
    PageWindow,
    Partition,
    Policy,
    PolicyKind,
    Prefetch,
    Route,
    Scope,
    Tlb,
)
from gpudissect.workload import Path

ADDRESS_BITS = 16


@st.composite
def indices(draw, line: int, sets: int) -> Index:
    kinds = [IndexKind.MODULO, IndexKind.TABLE]
    width = sets.bit_length() - 1
    shift = line.bit_length() - 1
    if sets == 1 << width:
        kinds += [IndexKind.BITS, IndexKind.XOR]
    kind = draw(st.sampled_from(kinds))
    if kind is IndexKind.BITS:
        bits = st.integers(shift, ADDRESS_BITS - 1)
        return Index(kind, bits=tuple(draw(st.lists(bits, min_size=width, max_size=width, unique=True))))
    if kind is IndexKind.XOR:
        masks = st.integers(1, (1 << (ADDRESS_BITS - shift)) - 1).map(lambda mask: mask << shift)
        return Index(kind, masks=tuple(draw(st.lists(masks, min_size=width, max_size=width))))
    granule = draw(st.sampled_from([0, line, 3 * line, 4 * line]))
    if kind is IndexKind.MODULO:
        return Index(kind, granule=granule)
    return Index(kind, table=tuple(draw(st.lists(st.integers(0, sets - 1), min_size=1, max_size=9))), granule=granule)


@st.composite
def ways_and_policy(draw, sets: int) -> tuple[tuple[int, ...], Policy]:
    kind = draw(st.sampled_from(list(PolicyKind)))
    some = {
        PolicyKind.PLRU: st.sampled_from([1, 2, 4, 8, 32]),
        PolicyKind.WEIGHTED: st.integers(1, 5),
    }.get(kind, st.one_of(st.integers(1, 6), st.integers(22, 40)))
    if kind is PolicyKind.WEIGHTED:
        ways = draw(some)
        weights = draw(st.lists(st.integers(1, 6), min_size=ways, max_size=ways))
        return (ways,) * sets, Policy(kind, tuple(weight / sum(weights) for weight in weights))
    if draw(st.booleans()):
        return (draw(some),) * sets, Policy(kind)
    return tuple(draw(st.lists(some, min_size=sets, max_size=sets))), Policy(kind)


@st.composite
def caches(draw) -> Cache:
    line = draw(st.sampled_from([16, 32, 128]))
    sets = draw(st.integers(1, 8))
    ways, policy = draw(ways_and_policy(sets))
    sector = draw(st.sampled_from([line, line // 4, line // 16]))
    return Cache(ways, line, sector, draw(indices(line, sets)), policy)


@st.composite
def tlbs(draw) -> Tlb:
    page = draw(st.sampled_from([256, 2048]))
    sets = draw(st.integers(1, 4))
    ways, policy = draw(ways_and_policy(sets))
    return Tlb(ways, page, draw(indices(page, sets)), policy, penalty=draw(st.sampled_from([0.0, 6.0, 59.5])))


@st.composite
def hierarchies(draw) -> Hierarchy:
    """One route, `Path.GLOBAL`, through everything."""
    arrays = {f"c{level}": draw(caches()) for level in range(draw(st.integers(0, 3)))}
    names = tuple(arrays)
    partition = None
    if names and draw(st.booleans()):
        split = draw(st.sampled_from(names))
        arrays[split] = replace(arrays[split], scope=Scope.GPU)
        bits = draw(
            st.lists(st.integers(arrays[split].line.bit_length() - 1, ADDRESS_BITS - 1), min_size=1, max_size=3)
        )
        partition = Partition(split, sum(1 << bit for bit in set(bits)), 180.5, draw(st.sampled_from([0.0, 175.25])))
    positions = st.integers(0, max(0, len(names) - 1))
    return Hierarchy(
        caches=arrays,
        routes={
            Path.GLOBAL: Route(
                caches=names,
                latency=tuple(30.5 + 100 * level for level in range(len(names))),
                memory_latency=600.0,
                translated_from=draw(st.integers(0, len(names) + 1)),
                tlbs_at=draw(positions),
            )
        },
        tlbs=tuple(draw(st.lists(tlbs(), max_size=3))),
        tlb_walk_penalty=100.0,
        tlb_cold_walk_penalty=draw(st.sampled_from([None, 300.25])),
        page_window=draw(st.sampled_from([None, PageWindow(8192, 1000.0)])),
        prefetch=Prefetch(draw(st.sampled_from(names)), 700, draw(st.integers(1, 2))) if names and draw(st.booleans())
        else None,
        partition=partition,
    )  # fmt: skip


def addresses(max_size: int = 250) -> st.SearchStrategy[list[int]]:
    """Sequences with reuse: stretches of steady steps, and jumps among few places."""
    top = (1 << ADDRESS_BITS) - 1
    stretch = st.builds(
        lambda start, step, count: [(start + i * step) & top for i in range(count)],
        st.integers(0, top), st.sampled_from([4, 16, 32, 128, 256, 512, 2048]), st.integers(1, 60),
    )  # fmt: skip
    jumps = st.lists(st.integers(0, 255).map(lambda n: n * 32), min_size=1, max_size=60)
    return st.lists(st.one_of(stretch, jumps), min_size=1, max_size=8).map(
        lambda parts: [address for part in parts for address in part][:max_size]
    )

"""Hypothesis strategies: small random caches and hierarchies, and accesses that fit them."""

from dataclasses import replace
from itertools import chain

from hypothesis import strategies as st

from gpudissect.simulation.cache.geometry import (
    ROOM_POLICIES,
    Cache,
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
    Route,
    Rows,
    Scope,
    Tlb,
)
from gpudissect.workload import Path

ADDRESS_BITS = 16
LRU, MODULO = Policy(PolicyKind.LRU), Index(IndexKind.MODULO)


@st.composite
def indices(draw, line, sets):
    kinds = [IndexKind.MODULO, IndexKind.TABLE]
    width = sets.bit_length() - 1
    shift = line.bit_length() - 1
    if sets == 1 << width and line == 1 << shift:
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


def orders(ways, max_length=9):
    """Victims of ORDER, numbered from 1."""
    return st.lists(st.integers(1, ways), min_size=1, max_size=max_length).map(tuple)


@st.composite
def ways_and_policy(draw, sets):
    kind = draw(st.sampled_from(list(PolicyKind)))
    counts = {PolicyKind.PLRU: st.sampled_from([1, 2, 4, 8, 32]), PolicyKind.WEIGHTED: st.integers(1, 5)}
    count = counts.get(kind, st.one_of(st.integers(1, 6), st.integers(22, 40)))
    if kind is PolicyKind.WEIGHTED:
        ways = draw(count)
        weights = draw(st.lists(st.integers(1, 6), min_size=ways, max_size=ways))
        return (ways,) * sets, Policy(kind, tuple(weight / sum(weights) for weight in weights))
    equal = draw(st.booleans())
    ways = (draw(count),) * sets if equal else tuple(draw(st.lists(count, min_size=sets, max_size=sets)))
    order = draw(orders(min(ways))) if kind is PolicyKind.ORDER else ()
    return ways, Policy(kind, order=order)


@st.composite
def caches(draw):
    line = draw(st.sampled_from([16, 32, 48, 128]))
    sets = draw(st.integers(1, 8))
    ways, policy = draw(ways_and_policy(sets))
    sector = draw(st.sampled_from([line, line // 4, line // 16]))
    room = None
    if policy.kind in ROOM_POLICIES and draw(st.booleans()):
        room = Room(draw(st.integers(1, sum(ways))))
    return Cache(ways, line, sector, draw(indices(line, sets)), policy, room=room)


@st.composite
def tlbs(draw):
    page = draw(st.sampled_from([256, 2048]))
    sets = draw(st.integers(1, 4))
    ways, policy = draw(ways_and_policy(sets))
    penalty, miss_cache = draw(st.sampled_from([0.0, 6.0, 59.5])), draw(st.sampled_from([0, 0, 1, 3]))
    return Tlb(ways, page, draw(indices(page, sets)), policy, penalty, miss_cache)


@st.composite
def partitions(draw, name, line):
    """By address bits or, always for odd lines, in order."""
    penalties = (180.5, draw(st.sampled_from([0.0, 175.25])))
    if line & (line - 1) or draw(st.booleans()):
        granule = line * draw(st.sampled_from([1, 3, 8]))
        return Partition(name, 0, *penalties, count=draw(st.integers(2, 4)), granule=granule)
    bits = draw(st.sets(st.integers(line.bit_length() - 1, ADDRESS_BITS - 1), min_size=1, max_size=3))
    return Partition(name, sum(1 << bit for bit in bits), *penalties)


@st.composite
def hierarchies(draw):
    """One route, `Path.GLOBAL`, through everything."""
    arrays = {f"c{level}": draw(caches()) for level in range(draw(st.integers(0, 3)))}
    names = tuple(arrays)
    partition = prefetch = None
    if len(names) > 1 and draw(st.booleans()):
        receiver = draw(st.integers(1, len(names) - 1))
        giver = arrays[names[receiver - 1]] = replace(arrays[names[receiver - 1]], room=None)
        ways, policy = draw(ways_and_policy(4))
        fill, index = draw(st.sampled_from([Fill.VICTIMS, Fill.EXCLUSIVE])), draw(indices(giver.line, 4))
        arrays[names[receiver]] = Cache(ways, giver.line, giver.sector, index, policy, fill=fill)
    if names and draw(st.booleans()):
        split = draw(st.sampled_from(names))
        arrays[split] = replace(arrays[split], scope=Scope.GPU, fill=Fill.MISSES)
        partition = draw(partitions(split, arrays[split].line))
    if names and draw(st.booleans()):
        prefetch = Prefetch(draw(st.sampled_from(names)), 700, draw(st.integers(0, 2)))
    rows = draw(st.sampled_from([None, Rows(512, 4, 40.0), Rows(2048, 3, 60.25)]))
    latency = tuple(30.5 + 100 * level for level in range(len(names)))
    translated_from = draw(st.integers(0, len(names) + 1))
    tlbs_at = draw(st.integers(0, max(0, len(names) - 1)))
    return Hierarchy(
        caches=arrays,
        routes={Path.GLOBAL: Route(names, latency, 600.0, translated_from, tlbs_at=tlbs_at)},
        tlbs=tuple(draw(st.lists(tlbs(), max_size=3))),
        tlb_walk_penalty=100.0,
        tlb_cold_walk_penalty=draw(st.sampled_from([None, 300.25])),
        page_window=draw(st.sampled_from([None, PageWindow(8192, 1000.0)])),
        prefetch=prefetch,
        rows=rows,
        partition=partition,
    )


def addresses(max_size=250):
    """Sequences with reuse: stretches of equal steps, and jumps among few places."""
    top = (1 << ADDRESS_BITS) - 1
    steps = st.sampled_from([4, 16, 32, 128, 256, 512, 2048])

    def stretch(start, step, count):
        return [(start + i * step) & top for i in range(count)]

    stretches = st.builds(stretch, st.integers(0, top), steps, st.integers(1, 60))
    jumps = st.lists(st.integers(0, 255).map(lambda n: n * 32), min_size=1, max_size=60)
    parts = st.lists(st.one_of(stretches, jumps), min_size=1, max_size=8)
    return parts.map(lambda parts: [*chain.from_iterable(parts)][:max_size])

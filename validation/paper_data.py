"""Compare data that papers print with simulations of what the papers conclude from them: docs/validation-data.csv."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from kinds import DOCS, Kind
from mt22_curves import mt22_rows
from vv16_data import TOLERANCE, Row, vv16_rows
from written import csv_text, write_or_check

from gpudissect import catalogue
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.simulation.cache.models import HierarchyModel
from gpudissect.workload import Path

TABLE = DOCS / "validation-data.csv"
COLUMNS = ("kind", "agrees", "gpu", "what", "published", "found", "verdict", "source")
MIB = 1 << 20
LINE = 128  # bytes; lines of different pages this far apart share no set of a cache
WARM_LAPS, LAPS = 6, 8
HC13_WAYS = (  # bytes, read from curves of latency against size
    ("c2070", "l1", Path.GLOBAL, 4096),
    ("c2070-48k", "l1", Path.GLOBAL, 8192),
    ("c2070", "l2", Path.GLOBAL_L2, 57344),
)
FLAT = 0.99  # of the highest latency
FIGURE_4_ARRAY, FIGURE_5_RANGE, FIGURE_5_STRIDE = 48 << 10, 512, 8  # bytes
MIN_RISE = 1.0  # cycles from one plateau to the next
FIGURE_8 = {132: 17, 134: 25, 136: 33, 138: 41, 140: 49, 142: 57, 144: 65}  # MiB: missed entries (MC16 s4.4)
FIGURE_8_GPUS = ("gtx560ti", "gtx780", "gtx980")
FIGURE_11 = [2, 3, 2, 1, 2, 4, 2, 3, 2]
FIGURE_11_TITLE = "ways replaced, in order"
FIGURE_11_LINES, FIGURE_11_LAPS = (2, 34, 67, 99), 20  # the lines that share a set with the last, from 0
FIRST_TLB_LRU = (
    ("MC14 table 4", ("gtx560ti", "gtx780"), True),
    ("MC16 table 5", ("gtx560ti", "gtx780", "gtx980"), False),
)
PREFETCHED = 0.6  # of the L2, less than the two thirds that MC16 finds prefetched
TABLE_5 = {  # MC14: hits and misses of the L1, cycles; None where there is no L1
    "gtx560ti": {Path.TEXTURE: (240, 470), Path.GLOBAL: (116, 404)},
    "gtx780": {Path.TEXTURE: (110, 220), Path.GLOBAL: (None, 230)},
}
P5 = {"gtx780": 734, "gtx560ti": 1259}  # MC14 table 3: cycles of a first access, TLB and cache missed
P5_RATIOS = {"gtx780": 3.5, "gtx560ti": 2.0}  # of P5 of the GTX980 to these: "about 3.5 times", "twice" (MC16 s5.2)


def rows() -> Iterator[Row]:
    """All rows."""
    yield from hc13()
    yield from figures_4_and_5()
    yield from figure_8()
    yield from first_tlb_policy()
    yield from figure_11()
    yield from prefetching()
    yield from table_5()
    yield from figure_14()
    yield from mt22_rows()
    yield from vv16_rows()


def second_tlb_misses(hierarchy: Hierarchy, pages: int) -> list[int]:
    """Misses of the last TLB in each lap over consecutive pages, one line each, after warm laps (MC16 figure 8)."""
    hit_in_second = hierarchy.routes[Path.GLOBAL_L2].latency[0] + hierarchy.tlbs[0].penalty
    return misses_by_lap(hierarchy, pages, hit_in_second)


def misses_by_lap(hierarchy: Hierarchy, pages: int, hit: float) -> list[int]:
    """L2 hits that take longer than `hit` cycles, in each lap after the warm ones over consecutive pages."""
    model, position = HierarchyModel(hierarchy), 0
    chain = np.arange(pages, dtype=np.int64) * (hierarchy.tlbs[1].page + LINE)
    misses = []
    for _ in range(WARM_LAPS + LAPS):
        levels, latencies = np.zeros(pages, np.int8), np.zeros(pages)
        position = model.walk(Path.GLOBAL_L2, chain, position, levels, latencies)
        misses.append(int((latencies > hit + 0.5).sum()))
    return misses[WARM_LAPS:]


def _range(values: list[int]) -> str:
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)} to {max(values)}"


def figure_8() -> Iterator[Row]:
    """Misses of the second TLB, counted by MC16; sets of 17 and 6 x 8 ways, as it concludes, miss one more each."""
    for gpu in FIGURE_8_GPUS:
        source = "MC16 fig 8, s4.4" + ("; MC14 fig 11" if gpu != "gtx980" else "")
        hierarchies = [catalogue.load(gpu).hierarchy(alternative) for alternative in (False, True)]
        concluded, fitting = ([second_tlb_misses(each, size // 2) for size in FIGURE_8] for each in hierarchies)
        for (size, counted), found in zip(FIGURE_8.items(), concluded, strict=True):
            what = f"misses of the second TLB per lap over {size} MiB"
            yield Row(Kind.DATA, gpu, what, f"{counted}", _range(found), set(found) == {counted}, source)
        what = "the same with sets of 16 and 7 x 7 ways, the alternative in the GPU file"
        agrees = all(set(found) == {counted} for counted, found in zip(FIGURE_8.values(), fitting, strict=True))
        printed, ours = (", ".join(texts) for texts in (map(str, FIGURE_8.values()), map(_range, fitting)))
        note = "" if agrees else "the first TLB, with random replacement here (MC16 table 5: not LRU), serves some"
        yield Row(Kind.TUNED, gpu, what, printed, ours, agrees, source, note)


def hc13() -> Iterator[Row]:
    """Where latency against size becomes flat, from which HC13 reads the size of a way, and the L1 turned off."""
    for gpu, element, path, way in HC13_WAYS:
        hierarchy = catalogue.load(gpu).hierarchy()
        cache = hierarchy.caches[element]
        excess = range(way // 4, 8 * way + 1, way // 4)
        cycles = [mean_latency(hierarchy, path, cache.capacity + each, cache.line) for each in excess]
        flat = next(size for size, each in zip(excess, cycles, strict=True) if each >= FLAT * max(cycles))
        found = f"{flat} B" if flat < excess[-1] else f"not up to {flat} B"
        kind = Kind.TUNED if element == "l1" else Kind.DATA  # the policy of the L1 was chosen for this
        note = "a prefetcher is simulated as in MC16 s4.6; without it 57344 B" if element == "l2" else "with LRU"
        what = f"{element}: excess over the capacity at which latency becomes flat"
        yield Row(kind, gpu, what, f"{way} B", found, flat == way, "HC13, latency against size", note)
    routes = catalogue.load("c2070").hierarchy().routes
    less = routes[Path.GLOBAL].latency[1] - routes[Path.GLOBAL_L2].latency[0]
    what = "l2: reduction of hit latency with the L1 turned off"
    yield Row(Kind.ROUND_TRIP, "c2070", what, "6 to 11 cycles", f"{less:g} cycles", 6 <= less <= 11, "HC13")


def figures_4_and_5() -> Iterator[Row]:
    """The curves that the two classic methods read, over the texture cache of figure 7 and over the alternative."""
    for alternative in (False, True):
        yield from _classic_curves(catalogue.load("gtx780").hierarchy(alternative), alternative)


def _classic_curves(hierarchy: Hierarchy, alternative: bool) -> Iterator[Row]:
    capacity = hierarchy.caches["texture"].capacity
    strides = [1 << k for k in range(2, 13)]
    cycles = [mean_latency(hierarchy, Path.TEXTURE, FIGURE_4_ARRAY, stride) for stride in strides]
    worst = max(cycles)
    all_missed = [stride for stride, each in zip(strides, cycles, strict=True) if each > 0.99 * worst]
    fall = min(stride for stride in strides if stride > all_missed[-1])
    sizes = range(capacity, capacity + FIGURE_5_RANGE + 1, LINE // 4)
    averages = [mean_latency(hierarchy, Path.TEXTURE, size, FIGURE_5_STRIDE) for size in sizes]
    rises = [size for size, (one, two) in zip(sizes, pairwise(averages), strict=False) if two > one + MIN_RISE]
    for place, what, printed, ours in (
        ("MC16 fig 4", "48 KB array: smallest stride at which every load misses", "32 B", f"{all_missed[0]} B"),
        ("MC16 fig 4", "48 KB array: stride at which latency falls", "2048 B", f"{fall} B"),
        ("MC16 fig 5", "plateaus of latency above the capacity", "4", f"{len(rises)}"),
        ("MC16 fig 5", "width of a plateau", "128 B", f"{rises[1] - rises[0]} B"),
    ):
        note = "" if printed == ours else "with the sets of figure 7, whose 96 ways hold all lines from this stride on"
        if alternative:
            what += "; 24 lines of 128 B in sectors of 32 B, the alternative in the GPU file"
        kind = Kind.TUNED if alternative else Kind.DATA
        yield Row(kind, "gtx780", what, printed, ours, printed == ours, place, note)


def mean_latency(hierarchy: Hierarchy, path: Path, size: int, stride: int) -> float:
    """Mean cycles of a load over an array, both in bytes, after warm laps."""
    chain = np.arange(0, size, stride, dtype=np.int64)
    model, position = HierarchyModel(hierarchy), 0
    for _ in range(WARM_LAPS):
        levels, latencies = np.zeros(chain.size, np.int8), np.zeros(chain.size)
        position = model.walk(path, chain, position, levels, latencies)
    return float(latencies.mean())


def first_tlb_policy() -> Iterator[Row]:
    """MC14 finds LRU in the first TLB, MC16 something else; each GPU file can have one of them."""
    for source, gpus, is_lru in FIRST_TLB_LRU:
        for gpu in gpus:
            hierarchy = catalogue.load(gpu).hierarchy()
            tlb, route = hierarchy.tlbs[0], hierarchy.routes[Path.GLOBAL_L2]
            pages = sum(tlb.ways) + 1
            misses = misses_by_lap(hierarchy, pages, route.latency[0])
            found = f"{_range(misses)} of {pages} miss"
            agrees = (set(misses) == {pages}) == is_lru
            printed = f"LRU: {pages} of {pages} miss" if is_lru else "not LRU"
            what = "first TLB: misses per lap over one page more than it has entries"
            note = "" if agrees else "MC14 and MC16 contradict each other; the file has the other policy"
            yield Row(Kind.ROUND_TRIP, gpu, what, printed, found, agrees, source, note)


def prefetching() -> Iterator[Row]:
    """First accesses that are slow over an array smaller than two thirds of the L2 (MC16 s4.6)."""
    for gpu in FIGURE_8_GPUS:
        hierarchy = catalogue.load(gpu).hierarchy()
        cache = hierarchy.caches["l2"]
        chain = np.arange(0, int(PREFETCHED * cache.capacity), cache.line, dtype=np.int64)
        levels = np.zeros(chain.size, np.int8)
        HierarchyModel(hierarchy).walk(Path.GLOBAL_L2, chain, 0, levels, np.zeros(0))
        slow = int((levels == len(hierarchy.routes[Path.GLOBAL_L2].caches)).sum())
        what = f"slow first accesses to {chain.size} lines, {PREFETCHED:.0%} of the L2"
        note = "" if slow == 1 else "the simulated prefetcher starts after two equal steps"
        yield Row(Kind.DATA, gpu, what, "1: the first", f"{slow}", slow == 1, "MC16 s4.6", note)


def figure_11() -> Iterator[Row]:
    """Ways replaced one after the other, as printed, by the weights that MC16 concludes, and in the order printed."""
    printed = " ".join(map(str, FIGURE_11))
    every_second, in_turn = independent_probabilities()
    note = (
        f"independent choices with the printed weights replace way 2 every second of nine times, in {every_second:.1%} "
        f"of cases, and then the others in turn in {in_turn:.0%} of these"
    )
    for alternative in (False, True):
        victims = figure_11_victims(catalogue.load("gtx560ti").hierarchy(alternative))[: len(FIGURE_11)]
        what = "the same in the order 2 3 2 1 2 4, the alternative in the GPU file" if alternative else FIGURE_11_TITLE
        agrees = victims == FIGURE_11
        kind, ours = Kind.TUNED if alternative else Kind.DATA, " ".join(map(str, victims))
        yield Row(kind, "gtx560ti", what, printed, ours, agrees, "MC16 fig 11", "" if alternative else note)


def independent_probabilities() -> tuple[float, float]:
    """Of independent victims with weights 1/6 1/2 1/6 1/6.

    The first: way 2 is exactly every second of nine victims, from the first or the second on. The second: of the four
    others, those of figure 11 (3 1 4 3), the first three differ and the fourth is the first again.
    """
    return 2 * 0.5 ** len(FIGURE_11), 2 / 3 * 1 / 3 * 1 / 3


def figure_11_victims(hierarchy: Hierarchy) -> list[int]:
    """Ways, from 1, replaced while 129 lines are traversed: one set has five lines for four ways."""
    lines = hierarchy.caches["l1"].capacity // LINE + 1
    chain, model, position = np.arange(lines, dtype=np.int64) * LINE, HierarchyModel(hierarchy), 0
    missed: list[int] = []
    for _ in range(FIGURE_11_LAPS):
        levels = np.zeros(lines, np.int8)
        position = model.walk(Path.GLOBAL, chain, position, levels, np.zeros(0))
        missed += np.flatnonzero(levels > 0).tolist()
    missed = missed[lines - 1 :]  # the line after the last that fits, then what each replacement evicts
    ways, victims = dict(zip(sorted(FIGURE_11_LINES), range(1, 5), strict=True)), []
    for line, victim in pairwise(missed):
        ways[line] = ways.pop(victim)
        victims.append(ways[line])
    return victims


def table_5() -> Iterator[Row]:
    """Latencies of texture fetches and global loads that miss the L1."""
    for gpu, paths in TABLE_5.items():
        hierarchy = catalogue.load(gpu).hierarchy()
        for path, (hit, miss) in paths.items():
            found = l2_hit_latency(
                hierarchy, path, hierarchy.caches[hierarchy.routes[path].caches[0]].capacity * (4 if hit else 0.01)
            )
            note = "404 is pattern 2 of table 3, which also misses the first TLB" if miss == 404 else ""
            agrees = abs(found / miss - 1) <= TOLERANCE
            kind = Kind.ROUND_TRIP if agrees else Kind.DATA  # what agrees is typed in
            what = f"{path} load that misses the L1 and hits the L2" if hit else f"{path} load that hits the L2"
            yield Row(kind, gpu, what, f"{miss} cycles", f"{found:.0f} cycles", agrees, "MC14 table 5", note)


def l2_hit_latency(hierarchy: Hierarchy, path: Path, footprint: float) -> float:
    """Cycles of the loads that the L2 serves over consecutive lines, after warm laps."""
    names = hierarchy.routes[path].caches
    chain = np.arange(0, int(footprint), hierarchy.caches[names[0]].line, dtype=np.int64)
    model, position = HierarchyModel(hierarchy), 0
    for _ in range(WARM_LAPS):
        levels, latencies = np.zeros(chain.size, np.int8), np.zeros(chain.size)
        position = model.walk(path, chain, position, levels, latencies)
    return float(latencies[levels == names.index("l2")].mean())


def figure_14() -> Iterator[Row]:
    """First accesses of the GTX980, which MC16 compares with those of two other GPUs."""
    hierarchy = catalogue.load("gtx980").hierarchy()
    chain = np.arange(8, dtype=np.int64) * (hierarchy.tlbs[0].page * 2 + LINE)
    levels, latencies = np.zeros(chain.size, np.int8), np.zeros(chain.size)
    HierarchyModel(hierarchy).walk(Path.GLOBAL_L2, chain, 0, levels, latencies)
    found = float(np.median(latencies))
    for gpu, ratio in P5_RATIOS.items():
        ours = found / P5[gpu]
        what = f"P5 relative to that of the {gpu.upper()}, {P5[gpu]} cycles"
        agrees = abs(ours / ratio - 1) <= TOLERANCE
        note = "the page walk is fitted to the first of the two ratios"
        yield Row(Kind.TUNED, "gtx980", what, f"about {ratio:g}", f"{ours:.2f}", agrees, "MC16 fig 14, s5.2", note)


def table() -> str:
    """All rows as CSV."""
    return csv_text([COLUMNS, *(row.cells for row in rows())])


def main() -> int:
    """Write the table, or compare with it."""
    return write_or_check(__doc__, __file__, lambda: {TABLE: table()})


if __name__ == "__main__":
    sys.exit(main())

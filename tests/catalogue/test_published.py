"""Numbers typed from the documents, table by table, compared with what the catalogue publishes and simulates."""

import numpy as np
import pytest

from gpudissect.catalogue import load
from gpudissect.simulation.cache.geometry import IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.units import GIB, KIB, MIB
from gpudissect.workload import Path


def rows(text):
    """Rows of a table: numbers where a cell is one, None for -."""

    def cell(word):
        try:
            return None if word == "-" else float(word)
        except ValueError:
            return word

    return [[cell(word) for word in line.split()] for line in text.strip().splitlines()]


def by_name(text):
    return {name: cells for name, *cells in rows(text)}


def published(name):
    return {(item.element, item.attribute): item for item in load(name).published()}


def values(name, element, attributes):
    numbers = published(name)
    return {attribute: numbers[element, attribute].value for attribute in attributes}


def as_printed(item):
    return item.value if item.printed is None else item.printed


# MT22 tables 5.4 to 5.9 as printed: GPU, element, size in KiB, line, latency, number per SM
MT22 = rows("""
k20c l1 16.137 128 64 1
k20c texture 12.012 32 111 4
k20c readonly 12.129 32 130 4
k20c constant_l1 1.828 64 50 4
k20c constant_l15 32.813 256 120 -
k20c shared 48 - 47 -
k20c l2 1280 32 223 -
k20c dram 4858052.608 - 339 -
840m texture 12.129 32 92 2
840m readonly 12.129 32 92 2
840m constant_l1 2.109 64 33 1
840m constant_l15 30.469 256 86 -
840m shared 64 - 31 -
840m l2 1024 32 173 -
840m dram 2053111.808 - 448 -
p6000 l1 24.012 32 92 2
p6000 texture 24.012 32 85 2
p6000 readonly 24.012 32 94 2
p6000 constant_l1 2.141 64 33 1
p6000 constant_l15 31.25 256 94 -
p6000 shared 96 - 31 -
p6000 l2 3072 32 243 -
p6000 dram 25036849.152 - 412 -
v100 l1 25.629 32 36 1
v100 texture 24.023 32 80 1
v100 readonly 25.629 32 36 1
v100 constant_l1 2.078 64 32 1
v100 constant_l15 - 256 105 -
v100 shared 96 - 27 -
v100 l2 6144 64 215 -
v100 dram 33290190.848 - 430 -
rtx2080ti l1 26.137 32 40 1
rtx2080ti texture 25.012 32 86 1
rtx2080ti readonly 26.137 32 40 1
rtx2080ti constant_l1 2.078 64 32 1
rtx2080ti constant_l15 - 256 105 -
rtx2080ti shared 64 - 30 -
rtx2080ti l2 5632 64 230 -
rtx2080ti dram 11534336 - 425 -
a100 l1 22.254 32 39 1
a100 texture 21.191 32 89 1
a100 readonly 22.254 32 38 1
a100 constant_l1 2.141 64 34 1
a100 constant_l15 - 256 114 -
a100 shared 164 - 28 -
a100 l2 40960 64 223 -
a100 dram 39.409 - 567 -
""")  # the main memory of the A100 is printed "39.409 KiB"
# MT22 table 5.3: official KiB of L1, texture and read-only cache, divided by their number as in s5.3.1-5.3.3
MT22_OFFICIAL = by_name("""
k20c 16 12 12
840m - 12 12
p6000 24 24 24
v100 32 32 32
rtx2080ti 32 32 32
a100 28 28 28
""")


@pytest.mark.parametrize(("name", "element", "size", "line", "latency", "count"), MT22)
def test_mt22_tables_as_printed(name, element, size, line, latency, count):
    numbers = published(name)
    assert numbers[element, "hit_latency"].value == latency
    if size is not None:
        assert as_printed(numbers[element, "capacity"]) == pytest.approx(size * KIB, rel=3e-6, abs=1)
    assert line is None or as_printed(numbers[element, "line_size"]) == line
    assert count is None or numbers[element, "count_per_sm"].value == count


@pytest.mark.parametrize(("name", "sizes"), MT22_OFFICIAL.items())
def test_mt22_truth_is_the_official_size(name, sizes):
    numbers = published(name)
    for element, size in zip(("l1", "texture", "readonly"), sizes, strict=True):
        assert size is None or numbers[element, "capacity"].value == size * KIB
    assert numbers["constant_l1", "capacity"].value == 2 * KIB


def test_mt22_open_and_ranged_sizes():
    brackets = {"v100": (62.5 * KIB, None), "a100": (62.5 * KIB, None), "rtx2080ti": (38 * KIB, 46 * KIB)}
    for name, bracket in brackets.items():
        capacity = published(name)["constant_l15", "capacity"]
        assert (capacity.low, capacity.high) == bracket
    assert published("a100")["dram", "capacity"].value == pytest.approx(39.409 * GIB, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "arrays"),
    [("k20c", "l1 texture texture"), ("840m", "l2 texture texture")]
    + [(name, "l1 l1 l1") for name in ("p6000", "v100", "rtx2080ti", "a100", "gtx980")],
)
def test_mt22_which_elements_share_an_array(name, arrays):
    routes = load(name).hierarchy().routes
    assert [routes[path].caches[0] for path in (Path.GLOBAL, Path.TEXTURE, Path.READONLY)] == arrays.split()


@pytest.mark.parametrize(("name", "size", "sets", "ways"), [("c2070", 16, 32, 4), ("c2070-48k", 48, 64, 6)])
def test_hc13_table(name, size, sets, ways):
    l1 = {"capacity": size * KIB, "hit_latency": 80, "ways": ways, "sets": sets, "line_size": 128}
    assert values(name, "l1", l1) == l1
    l2 = {"capacity": 768 * KIB, "hit_latency": 350, "sets": 1792, "line_size": 32}
    assert values(name, "l2", l2) == l2
    numbers = published(name)
    assert sum(numbers["l2", "ways"].value) / 1792 == pytest.approx(13 + 5 / 7)
    assert numbers["dram", "hit_latency"].value == 580
    assert numbers["tlb_l1", "page_size"].value == 2 * MIB


@pytest.mark.parametrize(
    ("name", "element", "size", "line", "sets", "policy"),
    rows("""
gtx560ti l1 16 128 32 other
gtx560ti texture 12 32 4 lru
gtx780 texture 12 32 4 lru
gtx780 readonly 12 32 4 lru
gtx980 l1 24 32 4 lru
"""),
)
def test_mc16_table_5(name, element, size, line, sets, policy):
    expected = {"capacity": size * KIB, "line_size": line, "sets": sets}
    assert values(name, element, expected) == expected
    assert (load(name).hierarchy().caches[element].policy.kind is PolicyKind.LRU) == (policy == "lru")


@pytest.mark.parametrize(("name", "l2"), [("gtx560ti", 512), ("gtx780", 1536), ("gtx980", 2048)])
def test_mc16_tlbs_and_l2(name, l2):
    first = {"entries": 16, "page_size": 2 * MIB, "sets": 1, "reach": 32 * MIB}
    second = {"entries": 65, "page_size": 2 * MIB, "sets": 7, "reach": 130 * MIB}
    assert values(name, "tlb_l1", first) == first
    assert values(name, "tlb_l2", second) == second
    assert values(name, "l2", ("capacity", "line_size")) == {"capacity": l2 * KIB, "line_size": 32}
    hierarchy = load(name).hierarchy()
    tlb, cache = hierarchy.tlbs[1], hierarchy.caches["l2"]
    assert (tlb.ways, tlb.policy.kind) == ((17, 8, 8, 8, 8, 8, 8), PolicyKind.LRU)
    assert cache.policy.kind is not PolicyKind.LRU and cache.index.kind is not IndexKind.BITS
    assert hierarchy.prefetch.reach == pytest.approx(2 / 3 * cache.capacity, abs=32)


def test_mc16_figure_9_overflows_set_by_set():
    """Each page beyond 65 overflows one further set; LRU misses all its pages, one more than it has ways."""
    tlb = load("gtx780").hierarchy().tlbs[1]
    missed = []
    for megabytes in range(130, 146, 2):
        pages = np.arange(megabytes // 2, dtype=np.int64) * tlb.page
        filled = np.bincount(set_numbers(tlb.index, tlb.page, 7, pages), minlength=7)
        missed.append(sum(int(count) for ways, count in zip(tlb.ways, filled, strict=True) if count > ways))
    assert missed == [0, 18, 27, 36, 45, 54, 63, 72]


def test_mc16_s4_3_texture_set_from_bits_7_and_8():
    for name in ("gtx560ti", "gtx780", "k20c"):
        assert load(name).hierarchy().caches["texture"].index.bits == (7, 8)
    readonly = load("gtx780").hierarchy().caches["readonly"]
    assert readonly.index.kind is not IndexKind.BITS
    blocks = set_numbers(readonly.index, 32, 4, np.arange(0, 64 * KIB, 128)).reshape(-1, 4)
    assert (np.sort(blocks, axis=1) == np.arange(4)).all()


def test_mc16_figure_11_lines_that_share_a_set():
    cache = load("gtx560ti").hierarchy().caches["l1"]
    assert cache.policy.weights == pytest.approx((1 / 6, 1 / 2, 1 / 6, 1 / 6), abs=1e-6)
    numbers = set_numbers(cache.index, 128, 32, np.arange(129, dtype=np.int64) * 128)
    together = np.flatnonzero(numbers == numbers[128]) + 1  # figure 11 counts lines from 1
    assert together.tolist() == [3, 35, 68, 100, 129]


@pytest.mark.parametrize(
    ("name", "element", "latency"),
    rows("""
gtx560ti shared 50
gtx780 shared 47
gtx980 shared 28
gtx560ti texture 240
gtx780 texture 110
gtx980 dram 383
8800gtx dram 444
gtx280 dram 434
gtx480 dram 513
gtx680 dram 301
8800gtx shared 38
gtx280 shared 40
gtx480 shared 26
gtx680 shared 24
"""),
)
def test_latencies(name, element, latency):
    """MC16 s6.2 (shared), MC14 table 5 (texture), VV16 s6.3 quoting Mei & Chu (GTX 980), the others VV16 table 6.2."""
    assert published(name)[element, "hit_latency"].value == latency


def test_texture_latencies_through_the_l2():  # MC14 table 5
    assert load("gtx560ti").hierarchy().routes[Path.TEXTURE].latency == (240, 470)
    assert load("gtx780").hierarchy().routes[Path.TEXTURE].latency == (110, 220)


@pytest.mark.parametrize(
    ("name", "sms", "core", "memory", "bus", "timer"),
    rows("""
gtx560ti 8 0.950 1050 256 20
gtx780 12 1.006 1502 384 32
gtx980 16 1.279 1753 256 16
8800gtx 16 1.35 - - -
gtx280 30 1.296 - - -
gtx480 15 1.4 - - -
gtx680 8 1.124 - - -
"""),
)
def test_chips(name, sms, core, memory, bus, timer):
    """SMs, core GHz, memory MHz, bus bits, timer: MC16 tables 3, 6, 7 and s4.2; VV16 tables 2.6, 2.7."""
    gpu = load(name)
    hierarchy, facts = gpu.hierarchy(), gpu.facts()
    assert (hierarchy.sm_count, hierarchy.clock_hz) == (sms, pytest.approx(core * 1e9))
    if memory is not None:
        assert (facts["memory_clock_hz"], facts["memory_bus_bits"]) == (pytest.approx(memory * 1e6), bus)
        assert hierarchy.routes[Path.NOTHING].timer == timer


VV16_ROWS = ("fadd", "rsq", "lds", "lds_2way", "ldg_streaming", "ldg_random")
# VV16 tables 6.1 (ops/cycle per scheduler; GTX 680: 32 adds are printed, without ILP), 6.2 (cycles), 6.3 (warps per
# scheduler)
VV16_RATES = by_name("""
8800gtx 8 2 6 3 0.86 0.027
gtx280 8 2 8 4 0.89 0.016
gtx480 16 2 8 4 0.97 0.029
gtx680 48 8 8 4 1.07 0.034
gtx980 32 8 8 4 0.65 0.023
""")
VV16_LATENCIES = by_name("""
8800gtx 20 32 38 54 444 644
gtx280 24 34 40 56 434 662
gtx480 18 22 26 58 513 1571
gtx680 9 9 24 56 301 1213
gtx980 6 13 24 26 368 534
""")
VV16_WARPS = by_name("""
8800gtx 5 2 9 6 20 -
gtx280 6 3 11 8 16 -
gtx480 9 1.5 6.5 7.5 21 2
gtx680 9 3 6 7 14 1.75
gtx980 6 4 8 3.75 10 0.75
""")
# schedulers (table 2.6), banks and their width (2.5), pin and read bandwidth in GB/s (2.7, 6.4), transaction latency
# (6.7), warps, issue interval and issue width (2.8)
VV16_MACHINES = by_name("""
8800gtx 1 16 4 86.4 74 6.7 24 2 1
gtx280 1 16 4 141.7 138 7.6 32 2 1
gtx480 2 32 4 177.4 161 34 48 2 1
gtx680 4 32 8 192.3 154 33 64 1 2
gtx980 4 32 4 - 211 5.9 - - -
""")


@pytest.mark.parametrize("name", VV16_RATES)
@pytest.mark.parametrize("element", VV16_ROWS)
def test_vv16_tables_6_1_to_6_3(name, element):
    numbers, row, schedulers = published(name), VV16_ROWS.index(element), VV16_MACHINES[name][0]
    assert numbers[element, "rate"].value == pytest.approx(VV16_RATES[name][row] * schedulers)
    assert numbers[element, "latency"].value == VV16_LATENCIES[name][row]
    needed = numbers.get((element, "warps_needed"))
    assert (None if needed is None else needed.value / schedulers) == VV16_WARPS[name][row]


@pytest.mark.parametrize(("name", "row"), VV16_MACHINES.items())
def test_vv16_machines(name, row):
    _, banks, width, pins, read, transaction, *sm = row
    numbers, table = published(name), load(name).table
    assert (numbers["shared", "banks"].value, numbers["shared", "bank_width"].value) == (banks, width)
    assert numbers["dram", "read_bandwidth"].value == read * 1e9
    assert as_printed(table.memory.transaction_latency) == transaction
    if pins is not None:
        assert as_printed(numbers["dram", "peak_bandwidth"]) == pins * 1e9
        processor = table.processor
        assert [processor.warps.value, processor.issue_interval.value, processor.issue_width.value] == sm
    memory = load(name).processor().memory  # s6.7 derives table 6.7 from table 6.2 and the number of transactions
    further = (32 - memory.transactions) * memory.transaction_latency
    assert memory.latency + further == pytest.approx(VV16_LATENCIES[name][5], abs=1)


@pytest.mark.parametrize(
    ("name", "peak", "copy", "clock", "shared"),
    rows("""
gtx560ti 134.40 109.38 0.950 34.90
gtx780 288.38 215.92 1.006 83.81
gtx980 224.38 156.25 1.279 137.41
"""),
)
def test_mc16_tables_6_and_7(name, peak, copy, clock, shared):
    numbers = published(name)
    assert as_printed(numbers["dram", "peak_bandwidth"]) / 1e9 == peak
    assert numbers["dram", "copy_bandwidth"].value / 1e9 == copy
    assert numbers["shared", "copy_rate"].value == pytest.approx(shared / clock, abs=0.01)


def spectrum(name, path):
    """P1 to P6 of MC14 table 3: hit with TLB hit, L1 TLB miss, both missed; memory, both missed, window missed."""
    hierarchy = load(name).hierarchy()
    route, walk = hierarchy.routes[path], hierarchy.tlb_walk_penalty
    translated = max(route.latency[0], route.latency[route.tlbs_at])
    cold = route.memory_latency + hierarchy.tlb_cold_walk_penalty
    hits = [route.latency[0], translated + hierarchy.tlbs[0].penalty, translated + walk]
    window = hierarchy.page_window.penalty if hierarchy.page_window else 0
    return [*hits, route.memory_latency, cold, cold + window]


def test_spectrum_of_kepler():
    assert spectrum("gtx780", Path.GLOBAL) == [230, 236, 289, 371, 734, 1000]


def test_spectrum_of_fermi():
    with_l1, without = spectrum("gtx560ti", Path.GLOBAL), spectrum("gtx560ti", Path.GLOBAL_L2)
    assert with_l1[:4] == [116, 404, 488, 655]
    assert without[:4] == [371, 398, 482, 639]
    # P5 - P4 is 604 with the L1, 606 without: no single walk gives both.
    assert (with_l1[4], without[4]) == (pytest.approx(1259, abs=1), pytest.approx(1245, abs=1))
    assert load("gtx560ti").hierarchy().page_window is None  # Fermi has no P6


def test_spectrum_of_maxwell():  # as MC16 describes it
    p1, p2, p3, p4, p5, p6 = spectrum("gtx980", Path.GLOBAL_L2)
    assert p4 == 383
    assert p5 / 734 == pytest.approx(3.5, abs=0.05)  # "about 3.5 times longer than on the Kepler"
    assert p5 / 1259 == pytest.approx(2, abs=0.1)  # "and twice as long as on the Fermi"
    assert p6 - p5 > 266  # "also much more expensive than that of the GTX780"
    assert [p1, p2, p3] == pytest.approx([230, 236, 289])  # "similar latencies to those of the GTX780"
    assert load("gtx980").hierarchy().routes[Path.GLOBAL].translated_from == 1  # L1 hits go through no TLB


@pytest.mark.parametrize(
    ("name", "path", "count"),
    [("gtx780", Path.GLOBAL, 6), ("gtx560ti", Path.GLOBAL, 5), ("gtx560ti", Path.GLOBAL_L2, 5)],
)
def test_published_spectra(name, path, count):
    listed = [item.value for item in load(name).published() if item.element == f"spectrum_{path}"]
    assert listed == pytest.approx(spectrum(name, path)[:count], abs=1)


def test_the_sets_of_an_alternative_structure_are_listed_on_request():
    both = [item for item in load("gtx780").published(alternatives=True) if item.element == "tlb_l2"]
    values = {name: [item.value for item in both if item.attribute == name] for name in ("sets", "ways")}
    assert values == {"sets": [7, 8], "ways": [(17, *[8] * 6), (16, *[7] * 7)]}
    texture = load("gtx780").hierarchy(alternative=True).caches["texture"]
    assert (texture.line, texture.sector, texture.ways) == (128, 32, (24,) * 4)
    assert not load("k20c").published(alternatives=True)[len(load("k20c").published()) :]

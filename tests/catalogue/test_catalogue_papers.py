"""Numbers typed from the documents, table by table, against what the catalogue says is published."""

import numpy as np
import pytest

from gpudissect.catalogue import Published, load
from gpudissect.simulation.cache.geometry import IndexKind, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.workload import Path

KIB = 1024
MIB = 1024 * KIB


def found(name: str) -> dict[tuple[str, str], Published]:
    return {(item.element, item.attribute): item for item in load(name).published()}


# MT22 tables 5.4 to 5.9, as printed: element -> (size in KiB or None, line, latency, number an SM or None)
MT22 = {
    "k20c": {  # table 5.4
        "l1": (16.137, 128, 64, 1), "texture": (12.012, 32, 111, 4), "readonly": (12.129, 32, 130, 4),
        "constant_l1": (1.828, 64, 50, 4), "constant_l15": (32.813, 256, 120, None), "shared": (48, None, 47, None),
        "l2": (1.25 * KIB, 32, 223, None), "dram": (4.633 * MIB, None, 339, None),
    },
    "840m": {  # table 5.5
        "texture": (12.129, 32, 92, 2), "readonly": (12.129, 32, 92, 2), "constant_l1": (2.109, 64, 33, 1),
        "constant_l15": (30.469, 256, 86, None), "shared": (64, None, 31, None), "l2": (KIB, 32, 173, None),
        "dram": (1.958 * MIB, None, 448, None),
    },
    "p6000": {  # table 5.6
        "l1": (24.012, 32, 92, 2), "texture": (24.012, 32, 85, 2), "readonly": (24.012, 32, 94, 2),
        "constant_l1": (2.141, 64, 33, 1), "constant_l15": (31.25, 256, 94, None), "shared": (96, None, 31, None),
        "l2": (3 * KIB, 32, 243, None), "dram": (23.877 * MIB, None, 412, None),
    },
    "v100": {  # table 5.7
        "l1": (25.629, 32, 36, 1), "texture": (24.023, 32, 80, 1), "readonly": (25.629, 32, 36, 1),
        "constant_l1": (2.078, 64, 32, 1), "constant_l15": (None, 256, 105, None), "shared": (96, None, 27, None),
        "l2": (6 * KIB, 64, 215, None), "dram": (31.748 * MIB, None, 430, None),
    },
    "rtx2080ti": {  # table 5.8
        "l1": (26.137, 32, 40, 1), "texture": (25.012, 32, 86, 1), "readonly": (26.137, 32, 40, 1),
        "constant_l1": (2.078, 64, 32, 1), "constant_l15": (None, 256, 105, None), "shared": (64, None, 30, None),
        "l2": (5.5 * KIB, 64, 230, None), "dram": (11 * MIB, None, 425, None),
    },
    "a100": {  # table 5.9; its main memory is printed "39.409 KiB"
        "l1": (22.254, 32, 39, 1), "texture": (21.191, 32, 89, 1), "readonly": (22.254, 32, 38, 1),
        "constant_l1": (2.141, 64, 34, 1), "constant_l15": (None, 256, 114, None), "shared": (164, None, 28, None),
        "l2": (40 * KIB, 64, 223, None), "dram": (39.409, None, 567, None),
    },
}  # fmt: skip

# MT22 table 5.3: official sizes in KiB of L1, texture and read-only cache; s5.3.1-5.3.3 divide them by their number
TRUTH = {
    "k20c": {"l1": 16, "texture": 12, "readonly": 12},
    "840m": {"texture": 12, "readonly": 12},
    "p6000": {"l1": 24, "texture": 24, "readonly": 24},
    "v100": {"l1": 32, "texture": 32, "readonly": 32},
    "rtx2080ti": {"l1": 32, "texture": 32, "readonly": 32},
    "a100": {"l1": 28, "texture": 28, "readonly": 28},
}


def as_printed(item: Published) -> float:
    return item.value if item.printed is None else item.printed


@pytest.mark.parametrize(("name", "element"), [(name, element) for name in MT22 for element in MT22[name]])
def test_mt22_tables_are_there_as_printed(name: str, element: str) -> None:
    size, line, latency, count = MT22[name][element]
    published = found(name)
    assert published[element, "hit_latency"].value == latency
    if size is not None:
        assert as_printed(published[element, "capacity"]) == pytest.approx(size * KIB, rel=3e-6, abs=1)
    if line is not None:
        assert as_printed(published[element, "line_size"]) == line
    if count is not None:
        assert published[element, "count_per_sm"].value == count


@pytest.mark.parametrize("name", MT22)
def test_mt22_truth_is_the_official_size(name: str) -> None:
    published = found(name)
    for element, size in TRUTH[name].items():
        assert published[element, "capacity"].value == size * KIB
    assert published["constant_l1", "capacity"].value == 2 * KIB


def test_mt22_open_and_ranged_sizes() -> None:
    for name in ("v100", "a100"):
        assert found(name)["constant_l15", "capacity"].low == 62.5 * KIB
        assert found(name)["constant_l15", "capacity"].high is None
    turing = found("rtx2080ti")["constant_l15", "capacity"]
    assert (turing.low, turing.high) == (38 * KIB, 46 * KIB)
    assert found("a100")["dram", "capacity"].value == pytest.approx(39.409 * 2**30, rel=1e-6)


def test_mt22_which_elements_share_an_array() -> None:
    def arrays(name: str) -> list[str]:
        routes = load(name).hierarchy().routes
        return [routes[path].caches[0] for path in (Path.GLOBAL, Path.TEXTURE, Path.READONLY)]

    assert arrays("k20c") == ["l1", "texture", "texture"]
    assert arrays("840m") == ["l2", "texture", "texture"]
    for name in ("p6000", "v100", "rtx2080ti", "a100", "gtx980"):
        assert arrays(name) == ["l1", "l1", "l1"]


def test_hc13_table() -> None:
    for name, size, sets, ways in (("c2070", 16, 32, 4), ("c2070-48k", 48, 64, 6)):
        published = found(name)
        expected = {"capacity": size * KIB, "hit_latency": 80, "ways": ways, "sets": sets, "line_size": 128}
        assert {attribute: published["l1", attribute].value for attribute in expected} == expected
        expected = {"capacity": 768 * KIB, "hit_latency": 350, "sets": 1792, "line_size": 32}
        assert {attribute: published["l2", attribute].value for attribute in expected} == expected
        assert sum(published["l2", "ways"].value) / 1792 == pytest.approx(13 + 5 / 7)
        assert published["dram", "hit_latency"].value == 580
        assert published["tlb_l1", "page_size"].value == 2 * MIB


# MC16 table 5: C, b, T, LRU
MC16_TABLE_5 = [
    ("gtx560ti", "l1", 16 * KIB, 128, 32, False),
    ("gtx560ti", "texture", 12 * KIB, 32, 4, True),
    ("gtx780", "texture", 12 * KIB, 32, 4, True),
    ("gtx780", "readonly", 12 * KIB, 32, 4, True),
    ("gtx980", "l1", 24 * KIB, 32, 4, True),
]


@pytest.mark.parametrize(("name", "element", "size", "line", "sets", "lru"), MC16_TABLE_5)
def test_mc16_table_5_caches(name: str, element: str, size: int, line: int, sets: int, lru: bool) -> None:
    published = found(name)
    expected = {"capacity": size, "line_size": line, "sets": sets}
    assert {attribute: published[element, attribute].value for attribute in expected} == expected
    assert (load(name).hierarchy().caches[element].policy.kind is PolicyKind.LRU) == lru


@pytest.mark.parametrize("name", ["gtx560ti", "gtx780", "gtx980"])
def test_mc16_tlbs_and_l2(name: str) -> None:
    published = found(name)
    first = {"entries": 16, "page_size": 2 * MIB, "sets": 1, "reach": 32 * MIB}
    second = {"entries": 65, "page_size": 2 * MIB, "sets": 7, "reach": 130 * MIB}
    assert {attribute: published["tlb_l1", attribute].value for attribute in first} == first
    assert {attribute: published["tlb_l2", attribute].value for attribute in second} == second
    hierarchy = load(name).hierarchy()
    assert hierarchy.tlbs[1].ways == (17, 8, 8, 8, 8, 8, 8)
    assert hierarchy.tlbs[1].policy.kind is PolicyKind.LRU
    assert published["l2", "capacity"].value == {"gtx560ti": 512, "gtx780": 1536, "gtx980": 2048}[name] * KIB
    assert published["l2", "line_size"].value == 32
    assert hierarchy.caches["l2"].policy.kind is not PolicyKind.LRU
    assert hierarchy.caches["l2"].index.kind is not IndexKind.BITS
    assert hierarchy.prefetch is not None
    assert hierarchy.prefetch.reach == pytest.approx(2 / 3 * hierarchy.caches["l2"].capacity, abs=32)


def test_mc16_fig_8_misses_of_the_l2_tlb() -> None:
    tlb = load("gtx780").hierarchy().tlbs[1]
    missed = []
    for megabytes in range(130, 146, 2):
        pages = np.arange(megabytes // 2, dtype=np.int64) * tlb.page
        filled = np.bincount(set_numbers(tlb.index, tlb.page, 7, pages), minlength=7)
        missed.append(sum(ways for ways, pages_in in zip(tlb.ways, filled, strict=True) if pages_in > ways))
    assert missed == [0, 17, 25, 33, 41, 49, 57, 65]


def test_mc16_s4_3_texture_set_from_bits_7_and_8() -> None:
    for name in ("gtx560ti", "gtx780", "k20c"):
        assert load(name).hierarchy().caches["texture"].index.bits == (7, 8)
    readonly = load("gtx780").hierarchy().caches["readonly"]
    assert readonly.index.kind is not IndexKind.BITS
    blocks = set_numbers(readonly.index, 32, 4, np.arange(0, 64 * KIB, 128)).reshape(-1, 4)
    assert (np.sort(blocks, axis=1) == np.arange(4)).all()


def test_mc16_fig_11_lines_that_share_a_set() -> None:
    cache = load("gtx560ti").hierarchy().caches["l1"]
    assert cache.policy.weights == pytest.approx((1 / 6, 1 / 2, 1 / 6, 1 / 6), abs=1e-6)
    numbers = set_numbers(cache.index, 128, 32, np.arange(129, dtype=np.int64) * 128)
    together = np.flatnonzero(numbers == numbers[128]) + 1  # fig 11 counts lines from 1
    assert together.tolist() == [3, 35, 68, 100, 129]


def test_mc16_and_vv16_latencies() -> None:
    expected = {
        ("gtx560ti", "shared"): 50, ("gtx780", "shared"): 47, ("gtx980", "shared"): 28,  # MC16 s6.2
        ("gtx560ti", "texture"): 240, ("gtx780", "texture"): 110,  # MC14 table 5
        ("8800gtx", "dram"): 444, ("gtx280", "dram"): 434, ("gtx480", "dram"): 513, ("gtx680", "dram"): 301,
        ("8800gtx", "shared"): 38, ("gtx280", "shared"): 40, ("gtx480", "shared"): 26, ("gtx680", "shared"): 24,
        ("gtx980", "dram"): 383,  # VV16 s6.3, quoting Mei & Chu; the others VV16 table 6.2
    }  # fmt: skip
    assert {key: found(key[0])[key[1], "hit_latency"].value for key in expected} == expected
    assert load("gtx560ti").hierarchy().routes[Path.TEXTURE].latency == (240, 470)
    assert load("gtx780").hierarchy().routes[Path.TEXTURE].latency == (110, 220)


def test_mc16_s4_2_timer() -> None:
    timers = {name: load(name).hierarchy().routes[Path.NOTHING].timer for name in ("gtx560ti", "gtx780", "gtx980")}
    assert timers == {"gtx560ti": 20, "gtx780": 32, "gtx980": 16}


def test_facts_of_mc16_tables_3_6_7_and_vv16_tables_2_6_2_7() -> None:
    expected = {  # SMs, core GHz, memory MHz, bus bits
        "gtx560ti": (8, 0.950, 1050, 256), "gtx780": (12, 1.006, 1502, 384), "gtx980": (16, 1.279, 1753, 256),
    }  # fmt: skip
    for name, (sms, core, memory, bus) in expected.items():
        gpu = load(name)
        assert gpu.hierarchy().sm_count == sms
        assert gpu.hierarchy().clock_hz == pytest.approx(core * 1e9)
        assert gpu.facts()["memory_clock_hz"] == pytest.approx(memory * 1e6)
        assert gpu.facts()["memory_bus_bits"] == bus
    for name, sms, core in (("8800gtx", 16, 1.35), ("gtx280", 30, 1.296), ("gtx480", 15, 1.4), ("gtx680", 8, 1.124)):
        assert (load(name).hierarchy().sm_count, load(name).hierarchy().clock_hz) == (sms, pytest.approx(core * 1e9))

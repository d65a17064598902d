"""Sets, ways, index functions and policies, as findings name them, become what a simulator runs, or are assumed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.catalogue import load
from gpudissect.catalogue.build import hierarchy_of
from gpudissect.exports.gpu.geometry import index_function, replacement_policy, usual_ways
from gpudissect.units import KIB, MIB
from tests.support.results import PLAIN, gpu_of, result


@pytest.mark.parametrize("size", [16 * KIB, 241 * KIB, 1931 * 128, 128, 3 * 128, 25_165_824, 8191 * 2 * 128])
def test_sets_and_ways_make_the_capacity_to_the_byte(size):
    cache = hierarchy_of(gpu_of(result(PLAIN | {"l1.capacity": size, "l2.capacity": 64 * MIB}))).caches["l1"]
    assert cache.capacity == size
    assert len(set(cache.ways)) == 1
    assert size // 128 < 4 or cache.ways[0] >= 4


@pytest.mark.parametrize(
    ("lines", "ways"), [(1, 1), (5, 5), (105, 15), (1021, 1021), (1928, 8), (4096, 16), (1931, 1931), (2 * 8191, 8191)]
)
def test_assumed_sets_have_about_sixteen_ways_if_that_divides(lines, ways):
    assert usual_ways(lines) == ways


def test_a_structure_that_was_found_is_taken():
    l1 = {"l1.capacity": 24 * KIB, "l1.line_size": 32, "l1.sets": 4, "l1.ways": 192, "l1.index_function": "bits 7-8"}
    l2 = {"l2.ways": (17, *[8] * 6), "l2.capacity": 65 * 128, "l2.sets": 7}
    gpu = gpu_of(result(PLAIN | l1 | l2 | {"l1.replacement_policy": "random"}))
    caches, truth = hierarchy_of(gpu).caches, load("gtx980").hierarchy()
    assert (caches["l1"].ways, caches["l1"].index) == (truth.caches["l1"].ways, truth.caches["l1"].index)
    assert caches["l1"].policy.kind == "random"
    assert gpu.caches["l1"].index_function.source
    assert (caches["l2"].ways, caches["l2"].index) == (truth.tlbs[1].ways, truth.tlbs[1].index)


def test_all_ways_count_if_contiguous_lines_do_not_fill_them():
    found = {"l1.capacity": 18 * 128, "l1.sets": 4, "l1.ways": 6, "l1.index_function": "bits 9 10"}
    l1 = gpu_of(result(PLAIN | found)).caches["l1"]
    assert (l1.capacity.value, l1.capacity.low) == (24 * 128, 18 * 128)
    assert l1.index_function.source
    # Without the index function the capacity would not come out.
    assert gpu_of(result(PLAIN | found | {"l1.index_function": "not linear"})).caches["l1"].capacity.value == 18 * 128


@pytest.mark.parametrize(("policy", "room"), [("lru", 2000), ("ambiguous", 2000), ("random", None)])
def test_sets_with_more_tags_than_contiguous_lines_have_room_for_these(policy, room):
    """The L1 of an H200; only LRU and FIFO are simulated with room."""
    found = {"l1.capacity": 2000 * 128, "l1.sets": 512, "l1.ways": 4, "l1.index_function": "bits 7-15"}
    found |= {} if policy == "ambiguous" else {"l1.replacement_policy": policy}
    cache = hierarchy_of(gpu_of(result(PLAIN | found))).caches["l1"]
    assert (cache.room.lines if cache.room else None, cache.capacity) == (room, 2000 * 128)
    assert cache.ways == ((4,) * 512 if room else (16,) * 125)


@pytest.mark.parametrize(
    "wrong",
    [
        {"sets": 5},
        {"ways": 7},
        {"sets": 4, "ways": 5},
        {"ways": (5, 6, 7)},
        {"ways": "many"},
        {"sets": 0},
        {"ways": (4.5, 3.5)},
        {"index_function": "not linear"},
        {"index_function": "mod 7"},
        {"replacement_policy": "not one of these"},
        {"replacement_policy": "weighted 0.5 0.5"},
    ],
    ids=str,
)
def test_a_structure_that_does_not_make_the_capacity_is_assumed(wrong):
    gpu = gpu_of(result(PLAIN | {f"l1.{attribute}": value for attribute, value in wrong.items()}))
    assert hierarchy_of(gpu).caches["l1"].capacity == 16 * KIB
    l1 = gpu.caches["l1"]
    assert "found" in " ".join(str(entry.assumed) for entry in (l1.sets, l1.index_function, l1.replacement_policy))


@pytest.mark.parametrize(
    ("names", "ways", "table"),
    [
        (["bits 7-8", "bits 7 8"], (96,) * 4, {"kind": "bits", "bits": [7, 8]}),
        (["bits 7, 9"], (8,) * 4, {"kind": "bits", "bits": [7, 9]}),
        (["Bits 7-8, 10"], (96,) * 8, {"kind": "bits", "bits": [7, 8, 10]}),
        (
            ["xor 7^13 8^14 9", "xor [7,13] [8,14] [9]"],
            (4,) * 8,
            {"kind": "xor", "masks": [[7, 13], [8, 14], [9]]},
        ),
        (["xor [7, 13], [8]"], (4,) * 4, {"kind": "xor", "masks": [[7, 13], [8]]}),
        (["line mod 5"], (16,) * 5, {"kind": "modulo"}),
        (["one set"], (17,), {"kind": "modulo"}),
        (["mod 1792"], (14,) * 1280 + (13,) * 512, {"kind": "modulo"}),
        (
            ["(address / 1024) mod 5", "modulo 5, granule 1024 B"],
            (16,) * 5,
            {"kind": "modulo", "granule": 1024},
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_index_functions(names, ways, table):
    for name in names:
        assert index_function(name, ways, 128, sum(ways)) == table
        assert index_function(name, ways, 128, sum(ways) - 1) is None


NO_INDEX = """
not linear, table of 66|one set|bits|bits 7-|bits a|bits 8-7|bits 3-4|bits 7|bits 7,7|bits 46-48|bits 30-31
xor|xor [7] [7]|xor [] []|xor 7^ 8|xor 7^8^|mod 5|mod 0|mod|line mod|(address / 100) mod 4|mod 4, granule 3 B
"""


@pytest.mark.parametrize(
    "name", [None, "x" * 10**6, "xor [" + "9" * 3990 + "]", *NO_INDEX.replace("\n", "|").split("|")]
)
def test_names_that_number_no_four_sets(name):
    assert index_function(name, (4, 4, 4, 4), 128, 16) is None


@pytest.mark.parametrize(
    ("name", "ways", "table"),
    [
        ("lru", (17, 8, 8), {"kind": "lru"}),
        ("PLRU", (8, 8), {"kind": "plru"}),
        ("weighted 0.5, 0.5", (2, 2), {"kind": "weighted", "weights": [0.5, 0.5]}),
        ("order 2 3 2 1 2 4", (4, 5), {"kind": "order", "order": [2, 3, 2, 1, 2, 4]}),
    ],
)
def test_policies(name, ways, table):
    assert replacement_policy(name, ways) == table


def test_rounded_weights_sum_to_one():
    weights = replacement_policy("weighted 0.167 0.500 0.167 0.167", (4,))["weights"]
    assert weights == pytest.approx([0.1668, 0.4995, 0.1668, 0.1668], abs=1e-4)
    assert sum(weights) == pytest.approx(1, abs=1e-9)


NO_POLICY = "|optimal|plru|lru 2|weighted|weighted 1|weighted 0.1 0.1 0.1|weighted a b c|weighted nan nan nan|order"


NO_ORDER = ("order 0 1", "order 1 4", "order 1.5", "order x", "order -1", f"order {'1 ' * 65}", "lru 1")


@pytest.mark.parametrize("name", [None, "weighted 2 -1 0", "weighted 1e999 0 0", *NO_POLICY.split("|"), *NO_ORDER])
def test_names_of_no_policy_of_three_ways(name):
    assert replacement_policy(name, (3,)) is None


@given(st.text(), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_any_text_is_safe(name, ways):
    for opening in ("", "bits ", "xor ", "mod ", "weighted "):
        index_function(opening + name, ways, 64, sum(ways))
        replacement_policy(opening + name, ways)

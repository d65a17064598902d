"""Names of index functions and policies, as findings give them, become what a simulator runs, or nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.exports.gpu.geometry import index_function, replacement_policy


@pytest.mark.parametrize(
    ("name", "ways", "table"),
    [
        ("bits 7-8", (96,) * 4, {"kind": "bits", "bits": [7, 8]}),
        ("bits 7 8", (96,) * 4, {"kind": "bits", "bits": [7, 8]}),
        ("xor 7^13 8^14 9", (4,) * 8, {"kind": "xor", "masks": [[7, 13], [8, 14], [9]]}),
        ("line mod 5", (16,) * 5, {"kind": "modulo"}),
        ("(address / 1024) mod 5", (16,) * 5, {"kind": "modulo", "granule": 1024}),
        ("one set", (17,), {"kind": "modulo"}),
        ("bits 7, 9", (8,) * 4, {"kind": "bits", "bits": [7, 9]}),
        ("Bits 7-8, 10", (96,) * 8, {"kind": "bits", "bits": [7, 8, 10]}),
        ("xor [7,13] [8,14] [9]", (4,) * 8, {"kind": "xor", "masks": [[7, 13], [8, 14], [9]]}),
        ("xor [7, 13], [8]", (4,) * 4, {"kind": "xor", "masks": [[7, 13], [8]]}),
        ("mod 1792", (14,) * 1280 + (13,) * 512, {"kind": "modulo"}),
        ("modulo 5, granule 1024 B", (16,) * 5, {"kind": "modulo", "granule": 1024}),
    ],
)
def test_index_functions(name, ways, table):
    assert index_function(name, ways, 128, sum(ways)) == table
    assert index_function(name, ways, 128, sum(ways) - 1) is None


@pytest.mark.parametrize(
    "name",
    [
        None, "", "not linear, table of 66", "one set", "x" * 10**6,
        "bits", "bits 7-", "bits a", "bits 8-7", "bits 3-4", "bits 7", "bits 7,7", "bits 46-48", "bits 30-31",
        "xor", "xor [7] [7]", "xor [] []", "xor 7^ 8", "xor 7^8^", "xor [" + "9" * 3990 + "]",
        "mod 5", "mod 0", "mod", "line mod", "(address / 100) mod 4", "mod 4, granule 3 B",
    ],
)  # fmt: skip
def test_what_numbers_no_four_sets_of_a_cache_is_none(name):
    assert index_function(name, (4, 4, 4, 4), 128, 16) is None


@pytest.mark.parametrize(
    ("name", "ways", "table"),
    [
        ("lru", (17, 8, 8), {"kind": "lru"}),
        ("PLRU", (8, 8), {"kind": "plru"}),
        ("weighted 0.5, 0.5", (2, 2), {"kind": "weighted", "weights": [0.5, 0.5]}),
    ],
)
def test_policies(name, ways, table):
    assert replacement_policy(name, ways) == table


def test_rounded_weights_are_made_to_sum_to_one():
    weights = replacement_policy("weighted 0.167 0.500 0.167 0.167", (4,))["weights"]
    assert weights == pytest.approx([0.1668, 0.4995, 0.1668, 0.1668], abs=1e-4)
    assert sum(weights) == pytest.approx(1, abs=1e-9)


@pytest.mark.parametrize(
    "name",
    [None, "", "optimal", "plru", "lru 2", "weighted", "weighted 1", "weighted 0.1 0.1 0.1", "weighted a b c",
     "weighted nan nan nan", "weighted 2 -1 0", "weighted 1e999 0 0"],
)  # fmt: skip
def test_what_is_no_policy_of_three_ways_is_none(name):
    assert replacement_policy(name, (3,)) is None


@given(st.text(), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_no_text_does_harm(name, ways):
    for opening in ("", "bits ", "xor ", "mod ", "weighted "):
        index_function(opening + name, ways, 64, sum(ways))
        replacement_policy(opening + name, ways)

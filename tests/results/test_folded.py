"""Values with their brackets in a few characters."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.estimate import Status
from gpudissect.results.folded import folded, rounded_range
from gpudissect.results.model import Finding

KIB = 1024


def finding(value, low=None, high=None, unit="", status=Status.FOUND, attribute="x"):
    return Finding(element="l1", attribute=attribute, status=status, value=value, low=low, high=high, unit=unit)


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (finding(241 * KIB, 241 * KIB, 256 * KIB, "B"), "241-256 KiB"),
        (finding(128, 128, 128, "B"), "128 B"),
        (finding(653.4, 642.0, 664.0, "cycles"), "653 ± 11 cycles"),
        (finding(108.0, 101.25, 118.125), "108 ± 10"),
        (finding(4.02, 3.77, 4.08, "cycles"), "4.02 cycles"),
        (finding(1.26e9, None, None, "Hz"), "1.26 GHz"),
        (finding(4.698e12, 4.68e12, 4.71e12, "B/s"), "4.7 TB/s"),
        (finding(2041, 2011, 2071), "2041 ± 30"),
        (finding("lru"), "lru"),
        (finding(256, 256, None, "B"), "≥ 256 B"),
        (finding(256, 128, None, "B"), "256 B"),
        (finding(None, 64 * KIB, None, "B", Status.NOT_FOUND), "≥ 64 KiB"),
        (finding(None, None, 8, "", Status.AMBIGUOUS), "≤ 8"),
        (finding(None, status=Status.SKIPPED), ""),
    ],
)
def test_texts(made, text):
    assert folded(made) == text


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (finding(16, 15, 16, attribute="warps_needed"), "16"),
        (finding(12, 8, 12, attribute="warps_needed"), "12"),
        (finding(None, 64, None, "", Status.NOT_FOUND, "warps_needed"), "> 64"),
    ],
)
def test_warps_needed_are_one_number(made, text):
    assert folded(made) == text


def test_a_range_whose_ends_look_equal_is_one_number():
    assert rounded_range(229.8, 230.2, "cycles") == "230 cycles"
    assert rounded_range(128, 256, "B") == "128-256 B"


@given(st.floats(1, 1e6), st.floats(0, 0.5), st.floats(0, 0.5))
def test_a_folded_bracket_is_never_narrower_than_the_bracket_by_more_than_its_last_digit(value, below, above):
    made = finding(value, value * (1 - below), value * (1 + above))
    text = folded(made)
    step = 0.005 * value + 0.5
    if "±" in text:
        middle, half = (float(part) for part in text.split(" ± "))
        assert middle - half <= made.low + step and middle + half >= made.high - step
    elif "-" in text and "e-" not in text:
        low, high = (float(part) for part in text.split("-"))
        assert low <= made.low + step and high >= made.high - step

"""Rates of atomics on global memory."""

from pathlib import Path

import pytest

import gpudissect as gd

H200 = Path(__file__).parents[3] / "docs" / "results" / "h200.json"


@pytest.mark.parametrize(
    ("name", "others"),
    [("word_rate", (0.6754, 0.6909)), ("line_rate", (2.236, 2.263)), ("contiguous_rate", (272.0, 281.0))],
)
def test_brackets_hold_what_other_processes_measure(name, others):
    """The lowest and the highest value of 21 surveys of five other H200s."""
    found = gd.load(H200).finding("atomg", name)
    assert found.low < min(others) and max(others) < found.high

"""Contradictory estimates are refused."""

import math

import pytest

from gpudissect.estimate import Estimate, Status
from gpudissect.vocabulary import ATTRIBUTES, ELEMENTS, sort_key, unit_of

FOUND = {"element": "l1", "attribute": "capacity", "status": Status.FOUND, "value": 1024, "confidence": 0.9}
NOT_FOUND = {"element": "l1", "attribute": "capacity", "status": Status.NOT_FOUND, "reason": "a ramp"}


@pytest.mark.parametrize(
    "fields",
    [
        {**FOUND, "element": "l9"},
        {**FOUND, "attribute": "capacty"},
        {**FOUND, "value": None},
        {**FOUND, "value": math.nan},
        {**FOUND, "value": (17.0, math.inf)},
        {**FOUND, "confidence": None},
        {**FOUND, "confidence": 1.1},
        {**FOUND, "confidence": math.nan},
        {**FOUND, "low": 2048},
        {**FOUND, "high": 512},
        {**FOUND, "low": math.nan},
        {**FOUND, "status": Status.STATED},
        {**NOT_FOUND, "reason": ""},
        {**NOT_FOUND, "value": 1024},
        {**NOT_FOUND, "low": 2, "high": 1},
    ],
)
def test_contradictory_estimates_are_refused(fields):
    with pytest.raises(ValueError, match=r"l\d\.\w+: "):
        Estimate(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {**FOUND, "low": 1024, "high": 1024},
        {**FOUND, "low": 1000},
        {**FOUND, "value": (17, 8, 8), "attribute": "ways"},
        {**FOUND, "value": "lru", "attribute": "replacement_policy"},
        {**FOUND, "status": Status.STATED, "confidence": None},
        {**NOT_FOUND, "low": 65536},
        {**NOT_FOUND, "status": Status.AMBIGUOUS, "low": 1, "high": 2},
    ],
)
def test_the_unit_follows_from_the_attribute(fields):
    assert Estimate(**fields).unit == unit_of(fields["attribute"])


def test_findings_are_sorted_by_element_then_attribute():
    assert sort_key("l1", "hit_latency") < sort_key("l2", "capacity") < sort_key("l2", "hit_latency")
    assert len(set(ELEMENTS)) == len(ELEMENTS)
    assert set(ATTRIBUTES.values()) == {"B", "cycles", "ns", "B/s", "B/cycle", "ops/cycle", "ops/s", ""}

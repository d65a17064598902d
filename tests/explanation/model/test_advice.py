"""What would make recorded kernels faster, by the model, and where in their source."""

from functools import cache
from pathlib import Path

import pytest

from gpudissect.explanation.model.build import explain_profile
from gpudissect.explanation.profile import read_profile
from gpudissect.explanation.result import MIN_GAIN
from gpudissect.results.files import load


@cache
def explained(kernel):
    profile = read_profile(Path("tests/recordings/kernels/h200") / f"{kernel}.json")
    return explain_profile(profile, [load(Path("docs/results/h200.json"))])


def found(kernel, text, *, among="advice"):
    return next((each for each in getattr(explained(kernel), among) if text in each.text), None)


@pytest.mark.parametrize(
    ("kernel", "text", "place", "least", "is_limit"),
    [
        ("histogram_shared", "earlier", "histogram.cu:15) and 31 more", 0.3, True),
        ("histogram_shared", "work of two", "histogram.cu:15", 0.2, False),
        ("scan", "work of two", "LDG.E (0x00b0, scan.cu:18)", 0.2, False),
        ("pointer_chase", "hit the L1", "pointer_chase.cu:7", 0.5, True),
        ("pointer_chase", "work of two", "pointer_chase.cu:7", 0.3, False),
        ("transpose_naive", "neighbouring", "STG.E (0x0120, transpose.cu:10) and 3 more", 0.7, False),
        ("transpose_conflicts", "bank conflicts", "transpose.cu:", MIN_GAIN, False),
    ],
)
def test_advice_has_a_gain_and_a_source_line(kernel, text, place, least, is_limit):
    advice = found(kernel, text)
    assert advice is not None and place in advice.text
    assert least <= advice.gain < 1 and advice.is_limit == is_limit


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        ("pointer_chase", "earlier"),  # each load needs the result of the one before
        ("scan", "earlier"),  # one load of each warp
        ("scan", "hit the L1"),  # every word is read once
        ("hash_table", "hit the L2"),
    ],
)
def test_no_change_is_tried_that_the_kernel_does_not_allow(kernel, text):
    assert found(kernel, text) is None and found(kernel, text, among="rejected") is None


def test_barriers_are_tried_and_rejected():
    rejected = found("scan", "fewer barriers", among="rejected")
    assert rejected is not None and "scan.cu:21) and 1 more" in rejected.text and rejected.gain < MIN_GAIN


def test_advice_is_ranked():
    for kernel in ("histogram_shared", "scan", "pointer_chase"):
        shown = explained(kernel)
        gains = [each.gain for each in (*shown.advice, *shown.rejected)]
        assert gains == sorted(gains, reverse=True) and all(each.gain >= MIN_GAIN for each in shown.advice)

"""Verdicts: how a finding compares with published values."""

import pytest

from gpudissect.catalogue import Published
from gpudissect.estimate import Estimate, Status
from gpudissect.results.verdict import Verdict, judge, judge_all
from gpudissect.vocabulary import unit_of


def found(value, low=None, high=None, attribute="capacity"):
    status = Status.FOUND
    return Estimate(element="l1", attribute=attribute, status=status, value=value, low=low, high=high, confidence=1)


def published(value, low=None, high=None, attribute="capacity", printed=None):
    return Published("l1", attribute, value, low, high, unit_of(attribute), printed, "a table")


@pytest.mark.parametrize(
    ("finding", "reference", "verdict", "text"),
    [
        (found(24576), published(24576), Verdict.AGREES, "equal"),
        (found(24576), published(24575), Verdict.DIFFERS, "+1 B (+0%)"),
        (found(16384), published(24576), Verdict.DIFFERS, "-8 KiB (-33%)"),
        (found(24000, 23000, 25000), published(24576), Verdict.AGREES, "within the bracket"),
        (found(24576), published(24000, 23000, 25000), Verdict.FINER, "22.46094 .. 24.41406 KiB"),
        (found(70000), published(65536, 64000), Verdict.FINER, "within >= 62.5 KiB"),
        (found(24200, 24100, 24900), published(24000, 23000, 25000), Verdict.FINER, "22.46094 .. 24.41406 KiB"),
        (found(230, 230, 270), published(220, 200, 250), Verdict.OVERLAPS, "within 200 .. 250 B, but"),
        (found(190, 180, 210), published(220, 200, 250), Verdict.OVERLAPS, "outside 200 .. 250 B, but"),
        (found(190, 180, 199), published(220, 200, 250), Verdict.DIFFERS, "-30 B (-14%)"),
        (found(70000, 60000, 71000), published(80000, 64000), Verdict.OVERLAPS, "within >= 62.5 KiB, but"),
        (found(60000), published(65536, 64000), Verdict.DIFFERS, "-5.40625 KiB (-8%)"),
        (found(12420), published(12288, printed=12420), Verdict.AS_PRINTED, "the structure has 12 KiB"),
        (found(12288), published(12288, printed=12420), Verdict.AGREES, "equal"),
    ],
)
def test_judge_sizes(finding, reference, verdict, text):
    judgement = judge(finding, reference)
    assert judgement.verdict is verdict and text in judgement.text


@pytest.mark.parametrize(
    ("attribute", "value", "reference", "verdict", "text"),
    [
        ("hit_latency", 82.6, 82, Verdict.AGREES, "within one cycle"),
        ("hit_latency", 84, 82, Verdict.DIFFERS, "+2 cycles (+2%)"),
        ("hit_latency", 84, 0, Verdict.DIFFERS, "+84 cycles"),
        ("ways", (17.0, 8.0), (17.0, 8.0), Verdict.AGREES, "equal"),
        ("ways", (17.0, 8.0), 8.0, Verdict.DIFFERS, "not 8"),
        ("replacement_policy", "lru", "fifo", Verdict.DIFFERS, "not fifo"),
    ],
)
def test_judge_other_attributes(attribute, value, reference, verdict, text):
    judgement = judge(found(value, attribute=attribute), published(reference, attribute=attribute))
    assert (judgement.verdict, judgement.text) == (verdict, text)


def test_without_a_value_there_is_nothing_to_compare():
    missing = Estimate(element="l1", attribute="capacity", status=Status.NOT_FOUND, reason="a ramp")
    assert judge(missing, published(1)).verdict is Verdict.NOT_COMPARABLE
    assert judge_all(missing, ()) is None


def test_what_the_driver_states_is_not_compared():
    stated = Estimate(element="shared", attribute="capacity", status=Status.STATED, value=233472)
    judgement = judge(stated, published(233472))
    assert judgement.verdict is Verdict.NOT_COMPARABLE and "driver" in judgement.text


@pytest.mark.parametrize(("low", "high", "text"), [(256, None, ">= 256 B"), (None, 256, "<= 256 B")])
def test_a_bound_is_consistent_with_an_equal_value(low, high, text):
    judgement = judge(found(256, low, high, "line_size"), published(256, attribute="line_size"))
    assert (judgement.verdict, judgement.text) == (Verdict.AGREES, f"consistent with {text}")


def test_the_best_of_several_sources_counts_and_the_others_are_mentioned():
    reference, judgement = judge_all(found(24576), (published(16384), published(24576), published(12288)))
    assert reference.value == 24576
    assert judgement.verdict is Verdict.AGREES
    assert judgement.text == "equal; 2 of 3 sources differ"

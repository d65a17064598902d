"""How a finding stands to what is published."""

import pytest

from gpudissect.catalogue import Published
from gpudissect.estimate import Estimate, Status
from gpudissect.results.verdict import Verdict, judge, judge_all
from gpudissect.vocabulary import unit_of


def found(value, low=None, high=None, attribute="capacity"):
    return Estimate(
        element="l1",
        attribute=attribute,
        status=Status.FOUND,
        value=value,
        low=low,
        high=high,
        confidence=1,
    )


def published(value, low=None, high=None, attribute="capacity", printed=None):
    return Published("l1", attribute, value, low, high, unit_of(attribute), printed, "a table")


@pytest.mark.parametrize(
    ("finding", "known", "verdict", "text"),
    [
        (found(24576), published(24576), Verdict.AGREES, "equal"),
        (found(24576), published(24575), Verdict.DIFFERS, "+1 B (+0%)"),
        (found(16384), published(24576), Verdict.DIFFERS, "-8 KiB (-33%)"),
        (found(24000, 23000, 25000), published(24576), Verdict.AGREES, "within the bracket found"),
        (found(24576), published(24000, 23000, 25000), Verdict.FINER, "within 22.46094 .. 24.41406 KiB"),
        (found(70000), published(65536, 64000), Verdict.FINER, "within >= 62.5 KiB"),
        (found(24200, 24100, 24900), published(24000, 23000, 25000), Verdict.FINER, "within 22.46094 .. 24.41406 KiB"),
        (
            found(230, 230, 270),
            published(220, 200, 250),
            Verdict.OVERLAPS,
            "within 200 .. 250 B, but the bracket found reaches beyond",
        ),
        (
            found(190, 180, 210),
            published(220, 200, 250),
            Verdict.OVERLAPS,
            "outside of 200 .. 250 B, but the bracket found reaches into it",
        ),
        (found(190, 180, 199), published(220, 200, 250), Verdict.DIFFERS, "-30 B (-14%)"),
        (
            found(70000, 60000, 65000.0 + 6000),
            published(80000, 64000),
            Verdict.OVERLAPS,
            "within >= 62.5 KiB, but the bracket found reaches beyond",
        ),
        (found(60000), published(65536, 64000), Verdict.DIFFERS, "-5.40625 KiB (-8%)"),
        (found(12420), published(12288, printed=12420), Verdict.AS_PRINTED, "as printed; the structure has 12 KiB"),
        (found(12288), published(12288, printed=12420), Verdict.AGREES, "equal"),
        (
            found(82.6, attribute="hit_latency"),
            published(82, attribute="hit_latency"),
            Verdict.AGREES,
            "within one cycle",
        ),
        (
            found(84, attribute="hit_latency"),
            published(82, attribute="hit_latency"),
            Verdict.DIFFERS,
            "+2 cycles (+2%)",
        ),
        (found(84, attribute="hit_latency"), published(0, attribute="hit_latency"), Verdict.DIFFERS, "+84 cycles"),
        (found((17.0, 8.0), attribute="ways"), published((17.0, 8.0), attribute="ways"), Verdict.AGREES, "equal"),
        (found((17.0, 8.0), attribute="ways"), published(8.0, attribute="ways"), Verdict.DIFFERS, "not 8"),
        (
            found("lru", attribute="replacement_policy"),
            published("fifo", attribute="replacement_policy"),
            Verdict.DIFFERS,
            "not fifo",
        ),
    ],
)
def test_a_verdict_and_why(finding, known, verdict, text):
    judgement = judge(finding, known)
    assert (judgement.verdict, judgement.text) == (verdict, text)


def test_without_a_finding_there_is_nothing_to_compare():
    nothing = Estimate(element="l1", attribute="capacity", status=Status.NOT_FOUND, reason="a ramp")
    assert judge(nothing, published(1)).verdict is Verdict.NOT_COMPARABLE
    assert judge_all(nothing, ()) is None


def test_of_several_sources_the_friendliest_speaks_and_says_that_others_differ():
    known, judgement = judge_all(found(24576), (published(16384), published(24576), published(12288)))
    assert known.value == 24576
    assert judgement.verdict is Verdict.AGREES
    assert judgement.text == "equal; 2 of 3 sources differ"

"""Results against one another: what is the same, what differs, what nobody can tell."""

import io
import json

import pytest
from tests.report.made_up import PLAIN, finding, result

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.report.compare import Likeness, compare, judge
from gpudissect.report.compare_table import print_comparison, to_json
from gpudissect.report.page.beside import side_by_side
from gpudissect.report.result import Conditions
from gpudissect.report.table import console

LATENCY = ("l1", "hit_latency")


def number(value, low=None, high=None, **more):
    return finding(*LATENCY, value, low=low, high=high, **more)


@pytest.mark.parametrize(
    ("one", "other", "likeness", "why"),
    [
        (number(30.0, 29, 31), number(30.0, 28, 32), Likeness.SAME, "equal"),
        (number(30.0, 29, 31), number(30.5, 29.5, 31.5), Likeness.SAME, "each within the other's bracket"),
        (number(30.0, 29, 31), number(32.0, 30.5, 33), Likeness.AMBIGUOUS, "brackets overlap"),
        (number(30.0, 29, 31), number(40.0, 39, 41), Likeness.DIFFERENT, "8 cycles apart, [+]33.3%"),
        (number(30.0, 29, 31), number(300.0, 299, 301), Likeness.DIFFERENT, "10 times as much"),
        (number(30.0, 29, 31, confidence=0.4), number(40.0, 39, 41), Likeness.AMBIGUOUS, "at 40% only"),
        (number(30.0), number(None), Likeness.AMBIGUOUS, "not found in one of them"),
        (number(None), number(None), Likeness.SAME, "not found in both"),
        (number(30.0, 29, 31), number(None, low=64), Likeness.DIFFERENT, "excludes"),
        (number(None), number(None, status=Status.AMBIGUOUS), Likeness.AMBIGUOUS, "against"),
        (number(30.0), number(None, status=Status.NOT_SUPPORTED), Likeness.DIFFERENT, "no such thing"),
        (finding("l1", "index_function", "a"), finding("l1", "index_function", "b"), Likeness.DIFFERENT, ""),
        (finding("tlb_l2", "ways", (17, 8)), finding("tlb_l2", "ways", (8, 17)), Likeness.SAME, "another order"),
        (finding("l1", "replacement_policy", "weighted x"), finding("l1", "replacement_policy", "weighted y"),
         Likeness.DIFFERENT, ""),
    ],
)  # fmt: skip
def test_two_findings(one, other, likeness, why):
    for pair in ((one, other), (other, one)) if "%" not in why and "times" not in why else ((one, other),):
        kind, said = judge(*pair)
        assert kind is likeness
        assert why.replace("[+]", "+") in said


def of(made, element, attribute):
    return next(row for row in made.rows if (row.element, row.attribute) == (element, attribute))


def under(findings, **conditions):
    return result(findings).model_copy(update={"conditions": Conditions(**conditions)})


def test_the_gravest_of_all_pairs_counts():
    made = compare([result({"l1.hit_latency": value}) for value in (30.0, 30.0, 35.0)])
    assert of(made, *LATENCY).likeness is Likeness.DIFFERENT


def test_other_clocks_refuse_what_has_a_clock_of_its_own():
    findings = {"l1.hit_latency": 30.0, "l2.hit_latency": 200.0, "l2.capacity": 1 << 20, "dram.read_bandwidth": 1e12}
    made = compare([under(findings, clock_hz=1e9), under(findings, clock_hz=1.5e9)])
    assert "1000 MHz, 1500 MHz" in made.obstacles[0]
    assert of(made, *LATENCY).likeness is Likeness.SAME
    assert of(made, "l2", "capacity").likeness is Likeness.SAME
    for key in (("l2", "hit_latency"), ("dram", "read_bandwidth")):
        assert of(made, *key).likeness is Likeness.NOT_COMPARABLE
        assert "clock" in of(made, *key).why


def test_other_carve_outs_refuse_what_they_divide():
    findings = {"l1.capacity": 1024, "l1.line_size": 128}
    made = compare([under(findings, notes={"carveout_preferred": (share,)}) for share in ("0 %", "50 %")])
    assert of(made, "l1", "capacity").likeness is Likeness.NOT_COMPARABLE
    assert of(made, "l1", "line_size").likeness is Likeness.SAME


def test_what_only_one_has_is_not_compared():
    made = compare([result({"l1.capacity": 1024, "l1.line_size": 128}), result({"l1.line_size": 128})])
    assert of(made, "l1", "capacity").likeness is Likeness.NOT_COMPARABLE
    assert made.counts[Likeness.SAME] == 1


def test_lists_by_sm_have_no_common_order():
    made = compare([result({"l2.latency_by_sm": values}) for values in ((1.0, 2.0), (2.0, 1.0))])
    assert of(made, "l2", "latency_by_sm").likeness is Likeness.NOT_COMPARABLE


def test_too_few_or_nothing_in_common_is_refused():
    with pytest.raises(UsageError, match="two results or more, got 1"):
        compare([result(PLAIN)])
    with pytest.raises(UsageError, match="nothing to compare"):
        compare([result({"l1.capacity": 1}), result({"l2.capacity": 1})])


def test_it_is_printed_and_written():
    nasty = "<script>x</script>\x1b[2J"
    made = compare([result(PLAIN), result(PLAIN | {"l1.hit_latency": 50.0}, name=nasty)])
    out = io.StringIO()
    print_comparison(console(out), made, everything=False)
    assert "different" in out.getvalue() and "\x1b" not in out.getvalue()
    assert "l2" not in out.getvalue().split("hit_latency")[0]
    content = json.loads(to_json(made))
    assert content["schema"] == "gpudissect-comparison/1"
    assert content["counts"]["different"] == 1
    page = side_by_side(made)
    assert "<script>x" not in page and page.count('class="different"') == 1

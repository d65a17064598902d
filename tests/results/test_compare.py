"""Results against one another: what is the same, what differs, what nobody can tell."""

import io
import json
import re

import pytest

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.results import compare as comparing
from gpudissect.results.check import concerns
from gpudissect.results.likeness import Likeness, judge
from gpudissect.results.model import Conditions
from gpudissect.views.interactive import Comparison
from gpudissect.views.page.comparison import comparison_page
from gpudissect.views.terminal.compare_table import print_comparison, to_json
from gpudissect.views.terminal.table import console
from tests.support.made_up import PLAIN, finding, result

LATENCY = ("l1", "hit_latency")


def compare(results, files=()):
    return Comparison.of(comparing.compare(results, files))


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
    assert "A: 1000 MHz, B: 1500 MHz" in made.obstacles[0]
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
    both = [result({"l1.capacity": 1, "dram.hit_latency": 2.0}), result({"hiding.warps_needed": 1})]
    with pytest.raises(UsageError, match=r"A is of discover \(L1, DRAM\); B is of hide \(hiding\)$"):
        compare(both)
    with pytest.raises(UsageError, match=r"nothing to compare: a.json is of discover \(L1, DRAM\); b.json is of hide"):
        compare(both, ["a.json", "b.json"])


def test_what_was_seen_is_said_with_the_file_it_was_seen_in():
    slow, fast = (under({"l1.hit_latency": 30.0}, clock_hz=hz, notes={"carveout_asked": (said,)})
                  for hz, said in ((1e9, "0 %"), (1.5e9, "50 %")))  # fmt: skip
    made = compare([slow, fast], ["slow.json", "fast.json"])
    assert "(slow.json: 0 %, fast.json: 50 %)" in made.obstacles[0]
    assert "(slow.json: 1000 MHz, fast.json: 1500 MHz)" in made.obstacles[1]
    assert [each["file"] for each in json.loads(to_json(made))["results"]] == ["slow.json", "fast.json"]
    assert "slow.json" in str(made).splitlines()[0] and "fast.json" in comparison_page(made)


def test_a_comparison_is_short_where_it_shows_itself():
    made = compare([result(PLAIN), result(PLAIN | {"l1.hit_latency": 50.0}, name="Other")])
    assert repr(made) == ("<2 results, A Made Up 1, B Other: 1 different, 0 ambiguous, 0 not comparable, "
                          f"{len(PLAIN) - 1} same>")  # fmt: skip
    row = of(made, *LATENCY)
    assert repr(row) == "<l1 hit_latency: 30 cycles | 50 cycles: different, brackets 20 cycles apart, +66.7%>"
    assert len(str(made).splitlines()) == 5 and "hit_latency" in str(made)
    assert len(repr(compare([result(PLAIN)] * 30))) < 200


def test_a_comparison_becomes_a_data_frame():
    pytest.importorskip("pandas")
    frame = compare([result(PLAIN), result({"l1.hit_latency": {"value": 50.0, "low": 49.0}})]).to_pandas()
    assert len(frame) == len(PLAIN)
    told = frame.set_index(["element", "attribute"]).loc[LATENCY]
    assert told[["A", "B", "B_low", "likeness", "unit"]].to_list() == [30.0, 50.0, 49.0, "different", "cycles"]
    assert told["B_status"] == "found"


def test_what_differs_stands_on_top_of_the_page_and_leads_to_its_line():
    other = PLAIN | {"l2.hit_latency": 250.0, "l1.miss_penalty": {"value": None}}
    page = comparison_page(compare([result(PLAIN), result(other)]))
    top, _, tables = page.partition('id="findings"')
    head, _, unclear = top.partition("Inconclusive")
    listed = re.findall(r'<li><a href="#(r[0-9]+)">([^<]*)</a>(.*?)</li>', head + unclear)
    assert [name for _, name, _ in listed] == ["L2 cache: hit latency", "L1 data cache: miss penalty"]
    assert "L2 cache: hit latency" in head and "L1 data cache: miss penalty" in unclear
    assert "195 cycles" in listed[0][2] and "250 cycles" in listed[0][2] and "brackets 55 cycles apart" in listed[0][2]
    for anchor, name, _ in listed:
        assert f'>{name.partition(": ")[2]}<' in tables.partition(f'id="{anchor}"')[0].rpartition("<tr")[0] + (
            tables.partition(f'id="{anchor}"')[2].partition("</tr>")[0])  # fmt: skip
    assert "Nothing: no value" in comparison_page(compare([result(PLAIN)] * 2))


def test_a_page_of_much_that_differs_names_the_first():
    findings = {f"made{n}.hit_latency": 30.0 for n in range(100)}
    page = comparison_page(compare([result(findings), result(dict.fromkeys(findings, 60.0))]))
    assert page.count("<li>") == 60 and "and 40 more" in page


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
    page = comparison_page(made)
    assert "<script>x" not in page and page.count('class="verdict different"') == 1


def read_by(findings, code):
    return result(findings).model_copy(update={"code": code, "environment": {"gpudissect": "0.1.0"}})


def test_that_other_code_read_the_traces_is_said_where_something_differs():
    other = PLAIN | {"l1.hit_latency": 50.0}
    made = compare([read_by(PLAIN, "abc"), read_by(other, "")], ["a.json", "b.json"])
    assert "read by other code (a.json: 0.1.0, code abc; b.json: 0.1.0, code unknown)" in made.read
    for said in (str(made), to_json(made), comparison_page(made), made._repr_html_()):
        assert "read by other code" in said
    assert [each.what for each in concerns([read_by(PLAIN, "abc"), read_by(other, "d")]) if "other code" in each.what]
    assert compare([read_by(PLAIN, "abc"), read_by(PLAIN, "d")]).read == ""  # it made no difference
    assert compare([read_by(PLAIN, "abc"), read_by(other, "abc")]).read == ""

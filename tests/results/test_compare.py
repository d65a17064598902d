"""Comparison of results: same, different, ambiguous, not comparable, each with the reason."""

import io
import json
import re

import pytest

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.results import compare as comparing
from gpudissect.results.check import concerns
from gpudissect.results.compare import Outcome, judge
from gpudissect.results.model import Conditions, Provenance
from gpudissect.views.interactive import Comparison
from gpudissect.views.page.comparison import comparison_page
from gpudissect.views.terminal.compare_table import print_comparison, to_json, values_of, why_of
from gpudissect.views.terminal.layout import console
from tests.support.results import PLAIN, finding, result

LATENCY = ("l1", "hit_latency")


def compare(results, files=()):
    return Comparison.of(comparing.compare(results, files))


def of_cards(*values, name="l1.hit_latency"):
    """A comparison of cards with these exact values."""
    found = [result({name: {"value": value, "low": value, "high": value}}) for value in values]
    cards = (Provenance(gpu_uuid=f"GPU-{n}") for n in range(len(values)))
    return compare([each.model_copy(update={"provenance": card}) for each, card in zip(found, cards, strict=True)])


def test_different_values_look_different():
    (row,) = of_cards(4.0201, 4.0239).rows
    assert row.outcome is Outcome.DIFFERENT and values_of(row) == ["4.02 cycles", "4.024 cycles"]
    (row,) = of_cards(128, 128, name="l1.line_size").rows
    assert values_of(row) == ["128 B", "128 B"]


def test_the_spread_over_cards_stands_beside_what_differs():
    (row,) = of_cards(30.0, 33.0, 31.0).rows
    assert row.spread == "30-33 cycles over 3 cards" and why_of(row).endswith(row.spread)
    assert of_cards(30.0, 30.0).rows[0].spread == ""
    assert "30-33 cycles over 3 cards" in comparison_page(of_cards(30.0, 33.0, 31.0))


def latency(value, low=None, high=None, **fields):
    return finding(*LATENCY, value, low=low, high=high, **fields)


def policy(text):
    return finding("l1", "replacement_policy", text)


@pytest.mark.parametrize(
    ("one", "other", "outcome", "why"),
    [
        (latency(30.0, 29, 31), latency(30.0, 28, 32), Outcome.SAME, "equal"),
        (latency(30.0, 29, 31), latency(30.5, 29.5, 31.5), Outcome.SAME, "each within the other's bracket"),
        (latency(30.0, 29, 31), latency(32.0, 30.5, 33), Outcome.AMBIGUOUS, "overlap in 30.5-31 cycles"),
        (latency(30.0, 29, 31), latency(40.0, 39, 41), Outcome.DIFFERENT, "(gap 8 cycles, +33.3%)"),
        (latency(30.0, 29, 31), latency(300.0, 299, 301), Outcome.DIFFERENT, "10 times as much"),
        (latency(30.0, 29, 31, confidence=0.4), latency(40.0, 39, 41), Outcome.AMBIGUOUS, "40%"),
        (latency(30.0), latency(None), Outcome.AMBIGUOUS, "not found in one of them"),
        (latency(None), latency(None), Outcome.SAME, "not found in both"),
        (latency(30.0, 29, 31), latency(None, low=64), Outcome.DIFFERENT, "not found (>= 64 cycles) excludes"),
        (latency(None), latency(None, status=Status.AMBIGUOUS), Outcome.AMBIGUOUS, "versus"),
        (latency(30.0), latency(None, status=Status.NOT_SUPPORTED), Outcome.DIFFERENT, "not supported"),
        (finding("l1", "index_function", "a"), finding("l1", "index_function", "b"), Outcome.DIFFERENT, ""),
        (finding("tlb_l2", "ways", (17, 8)), finding("tlb_l2", "ways", (8, 17)), Outcome.SAME, "different order"),
        (policy("weighted x"), policy("weighted y"), Outcome.DIFFERENT, ""),
        (policy("random"), policy("weighted 0.5 0.5"), Outcome.SAME, "sampling error"),
    ],
)
def test_judge(one, other, outcome, why):
    assert judge(one, other)[0] is judge(other, one)[0] is outcome
    assert why in judge(one, other)[1]


def row_of(comparison, element, attribute):
    return next(row for row in comparison.rows if (row.element, row.attribute) == (element, attribute))


def under(findings, **conditions):
    return result(findings).model_copy(update={"conditions": Conditions(**conditions)})


def test_the_most_serious_pair_counts_and_is_named():
    row = row_of(compare([result({"l1.hit_latency": value}) for value in (30.0, 30.0, 35.0)]), *LATENCY)
    assert row.outcome is Outcome.DIFFERENT and "A-C" in row.why


def test_different_clocks_exclude_latencies_of_other_clock_domains():
    findings = {"l1.hit_latency": 30.0, "l2.hit_latency": 200.0, "l2.capacity": 1 << 20, "dram.read_bandwidth": 1e12}
    compared = compare([under(findings, clock_hz=1e9), under(findings, clock_hz=1.5e9)])
    assert "A: 1000 MHz, B: 1500 MHz" in compared.obstacles[0]
    assert row_of(compared, *LATENCY).outcome is row_of(compared, "l2", "capacity").outcome is Outcome.SAME
    for key in (("l2", "hit_latency"), ("dram", "read_bandwidth")):
        assert row_of(compared, *key).outcome is Outcome.NOT_COMPARABLE
        assert "clock" in row_of(compared, *key).why


def test_different_carveouts_exclude_what_they_divide():
    findings = {"l1.capacity": 1024, "l1.line_size": 128}
    compared = compare([under(findings, notes={"carveout_preferred": (share,)}) for share in ("0 %", "50 %")])
    assert row_of(compared, "l1", "capacity").outcome is Outcome.NOT_COMPARABLE
    assert row_of(compared, "l1", "line_size").outcome is Outcome.SAME


def test_values_of_one_result_only_and_lists_by_sm_are_not_compared():
    compared = compare([result({"l1.capacity": 1024, "l1.line_size": 128}), result({"l1.line_size": 128})])
    assert row_of(compared, "l1", "capacity").outcome is Outcome.NOT_COMPARABLE
    assert compared.counts[Outcome.SAME] == 1
    compared = compare([result({"l2.latency_by_sm": values}) for values in ((1.0, 2.0), (2.0, 1.0))])
    assert row_of(compared, "l2", "latency_by_sm").outcome is Outcome.NOT_COMPARABLE


def test_results_without_anything_in_common_are_refused():
    with pytest.raises(UsageError, match="two or more results, got 1"):
        compare([result(PLAIN)])
    both = [result({"l1.capacity": 1, "dram.hit_latency": 2.0}), result({"hiding.warps_for_90": 1})]
    with pytest.raises(UsageError, match=r"A: discover \(L1, DRAM\); B: hide \(streaming loads\)$"):
        compare(both)
    with pytest.raises(UsageError, match=r"nothing to compare.*a.json: discover \(L1, DRAM\); b.json: hide"):
        compare(both, ["a.json", "b.json"])


def test_files_are_named_with_their_conditions():
    slow, fast = (
        under({"l1.hit_latency": 30.0}, clock_hz=hz, notes={"carveout_requested": (share,)})
        for hz, share in ((1e9, "0 %"), (1.5e9, "50 %"))
    )
    compared = compare([slow, fast], ["slow.json", "fast.json"])
    assert "(slow.json: 0 %, fast.json: 50 %)" in compared.obstacles[0]
    assert "(slow.json: 1000 MHz, fast.json: 1500 MHz)" in compared.obstacles[1]
    assert [each["file"] for each in json.loads(to_json(compared))["results"]] == ["slow.json", "fast.json"]
    assert "slow.json" in str(compared).splitlines()[0] and "fast.json" in comparison_page(compared)


def test_a_comparison_has_a_short_repr():
    compared = compare([result(PLAIN), result(PLAIN | {"l1.hit_latency": 50.0}, name="Other")])
    counts = f"1 different, 0 ambiguous, 0 not comparable, {len(PLAIN) - 1} same"
    assert repr(compared) == f"<2 results, A Made Up 1, B Other: {counts}>"
    assert repr(row_of(compared, *LATENCY)).startswith("<l1 hit_latency: 30 cycles | 50 cycles: different, ")
    assert len(str(compared).splitlines()) == 5 and "hit_latency" in str(compared)
    assert len(repr(compare([result(PLAIN)] * 30))) < 200


def test_a_comparison_becomes_a_data_frame():
    pytest.importorskip("pandas")
    frame = compare([result(PLAIN), result({"l1.hit_latency": {"value": 50.0, "low": 49.0}})]).to_pandas()
    assert len(frame) == len(PLAIN)
    row = frame.set_index(["element", "attribute"]).loc[LATENCY]
    assert row[["A", "B", "B_low", "outcome", "unit"]].to_list() == [30.0, 50.0, 49.0, "different", "cycles"]
    assert row["B_status"] == "found"


def test_the_page_lists_differences_first_with_links():
    other = PLAIN | {"l2.hit_latency": 250.0, "l1.miss_penalty": {"value": None}}
    page = comparison_page(compare([result(PLAIN), result(other)]))
    top, _, tables = page.partition('id="findings"')
    listed = re.findall(r'<a href="#(r[0-9]+)">([^<]*)</a>(.*?)</tr>', top)
    assert [name for _, name, _ in listed] == ["L2 cache: hit latency", "L1 data cache: miss penalty"]
    assert "195 cycles" in listed[0][2] and "250 cycles" in listed[0][2] and "gap 55 cycles" in listed[0][2]
    for anchor, name, _ in listed:
        before, _, after = tables.partition(f'id="{anchor}"')
        row = before.rpartition("<tr")[2] + after.partition("</tr>")[0]
        assert f">{name.partition(': ')[2]}<" in row
    assert 'href="#r' not in comparison_page(compare([result(PLAIN)] * 2)).partition('id="findings"')[0]


def test_the_page_lists_a_limited_number_of_differences():
    findings = {f"made{n}.hit_latency": 30.0 for n in range(100)}
    page = comparison_page(compare([result(findings), result(dict.fromkeys(findings, 60.0))]))
    assert page.count('href="#r') == 60 and "and 40 more" in page


def test_hostile_names_are_printed_and_written_without_harm():
    nasty = "<script>x</script>\x1b[2J"
    compared = compare([result(PLAIN), result(PLAIN | {"l1.hit_latency": 50.0}, name=nasty)])
    out = io.StringIO()
    print_comparison(console(out), compared, everything=False)
    assert "different" in out.getvalue() and "\x1b" not in out.getvalue()
    assert "l2" not in out.getvalue().split("hit_latency")[0]
    content = json.loads(to_json(compared))
    assert content["schema"] == "gpudissect-comparison/2"
    assert content["counts"]["different"] == 1
    page = comparison_page(compared)
    assert "<script>x" not in page and page.count('class="verdict different"') == 1


def analysed_by(findings, code):
    return result(findings).model_copy(update={"code": code, "environment": {"gpudissect": "0.1.0"}})


def test_different_analysis_versions_are_noted_where_values_differ():
    other = PLAIN | {"l1.hit_latency": 50.0}
    compared = compare([analysed_by(PLAIN, "abc"), analysed_by(other, "")], ["a.json", "b.json"])
    versions = "a.json: 0.1.0, build abc; b.json: 0.1.0, build unknown"
    for text in (compared.version_note, str(compared), to_json(compared), compared._repr_html_()):
        assert versions in text
    assert [each for each in concerns([analysed_by(PLAIN, "abc"), analysed_by(other, "d")]) if "build abc" in each.what]
    assert compare([analysed_by(PLAIN, "abc"), analysed_by(PLAIN, "d")]).version_note == ""  # nothing differs
    assert compare([analysed_by(PLAIN, "abc"), analysed_by(other, "abc")]).version_note == ""

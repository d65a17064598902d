"""The summary of a result."""

from pathlib import Path

import pytest

from gpudissect.estimate import Status
from gpudissect.results.files import load
from gpudissect.results.folded import rounded_range
from gpudissect.results.model import Series
from gpudissect.results.summary import BANDWIDTH_SERIES, RATE_SERIES, summarize
from gpudissect.results.verdict import Verdict
from tests.support.results import result

RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.fixture(scope="module")
def h200():
    return load(RESULTS / "h200.json")


@pytest.fixture(scope="module")
def summary(h200):
    return summarize(h200)


def test_every_level_has_one_row_and_views_of_the_l1_have_none(summary):
    names = [level.element for level in summary.levels]
    assert names == ["l1", "shared", "constant_l1", "constant_l15", "icache_l0", "icache_l1", "l2", "dram", "host"]


def test_values_are_those_of_the_findings(h200, summary):
    l1, l2 = summary.levels[0], next(level for level in summary.levels if level.element == "l2")
    assert (l1.size, l1.ways) == (h200.finding("l1", "capacity"), h200.finding("l1", "ways"))
    assert (l2.latency, l2.far_latency) == (h200.finding("l2", "near_latency"), h200.finding("l2", "far_latency"))
    assert [tlb.element for tlb in summary.tlbs] == ["tlb_l1", "tlb_l2"]


def test_bandwidths_at_two_footprints_are_given_where_they_differ(h200):
    def ends(*rates):
        columns = {"footprint": (24.0, 48.0), "bandwidth": rates}
        series = Series(element="l2", name=BANDWIDTH_SERIES, columns=columns)
        levels = summarize(h200.model_copy(update={"series": (series,)})).levels
        return next(level for level in levels if level.element == "l2").bandwidth_ends

    assert ends(9.2, 6.0) == ((24.0, 9.2), (48.0, 6.0))
    assert ends(9.2, 9.19) == ()


@pytest.mark.parametrize(
    ("columns", "units"),
    [
        ({"footprint": ("a", None), "bandwidth": ("x", 1.0)}, {}),
        ({"footprint": (1, 2)}, {}),
        ({}, {}),
        ({"footprint": (1, 2), "bandwidth": (9.0, 1.0)}, {"bandwidth": "cycles"}),
    ],
)
def test_a_series_of_that_name_with_other_columns_gives_no_bandwidths(h200, columns, units):
    series = Series(element="l2", name=BANDWIDTH_SERIES, columns=columns, units=units)
    levels = summarize(h200.model_copy(update={"series": (series,)})).levels
    assert next(level for level in levels if level.element == "l2").bandwidths == ()


def test_too_few_warps_are_distinguished_from_a_number():
    too_few = {"status": Status.NOT_FOUND, "low": 64}
    made = result({"ffma.warps_needed": {"value": 16, "low": 15, "high": 16}, "ldg_streaming.warps_needed": too_few})
    assert {each.instruction: each.text for each in summarize(made).warps} == {"ffma": "16", "ldg_streaming": "> 64"}


@pytest.mark.parametrize(
    ("rates", "text"),
    [
        ((1.0, 3.0, 3.7), "> 64 (64 with 2 chains)"),
        ((1.0, 3.5, 3.6), "> 64 (64 with 2 chains)"),
        ((1.0, 3.0, 3.5), "> 64"),
        ((4.0, 3.0, 3.5), "> 64"),  # one chain
        ((1.0, None, "x"), "> 64"),
    ],
)
def test_where_one_chain_is_too_few_more_are_named(rates, text):
    too_few = {"status": Status.NOT_FOUND, "low": 64}
    columns = {"warps": (64, 32, 64), "chains": (1, 2, 2), "rate": rates}
    made = result({"ldg_streaming.warps_needed": too_few, "ldg_streaming.rate": 4.0})
    made = made.model_copy(update={"series": (Series(element="ldg_streaming", name=RATE_SERIES, columns=columns),)})
    assert [each.text for each in summarize(made).warps] == [text]


@pytest.mark.parametrize(
    ("warps", "text"),
    [
        (
            {"ffma": 16, "ldg": 31, "ldg_streaming": 40},
            "for 95% of peak with one dependent chain per warp: FFMA 16, L1 loads 31; for 90%: streaming loads 40",
        ),
        ({"ldg_streaming": 40}, "for 90% of peak with one dependent chain per warp: streaming loads 40"),
        ({}, ""),
    ],
)
def test_warps_needed_are_named_with_their_share_of_the_peak(warps, text):
    made = result({f"{name}.warps_needed": count for name, count in warps.items()})
    assert summarize(made).warps_needed == text


def test_the_latency_of_the_l2_is_named_for_every_sm_where_it_was_measured(h200, summary):
    latencies = h200.finding("l2", "latency_by_sm").value
    assert summary.latency_by_sm == rounded_range(min(latencies), max(latencies), "cycles")
    assert summarize(h200.model_copy(update={"findings": ()})).latency_by_sm == ""
    assert summarize(result({"l2.latency_by_sm": (229.8, 230.2)})).latency_by_sm == ""


@pytest.mark.parametrize(
    ("by_sm", "text"),
    [((0, 0, 1, 1, 1), "2 TLBs, 2 or 3 SMs each"), ((0, 1, 2), "3 TLBs, 1 SM each"), ((0, 0, 0), ""), (None, "")],
)
def test_tlbs_that_some_sms_share_are_counted(by_sm, text):
    found = {"tlb_l2.entries": 2048} | ({} if by_sm is None else {"tlb_l2.tlb_by_sm": by_sm})
    (tlb,) = summarize(result(found)).tlbs
    assert tlb.sharing == text


def test_remarks_name_what_differs_first_and_each_uncertain_element_once(h200, summary):
    different = [remark for remark in summary.remarks if remark.is_difference]
    assert list(summary.remarks[: len(different)]) == different
    published = [each for each in h200.findings if each.published and each.published.verdict is Verdict.DIFFERS]
    names = [(each.element, each.attributes) for each in different]
    assert published and all((each.element, (each.attribute,)) in names for each in published)
    uncertain = [
        each for each in summary.remarks if not each.is_difference and each.value in ("ambiguous", "not found")
    ]
    assert len({each.element for each in uncertain}) == len(uncertain)
    assert all(remark.reason for remark in summary.remarks)


def test_the_reference_is_named_where_it_is_another_model(h200, summary):
    assert summary.reference == h200.device.catalogue == "h100"
    own = h200.model_copy(update={"device": h200.device.model_copy(update={"catalogue": "h200"})})
    assert summarize(own).reference == ""


def test_a_result_without_findings_has_an_empty_summary(h200):
    empty = summarize(h200.model_copy(update={"findings": (), "series": ()}))
    assert (empty.levels, empty.tlbs, empty.warps, empty.remarks, empty.skipped) == ((), (), (), (), 0)

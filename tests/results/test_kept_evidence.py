"""What a result keeps of its traces: every finding leads to a plot of what it was read from, of a file too."""

import numpy as np
import pytest

from gpudissect.device.base import Keeper
from gpudissect.device.find import open_device
from gpudissect.results.build import build
from gpudissect.results.evidence.attach import with_evidence
from gpudissect.results.model import Options, Result
from gpudissect.survey.run import run_survey
from gpudissect.trace import Context, Trace
from gpudissect.views.page.result import result_page
from gpudissect.workload import Chase, Explicit, Path, Shuffled, Timing
from tests.results.test_evidence_shapes import l2, tlb
from tests.support.page_links import plots_by_finding, without_evidence
from tests.support.results import result

ELEMENTS = ("timer", "l1", "shared", "fadd", "launch")


@pytest.fixture(scope="module")
def kept():
    with open_device("sim:gtx980") as device:
        keeper = Keeper(device)
        yield build(device.info, run_survey(keeper, elements=ELEMENTS), Options()), keeper


@pytest.fixture(scope="module")
def file_of(kept):
    """The result as a reader of its file has it."""
    return Result.model_validate_json(with_evidence(*kept).to_json())


def shown(made, element, attribute):
    """The plots that one finding leads to."""
    told = plots_by_finding(result_page(made))
    return next(titles for finding, (_, titles, _) in zip(made.findings, told, strict=True)
                if (finding.element, finding.attribute) == (element, attribute))  # fmt: skip


def test_every_finding_of_a_file_leads_to_a_plot(kept, file_of):
    assert without_evidence(file_of, result_page(file_of)) == []
    assert without_evidence(kept[0], result_page(*kept)) == []
    assert without_evidence(kept[0], result_page(kept[0])) != []  # what was kept is what they lead to


def test_it_is_the_plot_that_shows_the_value(file_of):
    wanted = {
        "hit_latency": "latency of a load by lap", "line_size": "hits against distance of a second access",
        "fetch_granularity": "latency of a second access against distance", "capacity": "misses against footprint",
    }  # fmt: skip
    for attribute, name in wanted.items():
        assert shown(file_of, "l1", attribute)[0].endswith(name), attribute
    assert shown(file_of, "shared", "hit_latency")[0].endswith("latency of a load by lap")


def test_those_plots_have_the_value_in_them(file_of):
    laps = file_of.observed("l1", "latency of a load by lap").columns["latency"]
    found = file_of.finding("l1", "hit_latency")
    assert np.quantile(laps, 0.25) == pytest.approx(found.value, abs=0.01)
    words = file_of.observed("l1", "latency of a second access against distance").columns
    slow = (min(words["latency"]) + max(words["latency"])) / 2
    there = [d for d, cycles in zip(words["distance"], words["latency"], strict=True) if cycles < slow]
    assert max(there) * 2 == file_of.finding("l1", "fetch_granularity").value
    pairs = file_of.observed("l1", "hits against distance of a second access").columns
    nearer = [d for d, seen, one, two in zip(*pairs.values(), strict=True) if abs(seen - one) < abs(seen - two)]
    assert 2 * max(nearer, default=0) in (0, file_of.finding("l1", "line_size").value)


def test_what_is_kept_is_little(kept, file_of):
    grown = len(file_of.to_json()) - len(kept[0].to_json())
    assert 0 < grown < 1500 * len(file_of.findings)
    assert with_evidence(file_of, kept[1]) == with_evidence(*kept)  # and is kept once


def test_a_page_of_a_file_has_the_stairs_and_the_map_too():
    by_sm = tuple(map(float, range(8)))
    for traces, name, value, title in ((tlb(), "tlb_l1.entries", 16, "latency against pages"),
                                       (l2(), "l2.latency_by_sm", by_sm, "by sm and line")):  # fmt: skip
        made = result({name: {"value": value, "evidence": tuple(traces)}})
        assert title not in result_page(made)
        (told,) = plots_by_finding(result_page(with_evidence(made, traces)))
        assert any(title in each for each in told[1])


def test_the_map_of_132_sms_is_small_and_has_every_sm():
    traces = l2(sms=132, lines=64)
    made = with_evidence(result({"l2.partition_by_sm": {"value": (0, 1), "evidence": tuple(traces)}}), traces)
    seen = made.observed("l2", "hit latency by sm and line")
    assert len(set(seen.columns["sm"])) == 132 and len(seen.columns["sm"]) <= 1056
    assert seen.evidence == () and seen.shows == ("partition_by_sm",)


def test_laps_of_a_ring_are_drawn_less_what_a_lap_costs():
    traces = {}
    for links in (32, 64):
        chase = Chase(path=Path.SHARED, order=Shuffled(links, 4, 0), timing=Timing.LAP, laps=9)
        cycles = 23 * links + 40 + np.arange(9)
        traces[f"{links}"] = chase, Trace(f"{links}", {"cycles": cycles}, Context("x"))
    made = with_evidence(result({"shared.hit_latency": {"value": 23.0, "evidence": ("64", "32")}}), traces)
    taken = made.observed("shared", "latency of a load by lap").columns["latency"]
    assert len(taken) == 9 and taken[2] == 23.0  # the lower quartile of both


def test_no_second_words_without_pairs():
    order = Explicit(np.arange(16) * 8192)
    chase = Chase(path=Path.GLOBAL, order=order, timing=Timing.EACH, flush=True)
    arrays = {"offsets": order.offsets(), "cycles": np.full(16, 500)}
    traces = {"far": (chase, Trace("far", arrays, Context("x")))}
    made = with_evidence(result({"l1.fetch_granularity": {"value": 32, "evidence": ("far",)}}), traces)
    assert [each.name for each in made.series] == ["histogram of access latencies"]


def test_long_lists_of_numbers_stand_several_a_line():
    traces = l2()
    text = with_evidence(result({"l2.partition_by_sm": {"value": (0, 1), "evidence": tuple(traces)}}), traces).to_json()
    assert max(map(len, text.splitlines())) < 200
    assert '"latency": [\n          2' in text and text.count("\n") < 300


def test_where_there_is_nothing_to_draw_the_page_says_so():
    (told,) = plots_by_finding(result_page(result({"l1.ways": {"value": 4, "evidence": ("gone",)}})))
    assert told[1] == [] and "No plot" in told[2]
    (told,) = plots_by_finding(result_page(result({"l1.ways": 4})))
    assert told[1] == [] and "No workload of its own" in told[2]

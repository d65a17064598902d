"""The history of a card: changes against earlier runs, drifts, facts, and how a card is named."""

from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.errors import UsageError
from gpudissect.fleet.history import MAX_SHOWN_RUNS, PLACE, find_cards, histories
from gpudissect.fleet.readings import run_of
from gpudissect.fleet.report import report
from gpudissect.fleet.sentences import remarks_on, time_text
from gpudissect.results.files import load
from tests.support.fleet import DRAM, over_time, readings

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


def history_of(runs):
    found = report(runs)
    (only,) = histories(found, runs, found.cards)
    return only


def test_each_run_is_compared_with_the_median_of_the_earlier_ones():
    found = history_of(over_time(readings([4.0, 5.0, 4.5, 4.5], error=0.1)))
    values = [run.values[0] for run in found.runs]
    assert values[0].relative is None and values[0].low == pytest.approx(3.9) and values[0].high == pytest.approx(4.1)
    assert [value.relative for value in values[1:]] == pytest.approx([0.25, 0.0, 0.0])


def test_a_drift_is_marked_in_its_run_only():
    found = history_of(over_time(readings([4.6, 4.61, 4.59, 3.2, 4.6])))
    assert [run.values[0].is_drift for run in found.runs] == [False, False, False, True, False]
    assert [len(run.drifts) for run in found.runs] == [0, 0, 0, 1, 0]
    assert "30% slow" in remarks_on(found.runs[3])[0] and not remarks_on(found.runs[4])


def test_the_last_run_of_a_history_drifts_as_in_the_report():
    runs = over_time(readings([4.6, 4.61, 4.59, 3.2]))
    assert history_of(runs).runs[-1].drifts == report(runs).cards[0].drifts != ()


def test_a_run_is_compared_with_the_last_100_before_it():
    """150 runs at 4.6, then 120 at 3.2: drifts for as long as most of the 100 earlier runs were at 4.6."""
    runs = over_time(readings([4.6] * 150 + [3.2] * 120))
    runs = [
        replace(run, time=f"{2026 + n // 300}-{1 + n // 25 % 12:02d}-{1 + n % 25:02d}") for n, run in enumerate(runs)
    ]
    drifting = [count for count in (150, 151, 190, 211, 270) if history_of(runs[:count]).runs[-1].drifts]
    assert drifting == [151, 190] and not report(runs).out and len(history_of(runs).runs) == MAX_SHOWN_RUNS
    after, last = (history_of(runs[:count]).runs[-1].values[0] for count in (151, 270))
    assert after.relative == pytest.approx(3.2 / 4.6 - 1) and not last.relative


def test_facts_that_appear_change_or_vanish():
    facts = [{"driver": "580"}, {"driver": "590", "throttling while measuring": "power cap"}, {"driver": "590"}]
    runs = over_time([replace(run, facts=each) for run, each in zip(readings([4.6] * 3), facts, strict=True)])
    runs[2] = replace(runs[2], label="node2 cuda:0")
    texts = [remarks_on(run) for run in history_of([replace(run, group=("g",)) for run in runs]).runs]
    assert texts[0] == []
    assert texts[1][0] == "driver 590, previously 580" and "power cap, previously none" in texts[1][1]
    assert "none, previously power cap" in texts[2][0] and texts[2][1].startswith(PLACE)


def test_values_that_drift_come_first():
    latency = ("dram", "hit_latency")
    runs = over_time(readings([4.6, 4.6, 4.6, 4.6]))
    steady = readings([500, 500, 500, 900], latency, unit="cycles")
    runs = [replace(a, readings={**a.readings, **b.readings}) for a, b in zip(runs, steady, strict=True)]
    assert history_of(runs).keys == [latency, DRAM] and history_of(runs[:3]).keys == [DRAM, latency]


def test_of_a_value_in_another_unit_no_change_is_known():
    runs = over_time(readings([4.6, 4.6]))
    runs[1] = replace(runs[1], readings={DRAM: runs[1].readings[DRAM]._replace(unit="B/cycle")})
    assert [run.values[0].relative for run in history_of(runs).runs] == [None, None]


@pytest.mark.parametrize("name", ["GPU-aa", "GPU-aa11", "node1 cuda:1", "node2"])
def test_a_card_is_named_by_the_beginning_of_its_uuid_or_label(name):
    places = {"GPU-aa11": "node1 cuda:1", "GPU-bb11": "node1 cuda:10", "GPU-cc11": "node2 cuda:0"}
    named = zip(readings([4.6] * 3), places.items(), strict=True)
    found = report([replace(run, card=card, label=label) for run, (card, label) in named])
    (card,) = find_cards(found, name)
    assert card.label == ("node2 cuda:0" if name == "node2" else "node1 cuda:1")


@pytest.mark.parametrize(("name", "why"), [("GPU-", "several"), ("", "several"), ("node9", "no card"), ("\x1b", "no")])
def test_a_name_of_no_card_or_several(name, why):
    with pytest.raises(UsageError, match=why) as raised:
        find_cards(report(readings([4.6] * 9)), name)
    assert "and 5 more" in str(raised.value) and str(raised.value).isprintable()


def test_a_card_measured_in_two_ways_has_two_histories():
    runs = over_time(readings([4.6] * 4))
    runs[2:] = [replace(run, group=("model", "quick")) for run in runs[2:]]
    assert [card.group for card in find_cards(report(runs), "GPU-1")] == [0, 1]


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("2026-11-27T23:18:01+00:00", "2026-11-27 23:18"),
        ("2026-11-27T23:18:01+02:00", "2026-11-27 21:18"),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
        ("soon", "soon"),
        ("", "time unknown"),
    ],
)
def test_a_time_is_shown_in_utc(time, text):
    assert time_text(time) == text


@pytest.mark.parametrize("numbers", [(1e-310, None, None), (1e31, None, None), (1.0, -1e308, 1e308), (1.0, 2.0, 0.5)])
def test_numbers_that_no_gpu_has_are_no_readings(numbers):
    result = load(H200)
    (plain,) = (each for each in result.findings if (each.element, each.attribute) == DRAM)
    extreme = plain.model_copy(update=dict(zip(("value", "low", "high"), numbers, strict=True)))
    found = [run_of(result.model_copy(update={"findings": (each,)}), "a.json").readings for each in (plain, extreme)]
    assert list(found[0]) == [DRAM] and not found[1]


def test_runs_are_in_the_order_of_their_times_and_those_without_one_come_first():
    times = ["2026-01-02T01:00:00+02:00", "2026-01-01T23:30:00+00:00", "soon", ""]
    runs = [replace(run, time=time) for run, time in zip(over_time(readings([1.0, 2.0, 3.0, 4.0])), times, strict=True)]
    assert [run.values[0].value for run in history_of(runs).runs] == [3.0, 4.0, 1.0, 2.0]

"""Whether a result can be relied on, why not, and what to do."""

from pathlib import Path

import pytest

from gpudissect.estimate import Status
from gpudissect.results.check import Weight, concerns, is_stable
from gpudissect.results.files import load
from gpudissect.results.model import Conditions, Failure, Options
from gpudissect.results.prediction import ElementPrediction, Prediction
from tests.support.made_up import PLAIN, result

ROOT = Path(__file__).parents[2]


def with_(findings=PLAIN, **more):
    return result(findings).model_copy(update={"conditions": Conditions(clock_seen=True)} | more)


def foretold(agreement):
    element = ElementPrediction(element="l1", agreement=agreement, low=0, high=1, accesses=9, hits_wrong=0,
                                misses_wrong=0, possible=1.0)  # fmt: skip
    return Prediction(agreement=agreement, low=0, high=1, accesses=9, elements=(element,))


def test_a_plain_result_is_stable():
    assert concerns([with_()]) == []


def test_a_bracket_that_is_wide_by_its_nature_is_no_concern():
    assert concerns([with_({"hiding.contention_rise": {"value": 40.0, "low": 20.0, "high": 60.0}})]) == []


@pytest.mark.parametrize(
    ("made", "what", "advice"),
    [
        (with_(interrupted=True), "interrupted", "to the end"),
        (with_(failures=(Failure(experiment="sets.l1", reason="no"),)), "sets.l1 failed: no", "--record"),
        (with_(conditions=Conditions(clock_seen=True, notes={"throttling": ("power",)})), "throttled: power", "-lgc"),
        (with_(conditions=Conditions(clock_seen=True, notes={"other_processes": ("2",)})), "others", "free"),
        (with_(conditions=Conditions(clock_seen=True, clock_hz=1e9, clock_low=8e8, clock_high=1e9)), "20.0%", "lock"),
        (with_({}), "no finding", "without --only"),
        (with_({"l1.capacity": {"value": 9, "confidence": 0.3}}), "less than 50 %", "again"),
        (with_(PLAIN | {"l2.hit_latency": 20.0}), "not a hierarchy", "traces"),
        (with_(prediction=foretold(0.8)), "foretells 80.0%", "policy"),
    ],
)
def test_what_makes_it_unstable(made, what, advice):
    found = concerns([made])
    assert not is_stable(found)
    assert found[0].weight is Weight.UNSTABLE
    assert what in found[0].what and advice in found[0].advice


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (with_(options=Options(quick=True)), "quick"),
        (with_(conditions=Conditions()), "clock could not be read"),
        (with_(conditions=Conditions(clock_seen=True, clock_hz=1e9)), "how far the SM clock went is not told"),
        (with_({"l1.sets": {"value": None, "status": Status.AMBIGUOUS, "reason": "two"}}), "ambiguous: two"),
        (with_({"l1.hit_latency": {"value": 30.0, "low": 20.0, "high": 40.0}}), "wider"),
        (with_({"l1.capacity": 1024, "l1.sets": 4, "l1.ways": 4, "l1.line_size": 128}), "is not 1 KiB"),
    ],
)
def test_what_a_reader_should_know(made, what):
    found = concerns([made])
    assert is_stable(found)
    assert any(what in each.what for each in found)


def test_runs_that_differ_are_not_stable():
    found = concerns([with_(), with_(PLAIN | {"l1.hit_latency": 50.0})])
    assert not is_stable(found)
    assert found[0].about == ("l1.hit_latency",)


def test_results_of_discover_and_of_hide_are_each_checked_alone():
    hidden = with_({"hiding.warps_needed": 20}, options=Options(quick=True))
    found = concerns([with_(interrupted=True), hidden])
    assert {each.what: (each.of, each.advice) for each in found} == {
        "interrupted: it holds what was measured until then": ((0,), "run discover to the end"),
        "a quick run: much was left out": ((1,), "run hide without --quick"),
        "these are results of discover and of hide, which have nothing to be held against one another: each is checked "
        "by itself": ((0, 1), "to see what changes from run to run, name several runs of one"),
    }


def test_runs_of_one_kind_are_held_together_among_others():
    one, other = with_(PLAIN), with_(PLAIN | {"l1.hit_latency": 50.0})
    found = concerns([one, with_({"hiding.warps_needed": 20}), other])
    assert [each.of for each in found if "differ from run to run" in each.what] == [(0, 2)]
    found = concerns([one, with_(PLAIN, device=one.device.model_copy(update={"name": "Other"})), other])
    assert [each.of for each in found if "differ from run to run" in each.what] == [(0, 2)]


def test_runs_with_nothing_in_common_are_each_checked_alone():
    found = concerns([with_({"l1.capacity": 1024}), with_({"l2.capacity": 1024})])
    assert is_stable(found) and ["no value in common" in each.what for each in found] == [True]


def test_what_holds_of_several_names_them_all():
    quick = with_(options=Options(quick=True))
    assert [each.of for each in concerns([quick, with_(), quick])] == [(0, 2)]
    slow, fast = (
        with_(conditions=Conditions(clock_seen=True, clock_hz=hz, clock_low=hz, clock_high=hz)) for hz in (1e9, 1.5e9)
    )
    assert "(s.json: 1000 MHz, f.json: 1500 MHz)" in concerns([slow, fast], ["s.json", "f.json"])[0].what


def test_the_h200s_result_is_stable():
    assert is_stable(concerns([load(ROOT / "docs" / "results" / "h200.json")]))

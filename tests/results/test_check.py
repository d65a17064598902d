"""Concerns about results: what makes one unreliable, and what to do."""

from pathlib import Path

import pytest

from gpudissect.estimate import Status
from gpudissect.results.check import Weight, concerns, is_stable
from gpudissect.results.files import load
from gpudissect.results.model import Conditions, ElementPrediction, Failure, Options, Prediction, Provenance
from tests.support.results import PLAIN, result

ROOT = Path(__file__).parents[2]
HIDING = {"hiding.warps_for_90": 20}


def make(findings=PLAIN, conditions=None, **fields):
    conditions = Conditions(clock_observed=True, **conditions or {})
    return result(findings).model_copy(update={"conditions": conditions} | fields)


def prediction(agreement):
    shared = {"agreement": agreement, "low": 0, "high": 1, "accesses": 9}
    element = ElementPrediction(**shared, element="l1", hits_wrong=0, misses_wrong=0, possible=1.0)
    return Prediction(**shared, elements=(element,))


def test_a_plain_result_raises_no_concern():
    assert concerns([make()]) == []
    fit = {"hiding.contention_rise": {"value": 40.0, "low": 20.0, "high": 60.0}}  # its bracket is always wide
    assert concerns([make(fit)]) == []


@pytest.mark.parametrize(
    ("checked", "what", "advice"),
    [
        (make(interrupted=True), "interrupted", "run discover to the end"),
        (make(failures=(Failure(experiment="sets.l1", reason="no"),)), "sets.l1 failed: no", "--record"),
        (make(conditions={"notes": {"throttling": ("power",)}}), "throttled: power", "-lgc"),
        (make(conditions={"notes": {"other_processes": ("2",)}}), "other processes", "free"),
        (make(conditions={"clock_hz": 1e9, "clock_low": 8e8, "clock_high": 1e9}), "20.0%", "lock"),
        (make({}), "no finding", "without --only"),
        (make({"l1.capacity": {"value": 9, "confidence": 0.3}}), "below 50 %", "again"),
        (make(PLAIN | {"l2.hit_latency": 20.0}), "not a hierarchy", "traces"),
        (make({"l1.capacity": 1024, "l1.sets": 4, "l1.ways": 4, "l1.line_size": 128}), "is not 1 KiB", "purpose"),
        (make(prediction=prediction(0.8)), "80.0%", "policy"),
    ],
)
def test_concerns_that_make_a_result_unstable(checked, what, advice):
    found = concerns([checked])
    assert not is_stable(found)
    assert found[0].weight is Weight.UNSTABLE
    assert what in found[0].what and advice in found[0].advice


@pytest.mark.parametrize(
    ("checked", "what"),
    [
        (make(options=Options(quick=True)), "quick"),
        (result(PLAIN), "clock could not be read"),
        (make(conditions={"clock_hz": 1e9}), "clock range not recorded"),
        (make({"l1.sets": {"value": None, "status": Status.AMBIGUOUS, "reason": "two"}}), "ambiguous"),
        (make({"l1.hit_latency": {"value": 30.0, "low": 20.0, "high": 40.0}}), "wider"),
    ],
)
def test_concerns_that_are_only_notes(checked, what):
    found = concerns([checked])
    assert is_stable(found)
    assert any(what in each.what for each in found)


def test_a_clock_above_the_stated_one_is_noted():
    def noted(clock_hz):
        made = make(conditions={"clock_hz": clock_hz, "clock_low": clock_hz, "clock_high": clock_hz})
        device = made.device.model_copy(update={"facts": made.device.facts | {"clock_hz": 1.98e9}})
        return [each.what for each in concerns([made.model_copy(update={"device": device})])]

    assert noted(1.9801e9) == [] == noted(1.2e9)
    assert ["1980" in what and "1995" in what for what in noted(1.995e9)] == [True]


def test_runs_that_differ_are_not_stable():
    found = concerns([make(), make(PLAIN | {"l1.hit_latency": 50.0})])
    assert not is_stable(found)
    assert found[0].about == ("l1.hit_latency",)


def test_results_of_discover_and_hide_are_checked_separately():
    hiding = make(HIDING, options=Options(quick=True))
    interrupted, quick, kinds = concerns([make(interrupted=True), hiding])
    assert (interrupted.of, quick.of, kinds.of) == ((0,), (1,), (0, 1))
    assert quick.advice == "run hide without --quick" and "discover and of hide" in kinds.what


def test_runs_of_one_command_and_gpu_are_compared():
    one, other = make(PLAIN), make(PLAIN | {"l1.hit_latency": 50.0})
    renamed = make(PLAIN, device=one.device.model_copy(update={"name": "Other"}))
    for third in (make(HIDING), renamed):
        found = concerns([one, third, other])
        assert [each.of for each in found if "differs from run to run" in each.what] == [(0, 2)]


def test_cards_are_told_apart_by_their_uuid():
    def of_card(uuid, latency=30.0):
        return make(PLAIN | {"l1.hit_latency": latency}, provenance=Provenance(gpu_uuid=uuid))

    one, same, other = of_card("GPU-1"), of_card("GPU-1", 50.0), of_card("GPU-2", 50.0)
    found = concerns([one, other])
    assert is_stable(found) and "2 cards" in found[0].what
    assert concerns([one, same])[0].about == ("l1.hit_latency",)
    assert not any("UUID" in each.what for each in concerns([one, same]))
    unknown = concerns([make(), make(PLAIN | {"l1.hit_latency": 50.0})])
    assert [each.of for each in unknown if "UUID" in each.what] == [(0, 1)]


def test_the_spread_over_cards_of_one_model_is_given():
    def of_card(number, latency):
        findings = PLAIN | {"l1.hit_latency": {"value": latency, "low": latency, "high": latency}}
        return make(findings, provenance=Provenance(gpu_uuid=f"GPU-{number}"))

    cards = [of_card(n, latency) for n, latency in enumerate((30.0, 33.0, 31.0))]
    (spread,) = [each for each in concerns(cards) if "spread" in each.what]
    assert spread.what.endswith(": l1.hit_latency 30-33 cycles") and "3 cards" in spread.what
    assert not [each for each in concerns(cards[:1] * 2) if "spread" in each.what]


def test_a_bracket_that_is_wide_by_nature_is_no_concern():
    for name in ("launch.block_replacement", "atomg.latency", "hiding.contention_rise"):
        assert concerns([make({name: {"value": 600.0, "low": 500.0, "high": 770.0}})]) == []


def test_a_card_without_uuid_is_not_called_another_one():
    known = make(provenance=Provenance(gpu_uuid="GPU-1"))
    (note,) = concerns([known, make()])
    assert "2 cards" not in note.what and "UUID" in note.what


def test_a_copy_of_a_result_is_no_second_run():
    copied, other = (make(provenance=Provenance(time=f"2026-11-2{n}", gpu_uuid="GPU-1")) for n in (1, 2))
    (note,) = concerns([copied, other, copied], ["a.json", "b.json", "c.json"])
    assert "cop" in note.what and note.what.endswith(" c.json")
    assert concerns([copied, other]) == []


def test_runs_without_a_common_value_are_checked_separately():
    found = concerns([make({"l1.capacity": 1024}), make({"l2.capacity": 1024})])
    assert is_stable(found) and ["without a common value" in each.what for each in found] == [True]


def test_a_concern_about_several_results_names_them_all():
    quick = make(options=Options(quick=True))
    assert [each.of for each in concerns([quick, make(), quick])] == [(0, 2)]
    clocks = ({"clock_hz": hz, "clock_low": hz, "clock_high": hz} for hz in (1e9, 1.5e9))
    found = concerns([make(conditions=each) for each in clocks], ["s.json", "f.json"])
    assert "(s.json: 1000 MHz, f.json: 1500 MHz)" in found[0].what


def test_the_h200_result_is_stable():
    assert is_stable(concerns([load(ROOT / "docs" / "results" / "h200.json")]))

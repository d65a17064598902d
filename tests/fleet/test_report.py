"""Reports on fleets with planted faults: what is found, what is reported, and what is not compared."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpudissect.fleet.readings import PartOfResult, run_of
from gpudissect.fleet.report import HARDWARE, report
from gpudissect.fleet.sentences import is_worth_a_sentence, sentence, summary
from gpudissect.fleet.store import RUN, read_folder
from gpudissect.results.files import load, load_part
from tests.support.fleet import DRAM, fleet, readings

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


@pytest.fixture(scope="module")
def model():
    return run_of(load(H200), str(H200))


def labels(found):
    return {card.label for card in found.out}


def test_every_slow_memory_among_500_cards_is_found(model):
    """20 cards slower by 5 or 10 %."""
    faults = {number: {DRAM: -0.05 if number % 50 else -0.1} for number in range(0, 500, 25)}
    assert labels(report(fleet(model, 500, 9, faults))) == {f"node{n // 8} cuda:{n % 8}" for n in faults}


def test_of_2000_healthy_cards_at_most_one_is_out(model):
    assert sum(len(report(fleet(model, 500, seed)).out) for seed in range(4)) <= 1


def test_of_1000_healthy_cards_with_two_runs_none_is_out(model):
    for seed in range(2):
        runs = [
            replace(run, time=f"2026-01-0{day}", file=f"{day}/{run.file}")
            for day in (1, 2)
            for run in fleet(model, 500, 10 * seed + day, spread=0.005)
        ]
        found = report(runs)
        assert len(found.cards) == 500 and all(len(card.files) == 2 for card in found.cards) and not found.out


def test_a_sentence_names_card_value_siblings_and_settings(model):
    (card,) = report(fleet(model, 64, 3, {9: {DRAM: -0.09}})).out
    text = sentence(card)
    assert text.startswith("node1 cuda:1 (GPU-00000009): Device memory, read bandwidth 4.2") and "9% slow" in text
    assert "siblings 4.6" in text and "clocks and settings as most siblings" in text


def test_a_higher_latency_is_slow(model):
    (card,) = report(fleet(model, 64, 3, {9: {("l2", "near_latency"): 0.2}})).out
    assert "20% slow" in sentence(card)


def test_a_missing_sm_is_named_and_a_lower_clock_explains(model):
    cards = fleet(model, 10, 1, {4: {DRAM: -0.3}})
    cards[3] = replace(cards[3], facts=cards[3].facts | {"SMs": "131"})
    cards[4] = replace(cards[4], facts=cards[4].facts | {"memory clock": "requested 2619 MHz"})
    found = {card.label: sentence(card) for card in report(cards).out}
    assert "SMs 131, siblings 132" in found["node0 cuda:3"]
    assert "memory clock requested 2619 MHz, of most siblings requested 3201 MHz" in found["node0 cuda:4"]
    assert "clocks and settings as" not in found["node0 cuda:4"]


@pytest.mark.parametrize("name", HARDWARE)
def test_different_hardware_is_out(model, name):
    cards = [replace(each, facts=each.facts | {"PCIe lanes": "16", "NVLinks": "18"}) for each in fleet(model, 5, 1)]
    assert name in cards[2].facts
    cards[2] = replace(cards[2], facts=cards[2].facts | {name: "1"})
    assert labels(report(cards)) == {"node0 cuda:2"}


@pytest.mark.parametrize(("stated", "links"), [([1, 2, 3, 4], "18"), ([0], "18"), ([0], "17")])
def test_an_older_result_that_does_not_state_the_links_is_not_out(model, stated, links):
    cards = fleet(model, 5, 1)
    for number in stated:
        cards[number] = replace(cards[number], facts=cards[number].facts | {"NVLinks": links})
    assert not report(cards).out


def test_models_and_settings_are_not_mixed():
    """Ten cards at 4.6 and one each, of another model or with other settings, at 2.3."""
    cards = readings([4.6] * 10 + [2.3, 2.3])
    cards[10:] = [replace(cards[10], group=("other",)), replace(cards[11], group=("model", "quick"))]
    found = report(cards)
    assert not found.out and [group.cards for group in found.groups] == [10, 1, 1]
    assert sum("no sibling" in line for line in summary(found)) == 2


def test_two_cards_that_differ_do_not_show_which_is_out():
    found = report(readings([4.6, 2.3]))
    assert len(found.out) == 2 and "do not show which" in summary(found)[0]


def test_drift_of_one_card_over_its_runs():
    """The last run is compared with the earlier ones of the same card; files without a time come first."""
    runs = [replace(run, card="GPU-1", time=f"2026-01-0{n}") for n, run in enumerate(readings([4.6, 4.61, 4.59, 3.4]))]
    (card,) = report(runs).out
    assert not card.deviations and card.drifts[0].value == 3.4 and card.files[-1] == "3.json"
    assert "read bandwidth 3.4 B/s, earlier runs 4.59-4.61 B/s: 26% slow" in sentence(card)
    assert "siblings" not in sentence(card)
    assert not report(runs[:3]).out


def test_drift_names_what_changed_since_the_run_before():
    runs = [replace(run, card="GPU-1", time=str(n)) for n, run in enumerate(readings([4.6, 4.61, 4.59, 3.4]))]
    facts = {"driver": "580", "memory clock": "3201 MHz"}
    runs = [replace(run, facts=facts | ({"driver": "590"} if run is runs[-1] else {})) for run in runs]
    (card,) = report(runs).out
    assert sentence(card).endswith("driver 590, previously 580")


def test_copies_of_a_file_are_one_run():
    """Ten copies of the first run would leave no doubt about the second."""
    first, second = readings([4.6, 4.2])
    runs = [replace(first, card="GPU-1", file=f"copy{n}.json") for n in range(10)]
    found = report([*runs, replace(second, card="GPU-1", time="2026-01-01")])
    assert not found.out and found.cards[0].files == ("copy0.json", "1.json")


def test_a_later_run_of_other_values_hides_no_fault(model):
    cards = fleet(model, 40, 2, {5: {DRAM: -0.1}})
    key = ("timer", "read_latency")
    partial = replace(cards[5], time="2027", file="later.json", readings={key: cards[5].readings[DRAM]})
    (card,) = report([*cards, partial]).out
    assert card.label == "node0 cuda:5" and card.deviations[0].relative == pytest.approx(-0.1, abs=0.02)


def test_readings_in_other_units_are_not_compared():
    cards = readings([4.6] * 6)
    cards[3] = replace(cards[3], readings={DRAM: cards[3].readings[DRAM]._replace(value=9.0, unit="B/cycle")})
    assert not report(cards).out


def test_latencies_spread_more_than_bandwidths():
    """2 % from card to card, as over three H200s."""
    values = 700 * (1 + 0.02 * np.random.default_rng(1).standard_normal((200, 3)))
    out = [report(readings(row, ("dram", "hit_latency"), unit="cycles")).out for row in values]
    assert not any(out)


@pytest.mark.parametrize(
    ("name", "values", "different"),
    [
        ("SM clock", ["1980 MHz", "1979 MHz", "1981 MHz", "1980 MHz"], 0),
        ("SM clock", ["1980 MHz", "1979 MHz", "1981 MHz", "1410 MHz"], 1),
        ("memory size", ["150121807872", "150122332160", "150121807872", "150121807872"], 0),
        ("memory size", ["150121807872", "150121807872", "150121807872", "75060903936"], 1),
        ("driver", ["580", "580", "580.1", "580"], 1),
        ("driver", ["580", "580", "590", "590"], 0),
    ],
)
def test_facts_differ_from_those_of_most(name, values, different):
    cards = [replace(run, facts={name: value}) for run, value in zip(readings([4.6] * 4), values, strict=True)]
    assert sum(bool(card.differences) for card in report(cards).cards) == different


@pytest.mark.parametrize(("count", "drivers"), [(2, ["580"] * 2), (4, ["580", "580", "590", "590"])])
def test_without_a_majority_no_settings_are_usual(count, drivers):
    cards = readings([4.6] * (count - 1) + [1.0])
    cards = [replace(run, facts={"driver": driver}) for run, driver in zip(cards, drivers, strict=True)]
    assert all("most siblings" not in sentence(card) for card in report(cards).out)


def test_a_card_with_fewer_values_is_compared_in_those_it_has(model):
    cards = fleet(model, 40, 2, {5: {DRAM: -0.1}})
    cards[5] = replace(cards[5], readings={DRAM: cards[5].readings[DRAM]})
    assert labels(report(cards)) == {"node0 cuda:5"}


@pytest.mark.parametrize("name", ["h200.json", "h100.json"])
def test_a_file_is_read_in_part_as_it_is_read_whole(tmp_path, name):
    file = tmp_path / name
    file.symlink_to(H200.with_name(name))
    assert load_part(file, PartOfResult) is not None
    (run,), _ = read_folder(tmp_path)
    assert run == run_of(load(file), str(file)) and run.readings and run.facts


def test_many_files_are_read_as_few_are(tmp_path, monkeypatch):
    for number in range(20):
        (tmp_path / f"{number:02d}.json").symlink_to(H200)
    (tmp_path / "damaged.json").write_text("{", encoding="utf-8")
    few = read_folder(tmp_path)
    monkeypatch.setattr("gpudissect.fleet.store.MIN_PARALLEL_FILES", 1)
    assert read_folder(tmp_path) == few and len(few[0]) == 20 and len(few[1]) == 1


@pytest.mark.parametrize("old", ['"schema": "gpudissect/2"', '"confidence": 0.99'])
def test_what_cannot_be_read_in_part_is_read_or_refused_whole(tmp_path, old):
    text = H200.read_text(encoding="utf-8")
    assert old in text
    (tmp_path / "a.json").write_text(text.replace(old, old.rpartition(" ")[0] + " true", 1), encoding="utf-8")
    (tmp_path / "b.json").write_text(text, encoding="utf-8")
    runs, unreadable = read_folder(tmp_path)
    assert len(runs) == 1 and len(unreadable) == 1 and "a.json" in unreadable[0]


@pytest.fixture
def place(tmp_path):
    """Writes results with one UUID: measured elsewhere, at another time, or with another bandwidth."""
    content = json.loads(H200.read_text(encoding="utf-8")) | {"series": [], "seconds": 30.0}

    def write(name, host="node0", second=0, pci="06", factor=1.0, **device):
        copy = json.loads(json.dumps(content))
        copy["device"] |= device
        time = f"2026-01-01T10:{second // 60:02d}:{second % 60:02d}+00:00"
        copy["provenance"] |= {"gpu_uuid": "GPU-1", "host": host, "time": time, "pci_address": f"0000:00:{pci}.0"}
        for each in copy["findings"]:
            if each["unit"] == "B/s" and isinstance(each["value"], float):
                each |= {end: each[end] * factor for end in ("value", "low", "high") if each[end] is not None}
        (tmp_path / f"{name}.json").write_text(json.dumps(copy), encoding="utf-8")

    return write


@pytest.mark.parametrize(
    "other",
    [
        {"host": "node1"},
        {"host": "node1", "second": 20},
        {"spec": "cuda:1"},
        {"pci": "07"},
        {"pci": "07", "host": None},
    ],
)
def test_two_places_measured_at_once_under_one_uuid_are_two_cards_and_a_line(tmp_path, place, other):
    place("first")
    place("other", factor=0.8, **other)
    place("later", second=600)
    runs, (line,) = read_folder(tmp_path)
    assert all(text in line for text in ("first.json", "other.json", "GPU-1", "two cards"))
    found = report(runs)
    assert sorted(len(card.files) for card in found.cards) == [1, 2] and len({card.card for card in found.cards}) == 2
    assert not any(card.drifts for card in found.cards)


@pytest.mark.parametrize(
    "other", [{"second": 10}, {"host": "node1", "second": 31}, {"spec": "rec:x", "origin": "replayed"}]
)
def test_a_card_that_moves_or_is_replayed_stays_one_card(tmp_path, place, other):
    place("first", **({"spec": "rec:y", "origin": "replayed"} if "spec" in other else {}))
    place("other", **other)
    runs, lines = read_folder(tmp_path)
    assert not lines and {run.card for run in runs} == {"GPU-1"}


def test_in_one_run_of_a_fleet_a_card_does_not_move(tmp_path, place):
    place("first")
    place("other", host="node1", second=600)
    (tmp_path / RUN).touch()
    runs, (line,) = read_folder(tmp_path)
    assert "GPU-1" in line and len({run.card for run in runs}) == 2


def test_an_incomplete_run_is_reported_and_not_out():
    runs = readings([4.6] * 4)
    runs[2] = replace(runs[2], problem="health: it gave way to other processes on the GPU after 0.1 s")
    found = report(runs)
    (card,) = [each for each in found.cards if is_worth_a_sentence(each)]
    assert not found.out and "incomplete (health: it gave way" in sentence(card)

"""``gpudissect get``: single values of a file or a device."""

import json
from pathlib import Path

import pytest

from gpudissect.results.files import load
from tests.support.results import shown

H200 = str(Path(__file__).parents[2] / "docs" / "results" / "h200.json")


@pytest.fixture(scope="module")
def h200():
    return load(Path(H200))


@pytest.mark.parametrize("name", ["l1.capacity", "dram.capacity"])  # the latter is stated by the driver
def test_a_value_of_a_file(gpudissect, h200, name):
    assert gpudissect("get", H200, name) == (0, f"{shown(h200, name)}\n", "")


def test_values_of_a_file_stand_after_their_names(gpudissect, h200):
    code, out, err = gpudissect("get", H200, *(names := ["l1.line_size", "l1.hit_latency"]))
    assert (code, err) == (0, "")
    assert out == "".join(f"{name} {shown(h200, name)}\n" for name in names)


def test_a_value_is_named_where_its_name_does_not_say_what_it_holds_for(gpudissect, h200):
    name = "l2.hit_latency"
    assert gpudissect("get", H200, name)[1] == f"{shown(h200, name)} (near partition)\n"
    assert json.loads(gpudissect("get", H200, name, "--json")[1])["values"][0]["scope"] == "near partition"
    assert "95%" in gpudissect("get", H200, "ffma.warps_needed")[1]


def test_texts_are_whole(gpudissect, h200):
    _, out, _ = gpudissect("get", H200, "l1.index_function")
    assert out == f"{h200.finding('l1', 'index_function').value}\n" and len(out) > 80


def test_json_has_bracket_status_and_reason(gpudissect, h200):
    code, out, _ = gpudissect("get", H200, "l1.capacity", "l2.sets", "--json")
    first, second = json.loads(out)["values"]
    capacity = h200.finding("l1", "capacity")
    assert [first[name] for name in ("value", "low", "high", "unit")] == [
        *(capacity.value, capacity.low, capacity.high),
        "B",
    ]
    assert code == 4 and second["value"] is None and second["status"] == "not found" and second["reason"]


def test_a_value_that_was_not_found_has_a_code_and_a_reason(gpudissect, h200):
    code, out, err = gpudissect("get", H200, "l1.ways", "constant_l15.capacity")
    assert (code, out, err.count("\n")) == (4, f"l1.ways {shown(h200, 'l1.ways')}\n", 1)
    assert f"constant_l15.capacity: not found ({shown(h200, 'constant_l15.capacity')}): " in err


def test_a_missing_value_without_a_reason_ends_with_its_status(gpudissect, tmp_path):
    content = json.loads(Path(H200).read_text())
    content["findings"] = [dict(element="l1", attribute="capacity", status="not found")]
    (tmp_path / "result.json").write_text(json.dumps(content))
    _, _, err = gpudissect("get", str(tmp_path / "result.json"), "l1.capacity")
    assert err.endswith("l1.capacity: not found\n")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([H200, "l1.capasity"], ["l1.capacity"]),
        ([H200, "l1"], ["hit_latency", "capacity"]),
        ([H200], ["l1.capacity"]),
        (["missing.json", "l1.capacity"], ["missing.json"]),
        (["-d", "sim:gtx980", "l1.capacitty"], ["l1.capacity"]),
        (["-d", "sim:gtx980", "x.y"], ["ELEMENT.ATTRIBUTE"]),
    ],
)
def test_wrong_names_are_answered_with_right_ones(error_of, words, expected):
    message = error_of("get", *words)
    assert all(each in message for each in expected)


def test_a_device_measures_only_the_elements_of_the_names(gpudissect):
    code, out, _ = gpudissect("get", "-d", "sim:gtx980", "timer.overhead", "--json")
    (value,) = json.loads(out)["values"]
    assert code == 0 and value["status"] == "found" and value["low"] <= 16 <= value["high"]
    code, out, err = gpudissect("get", "-d", "sim:gtx980", "launch.graph_start")
    assert (code, out) == (4, "") and "launch.graph_start: not supported" in err

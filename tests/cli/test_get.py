"""``gpudissect get``: single values of a file or a device."""

import json
from pathlib import Path

import pytest

H200 = str(Path(__file__).parents[2] / "docs" / "results" / "h200.json")


@pytest.mark.parametrize(
    ("names", "printed"),
    [
        (["l1.capacity"], "241-256 KiB\n"),
        (["l1.line_size", "l2.hit_latency"], "l1.line_size 128 B\nl2.hit_latency "),
        (["dram.capacity"], "140 GiB\n"),  # stated by the driver
    ],
)
def test_values_of_a_file(gpudissect, names, printed):
    code, out, err = gpudissect("get", H200, *names)
    assert (code, err) == (0, "") and out.startswith(printed) and out.count("\n") == len(names)


def test_texts_are_whole(gpudissect):
    _, out, _ = gpudissect("get", H200, "l1.index_function")
    assert out.startswith("xor 7^16^17^19^20^21^22 8^17^18^23 9^1") and "…" not in out


def test_json_has_bracket_status_and_reason(gpudissect):
    code, out, _ = gpudissect("get", H200, "l1.capacity", "l2.sets", "--json")
    first, second = json.loads(out)["values"]
    assert (first["value"], first["low"], first["high"], first["unit"]) == (246784, 246784, 262144, "B")
    assert code == 4 and second["value"] is None and second["status"] == "not found" and second["reason"]


def test_a_value_that_was_not_found_has_a_code_and_a_reason(gpudissect):
    code, out, err = gpudissect("get", H200, "l1.ways", "constant_l15.capacity")
    assert (code, out, err.count("\n")) == (4, "l1.ways 4\n", 1)
    assert "constant_l15.capacity: not found (≥ 64 KiB): " in err


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

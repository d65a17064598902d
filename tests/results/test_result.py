"""The result file: what stands in it, its schema, and its way to disk and back."""

import json
import os
import stat

import jsonschema
import pytest

from gpudissect.errors import UsageError
from gpudissect.results.files import check_writable, load, write_text
from gpudissect.results.model import Result, json_schema
from gpudissect.results.verdict import Verdict


def test_the_file_says_what_was_found(result):
    content = json.loads(result.to_json())
    assert content["schema"] == "gpudissect/1"
    assert content["device"]["origin"] == "simulated"
    assert content["conditions"] == {
        "clock_hz": 1.9e9, "clock_seen": True, "clock_low": 1.8e9, "clock_high": 2e9,
        "notes": {"throttling": ["power"], "driver": ["580.1"]},
    }  # fmt: skip
    assert [(item["value"], item["unit"]) for item in content["comparisons"]] == [(24320, "B"), (None, "")]
    assert content["environment"]["driver"] == "580.1"
    assert content["options"] == {
        "seed": 3, "quick": True, "elements": ["l1", "l2", "dram"], "compare_methods": False
    }  # fmt: skip
    assert content["failures"] == [{"experiment": "line.texture", "reason": "KernelFailed: misaligned"}]
    assert content["interrupted"] is True
    capacity, latency, ways, ambiguous, skipped = content["findings"]
    assert capacity["caveats"] == ["one SM only"]
    assert capacity["published"]["verdict"] == "agrees"
    assert capacity["published"]["printed"] == 12420
    assert latency["value_ns"] == round(82.25 / 1.9, 4)
    assert latency["published"]["verdict"] == "differs"
    assert ways["published"] is None
    assert (ambiguous["value"], ambiguous["low"], ambiguous["status"]) == (None, 1000000, "ambiguous")
    assert skipped["reason"] == "interrupted"


def test_bytes_and_counts_are_whole_numbers(result):
    text = result.to_json()
    assert '"value": 24576,' in text
    assert '"value": 4,' in text
    assert '"value": 82.25,' in text


def test_what_is_not_finite_becomes_null(result):
    facts = json.loads(result.to_json(), parse_constant=pytest.fail)["device"]["facts"]
    assert facts["odd"] is None


def test_the_schema_is_one_and_holds_for_results(result):
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    content = json.loads(result.to_json())
    jsonschema.validate(content, schema)
    for place, wrong in [("status", "fonud"), ("confidence", 1.5), ("value", {}), ("element", None)]:
        broken = json.loads(result.to_json())
        broken["findings"][0][place] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_every_field_is_described():
    def fields(schema):
        for definition in [schema, *schema["$defs"].values()]:
            for name, field in definition.get("properties", {}).items():
                yield f"{definition['title']}.{name}", field

    assert [name for name, field in fields(json_schema()) if "description" not in field] == []


def test_written_and_read_again_it_is_the_same(result, tmp_path):
    path = tmp_path / "result.json"
    write_text(path, result.to_json())
    assert load(path) == result
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_it_gets_the_permissions_of_any_new_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "r.json", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o640


def test_fields_of_a_later_version_are_passed_over(result, tmp_path):
    content = json.loads(result.to_json())
    content["forecast"] = {"agreement": 0.99}
    content["findings"][0]["colour"] = "red"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    assert load(path) == result


def test_verdicts_survive_as_such(result, tmp_path):
    write_text(tmp_path / "r.json", result.to_json())
    assert load(tmp_path / "r.json").findings[0].published.verdict is Verdict.AGREES


def test_a_failed_write_leaves_the_old_file_and_no_other(result, tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UsageError, match="No space left on device"):
        write_text(path, result.to_json())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "real.json").read_text() == "new"
    assert (tmp_path / "link.json").is_symlink()


def test_where_nothing_can_be_written_is_known_before(tmp_path):
    check_writable(tmp_path / "new.json")
    for path in (tmp_path, tmp_path / "no" / "such.json", tmp_path / "file" / "x.json"):
        (tmp_path / "file").touch()
        with pytest.raises(UsageError, match="cannot write"):
            check_writable(path)


def test_a_result_is_a_value(result):
    assert Result.model_validate_json(result.to_json()) == result
    with pytest.raises(Exception, match="frozen"):
        result.interrupted = False

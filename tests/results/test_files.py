"""Reading and writing of result files: of any origin, of older schema versions, whole or not at all."""

import json
import os
import stat
from pathlib import Path

import pytest
from pydantic import ValidationError

from gpudissect.device.recording.format import INDEX
from gpudissect.errors import UsageError
from gpudissect.results import schema1
from gpudissect.results.files import (
    MAX_BYTES,
    MAX_NAMES_PER_OBJECT,
    check_writable,
    load,
    partial_path,
    read_bounded,
    write_text,
)
from gpudissect.results.model import SCHEMA, Result
from gpudissect.results.verdict import Verdict
from gpudissect.vocabulary import RENAMED

ROOT = Path(__file__).parents[2]
OLD_FILES = [
    path for path in ROOT.glob("tests/results/*.json") if b'"schema": "gpudissect/1"' in path.read_bytes()[:100]
]
HEAD = f'"schema": "{SCHEMA}"'.encode()


def refuse(path, why):
    with pytest.raises(UsageError, match=why) as caught:
        load(path)
    assert str(path) in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty"),
        (b"\x00\xff\xfe", "not text"),
        (b"[" * 200_000, "nested deeper"),
        (b"{" + HEAD, "cut off"),
        (b"{" + HEAD + b', "device": {"name": "H2', "cut off"),
        (b"{" + HEAD + b",\n what}", r"not JSON \(line 2, column 2\)"),
        (b"9" * 5000, "5000 digits"),
        (b"{" + HEAD + b', "device": {}, "device": {}}', 'two values of "device"'),
        (b"[]", "no schema"),
        (b"{}", "no schema"),
        (b'{"schema": ["gpudissect/1"]}', "its schema is a list"),
        (b'{"schema": "other/1"}', 'its schema is "other/1"'),
        (b'{"schema": "gpudissect-check/1"}', "gpudissect-check/1"),
        (b'{"schema": "gpudissect/3"}', "gpudissect/3, this program reads up to gpudissect/2: update"),
        (b"{" + HEAD + b"}", 'the file lacks "device"'),
        (b'{"schema": "gpudissect/1", "series": [1], "conditions": 2}', "series.0: .*object.*, got 1|lacks|got 2"),
    ],
)
def test_other_files_are_refused(tmp_path, content, why):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    refuse(path, why)


def test_unreadable_files_are_refused(tmp_path):
    refuse(tmp_path, "it is a folder; name a file in it")
    (tmp_path / INDEX).touch()
    refuse(tmp_path, f"it is a recording; -d rec:{tmp_path} replays it")
    refuse(tmp_path / "nowhere.json", "No such file")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(MAX_BYTES * 100)
    refuse(tmp_path / "huge.json", "larger than 16 MiB")


@pytest.mark.parametrize(
    ("field", "wrong", "why"),
    [
        ("value", "NaN", r"findings\.0\.value: .*, got NaN"),
        ("value", "1e999", r"findings\.0\.value: .*, got Infinity"),
        ("value", '"24576"', "is a text, but has a unit"),
        ("value", f'"{"x" * 1_000_000}"', "value 'x{40}' is a text, but has a unit"),
        ("value", "9" * 400, r"findings\.0\.value: .*, got 9{10}.*9{10}\.\.\."),
        ("value", "true", r"findings\.0\.value: .*, got true"),
        ("value", "{}", r"findings\.0\.value: .*, got an object"),
        ("value", "[1, NaN]", r"findings\.0\.value: .*, got (a list|NaN)"),
        ("low", "NaN", r"findings\.0\.low: .*, got NaN"),
        ("confidence", "-0.1", "greater than or equal to 0, got -0.1"),
        ("confidence", "NaN", r"findings\.0\.confidence: .*, got NaN"),
        ("confidence", f'"{"x" * 1_000_000}"', 'valid number, got "x{39}[.]{3}'),
        ("status", '"maybe"', 'got "maybe"'),
        ("element", "7", r"findings\.0\.element: .*string, got 7"),
        ("evidence", '"abc"', r'evidence: .*, got "abc"'),
        ("evidence", "[1]", r"evidence\.0: .*string, got 1"),
        ("published", '{"verdict": "great"}', r'published\.verdict: .*, got "great"'),
        ("reason", '"\\ud800"', "Invalid JSON"),
    ],
)
def test_wrong_values_are_refused_with_their_place(tmp_path, result, field, wrong, why):
    content = json.loads(result.to_json())
    content["findings"][0][field] = "@"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content).replace('"@"', wrong))
    refuse(path, f"not a valid result file: .*{why}")


@pytest.mark.parametrize(
    "place",
    [
        ("findings",),
        ("comparisons",),
        ("failures",),
        ("series",),
        ("findings", 0, "evidence"),
        ("options", "elements"),
    ],
)
def test_one_error_is_kept_of_many_wrong_items(tmp_path, result, place):
    content = inner = json.loads(result.to_json())
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = [0] * 1000
    with pytest.raises(ValidationError) as caught:
        Result.model_validate_json(json.dumps(content))
    assert caught.value.error_count() == 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    refuse(path, rf"{'.'.join(map(str, place))}\.0: .*, got 0")


def test_objects_with_too_many_names_are_refused(tmp_path, result):
    content = json.loads(result.to_json())
    content["environment"] = {str(number): 0 for number in range(MAX_NAMES_PER_OBJECT + 1)}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    refuse(path, f"{MAX_NAMES_PER_OBJECT + 1} names, allowed: up to {MAX_NAMES_PER_OBJECT}")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_files_written_by_a_windows_shell_are_read(tmp_path, result, encoding):
    path = tmp_path / "result.json"
    path.write_bytes(result.to_json().encode(encoding))
    assert load(path).findings == result.findings


@pytest.mark.parametrize("path", OLD_FILES, ids=lambda path: path.name)
def test_files_of_schema_1_are_read(path):
    old, new = json.loads(path.read_text()), load(path)
    assert new.schema_ == SCHEMA and Result.model_validate_json(new.to_json()) == new
    assert [(each["value"], each["low"], each["high"]) for each in old["findings"]] == [
        (json.loads(json.dumps(each.value)), each.low, each.high) for each in new.findings
    ]
    assert new.conditions.clock_observed is old["conditions"]["clock_seen"]
    assert len(new.conditions.notes) == len(old["conditions"]["notes"])
    assert new.prediction is None or new.prediction.not_predicted == old["prediction"]["unforetold"]
    for before, after in zip(old["series"], new.series, strict=True):
        assert list(before["columns"].values()) == [list(column) for column in after.columns.values()]
        assert set(after.units) <= set(after.columns)
    renamed = {*schema1.SERIES, *schema1.COLUMNS, *RENAMED, "turn_sms", "carveout_asked"}
    names = [name for each in new.series for name in (each.name, *each.columns, *each.shows)]
    assert not renamed.intersection((*names, *new.conditions.notes, *(each.attribute for each in new.findings)))
    assert not [name for name in names for phrase in schema1.PHRASES if phrase in name]


def test_schema_1_files_exist():
    assert {path.name for path in OLD_FILES} == {"h200-schema1.json", "h200-hiding.json"}


def test_a_written_result_is_read_unchanged(result, tmp_path):
    path = tmp_path / "result.json"
    write_text(path, result.to_json())
    assert load(path) == result
    assert load(path).findings[0].published.verdict is Verdict.AGREES
    assert [entry.name for entry in tmp_path.iterdir()] == ["result.json"]


def test_unknown_fields_are_ignored(result, tmp_path):
    content = json.loads(result.to_json())
    content["forecast"] = {"agreement": 0.99}
    content["findings"][0]["colour"] = "red"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    assert load(path) == result


def test_new_files_get_default_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "r.json", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "r.json").stat().st_mode) == 0o640


def test_a_failed_write_keeps_the_old_file(result, tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UsageError, match="No space left on device"):
        write_text(path, result.to_json())
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_links_are_written_through(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    write_text(tmp_path / "link.json", "new")
    assert (tmp_path / "real.json").read_text() == "new"
    assert (tmp_path / "link.json").is_symlink()


def test_unwritable_paths_are_refused_in_advance(tmp_path):
    check_writable(tmp_path / "new.json")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "no" / "such.json", tmp_path / "file" / "x.json"):
        with pytest.raises(UsageError, match="cannot write"):
            check_writable(path)


@pytest.mark.parametrize("length", [200, 255, 256])
def test_a_name_that_is_accepted_before_measuring_can_be_written_after(tmp_path, length):
    path = tmp_path / ("x" * (length - 5) + ".json")
    if length > 255:
        with pytest.raises(UsageError, match="too long"):
            check_writable(path)
        return
    check_writable(path)
    write_text(path, "complete")
    write_text(partial_path(path), "partial")
    assert sorted(each.read_text() for each in tmp_path.iterdir()) == ["complete", "partial"]


def test_memory_is_taken_for_what_there_is(tmp_path):
    (tmp_path / "r").write_bytes(b"x" * 5)
    assert read_bounded(tmp_path / "r", 1 << 62, "file") == b"x" * 5


def test_a_device_in_place_of_a_result_is_named_so():
    with pytest.raises(UsageError, match=r"sim:h100 is a device.*discover -d sim:h100 -o FILE"):
        load(Path("sim:h100"))

"""Result files from strangers: refused in one line, or shown without harm."""

import io
import json

import pytest
from pydantic import ValidationError

from gpudissect.device.recording.format import INDEX
from gpudissect.errors import UsageError
from gpudissect.results.files import MAX_BYTES, load
from gpudissect.results.malformed import MAX_NAMES
from gpudissect.results.model import Result
from gpudissect.views.terminal.table import console, print_result


def refused(path, why):
    with pytest.raises(UsageError, match=why) as caught:
        load(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is empty"),
        (b"\x00\xff\xfe", "it is not text"),
        (b"[" * 200_000, "nested deeper"),
        (b'{"schema": "gpudissect/1"', "not JSON: it is cut off"),
        (b'{"schema": "gpudissect/1", "device": {"name": "H2', "not JSON: it is cut off"),
        (b'{"schema": "gpudissect/1",\n what}', r"not JSON \(line 2, column 2\)"),
        (b"9" * 5000, "a number of thousands of digits"),
        (b'{"schema": "gpudissect/1", "device": {}, "device": {}}', 'two values of "device"'),
        (b"[]", "names no schema"),
        (b"{}", "names no schema"),
        (b'[{"schema": "gpudissect/1"}, {"schema": "gpudissect/1"}]', "a list of 2; write each into a file of its own"),
        (b'{"schema": ["gpudissect/1"]}', "its schema is a list"),
        (b'{"schema": "other/1"}', 'its schema is "other/1", not'),
        (b'{"schema": "gpudissect-check/1"}', "name the results that were checked"),
        (b'{"schema": "gpudissect/2"}', "has schema gpudissect/2, this program reads gpudissect/1: update"),
        (b'{"schema": "gpudissect/1"}', 'the file lacks "device"'),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, content, why):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    refused(path, why)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    refused(tmp_path, "it is a folder; name a file in it")
    (tmp_path / INDEX).touch()
    refused(tmp_path, f"it is a recording; -d rec:{tmp_path} replays it")
    refused(tmp_path / "nowhere.json", "No such file")


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 100)
    refused(path, "larger than 16 MiB")


@pytest.mark.parametrize(
    ("place", "wrong", "why"),
    [
        ("value", "NaN", "NaN is no number that JSON knows"),
        ("value", "Infinity", "Infinity is no number"),
        ("value", "1e999", "Infinity is no number"),
        ("value", '"24576"', "is a text, but has a unit"),
        ("value", f'"{"x" * 1_000_000}"', "value 'x{40}' is a text, but has a unit"),
        ("value", "9" * 400, "a number of more than 60 digits is more than a number may be"),
        ("value", "true", "a whole number or a number or a text or a list, got true"),
        ("value", "{}", "got an object"),
        ("value", "[1, NaN]", r"value\.1: NaN is no number"),
        ("low", "NaN", "NaN is no number"),
        ("confidence", "-0.1", "should be greater than or equal to 0, got -0.1"),
        ("confidence", "NaN", "NaN is no number"),
        ("confidence", f'"{"x" * 1_000_000}"', 'should be a number, got "x{59}[.]{3}'),
        ("status", '"maybe"', 'should be .*, got "maybe"'),
        ("element", "7", "element: should be a text, got 7"),
        ("evidence", '"abc"', 'should be a list, got "abc"'),
        ("evidence", "[1]", r"evidence\.0: should be a text, got 1"),
        ("published", '{"verdict": "great"}', r"published\.verdict: should be .*, got \"great\""),
        ("reason", '"\\ud800"', "Invalid JSON: .* hex escape"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_their_place(tmp_path, result, place, wrong, why):
    content = json.loads(result.to_json())
    content["findings"][0][place] = "@"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content).replace('"@"', wrong))
    refused(path, f"is no valid result file: .*{why}.*; it was altered: take the original, or measure again")


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (("findings",), r"findings\.0: should be an object, got 0"),
        (("comparisons",), r"comparisons\.0: should be an object, got 0"),
        (("failures",), r"failures\.0: should be an object, got 0"),
        (("series",), r"series\.0: should be an object, got 0"),
        (("findings", 0, "evidence"), r"evidence\.0: should be a text, got 0"),
        (("options", "elements"), r"options\.elements\.0: should be a text, got 0"),
    ],
)
def test_of_many_wrong_items_one_error_is_kept(tmp_path, result, place, why):
    content = json.loads(result.to_json())
    *way, last = place
    inner = content
    for step in way:
        inner = inner[step]
    inner[last] = [0] * 1000
    with pytest.raises(ValidationError) as caught:
        Result.model_validate_json(json.dumps(content))
    assert caught.value.error_count() == 1
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    refused(path, why)


def test_an_object_of_more_names_than_any_has_is_refused(tmp_path, result):
    content = json.loads(result.to_json())
    content["environment"] = {str(number): 0 for number in range(MAX_NAMES + 1)}
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content))
    refused(path, "an object in it has 4097 names, allowed: up to 4096")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_what_a_shell_of_windows_wrote_is_read(tmp_path, result, encoding):
    path = tmp_path / "result.json"
    path.write_bytes(result.to_json().encode(encoding))
    assert load(path).findings == result.findings


NASTY = "[bold red]x[/]\x1b[2J\r\n\t\x07\u202e\u0000[link=file:///etc/passwd]:smile: é"


@pytest.mark.parametrize("details", [False, True])
def test_text_from_a_file_never_drives_the_terminal(tmp_path, result, details):
    def spoil(value):
        if isinstance(value, dict):
            return {key: value if key in KEPT else spoil(value) for key, value in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return NASTY if isinstance(value, str) else value

    KEPT = ("schema", "origin", "recorded_origin", "status", "verdict")
    path = tmp_path / "nasty.json"
    path.write_text(json.dumps(spoil(json.loads(result.to_json()))))
    out = io.StringIO()
    print_result(console(out), load(path), details=details)
    text = out.getvalue()
    assert "\x1b" not in text
    assert not any(char in text for char in "\r\t\x07\u202e\0")
    assert "[bold red]x[/]\\x1b[2J\\r\\n" in text
    assert ":smile: é" in text


def test_extreme_numbers_are_shown(tmp_path, result):
    content = json.loads(result.to_json())
    for value in (2**63 - 1, -(2**63), 1e308, -1e308, 5e-324, 0, [1, 2, 2**62]):
        for unit in ("B", "cycles", "", "B/s", "\x1b[0m"):
            content["findings"][0].update(value=value, low=-1e308, high=1e308, unit=unit)
            path = tmp_path / "extreme.json"
            path.write_text(json.dumps(content))
            print_result(console(io.StringIO()), load(path), details=True)

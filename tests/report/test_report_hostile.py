"""Result files from strangers: refused in one line, or shown without harm."""

import io
import json

import pytest

from gpudissect.errors import UsageError
from gpudissect.report.files import MAX_BYTES, load
from gpudissect.report.table import console, print_result


def refused(path, why):
    with pytest.raises(UsageError, match=why) as caught:
        load(path)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not JSON"),
        (b"\x00\xff\xfe", "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'{"schema": "gpudissect/1"', "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b"[]", "its schema is not"),
        (b"{}", "its schema is not"),
        (b'{"schema": ["gpudissect/1"]}', "its schema is not"),
        (b'{"schema": "other/1"}', "its schema is not"),
        (b'{"schema": "gpudissect/2"}', "has schema gpudissect/2, this program reads gpudissect/1: update"),
        (b'{"schema": "gpudissect/1"}', "device: Field required"),
    ],
)
def test_what_is_no_result_is_refused(tmp_path, content, why):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    refused(path, why)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    refused(tmp_path, "Is a directory")
    refused(tmp_path / "nowhere.json", "No such file")


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.json"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES * 100)
    refused(path, "larger than 64 MiB")


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        ("value", "NaN"),
        ("value", "Infinity"),
        ("value", "1e999"),
        ("value", '"24576"'),
        ("value", "9" * 400),
        ("value", "true"),
        ("value", "{}"),
        ("confidence", "-0.1"),
        ("confidence", "NaN"),
        ("status", '"maybe"'),
        ("element", "7"),
        ("evidence", '"abc"'),
        ("evidence", "[1]"),
        ("published", '{"verdict": "great"}'),
        ("reason", '"\\ud800"'),
    ],
)
def test_wrong_values_are_refused_by_their_place(tmp_path, result, place, wrong):
    content = json.loads(result.to_json())
    content["findings"][0][place] = "@"
    path = tmp_path / "result.json"
    path.write_text(json.dumps(content).replace('"@"', wrong))
    refused(path, "is no valid result file")


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

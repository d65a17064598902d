"""Results of unknown origin are shown without harm."""

import io
import json

import pytest

from gpudissect.results.files import load
from gpudissect.views.terminal.layout import console
from gpudissect.views.terminal.table import print_result

NASTY = "[bold red]x[/]\x1b[2J\r\n\t\x07\u202e\u0000[link=file:///etc/passwd]:smile: é"
KEPT_FIELDS = ("schema", "origin", "recorded_origin", "status", "verdict")


@pytest.mark.parametrize("details", [False, True])
def test_text_from_a_file_never_drives_the_terminal(tmp_path, result, details):
    def spoil(value):
        if isinstance(value, dict):
            return {key: value if key in KEPT_FIELDS else spoil(value) for key, value in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return NASTY if isinstance(value, str) else value

    path = tmp_path / "nasty.json"
    path.write_text(json.dumps(spoil(json.loads(result.to_json()))))
    out = io.StringIO()
    print_result(console(out), load(path), details=details)
    text = out.getvalue()
    assert not any(char in text for char in "\x1b\r\t\x07\u202e\0")
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

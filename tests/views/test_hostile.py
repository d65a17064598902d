"""Results of unknown origin are shown without harm."""

import io
import json
from pathlib import Path

import pytest

from gpudissect.results.files import load
from gpudissect.results.model import Result
from gpudissect.views.card import card
from gpudissect.views.page.result import result_page
from gpudissect.views.terminal.layout import console
from gpudissect.views.terminal.table import print_result

RESULTS = Path(__file__).parents[2] / "docs" / "results"
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


@pytest.mark.parametrize("field", ["element", "attribute", "unit"])
def test_a_long_name_is_cut(result, field):
    long = result.findings[0].model_copy(update={"value": 1.0, "unit": "x", field: NASTY * 1000})
    out = io.StringIO()
    print_result(console(out), result.model_copy(update={"findings": (long,), "series": ()}), everything=True)
    assert len(out.getvalue()) < 5000


@pytest.mark.parametrize("value", [1.7e308, 5e-324, -1.7e308, 0])
def test_extreme_values_and_units_on_page_card_and_in_a_summary(value):
    content = json.loads((RESULTS / "h200.json").read_text())
    for finding in content["findings"]:
        finding.update(status="found", value=value, low=-1.7e308, high=1.7e308, value_ns=value, unit="x\x1b[31m")
    for series in content["series"]:
        series["columns"] = dict(list(series["columns"].items())[:1])
    result = Result.model_validate_json(json.dumps(content))
    out = io.StringIO()
    print_result(console(out), result)
    assert all("\x1b" not in text for text in (out.getvalue(), card(result), result_page(result)))

"""Every script of the gallery runs on a simulated GPU, is short, and draws what it promises."""

import re
import runpy
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import gpudissect as gd

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_draws_its_figure(script, tmp_path, monkeypatch, hide_once):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(gd, "hide", hide_once)
    monkeypatch.setattr(sys, "argv", [str(script)])
    runpy.run_path(str(script), run_name="__main__")
    outputs = [tmp_path / f"{script.stem}.{suffix}" for suffix in ("svg", "html")]
    (made,) = [path for path in outputs if path.exists()]
    text = made.read_text(encoding="utf-8")
    if made.suffix == ".html":
        assert text.startswith("<!doctype html>")
        return
    sheet = ET.fromstring(text)
    assert sheet.tag == f"{SVG}svg"
    marks = [each for each in sheet.iter() if (each.get("class") or "").split(" ")[0] in ("dot", "bar", "cell")]
    assert marks and "var(" not in text and "NaN" not in text


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_it_is_short_and_has_a_docstring(script):
    lines = script.read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith('"""') and len([line for line in lines if line.strip()]) <= 36


def test_the_documentation_names_every_script():
    page = (Path(__file__).parents[2] / "docs" / "python.md").read_text(encoding="utf-8")
    assert [script.name for script in SCRIPTS if f"examples/{script.name}" not in page] == []
    pictures = set(re.findall("made: picture gallery/([a-z0-9_]+)", page))
    assert pictures == {script.stem for script in SCRIPTS if f"{script.stem}.svg" in script.read_text(encoding="utf-8")}

"""The card of a GPU: one picture that stands alone."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from gpudissect.results.files import load
from gpudissect.results.summary import summarize
from gpudissect.views.card import card
from tests.support.hostile import hostile
from tests.support.results import PLAIN, result, shown

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def texts(drawing):
    return [each.text for each in ET.fromstring(drawing).iter(f"{SVG}text")]


def test_a_card_has_name_origin_drawing_and_a_row_for_each_level():
    made = load(ROOT / "docs" / "results" / "h200.json")
    drawing = card(made)
    found = texts(drawing)
    assert found[:2] == ["NVIDIA H200", "MEASURED"]
    assert {level.name for level in summarize(made).levels} <= set(found)
    near, far = (shown(made, f"l2.{place}_latency", unit=False) for place in ("near", "far"))
    assert {shown(made, "l1.capacity"), f"{near} / {far}", "L2, far partition"} <= set(found)
    assert "var(" not in drawing and "http" not in drawing.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("findings", [{}, {"fadd.rate": 4.0}, PLAIN])
def test_every_result_has_a_card(findings):
    drawing = ET.fromstring(card(result(findings)))
    assert float(drawing.get("width")) > 300 and float(drawing.get("height")) > 80


def test_a_hostile_result_makes_a_harmless_card():
    drawing = card(hostile())
    ET.fromstring(drawing)
    assert "<script" not in drawing and "<img" not in drawing and "\x1b" not in drawing

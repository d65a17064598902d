"""Marks of plots: groups differ without colours, and none hides another."""

import re
import xml.etree.ElementTree as ET
from importlib.resources import files
from pathlib import Path

import pytest

from gpudissect.results.files import load
from gpudissect.results.model import Series
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.draw import MAX_LARGE_DOTS, groups_of, svg
from gpudissect.views.plots.element import figures_of_element
from gpudissect.views.plots.figure import MAX_GROUPS, Kind

ROOT = Path(__file__).parents[2]
SHEET = files("gpudissect.views.plots").joinpath("plot.css").read_text("utf-8")
RULES = [
    (selector.strip().split(), declared)
    for selectors, declared in re.findall(r"([^{}]+){([^{}]*)}", SHEET)
    for selector in selectors.split("*/")[-1].split(",")
]


def styled(*classes):
    """Style of a mark with these classes: among equally specific rules the later one wins."""
    applied = {}
    for rank in range(1, 5):
        for selector, declared in RULES:
            classes_of_rule = selector[-1].strip(".").split(".")
            if (
                len(selector) == 1
                and selector[0].startswith(".")
                and len(classes_of_rule) == rank
                and {*classes_of_rule} <= {*classes}
            ):
                applied |= dict(re.findall(r"([\w-]+): ([^;]+);", declared))
    return applied


@pytest.mark.parametrize("fine", [(), ("fine",)])
def test_no_two_groups_share_a_mark_nor_a_dash_nor_a_colour(fine):
    marks, dashes, colours = [], [], []
    for n in range(MAX_GROUPS):
        dot, hole = styled("dot", f"s{n}", *fine), styled("dot", f"s{n}", "hole", *fine)
        hollow = hole["stroke-width"] != dot["stroke-width"]
        marks.append((dot["stroke-linecap"], dot["stroke-width"], hole["stroke-width"] if hollow else None))
        dashes.append(styled("line", f"s{n}", *fine).get("stroke-dasharray"))
        colours.append(dot["stroke"])
        assert not hollow or float(hole["stroke-width"]) < float(dot["stroke-width"])
    assert len(set(marks)) == len(set(dashes)) == len(set(colours)) == MAX_GROUPS


def test_many_marks_are_drawn_smaller():
    for n in range(MAX_GROUPS):
        few, many = styled("dot", f"s{n}"), styled("dot", f"s{n}", "fine")
        assert float(many["stroke-width"]) < float(few["stroke-width"])
        assert float(many["stroke-width"]) <= 6


def test_hues_differ_in_light_and_dark():
    for mode in ("", "@media (prefers-color-scheme: dark)"):
        block = SHEET[SHEET.index(mode) :]
        hues = [re.search(rf"--s{n}: (#\w+)", block)[1] for n in range(MAX_GROUPS)]
        assert len(set(hues)) == MAX_GROUPS


def dots(count):
    kinds = tuple(kind for kind in "abcdefgh" for _ in range(count))
    columns = {"x": tuple(range(count)) * MAX_GROUPS, "kind": kinds, "y": tuple(range(count)) * MAX_GROUPS}
    return figure_of(Series(element="l1", name="y by x", columns=columns))


@pytest.mark.parametrize("count", [5, MAX_LARGE_DOTS + 1])
def test_small_marks_lie_on_large_ones(count):
    drawing = ET.fromstring(str(svg(dots(count), "p"))).find(".//g[@class='marks']")
    sizes = [
        float(styled(*path.get("class").split())["stroke-width"]) for path in drawing if "hole" not in path.get("class")
    ]
    assert len(sizes) == MAX_GROUPS and sizes == sorted(sizes, reverse=True)
    assert all(("fine" in path.get("class")) == (count > MAX_LARGE_DOTS) for path in drawing)


def test_bars_of_a_second_group_do_not_hide_the_first():
    columns = {"path": ("a", "a", "b", "b"), "cycles": (1, 2, 1, 2), "accesses": (3, 4, 5, 6)}
    drawing = ET.fromstring(str(svg(figure_of(Series(element="l1", name="histogram", columns=columns)), "p")))
    assert [path.get("class") for path in drawing.find(".//g[@class='marks']")] == ["bar s0", "line s1"]


@pytest.mark.parametrize(
    "name",
    ["docs/results/h200.json", "docs/results/h200-latency-hiding.json", "docs/results/h200-kinds-latency-hiding.json"],
)
def test_plots_of_measured_gpus_have_enough_marks(name):
    made = load(ROOT / name)
    for element in {each.element for each in made.findings}:
        for figure in figures_of_element(made, element):
            names = [name for name, _ in groups_of(figure)]
            assert figure.kind is Kind.MAP or len(names) <= MAX_GROUPS, (figure.title, names)


def test_the_last_columns_are_drawn_if_there_are_too_many():
    columns = {"x": (1, 2), "first": (1, 2), **{f"c{n}": (1, 2) for n in range(12)}}
    made = figure_of(Series(element="l1", name="y against x", columns=columns, units={f"c{n}": "%" for n in range(12)}))
    assert len(made.ys) == MAX_GROUPS

"""Pictures are drawn from simulated traces in seconds, and nothing on them lies outside or is no number."""

import re
from xml.etree import ElementTree

import pytest

from making.pictures import PICTURES
from making.svg import WIDTH, Axis, Plot


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_whole(name):
    plot = PICTURES[name]()
    picture = plot.svg()
    root = ElementTree.fromstring(picture)
    assert root[0].text == plot.title
    assert len(picture) < 100_000
    assert "nan" not in picture.lower().replace(plot.title.lower(), "")
    for dot in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(dot.get("cx")) <= WIDTH
        assert 0 <= float(dot.get("cy")) <= plot.height + 18


def test_text_is_escaped():
    plot = Plot("<b>", Axis("a & b", 0, 1), Axis("<i>", 0, 1))
    plot.points([0.5], [0.5], "one", "</svg><script>")
    assert not re.search("<b>|<i>|<script>", plot.svg())
    ElementTree.fromstring(plot.svg())


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 7), (-3, 12), (0, 132), (1e-3, 5e-3)])
def test_ticks_are_round_and_lie_on_the_axis(low, high):
    marks = Axis("", low, high).marks()
    assert 3 <= len(marks) <= 8
    assert all(low - 1e-9 <= mark <= high + 1e-9 for mark in marks)


def test_a_logarithmic_axis_has_powers_of_two():
    assert Axis("", 1, 64, log=True).marks() == [1, 2, 4, 8, 16, 32, 64]
    assert Axis("", 1, 64, log=True).place(8) == pytest.approx(0.5)

"""Pictures are made from simulated traces in seconds; nothing in them is no number."""

from xml.etree import ElementTree

import pytest

from gpudissect.views.plots.standalone import standalone
from making import hooks, pictures
from making.attribute_pictures import PICTURES
from making.result_page import GPUS
from tests.support.pages import PAGES

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_can_be_drawn(name):
    figure = PICTURES[name]()
    text = standalone(figure)
    sheet = ElementTree.fromstring(text)
    marks = [each for each in sheet.iter() if (each.get("class") or "").split(" ")[0] in ("dot", "bar", "cell", "line")]
    assert sheet.get("aria-label") == figure.title and marks
    assert len(text) < 100_000 and "NaN" not in text


def test_quick_pictures_are_drawn_by_name():
    made = pictures.draw(["calibration", "h200/0", "h200-latency-hiding/hiding"])
    assert list(made) == ["calibration", "h200-latency-hiding/hiding", "h200/0"]
    assert all(pictures.title_of(svg) for svg in made.values())


def test_an_unknown_picture_is_an_error():
    with pytest.raises(KeyError, match="calibration/x"):
        pictures.draw(["calibration/x"])


@pytest.mark.parametrize("gpu", GPUS)
def test_every_measured_plot_is_in_the_result(gpu):
    made = pictures.make(gpu)
    assert list(made) == [f"{gpu}/{number}" for number in (*range(len(pictures.MEASURED)), "drawing")]
    assert "first SM of the row" in made[f"{gpu}/{pictures.MEASURED.index(('l2', 'latency by SM'))}"]  # the map


def test_every_page_shows_known_kinds_of_pictures():
    shown = {name for page in PAGES for name in hooks.pictures_in(page.read_text(encoding="utf-8"))}
    kinds = {name.partition("/")[0] for name in shown if "/" in name}
    assert kinds == {"gallery", *GPUS, "throughput", "mt22", "vv16", "vv16-kernels"}
    assert {name for name in shown if "/" not in name} == {*PICTURES, "calibration", "tlb-rates"}

"""Results, series, traces and comparisons in Jupyter and at a prompt."""

import base64
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import gpudissect as gd
from gpudissect.errors import UsageError
from gpudissect.views.interactive import Series
from tests.support.results import PLAIN, result

NASTY = "</td><script>alert(1)</script>\u202e\x1b[2J\"'&--><!--"
GPU = "sim:gtx980"
RESULTS = Path(__file__).parents[2] / "docs" / "results"
LINES = gd.Sequential(64, 32)
WORKLOADS = {
    "accesses of several laps": gd.Chase(path=gd.Path.GLOBAL, order=LINES, timing=gd.Timing.EACH, laps=8),
    "accesses of one lap": gd.Chase(path=gd.Path.GLOBAL, order=gd.Shuffled(64, 32, seed=1), timing=gd.Timing.EACH),
    "laps": gd.Chase(path=gd.Path.GLOBAL, order=LINES, timing=gd.Timing.LAP, laps=4),
    "counts": gd.Chase(
        path=gd.Path.GLOBAL, order=LINES, timing=gd.Timing.COUNT, laps=4, bounds=gd.Bounds(120, 150, 900)
    ),
    "stream": gd.Stream(
        path=gd.Path.GLOBAL, transfer=gd.Transfer.READ, footprint=1 << 20, blocks=16, threads=256, runs=3
    ),
    "mix": gd.Mix(body=(gd.Step(gd.Instruction.FADD, 8),), warps=4, block_size=128, iterations=4, sms=2),
    "launch": gd.Launch(method=gd.LaunchMethod.STREAM, runs=5),
}


def picture_in(html: str) -> ET.Element:
    """The SVG inside an image, parsed as strictly as a browser parses it."""
    (data,) = re.findall(r'src="data:image/svg\+xml;base64,([^"]*)"', html)
    return ET.fromstring(base64.b64decode(data))


@pytest.fixture(scope="module")
def device():
    with gd.open_device(GPU) as opened:
        yield opened


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_trace_shows_a_plot_and_is_saved(name, device, tmp_path):
    trace = gd.run(WORKLOADS[name], device)
    html = trace._repr_html_()
    assert "SIMULATED" in html and picture_in(html).tag.endswith("svg")
    assert "SIMULATED" in repr(trace) and "\n" not in repr(trace) and len(repr(trace)) < 400
    for suffix in ("csv", "json", "npz", "txt", "svg"):
        trace.save(tmp_path / f"t.{suffix}")
        assert (tmp_path / f"t.{suffix}").stat().st_size > 20
    with pytest.raises(UsageError, match="must end in"):
        trace.save(tmp_path / "t.xyz")


def test_a_result_shows_value_and_reason():
    example = result({**PLAIN, "l2.sets": {"reason": "no two lines collide"}})
    html = example._repr_html_()
    for text in ("Made Up 1", "MEASURED", "16 KiB", "not found", "no two lines collide"):
        assert text in html
    assert repr(example) == f"<Made Up 1 MEASURED (cuda:0): {len(example.findings)} findings>"
    assert repr(example.findings[1]) == "<l1 capacity: 16 KiB>"
    assert str(example).startswith("Made Up 1  MEASURED  cuda:0") and "\x1b" not in str(example)


def test_a_result_shows_drawing_summary_and_a_plot_before_the_findings():
    html = gd.load(RESULTS / "h200.json")._repr_html_()
    drawing, plot = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]*)"', html)
    assert "Each of 132 SMs" in base64.b64decode(drawing).decode() and "<svg" in base64.b64decode(plot).decode()
    places = [html.index(text) for text in (drawing, "Device memory", plot, "<details", "miss_penalty")]
    assert places == sorted(places) and len(html) < 300_000
    hidden = gd.load(RESULTS / "h200-latency-hiding.json")._repr_html_()
    assert hidden.index("16 warps") < hidden.index("data:image")


def test_a_comparison_shows_differences_first():
    one, other = result(PLAIN), result(PLAIN | {"dram.hit_latency": 900.0})
    html = gd.compare(one, other)._repr_html_()
    assert html.index("hit_latency") < html.index("capacity")


def test_text_of_a_result_is_escaped():
    example = result({"l1.replacement_policy": NASTY}, name=NASTY, spec=NASTY)
    for html in (example._repr_html_(), example["l1"]._repr_html_(), gd.compare(example, example)._repr_html_()):
        assert not any(text in html for text in ("<script", "\x1b", "\u202e"))
    assert "\x1b" not in repr(example) + str(example) + repr(example.findings[0])
    series = Series(element=NASTY, name=NASTY, columns={NASTY: [1, 2, 3], "y": [1, 2, 3]}, units={"y": NASTY})
    assert not [each for each in picture_in(series._repr_html_()).iter() if each.tag.endswith("script")]
    assert "\x1b" not in repr(series)


def test_many_findings_stay_a_table_of_limited_size():
    example = result(PLAIN)
    html = example.model_copy(update={"findings": example.findings * 1000})._repr_html_()
    assert "of 13000 findings" in html and len(html) < 1_000_000


def test_series_are_made_of_lists_and_arrays_and_saved_as_plots(tmp_path):
    example = Series(element="l1", name="y against x", columns={"x": np.arange(5), "y": [1.0, 2.0, 4.0, 8.0, 16.0]})
    assert example.columns["x"] == (0, 1, 2, 3, 4)
    assert picture_in(example._repr_html_()).get("aria-label") == "L1 data cache: y against x"
    example.save(tmp_path / "a.svg")
    with pytest.raises(UsageError, match=r"must end in \.svg"):
        example.save(tmp_path / "a.png")
    empty = Series(element="l1", name="nothing", columns={"x": []})
    assert "nothing to plot" in empty._repr_html_()
    with pytest.raises(UsageError, match="nothing to plot"):
        empty.save(tmp_path / "b.svg")


def test_the_drawing_stands_alone():
    svg = result(PLAIN).to_svg()
    drawing = ET.fromstring(svg)
    assert drawing.get("aria-label") == "Made Up 1, MEASURED" and "L2" in svg
    assert "var(" not in svg and ":hover" not in svg
    assert result({}).to_svg() == ""
    hostile = result(PLAIN, name=NASTY).to_svg()
    assert not [each for each in ET.fromstring(hostile).iter() if each.tag.endswith("script")]


def test_every_plot_of_an_element():
    example = result({"spectrum_global.p1": 90.0, "spectrum_global.p4": 400.0})
    (svg,) = example.plots("spectrum_global").values()
    assert ET.fromstring(svg).get("role") == "img" and example.plots("l1") == {}

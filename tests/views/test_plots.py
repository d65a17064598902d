"""Series become the plots that fit them."""

import json
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.results.model import Series
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.draw import LEFT, PLOT_WIDTH, legend, svg
from gpudissect.views.plots.element import figures_of_series, figures_together, index_bits, index_matrix
from gpudissect.views.plots.figure import Kind, Scale, overlay, scale_of
from gpudissect.views.plots.standalone import sheet
from tests.support.results import finding

INDICES = {
    "bits 7 8": {"kind": IndexKind.BITS, "bits": (7, 8)},
    "xor 7^9 8": {"kind": IndexKind.XOR, "masks": (1 << 7 | 1 << 9, 1 << 8)},
}


def series(name, columns, **units):
    return Series(element="l1", name=name, columns={key: tuple(column) for key, column in columns.items()}, units=units)


def test_the_name_of_a_series_gives_the_horizontal_axis():
    made = figure_of(series("latency against stride", {"stride": (1, 2, 3), "width": (4, 4, 4), "cycles": (1, 2, 3)}))
    assert (made.kind, made.x, made.ys, made.by) == (Kind.LINES, "stride", ("cycles",), None)


def test_sm_numbers_have_a_linear_axis():
    made = figure_of(series("latency by sm", {"sm": (1, 100, 131), "latency": (200.0, 210.0, 205.0)}, latency="cycles"))
    assert made.kind is Kind.DOTS
    assert re.search(r'data-scales="\[\[[^,]*,[^,]*, 0', svg(made, "p").replace("&quot;", '"'))


def test_a_column_of_few_values_makes_groups():
    columns = {"warps": (1, 2, 4) * 2, "chains": (1,) * 3 + (2,) * 3, "rate": range(6)}
    made = figure_of(series("rate against warps and chains", columns, rate="ops/cycle"))
    assert (made.kind, made.x, made.by) == (Kind.LINES, "warps", "chains")


def test_a_grid_is_a_map():
    cells = [(line, lap) for lap in range(8) for line in range(16)]
    columns = {"line": [each[0] for each in cells], "lap": [each[1] for each in cells], "latency": range(128)}
    made = figure_of(series("latency by line and lap", columns))
    assert (made.kind, made.x, made.ys, made.colour) == (Kind.MAP, "line", ("lap",), "latency")
    assert svg(made, "p1").count('class="cell') == 9


def test_columns_in_one_unit_are_groups():
    columns = {"warps": (1, 2, 3), "measured": (1, 2, 3), "model": (1, 2, 4)}
    made = figure_of(series("throughput against warps", columns, measured="ops/cycle", model="ops/cycle"))
    assert (made.x, made.ys) == ("warps", ("measured", "model"))


def test_configurations_go_over_what_they_have_in_flight():
    columns = {
        "blocks_per_sm": (1, 2, 1, 1024),
        "threads": (32, 32, 64, 512),
        "ilp": (1, 1, 2, 2),
        "width": (4, 8, 16, 4),
        "rate": (1, 2, 3, 4),
    }
    made = figure_of(series("read rate by configuration", columns, rate="B/cycle"))
    assert made.x == "in flight" and made.columns["in flight"] == (128, 512, 2048, 16384), "others wait"


def test_lists_are_bars_and_latencies_of_sms_are_a_map():
    found = [finding("l2", "latency_by_sm", (200.0, 210.0, 205.0)), finding("l2", "partition_by_sm", (0, 1, 0))]
    (made,) = figures_together(found)
    assert made.kind is Kind.MAP and made.columns["SM"] == (0, 1, 2) and made.pins == "partition"
    assert svg(made, "p").count("h0") >= 1 and 'class="pin inner"' in svg(made, "p")
    (bars,) = figures_together([finding("tlb_l2", "ways", (17, 8, 8))])
    assert bars.kind is Kind.BARS and bars.x == "set"


def test_a_line_marks_the_value_that_was_found():
    columns = {"warps": (1, 2, 4), "chains": (1, 1, 1), "rate": (60.0, 100.0, 120.0)}
    (made,) = figures_together([finding("l1", "rate", 127.0)], [series("rate against warps and chains", columns)])
    assert [value for value, _ in made.levels] == [127.0]
    assert "127" in re.search(r'class="fixed">(.*?)</g>', svg(made, "p"))[1]


def test_rates_begin_at_zero_and_their_axis_has_one_unit():
    made = figure_of(series("bandwidth against x", {"x": (1, 2, 3), "rate": (4.1e12, 4.2e12, 4.7e12)}, rate="B/s"))
    drawing = svg(made, "p")
    (_, up) = json.loads(re.search(r'data-scales="(.*?)"', drawing)[1].replace("&quot;", '"'))
    assert up[0] == 0 and up[3] == "TB/s" and "rate (TB/s)" in drawing


def test_single_accesses_say_that_their_timer_is_included():
    columns = {"footprint": (64, 128, 256), "stride": (32, 32, 32), "latency": (34.0, 34.0, 280.0)}
    (made,) = figures_of_series(series("latency against footprint", columns, footprint="B", latency="cycles"))
    assert "timer included" in made.title
    assert figures_of_series(series("misses by chain", {"chain": (0, 1, 2), "misses": (0, 0, 1)})) == []


@pytest.mark.parametrize(("text", "bits"), [("bits 7 8", [{7}, {8}]), ("xor 7^9 8", [{7, 9}, {8}])])
def test_the_index_matrix_marks_the_bits_of_the_index_function(text, bits):
    assert index_bits(text) == bits
    index, offsets = Index(**INDICES[text]), np.arange(4096) * 128
    sets = sum(sum(offsets >> bit & 1 for bit in group) % 2 << n for n, group in enumerate(bits))
    assert sets.tolist() == set_numbers(index, 128, 4, offsets).tolist()
    made = index_matrix([finding("l1", "index_function", text)])
    cells = set(zip(made.columns["address bit"], made.columns["set bit"], strict=True))
    assert cells == {(bit, n) for n, group in enumerate(bits) for bit in group}
    drawing = svg(made, "p")
    assert drawing.count('class="cell one"') == 1 and not legend(made)


NOT_FUNCTIONS = (
    "one set",
    "not linear, table of 66",
    "bits",
    "bits 99",
    "xor ^",
    "line mod 3",
    "xor " + "7^" * 5000 + "7",
)


@pytest.mark.parametrize("text", NOT_FUNCTIONS)
def test_other_texts_have_no_matrix(text):
    assert index_matrix([finding("l1", "index_function", text)]) is None


def test_a_spectrum_has_bars_for_found_patterns():
    found = [
        finding("spectrum_global", "p1", 30.0),
        finding("spectrum_global", "p2"),
        finding("spectrum_global", "p4", 400.0),
    ]
    (made,) = figures_together(found)
    assert (made.kind, made.columns["latency"]) == (Kind.BARS, (30.0, 400.0))
    assert list(made.x_ticks.values()) == ["hit, L1", "miss, L1"]


numbers = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-(2**63), 2**63 - 1))


labels = st.text(
    st.characters(exclude_characters="nN"), max_size=5
)  # neither "nan" nor "inf", which numbers must not give


@given(st.lists(st.tuples(numbers, numbers, numbers, labels), max_size=40), st.text(max_size=20))
def test_any_series_is_drawn_or_omitted(rows, name):
    columns = dict(zip(("a", "b", "c", "t"), zip(*rows, strict=True) if rows else ((),) * 4, strict=True))
    made = figure_of(series(name, columns, a="B", c="cycles"))
    if made is not None and (drawing := svg(made, "p")):
        ET.fromstring(drawing)
        assert "nan" not in drawing.replace(name, "") and "inf" not in drawing.replace(name, "")


@pytest.mark.parametrize("scale", [Scale(0, 10), Scale(1, 4096, True), Scale(0.001, 0.0011), Scale(-5e9, 5e9)])
@pytest.mark.parametrize("base", [2, 10])
def test_ticks_are_few_and_within_the_scale(scale, base):
    ticks = scale.ticks(6, base)
    assert 2 <= len(ticks) <= 14
    assert all(-1e-9 <= scale.at(tick) <= 1 + 1e-9 for tick in ticks)


def test_a_scale_contains_its_values():
    for values in ([1, 2, 3], [0, 0], [5], [1, 1e6], [-3, 4], [1e-9, 1], [2**62 + 1, 2**62 + 2]):
        scale = scale_of(values)
        assert all(0 <= scale.at(value) <= 1 for value in values)


def test_positions_follow_from_values():
    made = figure_of(series("y against x", {"x": (0, 1), "y": (1.0, 2.0)}))
    assert f"M{LEFT + PLOT_WIDTH * scale_of([0, 1]).at(0):.1f} " in svg(made, "p")


def test_bars_have_a_tick_each_only_if_there_is_room():
    def ticks(cycles):
        made = svg(figure_of(series("histogram", {"cycles": cycles, "accesses": (3,) * len(cycles)})), "p")
        across = ET.fromstring(str(made)).find("g[@class='axis x']")
        return [float(each.get("x")) for each in across.findall("text")]

    assert len(ticks((1, 2, 4))) == 3
    fine = ticks((244, 245, 247, 2000))  # side by side, and far away
    assert min(b - a for a, b in pairwise(fine)) > 34


def overlaid(**options):
    groups = {"measured": ([1, 2, 3], [1.0, 4.0, 9.0]), "model": (range(4), [0.5] * 4)}
    kinds = {"model": Kind.CURVES}
    return overlay("title", ("warps", ""), ("rate", "ops/cycle"), groups, kind=Kind.DOTS, kinds=kinds, **options)


def test_models_are_lines_over_measured_points():
    drawing = ET.fromstring(str(svg(overlaid(), "p")))
    classes = [path.get("class") for path in drawing.find(".//g[@class='marks']")]
    assert sorted(classes) == ["dot s0", "line s1"]


def test_values_beyond_the_maximum_do_not_set_the_scale():
    def top(figure):
        return float(re.search(r"\], \[[^,]*, ([^,]*),", svg(figure, "p").replace("&quot;", '"'))[1])

    assert top(overlaid()) > 9 and top(overlaid(y_max=4.0)) < 5


def test_vertical_marks_carry_their_labels():
    drawing = ET.fromstring(str(svg(overlaid(marks=[(2, "two")]), "p")))
    assert [each.text for each in drawing.findall("g[@class='fixed']/text")] == ["two"]


def test_labels_of_near_vertical_marks_stand_on_either_side():
    figure = overlaid(log_x=False, marks=[(1.54, "second"), (1.5, "first"), (2.5, "third")])
    drawing = ET.fromstring(str(svg(figure, "p")))
    lines = [float(re.search(r"M([\d.]+)", each.get("d"))[1]) for each in drawing.findall("g[@class='fixed']/path")]
    labels = drawing.findall("g[@class='fixed']/text")
    starts = [float(re.search(r"\(([\d.]+)", each.get("transform"))[1]) for each in labels]
    sides = {each.text: start - at for each, start, at in zip(labels, starts, lines, strict=True)}
    assert sides["first"] < 0 < sides["second"] == pytest.approx(sides["third"])


def test_a_sheet_holds_its_figures_side_by_side():
    drawing = ET.fromstring(sheet("three", [overlaid()] * 3))
    assert drawing.get("aria-label") == "three"
    places = [each.get("transform") for each in drawing.findall("{http://www.w3.org/2000/svg}g")]
    assert len(places) == 3 and places[1].startswith("translate(520 0)")
    assert sheet("none", []) == ""

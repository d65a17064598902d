"""The page of an explanation: complete, self-contained, small, and harmless whatever the explanation holds."""

import json
import re

import pytest

from gpudissect.explanation.result import Advice, Explanation
from gpudissect.views.page.explanation import explanation_page
from gpudissect.views.plots.draw import drawn_groups, svg
from gpudissect.views.plots.explanation import curve, roofline
from gpudissect.views.plots.figure import Figure, Kind
from tests.support.explanations import explanation, line, point
from tests.support.hostile import LONG, NASTY, ParsedPage

MAX_BYTES = 500_000
KEPT = ("schema", "origin", "counts")  # no free text


def hostile(text: str) -> Explanation:
    """An explanation with this text everywhere."""

    def spoil(value):
        if isinstance(value, dict):
            return {key: value if key in KEPT else spoil(value) for key, value in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        return text if isinstance(value, str) else value

    return Explanation.model_validate_json(json.dumps(spoil(json.loads(explanation().to_json()))))


def assert_harmless(text: str) -> None:
    page = ParsedPage(text)
    assert len(text.encode()) < MAX_BYTES
    assert page.tags.count("script") == len(page.blocks) + 1 and "img" not in page.tags
    assert {"iframe", "object", "embed", "base", "form"}.isdisjoint(page.tags)
    for name, value in page.attributes:
        assert not name.startswith("on") and name != "style"
        if name in ("href", "src"):
            assert value.startswith("#") or value == "data:,"


def test_a_page_has_the_answers_plots_bounds_advice_and_code():
    tried = Advice(text="unroll the loop", gain=0.02, evidence="more loads in flight")
    text = explanation_page(explanation(against=explanation(gpu="NVIDIA H100", point=point(4)), rejected=(tried,)))
    assert_harmless(text)
    facts = [
        *(
            "NVIDIA H200, GPU values MEASURED",
            '<dt class="main">Limited by',
            *("bracket 9 us to 11 us", "error -4.8%"),
            '<dt class="main">Saves 31%',
            "<dt>Saves 5%",
        ),
        "use loads of 16 bytes",
        *("Other GPU", "NVIDIA H100", "25% longer"),
        *("Lower bounds", "Time against occupancy", "Roofline", "Other changes", "unroll the loop"),
        *("Source lines", '<th scope="row">add.cu:5</th><td>25.0%</td><td>62.0%</td><td>4.0%</td><td>4</td>'),
        *("Machine code", "FADD R5, R2, R4", "Worksheet", "2 instructions", "Assumed, not measured", "Notes"),
    ]
    places = [text.find(fact) for fact in facts]
    assert -1 not in places and places == sorted(places), dict(zip(facts, places, strict=True))


def test_an_instruction_links_to_what_it_waits_for_and_has_a_bar_of_its_stall():
    page = ParsedPage(explanation_page(explanation()))
    assert "i10" in page.fragments and page.fragments <= set(page.ids)
    row = re.search(r'<tr id="i20">.*?</tr>', explanation_page(explanation()))
    assert row is not None and 'href="#i10"' in row[0] and '<rect width="62"' in row[0] and "0x0020*" in row[0]


def test_the_first_advice_alone_stands_out():
    same = tuple(Advice(text=text, gain=0.43, evidence="so") for text in ("unroll", "prefetch"))
    text = explanation_page(explanation(advice=same))
    assert text.count("Saves 43%") == 2 and text.count('<dt class="main">Saves 43%') == 1


def test_code_that_is_hardly_executed_is_one_row_without_dead_links():
    rare = tuple(line(n, f"RARE{n} R2", executed=0.0, stall=0.0, contended=0.0) for n in range(1, 6))
    last = line(6, "FADD R5, R2, R4", stall=0.5, waits_for=(16, 0))
    text = explanation_page(explanation(lines=(line(0, "LDG.E R2, [R4]"), *rare, last)))
    assert "... 5 instructions to 0x0050, never executed" in text and "RARE1" not in text
    page = ParsedPage(text)
    assert page.fragments <= set(page.ids) and "0x0010" in text


def test_a_long_kernel_keeps_the_instructions_where_most_time_is_spent():
    lines = tuple(line(n, f"FADD R{n}, R2, R4", stall=n / 1e4, waits_for=(0, 16, 32)) for n in range(5000))
    text = explanation_page(explanation(lines=lines))
    assert_harmless(text)
    kept = [int(each, 16) // 16 for each in re.findall(r'<tr id="i([0-9a-f]+)"', text)]
    assert kept == list(range(kept[0], 5000)) and len(kept) > 300
    assert f"The {len(kept)} of 5000 instructions" in text


@pytest.mark.parametrize("text", [NASTY, LONG])
def test_text_of_unknown_origin_is_shown_and_not_obeyed(text):
    assert_harmless(explanation_page(hostile(text)))


def test_lists_of_any_length_fit():
    many = tuple(f"{n}{LONG}" for n in range(3000))
    advice = tuple(Advice(text=each, gain=0.1, evidence=each) for each in many)
    fields = {"assumptions": many, "notes": many, "advice": advice, "loops": dict.fromkeys(many, 1.0)}
    fields |= {"bounds": dict.fromkeys(many, 1.0), "curve": tuple(point(n + 1) for n in range(3000))}
    assert_harmless(explanation_page(explanation(**fields)))


@pytest.mark.parametrize("value", [0.0, 5e-324, 1e-300, 1e308])
def test_extreme_numbers_are_shown(value):
    extreme = point(8).model_copy(
        update=dict.fromkeys(("predicted", "low", "high", "measured", "volkov", "roofline"), value)
    )
    bounds = {"memory": value, "fma": value}
    assert_harmless(explanation_page(explanation(point=extreme, curve=(extreme, point(1)), bounds=bounds)))
    assert_harmless(explanation_page(explanation(point=extreme, curve=(extreme,), bounds=bounds)))


def test_the_curve_has_prediction_with_band_measured_points_and_models():
    figure = curve(explanation())
    assert figure.ys == ("predicted", "measured", "Volkov", "roofline")
    assert figure.columns["predicted"][:2] == (50.0, 25.0) and figure.unit("predicted") == "us"
    assert figure.columns["low"][0] == 45.0 and figure.band == ("low", "high")
    assert figure.marks == [(64.0, "this launch")]
    low = [point(n).model_copy(update={"roofline": 1.0}) for n in (1, 2)]
    assert "roofline" not in curve(explanation(curve=tuple(low), point=low[1])).ys
    assert figure.y_title == "time"


def test_a_series_without_points_keeps_the_styles_of_the_others_and_has_no_key():
    without = curve(explanation(curve=tuple(point(n, measured=False) for n in (1, 2)), point=point(8, measured=False)))
    assert list(drawn_groups(without)) == [(0, "predicted"), (2, "Volkov"), (3, "roofline")]


def test_the_roofline_has_its_ridge_at_one_and_the_launch_below():
    (figure,) = roofline(explanation())
    rows = list(zip(*(figure.columns[name] for name in (figure.x, "predicted", "roof")), strict=True))
    assert (1.0, None, 1.0) in rows and rows[0] == (pytest.approx(300 / 9000, rel=1e-4), 0.03, None)


@pytest.mark.parametrize("bounds", [{"memory": 9000.0}, {"fma": 9000.0, "memory": 0.0}, {}])
def test_without_arithmetic_or_memory_there_is_no_roofline(bounds):
    assert list(roofline(explanation(bounds=bounds))) == []


def test_a_band_is_an_area_between_its_ends_within_the_axes():
    columns = {"x": (1.0, 2.0, 3.0), "y": (2.0, 2.0, None), "low": (1.0, 1.0, None), "high": (3.0, 9.0, 4.0)}
    figure = Figure("t", Kind.LINES, columns, "x", ("y",), band=("low", "high"))
    drawing = svg(figure, "p")
    (path,) = re.findall(r'class="band" d="([^"]*)"', drawing)
    assert path.count("L") == 3 and path.endswith("z")
    scales = json.loads(re.search(r'data-scales="([^"]*)"', drawing)[1].replace("&quot;", '"'))
    assert scales[1][0] <= 1.0 and scales[1][1] >= 9.0

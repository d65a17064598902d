"""Plots of latency hiding: measurements with models, warps needed, errors of the models."""

import json
import re
from pathlib import Path

import pytest

from gpudissect.models import by_key
from gpudissect.results.files import load
from gpudissect.results.model import Series
from gpudissect.views.page.result import result_page
from gpudissect.views.plots.draw import groups_of, svg
from gpudissect.views.plots.element import figures_of_element, figures_of_series, known_machine
from gpudissect.views.plots.figure import Kind
from gpudissect.views.plots.standalone import standalone

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def h200():
    return load(ROOT / "docs" / "results" / "h200-latency-hiding.json")


@pytest.fixture(scope="module")
def figures(h200):
    return {figure.title.partition(": ")[2]: figure for figure in figures_of_element(h200, "hiding")}


def test_models_are_drawn_over_the_measurement(figures, h200):
    figure = figures["throughput against warps at alpha 8, and by models"]
    assert figure.ys[0] == "measured" and [by_key(key).name for key in ("basic", "refined")] == list(figure.ys[1:3])
    curves = {name: dict(points) for name, points in groups_of(figure)}
    assert (
        set(curves["measured"]) < set(curves[by_key("basic").name])
        and max(curves[by_key("basic").name].values()) == 100
    )
    columns = h200.observed("hiding", "throughput against warps and alpha").columns
    rows = zip(*(columns[name] for name in ("alpha", "warps", "chains", "rate")), strict=True)
    best: dict[float, float] = {}
    for alpha, warps, chains, rate in rows:
        if (alpha, chains) == (8, 1):
            best[warps] = max(best.get(warps, 0.0), rate)
    shares = curves["measured"]
    assert shares[16] / shares[1] == pytest.approx(best[16] / best[1], rel=1e-3)


def test_the_map_has_the_throughput_of_every_warp_count_and_alpha(figures):
    (name, figure), *_ = figures.items()
    assert figure.kind is Kind.MAP and name.startswith("throughput by warps")
    shares = figure.columns["of the peak"]
    assert (
        min(shares) > 0
        and max(shares) <= 100
        and len(shares) == len(set(zip(*list(figure.columns.values())[:2], strict=True)))
    )


def test_warps_needed_by_measurement_and_models(figures):
    figure = figures["warps needed for 90 % of the peak"]
    assert figure.x == "alpha" and figure.ys == ("measured", "basic", "refined")
    assert figure.unit("refined") == "warps" and "cusp" in figure.note


def test_every_model_has_an_error_curve(figures, h200):
    best, others = figures["error of models by alpha, the best"], figures["error of models by alpha, the others"]
    shown = [{*figure.columns["model"]} for figure in (best, others)]
    series = h200.observed("hiding", "estimate over measurement by alpha").columns
    assert len(shown[0]) == 8 and shown[0].isdisjoint(shown[1]) and shown[0] | shown[1] == {*series["model"]}
    assert max(best.columns["times off"]) <= max(others.columns["times off"])
    assert min(best.columns["times off"]) >= 1
    low, high, off = (best.columns[name][0] for name in ("low", "high", "times off"))
    assert off == pytest.approx(max(high, 1 / low), rel=1e-5)
    worst = figures["worst estimate over measurement, model by model"]
    models = len({*series["model"]})
    assert "1 Volkov 2016, refined" in worst.note and worst.columns["number"] == tuple(range(1, models + 1))


def test_errors_of_models_have_a_logarithmic_axis(figures):
    for name in ("error of models by alpha, the best", "error of models by alpha, the others"):
        (_, up) = json.loads(re.search(r'data-scales="(.*?)"', svg(figures[name], "p"))[1].replace("&quot;", '"'))
        assert up[2] == 1 and up[0] > 0, name


def test_rates_by_block_size(figures):
    figure = figures["throughput by block size, persistent and oversubscribed"]
    assert figure.ys == ("rate",) and figure.by == "waves"


def test_every_figure_is_drawn_and_on_the_page(figures, h200):
    text = result_page(h200)
    for name, figure in figures.items():
        assert standalone(figure), name
        assert f": {name}</figcaption>" in text


def test_without_parameters_no_model_is_drawn(h200):
    bare = h200.model_copy(update={"findings": ()})
    assert known_machine(bare) is None
    assert not [each.title for each in figures_of_element(bare, "hiding") if "by models" in each.title]


@pytest.mark.parametrize(
    "columns",
    [
        {"alpha": ("a", None), "warps": (1, 2), "chains": (1, 1), "rate": (1.0, 2.0)},
        {"alpha": (0.0, 8.0), "warps": (1, 2)},
        {"alpha": (0.0, 8.0), "warps": (1e300, 1e300), "chains": (1, 1), "rate": (1e300, 1e-300)},
        {"model": (None, "x"), "alpha": (1, 2), "low": (0, 1), "high": ("y", 1)},
    ],
)
def test_unexpected_columns_are_drawn_or_omitted(h200, columns):
    names = (
        "throughput against warps and alpha",
        "warps needed for 90 % of the peak",
        "estimate over measurement by alpha",
        "worst estimate over measurement",
    )
    for name in names:
        series = Series(element="hiding", name=name, columns=columns)
        for figure in figures_of_series(series, known_machine(h200)):
            standalone(figure)

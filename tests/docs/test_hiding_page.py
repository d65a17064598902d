"""The page on latency hiding is made of what the result files hold, whatever GPU they are of."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from gpudissect.results.folded import folded
from gpudissect.results.model import Result
from making.hiding_page import PAGES, RESULTS, accesses_of, markdown, pictures, results_of

CORNER = RESULTS / "h200-latency-hiding-corner.json"


@pytest.fixture(scope="module")
def result(hide_once: Callable[..., Result]) -> Result:
    return hide_once("sim:gtx980", quick=True)


def altered(result: Result, model: str, over: float) -> Result:
    """The same with another largest overestimate of a model."""
    content = json.loads(result.to_json())
    for series in content["series"]:
        if series["name"] == "worst estimate over measurement":
            series["columns"]["over"][series["columns"]["model"].index(model)] = over
    return Result.model_validate_json(json.dumps(content))


def test_the_page_holds_the_numbers_of_the_result(result: Result) -> None:
    text = markdown("gtx980", [result])
    assert text.startswith("# NVIDIA GeForce GTX 980: latency hiding of consecutive loads, simulated")
    assert "nan" not in re.sub(r"\b\w*nan\w+\b", "", text) and "None" not in text
    assert f"| access_latency | {folded(result.finding('hiding', 'access_latency'))} |" in text
    assert "Agreement" not in text and "in isolation" not in text
    assert "| Sim et al. 2012 |" in text and " to 77 |" not in text
    assert " to 77 |" in markdown("gtx980", [altered(result, "sim", 77.0)])


def test_every_kind_of_access_has_its_picture(result: Result) -> None:
    text = markdown("gtx980", [result])
    plotted = dict(pictures(result))
    assert re.findall(r"made: picture gtx980/(\w+)", text) == list(plotted)
    for svg in plotted.values():
        assert ElementTree.fromstring(svg).find("{http://www.w3.org/2000/svg}g") is not None
        assert not re.search(r"[ML](nan|inf)|\"(nan|inf)\"", svg)


def test_the_loss_in_isolation_stands_in_a_table(result: Result) -> None:
    rows = re.findall(r"^\| (.*) \| 181 \| .* \|$", markdown("h200", [result], CORNER), re.MULTILINE)
    assert rows == ["all SMs", "one SM, the others idle"]


def test_runs_are_compared(result: Result) -> None:
    text = markdown("gtx980", [result, result])
    assert "## Agreement of 2 runs" in text
    spreads = re.findall(r"^\| hiding \| .* \| ([\d.]+%) \|$", text, re.MULTILINE)
    assert len(spreads) > 10 and set(spreads) == {"0.0%"}


@pytest.mark.parametrize("page", PAGES)
def test_results_of_an_h200_have_a_page(page: str) -> None:
    results = results_of(page)
    text = markdown(page, results, CORNER)
    assert all(f"## {each.key}\n" in text for each in accesses_of(results[0]))

"""Pages about a GPU's result: every number comes from the result file."""

import pytest

from gpudissect.results.check import Weight, concerns
from gpudissect.results.files import load
from gpudissect.results.folded import folded
from gpudissect.views.page.hierarchy import hierarchy_file
from making import cards, result_page
from making.result_page import GPUS, RESULTS, result_of
from tests.support.pages import ROOT

NOT_RESULTS = ("h200-latency-hiding-corner",)  # rates of one experiment
FILES = sorted(path.stem for path in RESULTS.glob("*.json") if path.stem not in NOT_RESULTS)


@pytest.mark.parametrize("name", FILES)
def test_a_result_with_a_page_is_stable(name):
    found = concerns([load(RESULTS / f"{name}.json")])
    assert [each.what for each in found if each.weight is Weight.UNSTABLE] == []


@pytest.mark.parametrize("gpu", GPUS)
def test_discoveries_hold_values_of_the_result(gpu):
    text = result_page.discoveries(gpu)
    assert len(text.splitlines()) >= 8 and not result_page.NAME.search(text)
    for element, attribute in (("l2", "near_latency"), ("texture", "hit_latency"), ("dram", "far_latency")):
        assert folded(result_of(gpu).finding(element, attribute)) in text


def test_a_discovery_without_its_finding_is_left_out(monkeypatch):
    findings = tuple(each for each in result_of("h200").findings if each.element != "l2")
    without = result_of("h200").model_copy(update={"findings": findings})
    monkeypatch.setattr(result_page, "result_of", lambda gpu: without)
    assert "partition holds" not in result_page.discoveries("h200")


@pytest.mark.parametrize("gpu", GPUS)
def test_no_finding_is_lost(gpu):
    """Each one is in a table or in the list of those without a value, except `DETAILS`."""
    text = result_page.findings(gpu)
    for finding in result_of(gpu).findings:
        if finding.attribute not in result_page.DETAILS:
            assert f"`{finding.element}`" in text, finding.element
            assert not finding.status.has_value or folded(finding) in text, (finding.element, finding.attribute)
    paths = [path for path, text in result_page.files() if len(text.splitlines()) > 250]
    assert paths == [f"results/{each}{end}" for each in GPUS for end in (".csv", "-report.html")]


@pytest.mark.parametrize("gpu", GPUS)
def test_the_summary_has_a_row_per_level(gpu):
    text = result_page.summary(gpu)
    assert all(f"| {level} |" in text for level in ("L1 data cache", "Shared memory", "L2 cache", "Device memory"))


def test_the_readme_has_the_drawing():
    readme, drawing = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/assets/h200.svg"))
    assert "docs/assets/h200.svg" in readme
    assert drawing == hierarchy_file(result_of("h200")), "run docs/making/readme.py"


@pytest.mark.parametrize("gpu", GPUS)
def test_values_of_further_cards_are_of_findings_of_the_result(gpu):
    known = {(each.element, each.attribute): each for each in result_of(gpu).findings}
    rows = list(cards.rows(gpu))
    assert len({row["card"] for row in rows}) >= 2
    for row in rows:
        assert row["unit"] == known[row["element"], row["attribute"]].unit


def test_the_page_has_the_range_of_what_differs_between_cards():
    lines = [line for line in cards.cards("h200").splitlines() if line.startswith("| `tlb_l2` miss penalty")]
    assert [line.split(" | ")[1] for line in lines] == ["93.5-154 cycles"]

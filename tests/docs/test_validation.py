"""The pages on validation: each comparison has one kind, none that fails is left out, nothing simulated is measured."""

import ast
import re
from functools import partial
from pathlib import Path

import counters
import evidence
import explain_text
import hiding_figures
import limiters_page
import numpy as np
import paper_data
import papers
import pytest
import silicon
import validate
from kinds import NO, TABLES, YES, Kind, kind_of, read

from gpudissect import catalogue, workload
from tests.support.pages import DOCS, ROOT

MEASURED = re.compile(r"(VV16 |printed )?\b(measured|measurements?)\b", re.IGNORECASE)
NOT_COMPARED = (validate.STATED, validate.OUTSIDE, validate.OTHER_SHARE)
MEASURED_BY = {
    "MC16": {"gtx280", "gtx560ti", "gtx780", "gtx980"},
    "MC14": {"gtx560ti", "gtx780"},
    "HC13": {"c2070", "c2070-48k"},
    "MT22": {"k20c", "840m", "p6000", "v100", "rtx2080ti", "a100"},
    "VV16": {"8800gtx", "gtx280", "gtx480", "gtx680", "gtx980"},
}


@pytest.mark.parametrize("table", TABLES)
def test_every_comparison_has_one_kind(table):
    for row in read(table):
        if row["kind"]:
            assert row["kind"] in set(Kind) and row["agrees"] in (YES, NO)
        else:
            assert row["verdict"] in NOT_COMPARED


def test_the_pages_are_those_of_the_tables():
    assert evidence.PAGE.read_text(encoding="utf-8") == evidence.page(), "run validation/evidence.py"
    assert silicon.TABLE.read_text(encoding="utf-8") == silicon.table(), "run validation/silicon.py"
    assert papers.PAGE.read_text(encoding="utf-8") == papers.page(), "run validation/papers.py"
    assert paper_data.TABLE.read_text(encoding="utf-8") == paper_data.table(), "run validation/paper_data.py"


def test_every_comparison_with_a_paper_has_an_entry_and_every_difference_a_reason():
    assert not [key for key in papers.counts() if not key[1]]
    for paper in papers.NAMES:
        for entry in papers.entries()[paper]:
            agree, differ = (papers.counts()[paper, entry["place"], agrees] for agrees in (True, False))
            assert "source" not in entry or agree + differ, f"{paper} {entry['place']}: matches no row"
            assert not differ or entry.get("why"), f"{paper} {entry['place']}"


@pytest.mark.parametrize("gpu", catalogue.names())
def test_every_published_number_is_in_the_table(gpu):
    """A number leaves the comparison only as stated by the driver or as lacking in the simulation."""
    rows = {(row["element"], row["attribute"]): row for row in read("validation") if row["gpu"] == gpu}
    for item in catalogue.load(gpu).published():
        row = rows[item.element, item.attribute]
        compared = row["verdict"] not in NOT_COMPARED
        assert bool(row["kind"]) == compared
        assert item.simulated == (row["verdict"] != validate.OUTSIDE) or row["verdict"] == validate.STATED


def test_what_a_gpu_file_calls_not_simulated_is_no_failure():
    """Of a GPU file typed from documents: parts of the L2 that the simulated A100 lacks. All else is compared."""
    left_out = {
        (gpu, item.element, item.attribute)
        for gpu in catalogue.names()
        if catalogue.load(gpu).table.run is None
        for item in catalogue.load(gpu).published()
        if not item.simulated
    }
    assert left_out == {("a100", "l2", name) for name in ("segment_size", "near_latency", "far_latency")}


@pytest.mark.parametrize("gpu", catalogue.names())
def test_a_paper_is_cited_for_gpus_that_it_measured(gpu):
    for item in catalogue.load(gpu).published():
        for paper, gpus in MEASURED_BY.items():
            if item.source.startswith(paper) and gpu not in gpus:
                assert re.search("of Mei & Chu|quoting", item.source), (item.element, item.attribute, item.source)


def test_what_was_tuned_or_typed_is_not_emergent():
    numbers = {(item.element, item.attribute): item for item in catalogue.load("gtx480").published()}
    kinds = {name: kind_of(item) for name, item in numbers.items()}
    assert kinds["ldg_streaming", "warps_needed"] is kinds["ldg_random", "warps_needed"] is Kind.TUNED
    assert kinds["lds", "warps_needed"] is Kind.EMERGENT
    assert kinds["lds", "rate"] is kinds["dram", "hit_latency"] is kinds["shared", "banks"] is Kind.ROUND_TRIP


def test_all_of_vv16_table_6_3_is_compared_with_its_own_share_of_the_peak():
    rows = [row for row in read("validation-data") if row["source"] == "VV16 table 6.3"]
    elsewhere = [row for row in read("validation") if row["verdict"] == validate.OTHER_SHARE]
    assert len(rows) == len(elsewhere) == 20
    assert all("99%" in row["what"] and row["kind"] == Kind.EMERGENT for row in rows)


def test_a_bound_alone_does_not_agree():
    rows = [row for row in read("validation-silicon") if row["bracket"].startswith((">", "<"))]
    assert rows and {row["agrees"] for row in rows} == {NO}


def test_other_sets_than_mc16_concludes_miss_as_its_figure_8_counts():
    concluded, fitting = (catalogue.load("gtx780").hierarchy(alternative) for alternative in (False, True))
    for size, counted in paper_data.FIGURE_8.items():
        assert set(paper_data.second_tlb_misses(fitting, size // 2)) == {counted}
        assert min(paper_data.second_tlb_misses(concluded, size // 2)) > counted
    assert set(paper_data.second_tlb_misses(fitting, 65)) == {0}


@pytest.mark.parametrize(("alternative", "addresses", "stride"), [(False, 96, 128), (True, 24, 2048)])
def test_the_addresses_that_a_set_holds_distinguish_mc16s_figures_7_and_4(alternative, addresses, stride):
    """The caveat that `discover` gives the sets has these numbers; latency of a 48 KB array falls at that stride."""
    hierarchy, same_set = catalogue.load("gtx780").hierarchy(alternative), 512  # bytes: bits 7 and 8 do not change
    hit, miss = hierarchy.routes[workload.Path.TEXTURE].latency
    latency = partial(paper_data.mean_latency, hierarchy, workload.Path.TEXTURE)
    assert [latency(count * same_set, same_set) for count in (addresses, addresses + 1)] == [hit, miss]
    assert [latency(48 << 10, each) for each in (stride // 2, stride)] == [miss, hit]


def test_the_readme_has_the_counts_of_silicon():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for gpu in silicon.GPUS:
        agrees = [row["agrees"] == YES for row in read("validation-silicon") if row["gpu"] == gpu]
        assert f"{sum(agrees)} of {len(agrees)}" in readme and f"our {gpu.upper()}" in readme


@pytest.mark.parametrize("page", ["validation-hiding.md", "throughput.md"])
def test_no_simulated_page_calls_its_numbers_measured(page):
    text = (DOCS / page).read_text(encoding="utf-8")
    assert [match[0] for match in MEASURED.finditer(text) if not match[1]] == []


@pytest.mark.parametrize("module", ["hiding_figures", "mt22_curves", "throughput"])
def test_no_simulated_figure_calls_its_points_measured(module):
    """No text that the script can plot has the word."""
    tree = ast.parse((Path(hiding_figures.__file__).parent / f"{module}.py").read_text(encoding="utf-8"))
    documented = (ast.FunctionDef, ast.ClassDef, ast.Module)
    docstrings = {ast.get_docstring(node, clean=False) for node in ast.walk(tree) if isinstance(node, documented)}
    guard = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == hiding_figures.unmeasured.__name__
        for inner in ast.walk(node)
    }
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in guard]
    texts = [text for text in texts if isinstance(text, str) and text not in docstrings]
    assert len(texts) > 20 and not [text for text in texts if "measure" in text.lower()]


def test_a_picture_with_the_word_is_refused():
    assert hiding_figures.unmeasured("<svg>simulated</svg>")
    with pytest.raises(ValueError, match="measured"):
        hiding_figures.unmeasured("<svg>Measured</svg>")


def test_the_victims_of_figure_11_are_no_independent_choices():
    """Printed by MC16: 2 3 2 1 2 4 2 3 2. The simulated weights do not give them; the order in the GPU file does."""
    gpu = catalogue.load("gtx560ti")
    concluded, ordered = (paper_data.figure_11_victims(gpu.hierarchy(alternative)) for alternative in (False, True))
    assert concluded[:9] != paper_data.FIGURE_11
    assert ordered[:9] == paper_data.FIGURE_11
    rng = np.random.default_rng(11)
    victims = rng.choice([1, 2, 3, 4], p=[1 / 6, 1 / 2, 1 / 6, 1 / 6], size=(200_000, 9))
    alternate = [(victims == 2)[:, n::2].all(axis=1) & ~(victims == 2)[:, 1 - n :: 2].any(axis=1) for n in (0, 1)]
    every_second, in_turn = paper_data.independent_probabilities()
    assert np.mean(alternate[0] | alternate[1]) == pytest.approx(every_second, rel=0.15)
    first, second, third, fourth = victims[alternate[0]][:, 1::2].T
    assert np.mean((first != second) & (second != third) & (first != third) & (fourth == first)) == pytest.approx(
        in_turn, abs=0.04
    )


@pytest.mark.parametrize(
    ("page", "templates"),
    [
        ("validation-explain.md", (explain_text.INTRODUCTION, explain_text.WARPGROUP_HEAD)),
        ("validation-counters.md", (counters.INTRODUCTION, counters.CLOSE)),
        ("validation-limiters.md", (limiters_page.INTRODUCTION, limiters_page.METHOD)),
    ],
)
def test_pages_of_slow_scripts_have_their_text(page, templates):
    """The scripts take minutes: `--check` compares the tables."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for template in templates:
        pattern = ".*?".join(re.escape(part) for part in re.split(r"\{\w+\}", template))
        assert re.search(pattern, text, re.DOTALL), f"{page}: {template[:60]!r}"

"""The page of the audit has every row, names tests that exist, and gives a reason for what is not done."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
STATES = ("done", "partly", "no", "n/a", "contradicted")
MIN_REASON = 3  # characters: at least a reference such as "C5."
REQUIREMENTS = [f"{part}{n}" for part, count in zip("ABCD", (17, 4, 9, 6), strict=True) for n in range(1, count + 1)]


def rows(heading):
    """Cells of the table below a heading, without its header."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = [line.split("|")[1:-1] for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in table[2:]]


def test_every_requirement_has_its_row():
    assert [row[0] for row in rows("Requirements")] == REQUIREMENTS


def test_every_point_has_its_row():
    assert [row[0].partition(".")[0] for row in rows("Gravest points")] == [str(n) for n in range(1, 21)]


def test_every_paper_has_rows():
    papers = [row[0].split()[0].rstrip(",") for row in rows("Papers")]
    assert {paper: papers.count(paper) for paper in papers} == {"MC16": 21, "MC14": 5, "HC13": 3, "MT22": 10, "VV16": 8}


@pytest.mark.parametrize(
    "heading",
    [
        *("Requirements", "Papers", "Circular comparisons", "Independent evidence on silicon", "Gravest points"),
        "Done by hand at the time",
    ],
)
def test_what_is_not_done_has_a_reason(heading):
    for *_, state, reason in rows(heading):
        assert state in STATES
        assert state in ("done", "n/a") or len(reason) >= MIN_REASON, reason


@pytest.mark.parametrize("heading", ["Circular comparisons", "Gravest points", "Done by hand at the time"])
def test_what_is_done_says_what_is_there(heading):
    assert not [row[0] for row in rows(heading) if len(row[-1]) < MIN_REASON]


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py)`", PAGE))))
def test_named_tests_exist(name):
    assert (ROOT / name).is_file()


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([\w/-]+\.md)\)", PAGE))))
def test_linked_pages_exist(link):
    assert (ROOT / "docs" / link).is_file()


def test_references_to_other_rows_exist():
    named = {row[0] for row in rows("Requirements")}
    assert set(re.findall(r"\b[ABCD]\d{1,2}\b", PAGE)) <= named

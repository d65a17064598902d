"""Tables of the pages: the vocabulary and where it is explained, and what an H200 gave for its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from gpudissect.estimate import Status
from gpudissect.measure.plan import Study
from gpudissect.results.files import load
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, cut, percent, quantity
from gpudissect.survey.registry import experiments
from gpudissect.vocabulary import ATTRIBUTES, INSTRUCTIONS, LIST_INDEX

DOCS = Path(__file__).parents[1]
DEFINITION = re.compile(r"^`([a-z0-9_]+)`.*\n+:   ", re.MULTILINE)  # a word on a line of its own, its meaning below
SUBJECTS = re.compile(r"^(elements|attributes): \[(.*)\]$", re.MULTILINE)
MAX_VALUE_LENGTH = 60  # characters in a table


@cache
def h200() -> Result:
    """The result of an H200 that the documentation shows."""
    return load(DOCS / "results" / "h200.json")


@cache
def definitions() -> Mapping[str, str]:
    """The page that defines each attribute, relative to the documentation's folder."""
    pages: dict[str, str] = {}
    for path in sorted((DOCS / "attributes").glob("*.md")):
        for word in DEFINITION.findall(path.read_text(encoding="utf-8")):
            pages.setdefault(word, f"attributes/{path.name}")
    return pages


def attributes() -> str:
    """Every attribute: unit, elements it is found of, page that explains it."""
    declared = [each for study in Study for each in experiments(study).values()]
    lines = ["| attribute | unit | found of | explained in |", "|---|---|---|---|"]
    for attribute, unit in ATTRIBUTES.items():
        page = definitions()[attribute]
        title = re.search("^# (.*)", (DOCS / page).read_text(encoding="utf-8"), re.MULTILINE)
        elements = dict.fromkeys(each.element for each in declared if attribute in each.emits)
        found_of = ", ".join(f"`{element}`" for element in elements) or "-"
        if set(INSTRUCTIONS) <= set(elements):
            found_of = "every instruction"
        lines.append(f"| `{attribute}` | {unit or '-'} | {found_of} | [{title[1] if title else page}](../{page}) |")
    return "\n".join(lines)


def subjects(text: str) -> tuple[list[str], list[str]]:
    """Elements and attributes in the head of a page whose values it shows; no elements: all of them."""
    head = dict(SUBJECTS.findall(text.split("---\n")[1])) if text.startswith("---\n") else {}
    elements, names = (head.get(name, "").replace(",", " ").split() for name in ("elements", "attributes"))
    return elements, names


def measured(text: str) -> str:
    """What the H200 gave for the words in the head of a page; empty for nothing."""
    rows = list(_rows(*subjects(text)))
    return "\n".join(
        ["| element | attribute | value | bracket | confidence |", "|---|---|---|---|---|", *rows] if rows else []
    )


def _rows(elements: list[str], names: list[str]) -> Iterator[str]:
    for finding in h200().findings:
        if finding.attribute in names and (not elements or finding.element in elements):
            ends = bracket(finding.low, finding.high, finding.unit)
            confidence = percent(finding.confidence)
            yield f"| `{finding.element}` | `{finding.attribute}` | {_value(finding)} | {ends} | {confidence} |"


def _value(finding: Finding) -> str:
    if not finding.status.has_value:
        return finding.status.value
    text = quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))
    return cut(text, MAX_VALUE_LENGTH) + (", stated" if finding.status is Status.STATED else "")

"""Tables of the pages: the vocabulary and where it is explained, and what an H200 gave for its words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from gpudissect.estimate import Status
from gpudissect.measure.plan import Study
from gpudissect.results.folded import folded
from gpudissect.results.summary import CONFIDENT
from gpudissect.results.text import percent
from gpudissect.survey.registry import experiments
from gpudissect.vocabulary import ATTRIBUTES, INSTRUCTIONS
from making.result_page import result_of

DOCS = Path(__file__).parents[1]
DEFINITION = re.compile(r"^`([a-z0-9_]+)`.*\n+:   ", re.MULTILINE)  # a word on a line of its own, its meaning below
SUBJECTS = re.compile(r"^(elements|attributes): \[(.*)\]$", re.MULTILINE)


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
    lines = ["| attribute | unit | elements | explained in |", "|---|---|---|---|"]
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
    return "\n".join(["| element | attribute | value |", "|---|---|---|", *rows] if rows else [])


def _rows(elements: list[str], names: list[str]) -> Iterator[str]:
    for finding in result_of("h200").findings:
        if finding.attribute in names and (not elements or finding.element in elements):
            value = folded(finding) or finding.status.value
            if finding.status is Status.STATED:
                value += ", stated"
            if finding.confidence is not None and finding.confidence < CONFIDENT:
                value += f" ({percent(finding.confidence)})"
            yield f"| `{finding.element}` | `{finding.attribute}` | {value} |"

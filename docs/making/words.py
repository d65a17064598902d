"""The vocabulary on the pages: which page explains which attribute and element, and tables of both."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from gpudissect.measure.plan import Study
from gpudissect.survey.registry import experiments
from gpudissect.vocabulary import ATTRIBUTES, INSTRUCTIONS

DOCS = Path(__file__).parents[1]
ENTRY = re.compile(r"^`([a-z0-9_]+)`.*\n+:   ", re.MULTILINE)
"""A definition: the word on a line of its own, what it means below."""

LISTED = re.compile(r"^(elements|attributes): \[(.*)\]$", re.MULTILINE)


@cache
def explained() -> Mapping[str, str]:
    """The page of each attribute, relative to the documentation's folder, by the definitions that stand on it."""
    pages: dict[str, str] = {}
    for path in sorted((DOCS / "attributes").glob("*.md")):
        for word in ENTRY.findall(path.read_text(encoding="utf-8")):
            pages.setdefault(word, f"attributes/{path.name}")
    return pages


def subjects(path: Path) -> tuple[list[str], list[str]]:
    """Elements and attributes whose values a page shows, as its head says; no elements: all of them."""
    text = path.read_text(encoding="utf-8")
    head = dict(LISTED.findall(text.split("---\n")[1])) if text.startswith("---\n") else {}
    elements, attributes = (head.get(name, "").replace(",", " ").split() for name in ("elements", "attributes"))
    return elements, attributes


def table_of_attributes() -> str:
    """Every attribute: unit, of which elements it is found, where it is explained."""
    lines = ["| attribute | unit | found of | explained in |", "|---|---|---|---|"]
    for attribute, unit in ATTRIBUTES.items():
        page = explained()[attribute]
        lines.append(f"| `{attribute}` | {unit or '-'} | {_elements_of(attribute)} | [{_title(page)}](../{page}) |")
    return "\n".join(lines)


def _title(page: str) -> str:
    text = (DOCS / page).read_text(encoding="utf-8")
    return next(line.removeprefix("# ") for line in text.splitlines() if line.startswith("# "))


def _elements_of(attribute: str) -> str:
    declared = (*experiments(Study.DISCOVER).values(), *experiments(Study.HIDE).values())
    every = dict.fromkeys(each.element for each in declared if attribute in each.emits)
    if set(INSTRUCTIONS) <= set(every):
        return "every instruction"
    return ", ".join(f"`{element}`" for element in every) or "-"

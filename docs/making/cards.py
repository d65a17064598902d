"""Findings on several cards of one model: what agrees is of the model, what differs may be of the card."""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Sequence

from gpudissect.estimate import Status
from gpudissect.results.compare import MAX_CLOCK_RATIO, Outcome, Row, compare
from gpudissect.results.folded import folded
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import words
from making.result_page import RESULTS, result_of, table

CARDS = RESULTS / "cards.csv"
CARD = slice(0, 12)  # of a UUID: GPU- and eight digits
TEXT = """{total} findings have a value on two or more of {cards} cards, one run each. By their brackets {same} agree,
{ambiguous} overlap in part, {refused} cannot be compared, and {different} differ:"""


def cards(gpu: str) -> str:
    """How many findings agree on all cards, and the others with their ranges."""
    names = [_card(result_of(gpu)), *dict.fromkeys(row["card"] for row in rows(gpu))]
    compared = [_compare([each for each in several if each]) for several in _several(gpu)]
    counts = Counter(row.outcome for row, _ in compared)
    lines = []
    for row, results in compared:
        if row.outcome is Outcome.DIFFERENT:
            found = {_card(result): folded(result.findings[0]) for result in results}
            spread = row.spread.partition(" over ")[0]
            lines.append((f"`{row.element}` {words(row.attribute)}", spread, *(found.get(name, "") for name in names)))
    heads = ("finding", "range", f"{names[0]} (this page)", *names[1:])
    text = TEXT.format(
        total=len(compared),
        cards=len(names),
        same=counts[Outcome.SAME],
        ambiguous=counts[Outcome.AMBIGUOUS],
        refused=counts[Outcome.NOT_COMPARABLE],
        different=len(lines),
    )
    return "\n\n".join([text, table(heads, lines), f"[Values of the other cards]({CARDS.name})."])


def _compare(results: Sequence[Result]) -> tuple[Row, Sequence[Result]]:
    """One finding on several cards; on those with the clock of the first, where the clock changes the value."""
    (row,) = compare(results).rows
    if row.outcome is Outcome.NOT_COMPARABLE:
        first, *others = (each.conditions.clock_hz or 1.0 for each in results)
        near = [1 / MAX_CLOCK_RATIO < clock / first < MAX_CLOCK_RATIO for clock in (first, *others)]
        equal = [each for each, kept in zip(results, near, strict=True) if kept]
        if 1 < len(equal) < len(results):
            return compare(equal).rows[0], equal
    return row, results


def _several(gpu: str) -> list[list[Result]]:
    """For each finding that two or more cards have, the results of these cards with this finding alone."""
    published = result_of(gpu)
    several: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for finding in published.findings:
        if finding.status is Status.FOUND:
            several[finding.element, finding.attribute].append(published.model_copy(update={"findings": (finding,)}))
    for row in rows(gpu):
        clock = published.conditions.model_copy(update={"clock_hz": float(row["clock_hz"])})
        card = published.provenance.model_copy(update={"gpu_uuid": row["card"]})
        update = {"findings": (_finding(row),), "conditions": clock, "provenance": card}
        several[row["element"], row["attribute"]].append(published.model_copy(update=update))
    return [results for results in several.values() if len(results) > 1]


def rows(gpu: str) -> list[dict[str, str]]:
    """Findings of further cards, as `validation/cards.py` wrote them."""
    with CARDS.open(encoding="utf-8", newline="") as file:
        return [row for row in csv.DictReader(file) if row["gpu"] == gpu]


def _finding(row: dict[str, str]) -> Finding:
    value, low, high = (_number(row[column]) for column in ("value", "low", "high"))
    names = {"element": row["element"], "attribute": row["attribute"], "status": Status.FOUND, "unit": row["unit"]}
    ends = {"low": None if low == "" else low, "high": None if high == "" else high}
    return Finding.model_validate({**names, "value": value, **ends})


def _number(text: str) -> float | int | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _card(result: Result) -> str:
    return (result.provenance.gpu_uuid or "")[CARD]

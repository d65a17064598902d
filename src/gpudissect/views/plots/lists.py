"""Findings that make a plot by themselves: a number for each SM, for each set, for each kind of access."""

from __future__ import annotations

from collections.abc import Sequence

from gpudissect.results.model import Finding
from gpudissect.results.names import title_of, words
from gpudissect.views.plots.figure import Column, Figure, Kind
from gpudissect.vocabulary import LIST_INDEX

MOST_BARS = 2048
_PATTERNS = ("p1", "p2", "p3", "p4", "p5", "p6")
_PARTS = ("latency_by_sm", "part_by_sm")  # the second colours the first


def figures_of(findings: Sequence[Finding]) -> list[Figure]:
    """A figure for each list of more than two numbers among the findings of one element, and for its spectrum."""
    by_name = {finding.attribute: finding for finding in findings}
    made = [spectrum] if (spectrum := _spectrum(findings)) is not None else []
    for finding in findings:
        value = finding.value
        if not isinstance(value, tuple) or len(value) < 3 or (finding.attribute == _PARTS[1] and _PARTS[0] in by_name):
            continue
        across = LIST_INDEX.get(finding.attribute, "sets").removesuffix("s")
        name = words(finding.attribute)
        columns: dict[str, Column] = {across: tuple(range(len(value[:MOST_BARS]))), name: value[:MOST_BARS]}
        parts = by_name.get(_PARTS[1]) if finding.attribute == _PARTS[0] else None
        colour = None
        if parts is not None and isinstance(parts.value, tuple) and len(parts.value) == len(value):
            columns["part"], colour = parts.value[:MOST_BARS], "part"
        made.append(
            Figure(
                title=f"{title_of(finding.element)}: {name}, {across} by {across}",
                kind=Kind.DOTS if colour else Kind.BARS,
                columns=columns,
                units={name: finding.unit} if finding.unit else {},
                x=across,
                ys=(name,),
                by=colour,
                evidence=finding.evidence,
                answers=True,
            )
        )
    return made


def _spectrum(findings: Sequence[Finding]) -> Figure | None:
    """The latency spectrum, P1 to P6 (MC16 section 5.2), as far as it was found."""
    found = [each for each in findings if each.attribute in _PATTERNS and isinstance(each.value, int | float)]
    if len(found) < 2:
        return None
    columns: dict[str, Column] = {
        "pattern": tuple(_PATTERNS.index(each.attribute) + 1 for each in found),
        "latency": tuple(each.value if isinstance(each.value, int | float) else None for each in found),
        "low": tuple(each.low for each in found),
        "high": tuple(each.high for each in found),
    }
    evidence = tuple(dict.fromkeys(digest for each in found for digest in each.evidence))
    return Figure(
        title=f"{title_of(found[0].element)}: cycles of P1 to P6",
        kind=Kind.BARS,
        columns=columns,
        units=dict.fromkeys(("latency", "low", "high"), "cycles"),
        x="pattern",
        ys=("latency",),
        evidence=evidence,
        answers=True,
        note="P1 to P3: hits of the cache, by the TLB that hits (first, second, none); P4: a miss of the cache, P5: of "
        "the TLBs too, P6: and in another page-table window",
    )

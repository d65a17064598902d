"""Findings that are lists of numbers, as bars: one for each SM, one for each set."""

from __future__ import annotations

from collections.abc import Sequence

from gpudissect.report.names import title_of, words
from gpudissect.report.plots.figure import Column, Figure, Kind
from gpudissect.report.result import Finding
from gpudissect.vocabulary import EACH

MOST_BARS = 2048
_PARTS = ("latency_by_sm", "part_by_sm")  # the second colours the first


def figures_of(findings: Sequence[Finding]) -> list[Figure]:
    """A figure for each list of more than two numbers among the findings of one element."""
    by_name = {finding.attribute: finding for finding in findings}
    made = []
    for finding in findings:
        value = finding.value
        if not isinstance(value, tuple) or len(value) < 3 or (finding.attribute == _PARTS[1] and _PARTS[0] in by_name):
            continue
        across = EACH.get(finding.attribute, "sets").removesuffix("s")
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
            )
        )
    return made

"""Every figure of one element: of its findings, then of its series."""

from __future__ import annotations

from collections.abc import Sequence

from gpudissect.report.plots.choose import figure_of
from gpudissect.report.plots.figure import Figure
from gpudissect.report.plots.lists import figures_of
from gpudissect.report.plots.sets import figure_of_sets
from gpudissect.report.result import Finding, Result, Series


def figures_of_element(result: Result, element: str) -> list[Figure]:
    """The figures of one element of a result; none for an element that it has nothing of."""
    return figures_together([each for each in result.findings if each.element == element],
                            [each for each in result.series if each.element == element])  # fmt: skip


def figures_together(findings: Sequence[Finding], series: Sequence[Series]) -> list[Figure]:
    """The map of sets, lists of numbers and the spectrum among these findings, and a figure for each series."""
    sets = figure_of_sets(findings)
    seen = [figure for each in series if (figure := figure_of(each)) is not None]
    return [*([sets] if sets is not None else []), *figures_of(findings), *seen]

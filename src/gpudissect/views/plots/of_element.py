"""Every figure of one element: of its findings, then of its series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpudissect.errors import UsageError
from gpudissect.models.base import Machine
from gpudissect.results.machine import KINDS, machine_of
from gpudissect.results.model import Finding, Result, Series
from gpudissect.views.plots.choose import figure_of
from gpudissect.views.plots.figure import Figure
from gpudissect.views.plots.hiding import figures_of_hiding
from gpudissect.views.plots.lists import figures_of
from gpudissect.views.plots.sets import figure_of_sets

SEEN_IN = {
    "misses against footprint": ("capacity",),
    "latency against footprint": ("miss_penalty",),
    "hits against distance of a second word": ("line_size",),
    "latency against throughput": ("contention_base", "contention_rise", "contention_ceiling"),
}
"""Attributes that an experiment's own series show, by its name, though a finding may rest on more, or on others."""


def figures_of_element(result: Result, element: str) -> list[Figure]:
    """The figures of one element of a result; none for an element that it has nothing of."""
    findings = [each for each in result.findings if each.element == element]
    return figures_together(findings, [each for each in result.series if each.element == element],
                            known_machine(result))  # fmt: skip


def figures_together(
    findings: Sequence[Finding], series: Sequence[Series], machine: Machine | None = None
) -> list[Figure]:
    """The map of sets, lists of numbers and the spectrum among these findings, and the figures of each series.

    `machine` is what models of latency hiding are given.
    """
    sets = figure_of_sets(findings)
    seen = [figure for each in series for figure in figures_of_series(each, machine)]
    return [*([sets] if sets is not None else []), *figures_of(findings), *seen]


def figures_of_series(series: Series, machine: Machine | None = None) -> list[Figure]:
    """Those that its name asks for, else the one that fits its columns; none where there is nothing to plot."""
    own = figures_of_hiding(series, machine)
    if own is None:
        figure = figure_of(series)
        own = [figure] if figure is not None else []
    shows = tuple((series.element, each) for each in series.shows or SEEN_IN.get(series.name, ()))
    return [replace(figure, shows=shows) for figure in own]


def known_machine(result: Result) -> Machine | None:
    """The parameters of models of latency hiding, None where a result has none, or some that make no sense."""
    if not any(each.element in KINDS for each in result.series):
        return None
    try:
        return machine_of(result)
    except UsageError:
        return None

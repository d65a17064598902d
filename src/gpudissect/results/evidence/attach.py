"""Adds series to a result that show the evidence of its findings, small enough to be kept in its file."""

from collections import defaultdict
from collections.abc import Sequence, Set

from gpudissect.estimate import Status
from gpudissect.results.evidence.series import Limits, Traces, series_of
from gpudissect.results.evidence.shapes import SECOND_ACCESS
from gpudissect.results.model import Result, Series

FILE_LIMITS = Limits(points=48, cells=400, sm_cells=1056, bars=40)
"""Of a result file: a few hundred bytes to a few kilobytes each; of 132 SMs eight lines."""
SHOWS_ONLY = {SECOND_ACCESS: ("fetch_granularity", "line_size")}
"""Series that show these attributes only; other findings that rest on the same traces are not read from them."""


def with_evidence(result: Result, traces: Traces, limits: Limits = FILE_LIMITS) -> Result:
    """The result with thinned series of findings whose evidence no series of their experiment shows.

    Series that show mostly the same traces are left out. Series that were added before are replaced.
    """
    if not traces:
        return result
    measured = [series for series in result.series if not series.shows]
    shown: dict[str, set[str]] = defaultdict(set)  # digests behind the experiments' own series of each element
    for series in measured:
        shown[series.element].update(series.evidence)
    findings: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)  # attributes with the same evidence
    for finding in result.findings:
        if finding.status is Status.FOUND and finding.evidence:
            findings[finding.element, finding.evidence].append(finding.attribute)
    added: list[Series] = []
    by_kind: dict[tuple[str, str], set[str]] = defaultdict(set)  # digests behind each kind of added series
    special = {attribute for attributes in SHOWS_ONLY.values() for attribute in attributes}
    for (element, evidence), attributes in findings.items():
        if _overlaps(evidence, shown[element]) and special.isdisjoint(attributes):
            continue
        for series in series_of(element, evidence, traces, limits):
            only = SHOWS_ONLY.get(series.name)
            shows = tuple(each for each in attributes if only is None or each in only)
            kind = by_kind[element, series.name.split(",")[0]]
            if shows and not _overlaps(series.evidence, kind if only else kind | shown[element]):
                kind.update(series.evidence)
                added.append(series.model_copy(update={"evidence": (), "shows": shows}))
    return result.model_copy(update={"series": (*measured, *added)})


def _overlaps(evidence: Sequence[str], shown: Set[str]) -> bool:
    """Whether most of the evidence is shown already."""
    return 2 * len(shown & set(evidence)) > len(evidence)

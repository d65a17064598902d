"""What a result keeps of the traces that its findings rest on: enough for the plots of a page made of its file."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set

from gpudissect.estimate import Status
from gpudissect.results.evidence.second_words import NAME as SECOND_WORDS
from gpudissect.results.evidence.series import Kept, Limits, series_of
from gpudissect.results.model import Result, Series

KEPT = Limits(points=48, cells=400, sm_cells=1056, bars=40)
"""Of a file: a few hundred bytes to a few kilobytes each, of 132 SMs eight lines."""
ONLY_OF = {SECOND_WORDS: ("fetch_granularity", "line_size")}
"""Series that show one thing: other findings that rest on the same traces are not read from them."""


def with_evidence(result: Result, kept: Kept, limits: Limits = KEPT) -> Result:
    """The result with thinned series of what was found but is not shown by a series that its experiment gave.

    `kept` has the traces by the digests of their workloads. Series that show most of the same are left out; those that
    were kept before make room for these.
    """
    if not kept:
        return result
    result = result.model_copy(update={"series": tuple(each for each in result.series if not each.shows)})
    own: dict[str, set[str]] = defaultdict(set)  # digests behind the experiments' own series of each element
    for series in result.series:
        own[series.element].update(series.evidence)
    sharing: dict[tuple[str, tuple[str, ...]], list[str]] = defaultdict(list)
    for finding in result.findings:
        if finding.status is Status.FOUND and finding.evidence:
            sharing[finding.element, finding.evidence].append(finding.attribute)
    drawn: dict[tuple[str, str], set[str]] = defaultdict(set)  # digests behind each kind of series kept here
    made: list[Series] = []
    singular = {each for names in ONLY_OF.values() for each in names}
    for (element, evidence), attributes in sharing.items():
        if _mostly(evidence, own[element]) and singular.isdisjoint(attributes):
            continue  # its experiment has drawn it
        for series in series_of(element, evidence, kept, limits):
            only = ONLY_OF.get(series.name)
            shows = tuple(each for each in attributes if only is None or each in only)
            kind = series.name.split(",")[0]
            told = drawn[element, kind] if only else drawn[element, kind] | own[element]
            if not shows or _mostly(series.evidence, told):
                continue
            drawn[element, kind].update(series.evidence)
            made.append(series.model_copy(update={"evidence": (), "shows": shows}))
    return result.model_copy(update={"series": (*result.series, *made)})


def _mostly(evidence: Sequence[str], told: Set[str]) -> bool:
    return 2 * len(told & set(evidence)) > len(evidence)

"""Print the tables of a results page, in Markdown, from result files of one GPU: values, and how runs agree."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpudissect.results.files import load
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, percent, quantity
from gpudissect.vocabulary import LIST_INDEX

HEADS = ("element", "attribute", "value", "ns", "bracket", "confidence", "spread of the runs", "published", "verdict")


def tables(results: Sequence[Result]) -> Iterator[str]:
    """One row per finding of the first result, then its caveats and reasons."""
    yield f"| {' | '.join(HEADS)} |"
    yield "|---" * len(HEADS) + "|"
    by_name = [{(each.element, each.attribute): each for each in result.findings} for result in results]
    for finding in results[0].findings:
        runs = [known[name] for known in by_name if (name := (finding.element, finding.attribute)) in known]
        published, value = finding.published, finding.status.value
        if finding.value is not None:
            value = quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))
        cells = (
            finding.element,
            finding.attribute,
            value,
            "" if finding.value_ns is None else f"{finding.value_ns:.1f}",
            bracket(finding.low, finding.high, finding.unit),
            percent(finding.confidence),
            _spread(runs),
            "" if published is None else f"{quantity(published.value, published.unit)} ({published.source})",
            "" if published is None else f"{published.verdict.value}: {published.text}",
        )
        yield f"| {' | '.join(cells)} |"
    yield ""
    for finding in results[0].findings:
        for text in (*finding.caveats, finding.reason):
            if text:
                yield f"- **{finding.element} {finding.attribute}**: {text}"


def _spread(runs: Sequence[Finding]) -> str:
    """Largest over smallest value, or in how many runs there is one."""
    values = [run.value for run in runs if isinstance(run.value, int | float)]
    count = sum(run.status.has_value for run in runs)
    if 0 < count < len(runs):
        return f"found in {count} of {len(runs)}"
    if len(values) < len(runs) or len(runs) < 2 or min(values) <= 0:
        return ""
    return f"{max(values) / min(values) - 1:.1%}" if min(values) != max(values) else "same"


if __name__ == "__main__":
    print(*tables([load(Path(name)) for name in sys.argv[1:]]), sep="\n")

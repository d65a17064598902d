"""Write the tables of a results page, in Markdown, from result files of the same GPU: values, and how runs agree."""

from __future__ import annotations

import sys
from pathlib import Path

from gpudissect.results.files import load
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, percent, quantity
from gpudissect.vocabulary import LIST_INDEX


def tables(results: list[Result]) -> str:
    """One row a finding: value, bracket, confidence, the spread over all runs, published value and verdict."""
    first = results[0]
    out = [
        "| element | attribute | value | ns | bracket | confidence | spread of the runs | published | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    told = [{(each.element, each.attribute): each for each in result.findings} for result in results]
    for finding in first.findings:
        runs = [own[name] for own in told if (name := (finding.element, finding.attribute)) in own]
        known = finding.published
        cells = [
            finding.element,
            finding.attribute,
            _value(finding),
            "" if finding.value_ns is None else f"{finding.value_ns:.1f}",
            bracket(finding.low, finding.high, finding.unit),
            percent(finding.confidence),
            _spread(runs),
            "" if known is None else f"{quantity(known.value, known.unit)} ({known.source})",
            "" if known is None else f"{known.verdict.value}: {known.text}",
        ]
        out.append("| " + " | ".join(cells) + " |")
    notes = [
        f"- **{finding.element} {finding.attribute}**: {text}"
        for finding in first.findings
        for text in (*finding.caveats, finding.reason)
        if text
    ]
    return "\n".join([*out, "", *notes]) + "\n"


def _value(finding: Finding) -> str:
    if finding.value is None:
        return finding.status.value
    return quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))


def _spread(runs: list[Finding]) -> str:
    values = [run.value for run in runs if isinstance(run.value, int | float)]
    told = sum(run.status.has_value for run in runs)
    if 0 < told < len(runs):
        return f"found in {told} of {len(runs)}"
    if len(values) < len(runs) or len(runs) < 2 or min(values) <= 0:
        return ""
    if min(values) == max(values):
        return "same"
    return f"{(max(values) - min(values)) / min(values):.1%}"


if __name__ == "__main__":
    sys.stdout.write(tables([load(Path(name)) for name in sys.argv[1:]]))

"""Compare what gpudissect measured on real GPUs with measurements of other groups: docs/validation-silicon.csv."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from kinds import DOCS, Kind, yes
from written import csv_text, write_or_check

from gpudissect.estimate import Status
from gpudissect.results.files import load
from gpudissect.results.model import Finding
from gpudissect.results.text import bracket, quantity
from gpudissect.results.verdict import Verdict

TABLE = DOCS / "validation-silicon.csv"
GPUS = ("h200", "h100")
COLUMNS = ("kind", "agrees", "gpu", "element", "attribute", "published", "found", "bracket", "verdict", "source")
NOT_OF_HOPPER = ("B200", "NVIDIA")
"""Sources that measured other generations, or that specify instead of measuring."""
SETTING = "a setting of the driver"
REPEATED = ("l2", "hit_latency")
"""The same number as `near_latency`, published and found."""


def rows() -> Iterator[tuple[str, ...]]:
    """One row for each number that another group measured on a GPU of the same generation."""
    for gpu in GPUS:
        for finding in load(DOCS / "results" / f"{gpu}.json").findings:
            published = finding.published
            if published is None or (finding.element, finding.attribute) == REPEATED:
                continue
            if published.verdict is Verdict.NOT_COMPARABLE and finding.status is Status.STATED:
                continue
            if published.text != SETTING and not published.source.startswith(NOT_OF_HOPPER):
                yield _row(gpu, finding)


def _row(gpu: str, finding: Finding) -> tuple[str, ...]:
    item = finding.published
    assert item is not None
    known = quantity(item.value, item.unit)
    if item.low is not None or item.high is not None:
        known += f" ({bracket(item.low, item.high, item.unit)})"
    found = finding.status.value if finding.value is None else quantity(finding.value, finding.unit)
    ends = bracket(finding.low, finding.high, finding.unit)
    is_bound = (finding.low is None) != (finding.high is None)  # half of a bracket is no measured value
    agrees = item.verdict in (Verdict.AGREES, Verdict.FINER) and not is_bound
    verdict = f"one-sided bound, not counted as agreeing: {item.text}" if is_bound else f"{item.verdict}: {item.text}"
    kind = (Kind.SILICON.value, yes(agrees))
    return (*kind, gpu, finding.element, finding.attribute, known, found, ends, verdict, item.source)


def table() -> str:
    """All rows as CSV."""
    return csv_text([COLUMNS, *rows()])


def main() -> int:
    """Write the table, or compare with it."""
    return write_or_check(__doc__, __file__, lambda: {TABLE: table()})


if __name__ == "__main__":
    sys.exit(main())

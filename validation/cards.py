"""Keep values of further cards of a model, which its page compares with the published result: docs/results/cards.csv.

    python validation/cards.py h200 [--keep] RESULT.json [RESULT.json ...]

Replaces the rows of the GPU by the findings of these results that have a number or a short text; with ``--keep``, only
the rows of the same cards.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path

from kinds import DOCS
from written import csv_text

from gpudissect.estimate import Status
from gpudissect.results.files import load

TABLE = DOCS / "results" / "cards.csv"
COLUMNS = ("gpu", "card", "clock_hz", "element", "attribute", "value", "unit", "low", "high")
MAX_TEXT_LENGTH = 40  # of a value
CARD = slice(0, 12)  # of a UUID: GPU- and eight digits


def rows(gpu: str, results: list[Path]) -> Iterator[tuple[str, ...]]:
    """One row for each finding of each result that the published one has, too."""
    published = {(each.element, each.attribute) for each in load(DOCS / "results" / f"{gpu}.json").findings}
    for path in results:
        result = load(path)
        head = gpu, (result.provenance.gpu_uuid or "")[CARD], f"{result.conditions.clock_hz or 0:.0f}"
        for each in result.findings:
            is_compared = each.status is Status.FOUND and (each.element, each.attribute) in published
            if is_compared and not isinstance(each.value, tuple):
                ends = ("" if end is None else f"{end:.6g}" for end in (each.low, each.high))
                value = f"{each.value:.6g}" if isinstance(each.value, float) else str(each.value)
                if len(value) <= MAX_TEXT_LENGTH:
                    yield (*head, each.element, each.attribute, value, each.unit, *ends)


def main() -> int:
    """Replace rows of one GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpu")
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--keep", action="store_true", help="keep the rows of other cards of this GPU")
    options = parser.parse_args()
    new = list(rows(options.gpu, options.results))
    cards = {row[1] for row in new}
    known = list(csv.reader(TABLE.read_text(encoding="utf-8").splitlines()))[1:] if TABLE.exists() else []
    kept = [row for row in known if row[0] != options.gpu or (options.keep and row[1] not in cards)]
    TABLE.write_text(csv_text([COLUMNS, *kept, *new]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

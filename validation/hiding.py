"""Compare what VV16 prints about latency hiding with the models: docs/validation-hiding.md and its pictures."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hiding_rows import Row, rows
from hiding_sections import Row as Simulated
from hiding_sections import model_errors, quotient_rows, scheduling, single_runs, single_runs_section
from kinds import Kind, yes
from written import csv_text

PAGE = Path(__file__).parent.parent / "docs" / "validation-hiding.md"
TABLE = PAGE.with_suffix(".csv")
COLUMNS = ("kind", "agrees", "basis", "gpu", "what", "published", "found", "verdict", "source")
GENERATIONS = re.compile("G80|GT200|Fermi|Kepler|Maxwell")
FIGURES = {4: range(1, 14), 5: range(2, 6), 6: range(1, 7), 7: range(1, 15)}  # by chapter


def headline(found: Sequence[Row]) -> str:
    """How many printed numbers come out."""
    agreeing = [row for row in found if row.agrees]
    near, differ = sum(bool(row.near) for row in agreeing), len(found) - len(agreeing)
    return (
        f"**{len(agreeing) - near} of {len(found)} printed numbers and formulas agree to the last digit printed.** "
        f"{near} nearly agree (reason given); {differ} {'differs' if differ == 1 else 'differ'}. "
        f"None of them is evidence of how a GPU works. Basis: {_by_basis(found)}."
    )


def _by_basis(found: Sequence[Row]) -> str:
    counts = Counter(row.basis for row in found)
    return ", ".join(f"{basis} ({count})" for basis, count in counts.most_common())


def page(found: Sequence[Row]) -> str:
    """The page in Markdown: rows that agree to the last digit are counted, the others listed."""
    lines = [
        "# Validation: latency hiding",
        "",
        "V. Volkov, *Understanding Latency Hiding on GPUs* (2016) prints numbers and formulas. `gpudissect.models`",
        "computes them from the same parameters (its tables 2.6-2.8, 3.2, 3.3, 4.1, 4.3, 6.1-6.7 and 7.1, in",
        "`validation/vv16.toml`). Made by `python validation/hiding.py`.",
        "",
        headline(found),
        "The table lists those that do not agree to the last digit. [All rows](validation-hiding.csv).",
        "",
        "| where | what | printed | ours | |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(_cells(row))} |" for row in found if row.near or not row.agrees),
        *model_errors(),
        *single_runs_section(),
        *scheduling(),
        "",
        "## Figures",
    ]
    for chapter, numbers in FIGURES.items():
        for number in numbers:
            lines += ["", f"<!-- made: picture vv16/{chapter}-{number:02} -->"]
    return "\n".join(lines) + "\n"


def _cells(row: Row) -> tuple[str, ...]:
    verdict = ("near" if row.near else "agrees") if row.agrees else "differs"
    note = "; ".join(text for text in (verdict, row.near, row.about) if text)
    ours = f"{row.ours:.4g}" if abs(row.ours) > 1e-9 else "0"
    return row.place, row.what, f"{row.printed:g}", ours, note


def calculations(found: Iterable[Row]) -> Iterator[tuple[str, ...]]:
    """Rows calculated from printed numbers; near agreement does not count as agreement."""
    for row in found:
        where, what, printed, ours, note = _cells(row)
        agrees = yes(row.agrees and not row.near)
        yield (Kind.CALCULATION.value, agrees, row.basis, _generation(what), what, printed, ours, note, f"VV16 {where}")


def simulations(found: Iterable[Simulated]) -> Iterator[tuple[str, ...]]:
    """Rows from simulated GPUs."""
    for row in found:
        cells = (_generation(row.what), row.what, row.printed, row.ours, row.verdict, f"VV16 {row.place}")
        yield (row.kind.value, yes(row.agrees), "", *cells)


def _generation(what: str) -> str:
    match = GENERATIONS.search(what)
    return match[0] if match else ""


def main() -> int:
    """Write the page, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if numbers of the page would change")
    options = parser.parse_args()
    found = rows()
    print(headline(found))
    table = csv_text([COLUMNS, *calculations(found), *simulations(quotient_rows())])
    if not options.check:
        PAGE.write_text(page(found), encoding="utf-8")
        TABLE.write_text(table + csv_text(simulations(single_runs())), encoding="utf-8")
        return 0
    kept = PAGE.read_text(encoding="utf-8").splitlines()
    changed = [line for line in (headline(found), *model_errors()) if line not in kept]
    if changed or not TABLE.read_text(encoding="utf-8").startswith(table):
        print(f"{PAGE.name} or {TABLE.name} is out of date, run validation/hiding.py:", *changed, sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare what VV16 prints about latency hiding with the models: docs/validation-hiding.md and its pictures."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hiding_rows import Row, rows
from hiding_sections import model_errors, scheduling, single_runs

PAGE = Path(__file__).parent.parent / "docs" / "validation-hiding.md"
FIGURES = {4: range(1, 14), 5: range(2, 6), 6: range(1, 7), 7: range(1, 15)}  # by chapter


def headline(found: Sequence[Row]) -> str:
    """How many printed numbers come out."""
    agreeing = [row for row in found if row.agrees]
    near = sum(bool(row.near) for row in agreeing)
    return (
        f"**{len(agreeing) - near} of {len(found)} printed numbers and formulas agree to the last digit printed, "
        f"{near} nearly, for a reason that is given, {len(found) - len(agreeing)} differ.**"
    )


def page(found: Sequence[Row]) -> str:
    """The page in Markdown."""
    lines = [
        "# Validation: latency hiding",
        "",
        "What V. Volkov, *Understanding Latency Hiding on GPUs* (2016) prints and what `gpudissect.models` gives with",
        "the same parameters (its tables 2.6-2.8, 3.2, 3.3, 4.1, 4.3, 6.1-6.7, 7.1, in `models/vv16.toml`).",
        "Made by `python validation/hiding.py`.",
        "",
        headline(found),
        "*Largest deviation*: of the model, over all occupancies, from the formula with the numbers printed.",
        "",
        "| where | what | printed | ours | |",
        "|---|---|---|---|---|",
        *map(_line, found),
        *model_errors(),
        *single_runs(),
        *scheduling(),
        "",
        "## Figures",
    ]
    for chapter, numbers in FIGURES.items():
        for number in numbers:
            lines += ["", f"<!-- made: picture vv16/{chapter}-{number:02} -->"]
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    verdict = ("near" if row.near else "agrees") if row.agrees else "**differs**"
    note = "; ".join(text for text in (verdict, row.near, row.about) if text)
    ours = f"{row.ours:.4g}" if abs(row.ours) > 1e-9 else "0"
    return f"| {row.place} | {row.what} | {row.printed:g} | {ours} | {note} |"


def main() -> int:
    """Write the page, or compare with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if numbers of the page would change")
    options = parser.parse_args()
    found = rows()
    print(headline(found))
    if not options.check:
        PAGE.write_text(page(found), encoding="utf-8")
        return 0
    kept = PAGE.read_text(encoding="utf-8").splitlines()
    changed = [line for line in (*map(_line, found), *model_errors()) if line not in kept]
    if changed:
        print(f"{PAGE.name} is out of date, run validation/hiding.py:", *changed, sep="\n")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())

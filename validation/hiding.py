"""Hold what VV16 prints about latency hiding against the models, and draw its figures: docs/validation-hiding.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from hiding_chapters import figures as of_chapters
from hiding_chapters import lines as of_runs
from hiding_figures import Experiment, Figure, figures
from hiding_measured import simulated
from hiding_orders import lines as of_orders
from hiding_quotients import lines, remembered
from hiding_rows import Row, rows

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "validation-hiding.md"
PICTURES = DOCS / "validation-hiding"


def headline(found: Sequence[Row]) -> str:
    """How many printed numbers come out."""
    agreeing = [row for row in found if row.agrees]
    near = sum(bool(row.near) for row in agreeing)
    return (
        f"**{len(agreeing) - near} of {len(found)} printed numbers and formulas come out to the last digit printed, "
        f"{near} come near for a reason that is given, {len(found) - len(agreeing)} differ.**"
    )


def page(found: Sequence[Row], drawn: Sequence[Figure], experiment: Experiment) -> str:
    """The page in Markdown."""
    out = [
        "# Validation: latency hiding",
        "",
        "What V. Volkov, *Understanding Latency Hiding on GPUs* (2016) prints and what `gpudissect.models` makes of",
        "the same parameters (its tables 2.6-2.8, 3.2, 3.3, 4.1, 4.3, 6.1-6.7, 7.1, in `models/vv16.toml`).",
        "Made by `python validation/hiding.py`.",
        "",
        headline(found),
        "*Largest deviation*: of the model, over all occupancies, from the formula with the numbers printed.",
        "",
        "| where | what | printed | ours | |",
        "|---|---|---|---|---|",
        *(_line(row) for row in found),
        *lines(experiment),
        *of_runs(experiment),
        *of_orders(),
        "",
        "## Figures",
    ]
    for figure in drawn:
        title = figure.title[0].upper() + figure.title[1:]
        out += ["", f"![{title}]({PICTURES.name}/{figure.key}.svg)"]
    return "\n".join(out) + "\n"


def _line(row: Row) -> str:
    verdict = ("near" if row.near else "agrees") if row.agrees else "**differs**"
    note = "; ".join(text for text in (verdict, row.near, row.about) if text)
    ours = f"{row.ours:.4g}" if abs(row.ours) > 1e-9 else "0"
    return f"| {row.place} | {row.what} | {row.printed:g} | {ours} | {note} |"


def main(experiment: Experiment = simulated) -> int:
    """Write the page and its pictures, or check that they are of this state of the models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is of another state")
    options = parser.parse_args()
    found = rows()
    print(headline(found))
    if options.check:
        kept = PAGE.read_text().splitlines()
        stale = [row.what for row in found if _line(row) not in kept]
        stale += [line for line in lines(remembered(experiment)) if line not in kept]
        if stale:
            print(f"{PAGE.name} is of another state: {'; '.join(stale)}: run validation/hiding.py")
        return 1 if stale else 0
    asked = remembered(experiment)
    drawn = sorted((*figures(asked), *of_chapters(asked)), key=lambda each: each.key)
    PICTURES.mkdir(exist_ok=True)
    for figure in drawn:
        (PICTURES / f"{figure.key}.svg").write_text(figure.svg)
    PAGE.write_text(page(found, drawn, asked))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Tables and pages of docs/ that a script writes, or with ``--check`` compares with what it would write."""

from __future__ import annotations

import argparse
import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path


def csv_text(rows: Iterable[Sequence[str]]) -> str:
    """Rows as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_or_check(
    description: str | None,
    script: str,
    texts: Callable[[], Mapping[Path, str]],
    report: Callable[[], str] | None = None,
) -> int:
    """Write the texts and print the report; or, with ``--check``, return 1 if a file differs from its text."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would change")
    options, file = parser.parse_args(), Path(script)
    made = texts()
    if options.check:
        old = [path.name for path, text in made.items() if path.read_text(encoding="utf-8") != text]
        state = f"{', '.join(old)} out of date: run validation/{file.name}" if old else "as written"
        print(f"{file.stem}: {state}")
        return 1 if old else 0
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
    if report:
        print(report())
    return 0

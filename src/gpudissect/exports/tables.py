"""A result as tables for spreadsheets and data frames: its findings, and its series one number a line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from gpudissect.errors import UsageError
from gpudissect.results.model import Number, Result, Value
from gpudissect.results.text import clean

Cell = Number | str | None
FINDINGS = ("element", "attribute", "status", "value", "text", "unit", "low", "high", "value_ns", "confidence",
            "published", "verdict", "method", "reason")  # fmt: skip
SERIES = ("element", "series", "row", "column", "value", "text", "unit")
_FORMULA = ("=", "+", "-", "@")  # at the start of a text: a spreadsheet would run it


def findings_csv(result: Result) -> str:
    """Findings as CSV, a header first: numbers in `value`, whatever is no single number in `text`."""
    return _csv(FINDINGS, _findings(result))


def series_csv(result: Result) -> str:
    """Every series as CSV, one number a line."""
    return _csv(SERIES, _series(result))


def findings_parquet(result: Result) -> bytes:
    """Findings as Parquet. Raises `UsageError` without pyarrow."""
    return parquet(FINDINGS, list(_findings(result)))


def series_parquet(result: Result) -> bytes:
    """Every series as Parquet, one number a row. Raises `UsageError` without pyarrow."""
    return parquet(SERIES, list(_series(result)))


def parquet(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bytes:
    """A Parquet file of these rows; numbers of a column as doubles. Raises `UsageError` without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError("Parquet needs pyarrow: pip install 'gpudissect[parquet]'") from None
    columns = {}
    for number, name in enumerate(names):
        values = [row[number] for row in rows]
        is_text = any(isinstance(value, str) for value in values)
        kind = pyarrow.string() if is_text else pyarrow.float64()
        columns[name] = pyarrow.array([None if value is None else str(value) if is_text else float(value)
                                       for value in values], kind)  # fmt: skip
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def _findings(result: Result) -> Iterator[tuple[Cell, ...]]:
    for each in result.findings:
        known = each.published
        published = None if known is None else _text(known.value)
        yield (
            each.element, each.attribute, each.status.value, *_split(each.value), each.unit, each.low, each.high,
            each.value_ns, each.confidence, published, None if known is None else known.verdict.value,
            each.method, each.reason,
        )  # fmt: skip


def _series(result: Result) -> Iterator[tuple[Cell, ...]]:
    for series in result.series:
        for name, column in series.columns.items():
            for row, value in enumerate(column):
                yield (series.element, series.name, row, name, *_split(value), series.units.get(name, ""))


def _split(value: Value | None) -> tuple[Cell, Cell]:
    """A number, or else a text."""
    return (value, None) if isinstance(value, int | float) else (None, _text(value))


def _text(value: Value | None) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _csv(names: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_safe(cell) if isinstance(cell, str) else cell for cell in row])
    return text.getvalue()


def _safe(text: str) -> str:
    """A text that no spreadsheet takes for a formula, and that stays on its line."""
    shown = clean(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown

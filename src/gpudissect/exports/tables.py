"""Findings, series and traces as CSV and Parquet, for spreadsheets and data frames."""

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.errors import UsageError
from gpudissect.printable import clean
from gpudissect.results.files import check_ending
from gpudissect.results.model import Number, Result, Value
from gpudissect.trace import Trace
from gpudissect.workload import Chase, Stream, Workload

Cell = Number | str | None
Columns = Mapping[str, NDArray[np.int64]]
Traces = Mapping[str, tuple[Workload, Trace]]
"""By the digest of the workload."""
AsColumns = Callable[[Workload, Trace], Columns]
"""Turns a trace into columns of equal length."""

FINDINGS = (
    *("element", "attribute", "status", "value", "text", "unit", "low", "high", "value_ns", "confidence"),
    *("published", "verdict", "method", "reason"),
)
SERIES = ("element", "series", "row", "column", "value", "text", "unit")
TRACE_LABELS = ("workload", "kind", "path")
"""First columns of traces: the digest that findings name as evidence, the kind of workload, its path."""
NO_PYARROW = "Parquet needs pyarrow: pip install '.[parquet]'"
_FORMULA = ("=", "+", "-", "@")  # at the start of a text: a spreadsheet would run it


def findings_csv(result: Result) -> str:
    """Findings as CSV, a header first: numbers in `value`, everything else in `text`."""
    return _csv(FINDINGS, _findings(result))


def series_csv(result: Result) -> str:
    """Every series as CSV, one number per line."""
    return _csv(SERIES, _series(result))


def findings_parquet(result: Result) -> bytes:
    """Findings as Parquet. Raises `UsageError` without pyarrow."""
    return parquet(FINDINGS, list(_findings(result)))


def series_parquet(result: Result) -> bytes:
    """Every series as Parquet, one number per row. Raises `UsageError` without pyarrow."""
    return parquet(SERIES, list(_series(result)))


def parquet(names: Sequence[str], rows: Sequence[Sequence[Cell]]) -> bytes:
    """A Parquet file of these rows; number columns as doubles. Raises `UsageError` without pyarrow."""
    pyarrow = _pyarrow()
    columns = {}
    for i, name in enumerate(names):
        values = [row[i] for row in rows]
        is_text = any(isinstance(value, str) for value in values)
        convert: Callable[[Any], str | float] = str if is_text else float
        kind = pyarrow.string() if is_text else pyarrow.float64()
        columns[name] = pyarrow.array([None if value is None else convert(value) for value in values], kind)
    return _parquet_file(pyarrow.table(columns))


def traces_csv(traces: Traces, as_columns: AsColumns) -> bytes:
    """Every trace as CSV, a header first; columns that a kind of workload lacks stay empty."""
    names = list(dict.fromkeys(name for _, columns, _ in _labelled(traces, as_columns) for name in columns))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*TRACE_LABELS, *names))
    for labels, columns, size in _labelled(traces, as_columns):
        cells = [columns[name].tolist() if name in columns else [None] * size for name in names]
        writer.writerows((*labels, *row) for row in zip(*cells, strict=True))
    return text.getvalue().encode()


def traces_parquet(traces: Traces, as_columns: AsColumns) -> bytes:
    """Every trace as a Parquet file; null in columns that a kind of workload lacks. `UsageError` without pyarrow."""
    pyarrow = _pyarrow()
    kind = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
    tables = [pyarrow.table({name: pyarrow.array([], kind) for name in TRACE_LABELS})]
    for labels, columns, size in _labelled(traces, as_columns):
        codes, texts = np.zeros(size, np.int32), zip(TRACE_LABELS, labels, strict=True)
        words = {name: pyarrow.DictionaryArray.from_arrays(codes, pyarrow.array([text])) for name, text in texts}
        tables.append(pyarrow.table(words | dict(columns)))
    return _parquet_file(pyarrow.concat_tables(tables, promote_options="default").unify_dictionaries())


TRACE_FORMATS: Mapping[str, Callable[[Traces, AsColumns], bytes]] = {".csv": traces_csv, ".parquet": traces_parquet}
"""File suffix to writer."""


def check_traces_name(file: Path | None) -> None:
    """Raise `UsageError`, before anything is measured, for a file of traces that cannot be written."""
    if file is None:
        return
    check_ending(file, "of a file of traces", TRACE_FORMATS)
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UsageError(NO_PYARROW)


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(NO_PYARROW) from None
    return pyarrow


def _parquet_file(table: Any) -> bytes:
    file = io.BytesIO()
    _pyarrow().parquet.write_table(table, file)
    return file.getvalue()


def _labelled(traces: Traces, as_columns: AsColumns) -> Iterator[tuple[tuple[str, str, str], Columns, int]]:
    """Labels, columns and number of rows of every trace."""
    for digest, (workload, trace) in traces.items():
        columns = as_columns(workload, trace)
        path = workload.path.value if isinstance(workload, Chase | Stream) else ""
        yield (digest, type(workload).__name__.lower(), path), columns, len(next(iter(columns.values())))


def _findings(result: Result) -> Iterator[tuple[Cell, ...]]:
    for finding in result.findings:
        published = finding.published
        comparison = (None, None) if published is None else (_text(published.value), published.verdict.value)
        yield (
            *(finding.element, finding.attribute, finding.status.value, *_split(finding.value), finding.unit),
            *(finding.low, finding.high, finding.value_ns, finding.confidence),
            *(*comparison, finding.method, finding.reason),
        )


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
    writer.writerows([_safe(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return text.getvalue()


def _safe(text: str) -> str:
    """A text on one line that no spreadsheet takes for a formula."""
    shown = clean(text)
    return f"'{shown}" if shown.startswith(_FORMULA) else shown

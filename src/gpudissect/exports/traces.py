"""Every trace behind a result as one table, CSV or Parquet: whoever wants to look with a program of their own."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpudissect.device_info import DeviceInfo
from gpudissect.errors import UsageError
from gpudissect.results.evidence.series import Kept
from gpudissect.results.files import check_ending
from gpudissect.views.traces.run_trace import RunTrace
from gpudissect.views.traces.trace import Columns
from gpudissect.workload import Chase, Stream, Workload

NAMES = ("workload", "kind", "path")
"""Of each row: the digest that findings name as their evidence, what kind of workload it is, its way to memory."""
Labels = tuple[str, str, str]
NO_PYARROW = "Parquet needs pyarrow: pip install 'gpudissect[parquet]'"


def traces_csv(kept: Kept, info: DeviceInfo) -> bytes:
    """Every trace as CSV, a header first; a column that a kind of workload does not have stays empty."""
    names = _columns(kept, info)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow((*NAMES, *names))
    for labels, columns in _tables(kept, info):
        size = len(next(iter(columns.values())))
        cells = [columns[name].tolist() if name in columns else [None] * size for name in names]
        writer.writerows((*labels, *row) for row in zip(*cells, strict=True))
    return text.getvalue().encode()


def traces_parquet(kept: Kept, info: DeviceInfo) -> bytes:
    """Every trace as a Parquet file; null for what a kind of workload does not have. `UsageError` without pyarrow."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UsageError(NO_PYARROW) from None
    parts: dict[str, list[NDArray[np.int64]]] = {name: [] for name in _columns(kept, info)}
    lacking: dict[str, list[NDArray[np.bool_]]] = {name: [] for name in parts}
    labels, sizes = [], []
    for own, columns in _tables(kept, info):
        labels.append(own)
        sizes.append(len(next(iter(columns.values()))))
        for name in parts:
            there = name in columns
            parts[name].append(columns[name] if there else np.zeros(sizes[-1], np.int64))
            lacking[name].append(np.full(sizes[-1], not there))
    table = {}
    for n, name in enumerate(NAMES):
        words, codes = np.unique([each[n] for each in labels], return_inverse=True)
        table[name] = pyarrow.DictionaryArray.from_arrays(
            np.repeat(codes, sizes).astype(np.int32), pyarrow.array(words.tolist(), pyarrow.string())
        )
    for name in parts:
        table[name] = pyarrow.array(np.concatenate(parts[name]), mask=np.concatenate(lacking[name]))
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(table), file)
    return file.getvalue()


FORMATS: Mapping[str, Callable[[Kept, DeviceInfo], bytes]] = {".csv": traces_csv, ".parquet": traces_parquet}
"""File suffix to writer."""


def check_name(file: Path | None) -> None:
    """Raise `UsageError`, before anything is measured, for a name of neither format or one that cannot be written."""
    if file is None:
        return
    check_ending(file, "of a file of traces", FORMATS)
    if file.suffix == ".parquet" and find_spec("pyarrow") is None:
        raise UsageError(NO_PYARROW)


def _tables(kept: Kept, info: DeviceInfo) -> Iterator[tuple[Labels, Columns]]:
    for digest, (workload, trace) in kept.items():
        columns = RunTrace.of(workload, trace, info).columns()
        yield (digest, type(workload).__name__.lower(), _path(workload)), columns


def _columns(kept: Kept, info: DeviceInfo) -> list[str]:
    return list(dict.fromkeys(name for _, columns in _tables(kept, info) for name in columns))


def _path(workload: Workload) -> str:
    return workload.path.value if isinstance(workload, Chase | Stream) else ""

"""Findings, series and traces as CSV and Parquet, read back."""

import csv
import io
import sys
from pathlib import Path as FilePath

import pytest

from gpudissect.device.kinds import open_device
from gpudissect.errors import UsageError
from gpudissect.exports import export
from gpudissect.exports.tables import check_traces_name, traces_csv, traces_parquet
from gpudissect.results.files import load
from gpudissect.results.model import Series
from gpudissect.views.traces import RunTrace
from gpudissect.workload import Chase, Path, Sequential, Stream, Timing, Transfer
from tests.support.results import result


def read_csv(text):
    return list(csv.DictReader(io.StringIO(text)))


def read_parquet(content):
    return pytest.importorskip("pyarrow.parquet").read_table(io.BytesIO(content))


@pytest.fixture(scope="module")
def h200():
    return load(FilePath(__file__).parents[2] / "docs" / "results" / "h200.json")


@pytest.fixture(scope="module")
def traces():
    """The traces of a chase and a stream, and the function that makes columns of them."""
    chase = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.EACH, laps=2)
    stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.READ, footprint=1 << 20, blocks=2, threads=64)
    with open_device("sim:gtx980") as device:
        runs = {name: (workload, device.run([workload])[0]) for name, workload in (("a", chase), ("b", stream))}
        return runs, lambda workload, trace: RunTrace.of(workload, trace, device.info).columns()


def test_findings_as_csv_and_parquet(h200):
    rows = read_csv(export(h200, "csv"))
    assert len(rows) == len(h200.findings)
    found = {(row["element"], row["attribute"]): row for row in rows}
    assert float(found["l1", "capacity"]["value"]) == h200.finding("l1", "capacity").value
    assert found["l1", "shared_with"]["text"] == "readonly, texture"
    table = read_parquet(export(h200, "parquet")).to_pylist()
    assert [row["value"] for row in table] == [float(row["value"]) if row["value"] else None for row in rows]


def test_csv_holds_no_formula():
    assert ",'=cmd()," in export(result({"l1.index_function": "=cmd()"}), "csv")


def test_series_as_csv_and_parquet(h200):
    series = Series(element="l1", name="y against x", columns={"x": (1, 2), "y": (0.5, None)}, units={"y": "cycles"})
    rows = read_csv(export(result({}).model_copy(update={"series": (series,)}), "series"))
    found = [" ".join(row[name] for name in ("row", "column", "value", "unit")) for row in rows]
    assert found == ["0 x 1 ", "1 x 2 ", "0 y 0.5 cycles", "1 y  cycles"]
    table = read_parquet(export(h200, "series-parquet")).to_pylist()
    rows = read_csv(export(h200, "series"))
    assert [row["value"] for row in table] == [float(row["value"]) if row["value"] else None for row in rows]


def test_without_pyarrow_the_extra_is_named(monkeypatch, h200):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"\.\[parquet\]"):
        export(h200, "parquet")


def test_traces_have_a_row_for_every_access_and_every_run(traces):
    rows = read_csv(traces_csv(*traces).decode())
    chase, stream = ([row for row in rows if row["kind"] == kind] for kind in ("chase", "stream"))
    cycles, moved = traces[0]["a"][1].cycles, traces[0]["b"][1].bytes
    assert [int(row["cycles"]) for row in chase] == cycles.tolist()
    assert [row["offset"] for row in chase] == ["0", "32", "64", "96"] * 2
    assert {(row["workload"], row["path"], row["bytes"]) for row in chase} == {("a", "global", "")}
    assert [int(row["bytes"]) for row in stream] == moved.tolist() and stream[0]["path"] == "global_l2"
    table = read_parquet(traces_parquet(*traces)).to_pylist()
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in table] == rows


def test_no_traces_make_an_empty_table(traces):
    assert traces_csv({}, traces[1]) == b"workload,kind,path\n"
    assert read_parquet(traces_parquet({}, traces[1])).num_rows == 0


def test_the_file_name_selects_the_format_of_traces():
    check_traces_name(None)
    check_traces_name(FilePath("t.parquet"))
    with pytest.raises(UsageError, match=r"\.csv or \.parquet"):
        check_traces_name(FilePath("t.json"))

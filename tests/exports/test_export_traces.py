"""Every trace behind a result as one table, read back."""

import csv
import io
from pathlib import Path as FilePath

import pytest

from gpudissect.device.find import open_device
from gpudissect.errors import UsageError
from gpudissect.exports.tables import check_traces_name, traces_csv, traces_parquet
from gpudissect.views.traces import RunTrace
from gpudissect.workload import Chase, Path, Sequential, Stream, Timing, Transfer


@pytest.fixture(scope="module")
def traces():
    """The traces of a chase and a stream, and the function that makes columns of them."""
    chase = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.EACH, laps=2)
    stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.READ, footprint=1 << 20, blocks=2, threads=64)
    with open_device("sim:gtx980") as device:
        both = {name: (workload, device.run([workload])[0]) for name, workload in (("a", chase), ("b", stream))}
        return both, lambda workload, trace: RunTrace.of(workload, trace, device.info).columns()


def test_csv_has_a_row_for_every_access_and_every_run(traces):
    rows = list(csv.DictReader(io.StringIO(traces_csv(*traces).decode())))
    chase, stream = ([row for row in rows if row["kind"] == kind] for kind in ("chase", "stream"))
    cycles, moved = traces[0]["a"][1].cycles, traces[0]["b"][1].bytes
    assert [int(row["cycles"]) for row in chase] == cycles.tolist()
    assert [row["offset"] for row in chase] == ["0", "32", "64", "96"] * 2
    assert {(row["workload"], row["path"], row["bytes"]) for row in chase} == {("a", "global", "")}
    assert [int(row["bytes"]) for row in stream] == moved.tolist() and stream[0]["path"] == "global_l2"


def test_parquet_equals_csv(traces):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(traces_parquet(*traces))).to_pylist()
    rows = list(csv.DictReader(io.StringIO(traces_csv(*traces).decode())))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in table] == rows


def test_no_traces_make_an_empty_table(traces):
    assert traces_csv({}, traces[1]) == b"workload,kind,path\n"
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(traces_parquet({}, traces[1]))).num_rows == 0


def test_the_file_name_selects_the_format():
    check_traces_name(None)
    check_traces_name(FilePath("t.parquet"))
    with pytest.raises(UsageError, match=r"must end in \.csv or \.parquet"):
        check_traces_name(FilePath("t.json"))

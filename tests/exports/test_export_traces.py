"""Every trace behind a result as one table, read back."""

import csv
import io
from pathlib import Path as FilePath

import pytest

from gpudissect.device.find import open_device
from gpudissect.device.recording.keeper import Keeper
from gpudissect.device_info import DeviceInfo
from gpudissect.errors import UsageError
from gpudissect.exports.traces import check_name, traces_csv, traces_parquet
from gpudissect.workload import Chase, Path, Sequential, Stream, Timing, Transfer


@pytest.fixture(scope="module")
def kept() -> tuple[Keeper, DeviceInfo]:
    chase = Chase(path=Path.GLOBAL, order=Sequential(4, 32), timing=Timing.EACH, laps=2)
    stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.READ, footprint=1 << 20, blocks=2, threads=64)
    with open_device("sim:gtx980") as device:
        keeper = Keeper(device)
        keeper.run([chase])
        keeper.run([stream])
        return keeper, device.info


def test_csv_has_a_row_for_every_access_and_every_run(kept):
    rows = list(csv.DictReader(io.StringIO(traces_csv(*kept).decode())))
    chase, stream = ([row for row in rows if row["kind"] == kind] for kind in ("chase", "stream"))
    (digest, (_, trace)), (_, (_, read)) = kept[0].items()
    assert [int(row["cycles"]) for row in chase] == trace.cycles.tolist()
    assert [row["offset"] for row in chase] == ["0", "32", "64", "96"] * 2
    assert {(row["workload"], row["path"], row["bytes"]) for row in chase} == {(digest, "global", "")}
    assert [int(row["bytes"]) for row in stream] == read.bytes.tolist() and stream[0]["path"] == "global_l2"


def test_parquet_says_the_same(kept):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(traces_parquet(*kept))).to_pylist()
    rows = list(csv.DictReader(io.StringIO(traces_csv(*kept).decode())))
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in table] == rows


def test_of_nothing_there_is_an_empty_table(kept):
    assert traces_csv({}, kept[1]) == b"workload,kind,path\n"
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(io.BytesIO(traces_parquet({}, kept[1]))).num_rows == 0


def test_a_name_says_the_format():
    check_name(None)
    check_name(FilePath("t.parquet"))
    with pytest.raises(UsageError, match=r"must end in \.csv or \.parquet"):
        check_name(FilePath("t.json"))

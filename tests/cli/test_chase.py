"""``gpudissect chase``: one chase and its raw trace, the same in every format."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from gpudissect.cli.workloads import PathName, TimingName
from gpudissect.workload import Path as LoadPath
from gpudissect.workload import Timing

SMALL = ("chase", "-d", "sim:gtx980", "--size", "2KiB", "--stride", "512")


def rows_of(text):
    return [line.split() for line in text.splitlines()]


def test_prints_the_trace_and_one_line_of_summary(survey, gpudissect):
    code, out, err = gpudissect(*SMALL)
    assert code == 0
    rows = [[str(n) for n in (0, place, place * 512, 30 + place)] for place in range(4)]
    assert rows_of(out) == [["lap", "position", "offset", "cycles"], *rows]
    assert err.count("\n") == 1
    for fact in ("SIMULATED", "sim:gtx980", "global", "4 accesses", "median 31.5 cycles = 31.5 ns", "30 .. 33"):
        assert fact in err


def test_every_format_holds_the_same(survey, gpudissect):
    for name in ("t.csv", "t.json", "t.npz", "t.txt"):
        code, out, err = gpudissect(*SMALL, "--laps", "2", "-o", name)
        assert (code, err, out.count("\n")) == (0, "", 1)
        assert "median" in out
    rows = list(csv.DictReader(io.StringIO(Path("t.csv").read_text())))
    data = json.loads(Path("t.json").read_text())
    with np.load("t.npz", allow_pickle=False) as archive:
        for column in ("lap", "position", "offset", "cycles"):
            assert archive[column].tolist() == data["columns"][column] == [int(row[column]) for row in rows]
        about = json.loads(str(archive["about"]))
    assert about == {key: value for key, value in data.items() if key != "columns"}
    assert about["schema"] == "gpudissect-trace/2"
    assert about["device"]["origin"] == "simulated"
    assert about["chase"]["order"] == {"kind": "sequential", "count": 4, "stride": 512, "start": 0}
    assert data["columns"]["lap"] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_json_to_stdout(survey, gpudissect):
    code, out, err = gpudissect(*SMALL, "--json", "--order", "random", "--seed", "3")
    assert code == 0 and "median" in err
    data = json.loads(out)
    assert data["chase"]["order"]["kind"] == "shuffled"
    assert sorted(data["columns"]["offset"]) == [0, 512, 1024, 1536]


def test_laps_and_counts(survey, gpudissect):
    _, out, err = gpudissect(*SMALL, "--timing", "lap", "--laps", "3")
    assert rows_of(out) == [["lap", "cycles"], ["0", "30"], ["1", "30"], ["2", "30"]]
    assert "7.50 cycles" in err and "7.5 ns" in err
    _, out, err = gpudissect(*SMALL, "--timing", "count", "--bounds", "60,180,400")
    assert rows_of(out) == [["lap", "hits", "misses", "unknown"], ["0", "30", "30", "30"]]
    assert "30 hits, 30 misses, 30 unknown" in err


@pytest.mark.parametrize(
    ("arguments", "code", "fact"),
    [
        (("--size", "lots"), 2, "not a size"),
        (("--size", "16", "--stride", "32"), 2, "at least one stride"),
        (("--stride", "0"), 2, "at least one stride"),
        (("--size", "2MiB"), 2, "at most 1 MiB, got 2 MiB"),
        (("--path", "texture"), 3, "no texture units"),
        (("--path", "moon"), 2, "--path"),
        (("--timing", "count"), 2, "bounds"),
        (("--timing", "count", "--bounds", "3,2,1"), 2, "bounds"),
        (("--timing", "count", "--bounds", "3,2"), 2, "'3,2'"),
        (("--laps", "0"), 2, "--laps"),
        (("-o", "t.pdf"), 2, ".csv"),
        (("-o", "no/t.csv"), 2, "there is no folder no"),
    ],
)
def test_invalid_arguments(survey, error_of, arguments, code, fact):
    assert fact in error_of(*SMALL, *arguments, code=code)


def test_the_names_are_those_of_the_workloads():
    assert {name.value for name in PathName} == {path.value for path in LoadPath}
    assert [name.value for name in TimingName] == [timing.value for timing in Timing]


@pytest.mark.parametrize("command", [SMALL[:1], ("stream",), ("mix", "--run", "ffma:8", "--warps", "4")])
def test_a_trace_replaces_no_input_and_no_recording(survey, error_of, command):
    folder = Path("rec")
    folder.mkdir()
    files = [Path("gpu.txt"), folder / "recording.jsonl", folder / "arrays.bin"]
    for file in files:
        file.write_text("kept")
    Path("link.txt").symlink_to("gpu.txt")
    Path("index.csv").symlink_to("rec/recording.jsonl")
    Path("new.csv").symlink_to("new/recording.jsonl")
    for arguments in (
        ("-d", "sim:./gpu.txt?noise=none", "-o", "gpu.txt"),
        ("-d", "sim:./gpu.txt", "-o", "rec/../gpu.txt"),
        ("-d", "sim:./gpu.txt", "-o", "link.txt"),
        ("-d", "rec:rec?partial=yes", "-o", "index.csv"),
        ("-d", "sim:gtx980", "-o", "new.csv", "--record", "new"),
        ("-d", "sim:gtx980", "-o", "same.csv", "--record", "same.csv"),
    ):
        assert f"cannot write {arguments[3]}" in error_of(*command, *arguments)
    assert {file.read_text() for file in files} == {"kept"}
    assert not Path("new").exists() and not Path("same.csv").exists()


def test_a_recorded_chase_replays(gpudissect, error_of, tmp_path):
    chase = ("--size", "1KiB", "--timing", "lap", "--json")
    code, first, _ = gpudissect("chase", "-d", "sim:gtx980", *chase, "--record", tmp_path / "run")
    assert code == 0
    code, again, _ = gpudissect("chase", "-d", f"rec:{tmp_path}/run", *chase)
    assert code == 0
    assert json.loads(again)["columns"] == json.loads(first)["columns"]
    error_of("chase", "-d", f"rec:{tmp_path}/run", "--size", "2KiB", "--timing", "lap", code=3)

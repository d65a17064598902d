"""``gpudissect stream`` and ``gpudissect mix``: one workload each, raw trace out, bad input in one line."""

import csv
import io
import json
from pathlib import Path

import pytest

from gpudissect.cli.mix import AccessName
from gpudissect.cli.stream import StreamPath, TransferName
from gpudissect.workload import Access, Transfer
from gpudissect.workload import Path as LoadPath
from tests.support.steady_gpu import SMS, SteadyGpu


class Opened(SteadyGpu):
    def close(self) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *exception): ...


@pytest.fixture(autouse=True)
def steady(monkeypatch, tmp_path):
    from gpudissect.device import find

    real = find.open_device
    monkeypatch.setattr(find, "_cuda_gpus", list)
    monkeypatch.setattr(
        find, "open_device", lambda spec, *, seed=0: real(spec) if spec[:4] == "rec:" else Opened(noise=0.0)
    )
    monkeypatch.chdir(tmp_path)


STREAM, MIX = ("stream", "-d", "sim:gtx980"), ("mix", "-d", "sim:gtx980")


def test_a_stream_gives_each_run(gpudissect):
    code, out, err = gpudissect(*STREAM, "--runs", "2", "--blocks-per-sm", "4")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["run", "nanoseconds", "bytes", "quickest_block", "median_block", "slowest_block"]
    assert [row[0] for row in rows[1:]] == ["0", "1"] and rows[1][2] == str(64 << 20)
    assert err.startswith("gpudissect: fake MEASURED (fake:0), global_l2 read, 32 blocks of 512 threads, 2 x 16 B")
    assert "GB/s" in err


def test_laps_are_of_as_many_other_blocks(gpudissect):
    code, out, err = gpudissect(*STREAM, "--runs", "2", "--blocks-per-sm", "4", "--waves", "3")
    assert code == 0 and out.splitlines()[1].split()[2] == str(3 * (64 << 20))
    assert "96 blocks of 512 threads" in err


def test_every_format_holds_the_same(gpudissect):
    for name in ("t.csv", "t.json", "t.npz", "t.txt"):
        code, out, err = gpudissect(*MIX, "--run", "ffma:8", "--warps", "4", "--sms", "2", "-o", name)
        assert (code, err, out.count("\n")) == (0, "", 1)
        assert "7.03 cycles an instruction of a warp" in out  # 6, of the loop 7 over 8, of the start 20 over 128
    rows = list(csv.DictReader(io.StringIO(Path("t.csv").read_text())))
    data = json.loads(Path("t.json").read_text())
    assert [int(row["sm"]) for row in rows] == data["columns"]["sm"] == [0] * 4 + [1] * 4
    assert data["mix"]["body"] == "ffma:8" and data["mix"]["warps"] == 4
    assert data["schema"] == "gpudissect-trace/1"


def test_json_of_a_stream(gpudissect):
    code, out, _ = gpudissect(*STREAM, "--json", "--path", "shared", "--transfer", "copy", "--ilp", "1")
    assert code == 0
    data = json.loads(out)
    assert data["stream"]["path"] == "shared" and data["stream"]["footprint"] == 16 << 10
    assert data["stream"]["blocks"] == 2 * SMS
    assert len(data["columns"]["bytes"]) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--size", "8GiB"), 2, "at most 4 GiB, got 8 GiB"),
        (("--size", "3GiB", "--transfer", "copy"), 2, "at most 4 GiB, got 6 GiB"),
        (("--size", "0"), 2, "must be positive"),
        (("--size", "-4"), 2, "not a size"),
        (("--size", "100"), 2, "no multiple of"),
        (("--width", "5"), 2, "4, 8 or 16"),
        (("--width", "0"), 2, "4, 8 or 16"),
        (("--threads", "0"), 2, "--threads"),
        (("--threads", "2048"), 2, "at most 1024 threads"),
        (("--ilp", "-1"), 2, "--ilp"),
        (("--runs", "0"), 2, "--runs"),
        (("--passes", "0"), 2, "--passes"),
        (("--waves", "0"), 2, "--waves"),
        (("--waves", "2", "--passes", "2"), 2, "in one pass each"),
        (("--blocks-per-sm", "0"), 2, "--blocks-per-sm"),
        (("--path", "shared", "--size", "64KiB"), 2, "at most 48 KiB"),
        (("--path", "cluster"), 3, "runs no streams on path cluster"),
        (("--path", "shared", "--cluster", "2"), 2, "--cluster needs --path cluster, got --path shared"),
        (("--path", "tma"), 3, "runs no streams on path tma; paths of its streams: "),
        (("--path", "constant"), 2, "--path"),
        (("-o", "t.pdf"), 2, ".csv"),
    ],
)
def test_a_stream_that_makes_no_sense_is_one_line(gpudissect, arguments, code, why):
    got, out, err = gpudissect(*STREAM, *arguments)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert why in err


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (("--run", "fad:4"), 2, "did you mean fadd"),
        (("--run", "x"), 2, "there are fadd"),
        (("--run", "fadd:0"), 2, "once or more"),
        (("--run", "fadd:-1"), 2, "whole numbers"),
        (("--run", "fadd:2.5"), 2, "whole numbers"),
        (("--run", ""), 2, "no such instruction"),
        (("--warps", "0"), 2, "--warps"),
        (("--warps", "65"), 2, "room for 64 warps, got 65"),
        (("--warps", "4000"), 2, "128 warps"),
        (("--warps", "4", "--block-size", "48"), 2, "whole warps"),
        (("--warps", "64", "--block-size", "2048"), 2, "32 to 1024"),
        (("--block-size", "0"), 2, "whole warps"),
        (("--width", "5"), 2, "4, 8 or 16"),
        (("--width", "8"), 2, "cannot lie 4 bytes apart"),
        (("--stride", "-1"), 2, "--stride"),
        (("--iterations", "0"), 2, "--iterations"),
        (("--sms", "9"), 2, "has 8 SMs, got 9"),
        (("--run", "ldg", "--access", "random", "--size", "8GiB"), 2, "at most 4 GiB, got 8 GiB"),
        (("--run", "ldg", "--size", "1MiB"), 2, "if, and only if"),
        (("--run", "ldg", "--access", "random", "--size", "0"), 2, "at least one byte"),
    ],
)
def test_a_mix_that_makes_no_sense_is_one_line(gpudissect, arguments, code, why):
    got, out, err = gpudissect(*MIX, *arguments)
    assert (got, out, err.count("\n")) == (code, "", 1)
    assert why in err


def test_what_a_device_lacks_is_an_error_of_the_device(gpudissect, monkeypatch):
    from dataclasses import replace

    from tests.support import steady_gpu

    monkeypatch.setattr(
        Opened, "info", replace(steady_gpu.INFO, instructions=(), unsupported={LoadPath.TMA: "too old"})
    )
    monkeypatch.setattr(Opened, "__init__", lambda self, noise: None)
    for arguments, why in (((*MIX,), "runs no fadd"), ((*STREAM, "--path", "tma"), "too old; paths of its streams")):
        code, _, err = gpudissect(*arguments)
        assert (code, err.count("\n")) == (3, 1)
        assert why in err


def test_the_names_are_those_of_the_workloads():
    assert {name.value for name in StreamPath} <= {path.value for path in LoadPath}
    assert [name.value for name in TransferName] == [each.value for each in Transfer]
    assert [name.value for name in AccessName] == [each.value for each in Access]


@pytest.mark.parametrize("command", [(*STREAM,), (*MIX, "--run", "lds:4")])
def test_a_recording_replays(gpudissect, tmp_path, command):
    code, first, _ = gpudissect(*command, "--json", "--record", str(tmp_path / "run"))
    assert code == 0
    replayed = [f"rec:{tmp_path}/run" if word == "sim:gtx980" else word for word in command]
    code, again, _ = gpudissect(*replayed, "--json")
    assert code == 0
    assert json.loads(again)["columns"] == json.loads(first)["columns"]

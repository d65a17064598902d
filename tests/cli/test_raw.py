"""``gpudissect stream`` and ``gpudissect mix``: one workload and its raw trace; what a device cannot run."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gpudissect.cli.workloads import AccessName, StreamPath, TransferName
from gpudissect.workload import Access, Transfer
from gpudissect.workload import Path as LoadPath
from tests.support.steady_gpu import INFO, SMS, SteadyGpu

STREAM, MIX = ("stream", "-d", "sim:gtx980"), ("mix", "-d", "sim:gtx980")


@pytest.fixture
def steady(open_fake):
    open_fake(lambda spec, seed: SteadyGpu(noise=0.0))


def test_a_stream_gives_each_run(steady, gpudissect):
    code, out, err = gpudissect(*STREAM, "--runs", "2", "--blocks-per-sm", "4")
    assert code == 0
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["run", "nanoseconds", "bytes", "quickest_block", "median_block", "slowest_block"]
    assert [row[0] for row in rows[1:]] == ["0", "1"] and rows[1][2] == str(64 << 20)
    for fact in ("MEASURED", "fake:0", "global_l2 read", "32 blocks of 512 threads", "2 x 16 B", "GB/s"):
        assert fact in err


def test_every_wave_traverses_the_footprint(steady, gpudissect):
    code, out, err = gpudissect(*STREAM, "--runs", "2", "--blocks-per-sm", "4", "--waves", "3")
    assert code == 0 and out.splitlines()[1].split()[2] == str(3 * (64 << 20))
    assert "96 blocks of 512 threads" in err


def test_every_format_holds_the_same(steady, gpudissect):
    for name in ("t.csv", "t.json", "t.npz", "t.txt"):
        code, out, err = gpudissect(*MIX, "--run", "ffma:8", "--warps", "4", "--sms", "2", "-o", name)
        assert (code, err, out.count("\n")) == (0, "", 1)
        assert "7.03 cycles" in out  # 6 of the instruction, 7/8 of the loop, 20/128 of the start
    rows = list(csv.DictReader(io.StringIO(Path("t.csv").read_text())))
    data = json.loads(Path("t.json").read_text())
    assert [int(row["sm"]) for row in rows] == data["columns"]["sm"] == [0] * 4 + [1] * 4
    assert data["mix"]["body"] == "ffma:8" and data["mix"]["warps"] == 4
    assert data["schema"] == "gpudissect-trace/2"


def test_json_of_a_stream(steady, gpudissect):
    code, out, _ = gpudissect(*STREAM, "--json", "--path", "shared", "--transfer", "copy", "--ilp", "1")
    assert code == 0
    data = json.loads(out)
    assert data["stream"]["path"] == "shared" and data["stream"]["footprint"] == 16 << 10
    assert data["stream"]["blocks"] == 2 * SMS
    assert len(data["columns"]["bytes"]) == 5


@pytest.mark.parametrize(
    ("arguments", "code", "fact"),
    [
        ("stream --size 8GiB", 2, "at most 4 GiB, got 8 GiB"),
        ("stream --size 3GiB --transfer copy", 2, "at most 4 GiB, got 6 GiB"),
        ("stream --size 0", 2, "positive"),
        ("stream --size -4", 2, "not a size"),
        ("stream --size=", 2, "not a size: ''"),
        ("stream --size 100", 2, "100"),
        ("stream --width 5", 2, "4, 8 or 16"),
        ("stream --width 0", 2, "4, 8 or 16"),
        ("stream --threads 0", 2, "--threads"),
        ("stream --threads 2048", 2, "at most 1024 threads"),
        ("stream --ilp -1", 2, "--ilp"),
        ("stream --runs 0", 2, "--runs"),
        ("stream --passes 0", 2, "--passes"),
        ("stream --waves 0", 2, "--waves"),
        ("stream --path shared --waves 2", 2, "waves"),
        ("stream --blocks-per-sm 0", 2, "--blocks-per-sm"),
        ("stream --path shared --size 64KiB", 2, "at most 48 KiB"),
        ("stream --path cluster", 3, "path cluster"),
        ("stream --path shared --cluster 2", 2, "--cluster needs --path cluster, got --path shared"),
        ("stream --path tma", 3, "path tma"),
        ("stream --path constant", 2, "--path"),
        ("stream -o t.pdf", 2, ".csv"),
        ("mix --run fad:4", 2, "did you mean fadd"),
        ("mix --run x", 2, "valid: fadd"),
        ("mix --run fadd:0", 2, "got 0"),
        ("mix --run fadd:-1", 2, "whole numbers"),
        ("mix --run fadd:2.5", 2, "whole numbers"),
        ("mix --run=", 2, "no such instruction: ''"),
        ("mix --warps 0", 2, "--warps"),
        ("mix --warps 65", 2, "room for 64 warps, got 65"),
        ("mix --warps 4000", 2, "128 warps"),
        ("mix --warps 4 --block-size 48", 2, "whole warps"),
        ("mix --warps 64 --block-size 2048", 2, "32 to 1024"),
        ("mix --block-size 0", 2, "whole warps"),
        ("mix --width 5", 2, "4, 8 or 16"),
        ("mix --width 8", 2, "4 bytes apart"),
        ("mix --stride -1", 2, "--stride"),
        ("mix --iterations 0", 2, "--iterations"),
        ("mix --sms 9", 2, "has 8 SMs, got 9"),
        ("mix --run ldg --access random --size 8GiB", 2, "at most 4 GiB, got 8 GiB"),
        ("mix --run ldg --size 1MiB", 2, "footprint"),
        ("mix --run ldg --size=", 2, "not a size: ''"),
        ("mix --size 0", 2, "at least one byte"),
        ("mix --run ldg --access random --size 0KiB", 2, "at least one byte"),
        ("mix --access random --size 1MiB", 2, "'fadd:64' has none: add ldg or stg or atomg"),
        ("mix --run fadd:1000000", 2, "999999"),
    ],
)
def test_invalid_arguments(steady, error_of, arguments, code, fact):
    command, *rest = arguments.split()
    assert fact in error_of(command, "-d", "sim:gtx980", *rest, code=code)


@pytest.mark.parametrize(
    ("command", "fact"),
    [
        ("stream -d sim:gtx280 --threads 1024", "at most 512 threads, got 1024"),
        ("stream -d sim:gtx280 --path shared --size 20KiB --threads 64", "at most 16 KiB, got 20 KiB"),
        ("stream -d sim:gtx980 --blocks-per-sm 100000000", "1600000000"),
        ("stream -d sim:gtx980 --passes 1000000000000", "2^60 bytes"),
        ("stream -d sim:gtx980 --width 32", "4, 8 or 16"),
        ("mix -d sim:gtx280 --warps 32", "8 blocks of at most 512 threads"),
        ("mix -d sim:gtx980 --warps 64 --block-size 32", "32 blocks of at most 1024 threads, not 64 in 64 of 32"),
        ("mix -d sim:gtx980 --sms 17", "16 SMs, got 17"),
        ("mix -d sim:gtx980 --warps 4 --waves 1000000 --iterations 100000", "waves"),
        ("mix -d sim:gtx980 --run ldg --access random --size 1", "1 B"),
        ("mix -d sim:gtx980 --run ldg --access streaming --warps 4 --size 8188", "8 KiB or more"),
        ("chase -d sim:gtx980 --sm 99", "no SM 99"),
        ("chase -d sim:gtx980 --size 5GiB --stride 2MiB", "at most 4 GiB, got 5 GiB"),
        ("chase -d sim:gtx980 --size 1GiB --stride 32 --timing lap", "at most 16777216 accesses"),
    ],
)
def test_a_workload_that_a_simulated_gpu_cannot_run(error_of, command, fact):
    assert fact in error_of(*command.split())


def test_without_an_l1_streams_take_the_global_path(gpudissect):
    code, _, err = gpudissect("stream", "-d", "sim:gtx280", "--threads", "256", "--runs", "1")
    assert code == 0 and "global read" in err


def test_a_missing_instruction_or_path_is_an_error_of_the_device(open_fake, error_of):
    info = replace(INFO, instructions=(), unsupported={LoadPath.TMA: "too old"})
    open_fake(lambda spec, seed: SteadyGpu(info))
    assert "runs no fadd" in error_of(*MIX, code=3)
    error = error_of(*STREAM, "--path", "tma", code=3)
    assert "too old" in error and "global, global_l2, shared" in error


def test_the_names_are_those_of_the_workloads():
    assert {name.value for name in StreamPath} <= {path.value for path in LoadPath}
    assert [name.value for name in TransferName] == [transfer.value for transfer in Transfer]
    assert [name.value for name in AccessName] == [access.value for access in Access]


@pytest.mark.parametrize("command", [STREAM, (*MIX, "--run", "lds:4")])
def test_a_recording_replays(steady, gpudissect, tmp_path, command):
    code, first, _ = gpudissect(*command, "--json", "--record", tmp_path / "run")
    assert code == 0
    code, again, _ = gpudissect(command[0], "-d", f"rec:{tmp_path}/run", *command[3:], "--json")
    assert code == 0
    assert json.loads(again)["columns"] == json.loads(first)["columns"]

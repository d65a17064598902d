"""``hide`` and ``predict``: what they say, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpudissect.cli.app import main
from gpudissect.report.files import load


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hide")
    file = folder / "hide.json"
    assert main(["hide", "-d", "sim:gtx980", "--quick", "-o", str(file), "--record", str(folder / "rec")]) == 0
    return file


def test_the_answer(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = result.parent / "again.json"
    assert main(["hide", "-d", f"rec:{result.parent / 'rec'}", "-o", str(again)]) == 0
    said = capsys.readouterr().out
    assert "40 warps per SM hide the latency of a load at alpha 0" in said
    assert "Volkov 2016, refined" in said and "REPLAYED" in said
    first, second = load(result), load(again)
    assert [each.value for each in first.findings] == [each.value for each in second.findings]
    names = {each.name for each in first.series}
    assert {"latency against throughput", "single latencies", "latency histogram", "occupancy against time"} <= names


def test_a_prediction(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(result), "--warps", "8", "--alpha", "32"]) == 0
    assert "limited by            latency" in capsys.readouterr().out
    assert main(["predict", str(result), "--warps", "64", "--run", "ldg_streaming:1,fadd:512", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["limit"] in ("issue", "pipeline") and told["instructions_per_cycle"] == pytest.approx(4, rel=0.02)
    assert main(["predict", str(result), "--warps", "64", "--run", "ldg_streaming"]) == 0
    assert "memory bandwidth" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--warps", "37", "--alpha", "1"], "no configuration makes 37 warps of an SM"),
    (["--warps", "65", "--alpha", "1"], "holds 1 to 64 warps, got 65"),
    (["--warps", "0", "--alpha", "1"], "holds 1 to 64 warps, got 0"),
    (["--warps", "4", "--alpha", "-1"], "alpha is 0 or more, got -1"),
    (["--warps", "4", "--alpha", "nan"], "alpha is 0 or more"),
    (["--warps", "4", "--run", "fad:3"], "no such instruction: 'fad'; did you mean fadd?"),
    (["--warps", "4", "--run", "fadd:x"], "--run takes instructions with counts"),
    (["--warps", "4"], "name a mix"),
    (["--alpha", "4"], "Missing option '--warps'"),
])  # fmt: skip
def test_what_cannot_be_predicted(
    result: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(result), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_files_and_devices_that_do_not_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    assert (
        main(["discover", "-d", "sim:gtx980", "--only", "timer", "--record", str(tmp_path / "rec"), "-o", str(other)])
        == 0
    )
    capsys.readouterr()
    assert main(["predict", str(other), "--warps", "4", "--alpha", "1"]) == 2
    assert "no parameters of latency hiding" in capsys.readouterr().err
    assert main(["hide", "-d", f"rec:{tmp_path / 'rec'}"]) == 3
    assert "not of latency hiding" in capsys.readouterr().err
    assert main(["hide", "--access", "nothing"]) == 2
    assert main(["hide", "-d", "sim:gtx980", "-o", str(tmp_path)]) == 2

"""``hide`` and ``predict``: what they say, and what they refuse."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpudissect.cli.app import main
from gpudissect.results.files import load
from gpudissect.survey import run
from gpudissect.survey.run import Survey


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


def test_its_traces_are_a_table_that_the_findings_name_theirs_in(result: Path, capsys) -> None:
    table = result.parent / "traces.csv"
    again = result.parent / "traced.json"
    replay = f"rec:{result.parent / 'rec'}"
    assert main(["hide", "-d", replay, "--traces", str(table), "-o", str(again)]) == 0
    with table.open(newline="") as file:
        told = {row["workload"] for row in csv.DictReader(file)}
    named = {digest for finding in load(again).findings for digest in finding.evidence}
    assert named and named <= told
    capsys.readouterr()
    assert main(["hide", "-d", replay, "--traces", str(result.parent / "t.txt")]) == 2
    assert "must end in .csv or .parquet" in capsys.readouterr().err


def test_a_result_is_shown_with_its_answer(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(result)]) == 0
    said = capsys.readouterr().out
    assert "40 warps per SM hide the latency of a load" in said and "Volkov 2016, refined" in said
    for column, value in (("alpha", ""), ("warps", None), ("rate", "x")):
        other = altered(result, lambda content, c=column, v=value: content["series"][0]["columns"].update(
            {c: [v] * len(content["series"][0]["columns"][c])}))  # fmt: skip
        assert main(["show", str(other)]) == 2
        error = capsys.readouterr().err
        assert "make no sense" in error and error.count("\n") == 1


def test_a_run_that_finds_nothing_replaces_no_file(tmp_path: Path, monkeypatch, capsys) -> None:
    def interrupted(*_: object, **options: object) -> Survey:
        return Survey((), (), True, 0.5, 0)

    monkeypatch.setattr(run, "run_hiding", interrupted)
    good = tmp_path / "good.json"
    good.write_text("good")
    assert main(["hide", "-d", "sim:gtx980", "-o", str(good)]) == 130
    assert f"not replaced: {good};" in capsys.readouterr().err
    assert good.read_text() == "good"


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
    (["--warps", "4", "--alpha", "inf"], "for additions alone: --run fadd:1"),
    (["--warps", "4", "--alpha", "1e300"], "below 1e+09"),
    (["--warps", "4", "--alpha", "3", "--access", "fadd"], "--access is an instruction other than fadd"),
    (["--warps", "4", "--run", "fadd:1e-300"], "--run takes instructions with counts"),
    (["--warps", "4", "--run", "fad:3"], "no such instruction of this result: 'fad'; did you mean fadd?"),
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


def altered(result: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A result file of which something is not as it was."""
    content = json.loads(result.read_text())
    change(content)
    other = result.parent / "altered.json"
    other.write_text(json.dumps(content))
    return other


def finding(content: dict[str, Any], attribute: str) -> dict[str, Any]:
    return next(each for each in content["findings"] if each["attribute"] == attribute)


def test_a_prediction_takes_the_names_of_hide(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(result), "--warps", "8", "--alpha", "32", "--access", "streaming"]) == 0
    short = capsys.readouterr().out
    assert main(["predict", str(result), "--warps", "8", "--alpha", "32", "--access", "ldg_streaming"]) == 0
    assert capsys.readouterr().out == short


def test_a_prediction_knows_how_many_blocks_fit(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = altered(result, lambda content: content["device"]["facts"].update(blocks_per_sm=8, threads_per_block=512))
    assert main(["predict", str(few), "--warps", "31", "--alpha", "1"]) == 2
    assert "at most 8 blocks of at most 16 warps, all alike; take 30 or 32" in capsys.readouterr().err


@pytest.mark.parametrize(("change", "message"), [
    (lambda content: finding(content, "access_latency").update(value=-1), "make no sense"),
    (lambda content: finding(content, "access_rate").update(value=0), "make no sense"),
    (lambda content: finding(content, "arithmetic_latency").update(status="not found", value=None), "make no sense"),
    (lambda content: finding(content, "contention_ceiling").update(value=-1e9), "make no sense"),
    (lambda content: finding(content, "access_bytes").update(value=1e308), "make no sense"),
    (lambda content: finding(content, "issue_rate").update(value=5e-324), "make no sense"),
    (lambda content: content["device"].update(sm_count=0), "make no sense"),
    (lambda content: content["conditions"].update(clock_hz=-1.0), "make no sense"),
    (lambda content: content["device"]["facts"].update(blocks_per_sm=-1, threads_per_sm=2**62), "no configuration"),
    (lambda content: content["series"][0]["columns"].pop("warps"), "make no sense"),
])  # fmt: skip
def test_an_impossible_result_is_refused(
    result: Path, change: Callable[[dict[str, Any]], None], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(altered(result, change)), "--warps", "8", "--alpha", "1"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_names_in_a_result_drive_no_terminal(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def named(content: dict[str, Any]) -> None:
        content["device"]["name"] = "\x1b[31m"
        for series in content["series"]:
            if "name" in series["columns"]:
                series["columns"]["name"] = ["\x1b[2J"] * len(series["columns"]["name"])

    other = altered(result, named)
    assert main(["predict", str(other), "--warps", "8", "--alpha", "1"]) == 0 and main(["show", str(other)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_odd_numbers_of_a_series_are_passed_over(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def odd(content: dict[str, Any]) -> None:
        columns = content["series"][0]["columns"]
        columns["alpha"][0], columns["rate"][1], columns["warps"][2] = "", "x", None

    assert main(["predict", str(altered(result, odd)), "--warps", "8", "--alpha", "1"]) == 0


def test_a_survey_does_not_replay_latency_hiding(result: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["discover", "-d", f"rec:{result.parent / 'rec'}"]) == 2
    assert "replayed, by 'gpudissect hide'" in capsys.readouterr().err


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

"""``hide`` and ``predict``: what they print, and what they refuse."""

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

AT_8 = ("--warps", "8", "--alpha", "1")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hide")
    file = folder / "hide.json"
    assert main(["hide", "-d", "sim:gtx980", "--quick", "-o", str(file), "--record", str(folder / "rec")]) == 0
    return file


def altered(result: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """A copy of the result file with a change."""
    content = json.loads(result.read_text())
    change(content)
    other = result.parent / "altered.json"
    other.write_text(json.dumps(content))
    return other


def finding(content: dict[str, Any], attribute: str) -> dict[str, Any]:
    return next(each for each in content["findings"] if each["attribute"] == attribute)


def test_a_replay_finds_the_same_and_writes_its_traces(result: Path, gpudissect) -> None:
    again, table = result.parent / "again.json", result.parent / "traces.csv"
    code, out, _ = gpudissect("hide", "-d", f"rec:{result.parent / 'rec'}", "-o", again, "--traces", table)
    assert code == 0
    assert "48 warps per SM hide the latency of a load without additions" in out
    assert "Volkov 2016, refined" in out and "REPLAYED" in out
    first, second = load(result), load(again)
    assert [each.value for each in first.findings] == [each.value for each in second.findings]
    names = {each.name for each in first.series}
    assert {"latency against throughput", "single latencies", "latency histogram", "occupancy against time"} <= names
    with table.open(newline="") as file:
        workloads = {row["workload"] for row in csv.DictReader(file)}
    evidence = {digest for each in second.findings for digest in each.evidence}
    assert evidence and evidence <= workloads


def test_a_result_is_shown_with_its_answer(result: Path, gpudissect) -> None:
    code, out, _ = gpudissect("show", result)
    assert code == 0 and "48 warps per SM hide the latency of a load" in out and "Volkov 2016, refined" in out


@pytest.mark.parametrize(("column", "value"), [("alpha", ""), ("warps", None), ("rate", "x")])
def test_an_impossible_series_is_one_line(result: Path, gpudissect, column: str, value: object) -> None:
    def change(content: dict[str, Any]) -> None:
        columns = content["series"][0]["columns"]
        columns[column] = [value] * len(columns[column])

    code, _, err = gpudissect("show", altered(result, change))
    assert (code, err.count("\n")) == (2, 1) and "invalid series" in err


def test_a_run_without_a_finding_replaces_no_file(tmp_path: Path, monkeypatch, gpudissect) -> None:
    monkeypatch.setattr(run, "run_survey", lambda *_, **__: Survey({}, (), True, 0.5, 0))
    good = tmp_path / "good.json"
    good.write_text("good")
    code, _, err = gpudissect("hide", "-d", "sim:gtx980", "-o", good)
    assert code == 130 and f"not replaced: {good};" in err
    assert good.read_text() == "good"


def test_a_prediction(result: Path, gpudissect) -> None:
    code, out, _ = gpudissect("predict", result, "--warps", "8", "--alpha", "32")
    assert code == 0 and "limited by            latency" in out
    for name in ("streaming", "ldg_streaming"):  # as in hide, as in the result
        assert gpudissect("predict", result, "--warps", "8", "--alpha", "32", "--access", name)[1] == out
    code, out, _ = gpudissect("predict", result, "--warps", "64", "--run", "ldg_streaming:1,fadd:512", "--json")
    prediction = json.loads(out)
    assert code == 0 and prediction["limit"] in ("issue", "pipeline")
    assert prediction["instructions_per_cycle"] == pytest.approx(4, rel=0.02)
    assert "memory bandwidth" in gpudissect("predict", result, "--warps", "64", "--run", "ldg_streaming")[1]


@pytest.mark.parametrize(
    ("arguments", "fact"),
    [
        ("--warps 37 --alpha 1", "37 warps"),
        ("--warps 65 --alpha 1", "1 to 64 warps, got 65"),
        ("--warps 0 --alpha 1", "1 to 64 warps, got 0"),
        ("--warps 4 --alpha -1", "0 or more, got -1"),
        ("--warps 4 --alpha nan", "0 or more, got nan"),
        ("--warps 4 --alpha inf", "--run fadd:1"),
        ("--warps 4 --alpha 1e300", "below 1e+09"),
        ("--warps 4 --alpha 3 --access fadd", "--access"),
        ("--warps 4 --run fadd:1e-300", "'fadd:1e-300'"),
        ("--warps 4 --run fad:3", "'fad'; did you mean fadd?"),
        ("--warps 4 --run fadd:x", "'fadd:x'"),
        ("--warps 4", "name a mix"),
        ("--warps 4 --run fadd --alpha 4", "name a mix"),
        ("--alpha 4", "--warps"),
    ],
)
def test_what_cannot_be_predicted(result: Path, error_of, arguments: str, fact: str) -> None:
    assert fact in error_of("predict", result, *arguments.split())


def test_a_prediction_knows_how_many_blocks_fit(result: Path, error_of) -> None:
    limited = altered(result, lambda content: content["device"]["facts"].update(blocks_per_sm=8, threads_per_block=512))
    error = error_of("predict", limited, "--warps", "31", "--alpha", "1")
    assert "at most 8 blocks of at most 16 warps" in error and "30 or 32" in error


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        (lambda content: finding(content, "access_latency").update(value=-1), "access_latency"),
        (lambda content: finding(content, "access_rate").update(value=0), "access_rate"),
        (lambda content: finding(content, "arithmetic_latency").update(status="not found", value=None), "arithmetic_"),
        (lambda content: finding(content, "contention_ceiling").update(value=-1e9), "contention_ceiling"),
        (lambda content: finding(content, "access_bytes").update(value=1e308), "access_bytes"),
        (lambda content: finding(content, "issue_rate").update(value=5e-324), "issue_rate"),
        (lambda content: content["device"].update(sm_count=0), "sm_count"),
        (lambda content: content["conditions"].update(clock_hz=-1.0), "clock_hz"),
        (lambda content: content["device"]["facts"].update(blocks_per_sm=-1, threads_per_sm=2**62), "no configuration"),
        (lambda content: content["series"][0]["columns"].pop("warps"), "invalid parameters"),
    ],
)
def test_an_impossible_result_is_refused(result: Path, error_of, change, fact: str) -> None:
    assert fact in error_of("predict", altered(result, change), *AT_8)


def test_names_in_a_result_send_no_escapes_to_the_terminal(result: Path, gpudissect) -> None:
    def change(content: dict[str, Any]) -> None:
        content["device"]["name"] = "\x1b[31m"
        for series in content["series"]:
            if "name" in series["columns"]:
                series["columns"]["name"] = ["\x1b[2J"] * len(series["columns"]["name"])

    for command in (("predict", *AT_8), ("show",)):
        code, out, _ = gpudissect(*command, altered(result, change))
        assert code == 0 and "\x1b" not in out


def test_odd_values_of_a_series_are_skipped(result: Path, gpudissect) -> None:
    def change(content: dict[str, Any]) -> None:
        columns = content["series"][0]["columns"]
        columns["alpha"][0], columns["rate"][1], columns["warps"][2] = "", "x", None

    assert gpudissect("predict", altered(result, change), *AT_8)[0] == 0


def test_recordings_and_results_of_another_kind(result: Path, tmp_path: Path, gpudissect, error_of) -> None:
    assert "gpudissect hide" in error_of("discover", "-d", f"rec:{result.parent / 'rec'}")
    other, recording = tmp_path / "other.json", tmp_path / "rec"
    timer = ("--only", "timer", "--record", recording, "-o", other)
    assert gpudissect("discover", "-d", "sim:gtx980", *timer)[0] == 0
    assert "no parameters of latency hiding" in error_of("predict", other, *AT_8)
    everything = error_of("predict", other)
    assert all(fact in everything for fact in ("no parameters of latency hiding", "--warps", "--run", "--alpha"))
    assert "latency hiding" in error_of("hide", "-d", f"rec:{recording}", code=3)
    assert "it is a folder" in error_of("hide", "-d", "sim:gtx980", "-o", tmp_path)

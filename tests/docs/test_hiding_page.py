"""A page on latency hiding is made of what a result file says, whatever GPU it is of."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from gpudissect.cli.app import main

SCRIPT = Path(__file__).parents[2] / "validation" / "hiding_page.py"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hide") / "r.json"
    assert main(["hide", "-d", "sim:gtx980", "--quick", "-o", str(path)]) == 0
    return path


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_page_and_figures_of_one_result(result: Path, tmp_path: Path) -> None:
    made = run(result, "--into", tmp_path)
    assert made.returncode == 0, made.stderr
    text = (tmp_path / "gtx980-latency-hiding.md").read_text()
    assert text.startswith("# NVIDIA GeForce GTX 980: latency hiding, simulated")
    assert "nan" not in re.sub(r"\b\w*nan\w+\b", "", text) and "None" not in text
    told = json.loads(result.read_text())
    latency = next(each["value"] for each in told["findings"] if each["attribute"] == "access_latency")
    assert f"{latency:.4g} cycles" in text, "the text is computed from the file"
    shown = re.findall(r"\]\((gtx980-latency-hiding/[\w-]+\.svg)\)", text)
    assert sorted(shown) == sorted(str(each.relative_to(tmp_path)) for each in tmp_path.glob("*/*.svg"))
    assert len(shown) > 6
    for each in shown:
        drawn = (tmp_path / each).read_text()
        ElementTree.fromstring(drawn)
        assert "nan" not in drawn and "inf" not in drawn.replace("infin", "")
    assert "of the peak is attained" in text, "where the refined model is off is explained"
    assert "machine repairman" in text and "### The same on the simulated SM" in text
    assert "apart from all else" not in text, "nobody measured that"
    assert "runs agree" not in text


def test_what_was_measured_of_the_corner_stands_beside(result: Path, tmp_path: Path) -> None:
    """That of an H200, beside the simulated GPU's: where a loss stays, and who goes first, follow from the numbers."""
    known = json.loads((SCRIPT.parents[1] / "docs" / "results" / "h200-latency-hiding-corner.json").read_text())
    kept = tmp_path / "gtx980-latency-hiding-corner.json"
    kept.write_text(json.dumps(known))
    assert run(result, "--into", tmp_path).returncode == 0
    text = (tmp_path / "gtx980-latency-hiding.md").read_text()
    assert "One SM alone loses about as much" in text and "the oldest block that can go on" in text
    assert re.search(r"\(-0\.\d% and -0\.\d%\): how runs begin and end is no part of it", text)
    assert re.search(r"within 0\.\d% \(of additions alone, 0\.\d%\)", text)
    for each in known["rates"]:
        each["rate"] = 3.9 if each["where"] == "one" else each["rate"]
    for each in known["ends"]:
        each["shares"] = [1.0] * len(each["shares"])
    kept.write_text(json.dumps(known))
    assert run(result, "--into", tmp_path).returncode == 0
    text = (tmp_path / "gtx980-latency-hiding.md").read_text()
    assert "One SM alone" not in text and "the oldest block that can go on" not in text


def test_what_a_file_says_decides(result: Path, tmp_path: Path) -> None:
    told = json.loads(result.read_text())
    for each in told["series"]:
        if each["name"] == "worst estimate over measurement":
            row = each["columns"]["model"].index("sim")
            each["columns"]["over"][row] = 77.0
            each["columns"]["over"][each["columns"]["model"].index("refined")] = 1.5
        if each["name"] == "single latencies":
            each["columns"]["p0"][0] = -3.0
    for each in told["findings"]:
        if each["attribute"] == "issue_rate":
            each["value"] = 140.0
    other = tmp_path / "other.json"
    other.write_text(json.dumps(told))
    assert run(other, result, "--into", tmp_path, "--name", "made-up").returncode == 0
    text = (tmp_path / "made-up-latency-hiding.md").read_text()
    assert "The worst of all is Sim et al. 2012, wrong by a factor of 77" in text
    assert "**above** the 1.12" in text
    assert text.count("**Doubtful**") == 2, "more than schedulers start, less than no time"
    assert "## How 2 runs agree" in text and "140 ops/cycle, 12" in text


def test_results_without_latency_hiding_are_refused(result: Path, tmp_path: Path) -> None:
    told = json.loads(result.read_text())
    empty = tmp_path / "empty.json"
    empty.write_text(json.dumps(told | {"findings": [], "series": []}))
    made = run(empty, "--into", tmp_path)
    assert made.returncode == 2 and "no parameters of latency hiding" in made.stderr


def changed(result: Path, into: Path, refined: float, rates: float = 1.0) -> Path:
    """The same with another worst over-estimate of the refined model, and peaks of additions so many times as high."""
    told = json.loads(result.read_text())
    for each in told["findings"]:
        if each["attribute"] in ("arithmetic_rate", "issue_rate"):
            each |= {name: each[name] * rates for name in ("value", "low", "high")}
    for each in told["series"]:
        if each["name"] == "worst estimate over measurement":
            each["columns"]["over"][each["columns"]["model"].index("refined")] = refined
    path = into / f"{refined}-{rates}.json"
    path.write_text(json.dumps(told))
    return path


def test_the_worst_of_all_runs_decides(result: Path, tmp_path: Path) -> None:
    runs = [changed(result, tmp_path, refined) for refined in (1.052, 1.124)]
    assert run(*runs, "--into", tmp_path, "--name", "made-up").returncode == 0
    text = (tmp_path / "made-up-latency-hiding.md").read_text()
    assert (
        "at most 1.124 (" in text and "by run 1.052, 1.124), at the 1.12 that VV16's GPUs let expect, not safe" in text
    )
    assert "saw a lower peak" not in text


def test_a_lower_peak_does_not_flatter_a_model(result: Path, tmp_path: Path) -> None:
    """The first run's own samples count with the peak that another saw."""
    runs = [changed(result, tmp_path, 1.052, 0.98), changed(result, tmp_path, 1.06)]
    assert run(*runs, "--into", tmp_path, "--name", "made-up").returncode == 0
    text = (tmp_path / "made-up-latency-hiding.md").read_text()
    assert "by run 1.052, 1.060), **above** the 1.12" in text
    assert "The first run saw a lower peak of additions, 125.4 ops/cycle where another saw 128.0; with that" in text


def test_the_page_that_is_kept_is_what_is_made(tmp_path: Path) -> None:
    kept = SCRIPT.parents[1] / "docs" / "results"
    for name in ("h200-latency-hiding.json", "h200-latency-hiding-corner.json"):
        (tmp_path / name).write_bytes((kept / name).read_bytes())
    results = (tmp_path / "h200-latency-hiding.json", kept / "h200-kinds-latency-hiding.json")
    assert run(*results, "--into", tmp_path).returncode == 0
    text = (tmp_path / "h200-latency-hiding.md").read_text()
    assert text == (kept / "h200-latency-hiding.md").read_text()
    assert "All SMs at alpha 181 are the mix of the table above, in another run, and it was another rate" in text
    assert "Why is not known, so only quotients within a row compare." in text

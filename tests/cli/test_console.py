"""Progress and time left; what a terminal receives: no wider than it is, with colours if allowed."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect
from gpudissect.cli.console import label_of, time_left
from gpudissect.results.files import load
from gpudissect.results.summary import summarize
from tests.support.results import shown

H200 = Path(__file__).parents[2] / "docs" / "results" / "h200.json"


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "expected"),
    [
        (1, 197, 30.0, ""),  # too few done
        (63, 197, 32.0, ""),
        (50, 100, 1.0, ""),  # too soon
        (100, 100, 60.0, ""),
        (5, 8, 47.0, ""),  # too few experiments
        (98, 100, 20.0, "a few seconds left"),
        (90, 100, 20.0, "1 to 15 s left"),
        (60, 100, 60.0, "1 to 5 min left"),
    ],
)
def test_time_left(done, total, elapsed, expected):
    assert time_left(done, total, elapsed) == expected


GTX980_PROGRESS = "127 14.3 135 16.2 141 18.0 152 19.8 155 27.1 162 29.8 163 34.2 165 36.0 180 37.8 186 39.5 191 42.1"
H200_PROGRESS = "121 13.9 138 16.2 139 19.4 141 23.0 145 25.2 148 30.7 150 34.4 160 38.3 166 40.7 171 42.7 183 47.3"


@pytest.mark.parametrize(("total_s", "progress"), [(43.5, GTX980_PROGRESS), (48.3, H200_PROGRESS)])
def test_surveys_of_simulated_gpus_ended_within_the_range(total_s, progress):
    """Experiments done, of 197, and seconds since the start."""
    numbers = progress.split()
    for done, elapsed in zip(map(int, numbers[::2]), map(float, numbers[1::2]), strict=True):
        text = time_left(done, 197, elapsed)
        low, high = map(int, re.findall(r"[0-9]+", text)) if "to" in text else (0, 10)
        scale = 60 if "min" in text else 1
        assert low * scale <= total_s - elapsed <= high * scale, (done, text)


def on_terminal(columns: int, *arguments: object, **variables: str) -> str:
    """What a terminal of this width receives, on stdout and stderr."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns)} | variables
    environment["PYTHONPATH"] = str(Path(gpudissect.__file__).parents[1])
    command = [sys.executable, "-m", "gpudissect", *map(str, arguments)]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower, env=environment) as process:
        os.close(follower)
        received = b""
        try:
            while part := os.read(leader, 1 << 16):
                received += part
        except OSError:  # the other end is closed
            pass
    os.close(leader)
    assert process.returncode == 0
    return received.decode()


def printed_lines(text):
    return [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", text)]


@pytest.mark.parametrize(
    ("experiments", "label"),
    [
        ("timer", "timer"),
        ("bandwidth.l2.read", "L2: bandwidth read"),
        ("sets.constant_l15, sets.l1", "constant L1.5: sets and 1 more"),
    ],
)
def test_experiments_are_named_in_words(experiments, label):
    assert label_of(experiments) == label


def test_the_progress_bar_fits_the_terminal():
    lines = printed_lines(on_terminal(60, "discover", "-d", "sim:gtx980", "--only", "timer"))
    assert max(map(len, lines)) <= 60


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns):
    lines = printed_lines(on_terminal(columns, "show", "-a", H200))
    assert max(map(len, lines)) <= columns
    header = next(line for line in lines if " attribute " in line)
    assert ("published" in header) == (columns >= 200)
    assert any("capacity" in line and shown(load(H200), "l1.capacity") in line for line in lines)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_the_summary_stands_in_the_first_lines(columns):
    lines = [line.rstrip() for line in printed_lines(on_terminal(columns, "show", H200))]
    assert max(map(len, lines)) <= columns
    assert "MEASURED" in lines[0]
    first = "\n".join(lines[: 25 if columns >= 80 else 36])
    made = load(H200)
    latencies = (f"{shown(made, f'l2.{place}_latency', unit=False)} {place}" for place in ("near", "far"))
    values = (shown(made, "l1.capacity"), shown(made, "l1.line_size"), *latencies, "TB/s", "DFMA")
    assert all(text in first for text in values)
    assert all(name in lines[1] for name in ("size", "line", "cycles"))
    assert ("bandwidth" in lines[1]) == (columns >= 80) != any(line.startswith("Bandwidth") for line in lines)
    assert ("sets x ways" in lines[1]) == (columns >= 120) and ("published" in lines[1]) >= (columns >= 120)
    remarks = summarize(made).remarks
    assert all(next(each.element for each in remarks if each.is_difference is kind) in first for kind in (True, False))


def test_colour_on_a_terminal_and_none_with_no_color():
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", on_terminal(120, "show", H200))
    assert not re.search(r"\x1b\[[0-9;]*3[0-9][;m]", on_terminal(120, "show", H200, NO_COLOR="1"))

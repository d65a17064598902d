"""How long it may take: a range, or nothing. What a terminal is sent: as wide as it is, with colours if it may."""

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gpudissect
from gpudissect.cli.console import time_left


@pytest.mark.parametrize(
    ("done", "total", "elapsed", "said"),
    [
        (1, 197, 30.0, ""),  # too few to tell
        (50, 100, 1.0, ""),  # too soon
        (100, 100, 60.0, ""),
        (98, 100, 20.0, "a few seconds left"),
        (90, 100, 20.0, "1 to 15 s left"),
        (153, 197, 18.0, "1 to 35 s left"),  # it was 30
        (121, 197, 6.2, "1 to 30 s left"),  # 11
        (63, 197, 32.0, ""),
        (60, 100, 60.0, "1 to 5 min left"),
        (5, 8, 47.0, ""),  # too few
    ],
)
def test_time_left(done, total, elapsed, said):
    assert time_left(done, total, elapsed) == said


GTX_980 = 43.5, ((127, 14.3), (135, 16.2), (141, 18.0), (152, 19.8), (153, 23.8), (155, 27.1), (162, 29.8), (163, 34.2),
                 (165, 36.0), (180, 37.8), (186, 39.5), (191, 42.1))  # fmt: skip
H200 = 48.3, ((121, 13.9), (138, 16.2), (139, 19.4), (141, 23.0), (145, 25.2), (148, 30.7), (150, 34.4), (155, 36.4),
              (160, 38.3), (166, 40.7), (171, 42.7), (177, 44.7), (183, 47.3))  # fmt: skip


@pytest.mark.parametrize(("whole", "seen"), [GTX_980, H200])
def test_whole_surveys_of_simulated_gpus_ended_within_what_was_said(whole, seen):
    for done, elapsed in seen:
        said = time_left(done, 197, elapsed)
        low, high = map(int, re.findall(r"[0-9]+", said)) if "to" in said else (0, 10)
        scale = 60 if "min" in said else 1
        assert low * scale <= whole - elapsed <= high * scale, (done, said)


def on_terminal(columns: int, *arguments: str, **variables: str) -> tuple[str, int]:
    """What a terminal of so many columns is sent, on stdout and stderr, and the exit code."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns),
                   "PYTHONPATH": str(Path(gpudissect.__file__).parents[1])} | variables  # fmt: skip
    with subprocess.Popen([sys.executable, "-m", "gpudissect", *arguments], stdin=follower, stdout=follower,
                          stderr=follower, env=environment) as process:  # fmt: skip
        os.close(follower)
        sent = b""
        while True:
            try:
                part = os.read(leader, 1 << 16)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            sent += part
    os.close(leader)
    return sent.decode(), process.returncode


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(columns):
    sent, code = on_terminal(columns, "discover", "-d", "sim:gtx980", "--only", "l1", "--quick")
    assert code == 0
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in re.split(r"[\r\n]+", sent)]
    assert max(map(len, lines)) <= columns
    assert any("24 KiB" in line for line in lines)
    assert any("bracket" in line for line in lines) == (columns >= 120)


def test_colour_on_a_terminal_and_none_with_no_color():
    arguments = ("discover", "-d", "sim:gtx980", "--only", "timer")
    assert re.search(r"\x1b\[[0-9;]*3[0-9]m", on_terminal(120, *arguments)[0])
    sent, _ = on_terminal(120, *arguments, NO_COLOR="1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-9][;m]", sent)

"""The output of `explain` that its page shows is what the command prints."""

import re
from pathlib import Path

from typer.testing import CliRunner

from gpudissect.cli.app import app

PAGE, README = Path("docs/explain.md"), Path("README.md")
PROFILE = "tests/recordings/kernels/h200/transpose_naive.json"
FEWER_WARPS = "tests/recordings/kernels/h100/libor_paths.json"


def printed(profile, gpu):
    words = ["explain", profile, "--machine", f"docs/results/{gpu}.json"]
    return CliRunner().invoke(app, words, env={"COLUMNS": "400"}).stdout


def test_the_shown_output_is_printed():
    shown = re.search(r"```text\n(transpose_naive on .*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert shown.split() == printed(PROFILE, "h200").split()


def test_the_shown_advice_is_printed():
    shown = re.search(r"```text\n(Saves up to 38%.*?)```", PAGE.read_text(), re.DOTALL)[1]
    assert " ".join(shown.split()) in " ".join(printed(FEWER_WARPS, "h100").split())


def test_the_readme_shows_the_first_lines_that_are_printed():
    shown = re.search(r"```text\n(transpose_naive on .*?)```", README.read_text(), re.DOTALL)[1].splitlines()
    assert len(shown) == 5
    for row, line in zip(shown, printed(PROFILE, "h200").splitlines(), strict=False):
        assert line.startswith(row)

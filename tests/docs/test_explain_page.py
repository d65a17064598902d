"""The output of `explain` that its page shows is what the command prints."""

import re
from pathlib import Path

from typer.testing import CliRunner

from gpudissect.cli.app import app

PAGE = Path("docs/explain.md")
PROFILE = "tests/recordings/kernels/h200/transpose_naive.json"


def test_the_shown_output_is_printed():
    shown = re.search(r"```text\n(transpose_naive on .*?)```", PAGE.read_text(), re.DOTALL)[1]
    found = CliRunner().invoke(app, ["explain", PROFILE, "--machine", "docs/results/h200.json"], env={"COLUMNS": "400"})
    assert shown.split() == found.stdout.split()

"""Commands that the pages show are commands, and those on simulated GPUs do what the pages say."""

import shlex

import pytest
from typer.main import get_command

from gpudissect.cli.app import app, main
from making import commands
from tests.support.pages import DOCS, PAGES, ROOT, blocks

WITHOUT_RUNNING = (
    "cuda:0",
    "rec:run1",
    "cuda:all",
    "result.json",
    "mine.toml",
    "mine.json",
    "hide.json",
    "results/",
    "profile.json",
)
"""What names a GPU or a file that only the reader has."""
SHOWN = list(
    dict.fromkeys(
        line
        for page in (*PAGES, ROOT / "README.md")
        for block in blocks(page, "sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("gpudissect ")
    )
)
FOLLOWED = [
    line for page in (DOCS / "extend").glob("*.md") for block in blocks(page, "sh") for line in block.splitlines()
]
"""Commands of pages that a test of their own follows."""
RUN = [line for line in SHOWN if line not in FOLLOWED and not any(word in line for word in WITHOUT_RUNNING)]


@pytest.mark.parametrize("line", SHOWN)
def test_a_command_is_one(line):
    _, name, *arguments = shlex.split(line, comments=True)
    command = get_command(app).commands[name]
    command.make_context(f"gpudissect {name}", arguments)


@pytest.mark.parametrize("line", [line for line in RUN if " discover " not in line])
def test_a_quick_command_ends_well(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(line, comments=True)[1:]) == 0
    assert capsys.readouterr().out


def assert_printed(page, output):
    """Each row of the page's block begins a row that was printed."""
    printed = {tuple(row.split()) for row in output.splitlines()}
    for row in blocks(page, "text")[0].splitlines():
        words = tuple(row.split())
        assert any(each[: len(words)] == words for each in printed), row


def test_the_quickstart_shows_what_is_printed(capsys):
    quickstart = DOCS / "quickstart.md"
    (line,) = (block.strip() for block in blocks(quickstart, "sh") if block.startswith("gpudissect discover -d sim"))
    assert main(shlex.split(line, comments=True)[1:]) == 0
    assert_printed(quickstart, capsys.readouterr().out)


def test_the_readme_shows_what_is_printed_of_an_h200(capsys):
    assert main(["show", str(DOCS / "results" / "h200.json")]) == 0
    assert_printed(ROOT / "README.md", capsys.readouterr().out)


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 900


def test_the_quickstart_tells_a_fitting_footprint_from_one_that_does_not(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    means = []
    for line in (line for line in SHOWN if line.startswith("gpudissect chase")):
        main(shlex.split(line, comments=True)[1:])
        rows = (tmp_path / shlex.split(line, comments=True)[-1]).read_text().splitlines()
        column = rows[0].split(",").index("cycles")
        means.append(sum(int(row.split(",")[column]) for row in rows[1:]) / len(rows[1:]))
    assert means[0] < 150 < means[1]


def test_latency_hiding_is_measured_and_then_predicted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    measure, predict = blocks(DOCS / "attributes" / "hiding.md", "sh")[0].splitlines()
    for line in (measure, predict):
        assert main(shlex.split(line, comments=True)[1:]) == 0, line
    assert "limited by" in capsys.readouterr().out


def test_the_reference_has_every_command_and_option():
    text = commands.reference()
    for name, command in get_command(app).commands.items():
        section = text.split(f"## gpudissect {name}\n", 1)[1].split("\n## ", 1)[0]
        for parameter in command.params:
            assert all(option in section for option in parameter.opts if option.startswith("--")), (name, parameter)


def test_ci_finds_the_test_command_of_the_readme():
    runs_tests = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if "pytest" in line]
    assert runs_tests == ["python3 -m venv .venv && .venv/bin/pip install -q '.[test]' && .venv/bin/pytest"]
    assert 'grep -m1 -F "&& .venv/bin/pytest" README.md' in (ROOT / ".ci/run").read_text(encoding="utf-8")

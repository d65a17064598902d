"""Python on the pages runs as it stands, and says something."""

import pytest

from tests.support.pages import DOCS, PAGES, ROOT, blocks

EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(DOCS)}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"))
]


def test_the_tuning_example_prints_what_its_comments_say(monkeypatch, capsys):
    (code,) = (block for block in blocks(DOCS / "python.md", "python") if "threads per block" in block)
    monkeypatch.chdir(ROOT)
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    printed = capsys.readouterr().out.splitlines()
    comments = [line.partition("  # ")[2] for line in code.splitlines() if line.startswith("print(")]
    assert len(comments) == len(printed) and all(map(str.startswith, printed, comments))


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()

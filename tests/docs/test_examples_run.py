"""Python on the pages runs as it stands, and says something."""

import pytest

from tests.support.pages import DOCS, PAGES, ROOT, blocks

EXAMPLES = [
    pytest.param(block, id=f"{page.relative_to(DOCS)}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"))
]


@pytest.mark.parametrize("code", EXAMPLES)
def test_an_example_runs(code, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    exec(compile(code, "example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip()

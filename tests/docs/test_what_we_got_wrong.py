"""The page of errors names tests that exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "what-we-got-wrong.md").read_text(encoding="utf-8")
TESTS = sorted(set(re.findall(r"`((?:tests|validation)/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


@pytest.mark.parametrize(("file", "name"), TESTS)
def test_every_named_test_exists(file, name):
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name}(" in text or not name


def test_every_error_has_a_test_or_is_open():
    rows = [
        line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ") and "what was wrong" not in line
    ]
    assert len(rows) > 30
    for _, hidden, test in rows:
        assert hidden.strip()
        assert re.search(r"`(tests|validation)/|not agreeing|[Oo]pen\.|rule of contradictions", test)

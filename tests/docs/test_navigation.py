"""Patterns in the navigation stand for the pages that nothing else names."""

from making.navigation import expanded


def test_patterns_are_filled_with_what_is_left(tmp_path):
    for name in ("index.md", "new.md", "adr/1.md", "adr/2.md", "other/deep.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    nav = [{"Start": "index.md"}, {"More": ["*.md", {"Named": "adr/1.md"}]}, {"Decisions": ["adr/*.md"]}]
    assert expanded(nav, tmp_path) == [
        {"Start": "index.md"},
        {"More": ["new.md", {"Named": "adr/1.md"}]},
        {"Decisions": ["adr/2.md"]},
    ]

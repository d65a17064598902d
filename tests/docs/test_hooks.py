"""What is made takes its place on every page, and what would be fetched from elsewhere is found."""

from types import SimpleNamespace

import pytest

from making import hooks
from tests.support.pages import DOCS, PAGES

WITH_MARKS = [page for page in PAGES if "<!-- made: " in page.read_text(encoding="utf-8")]


def filled(markdown, page="index.md"):
    return hooks.on_page_markdown(markdown, SimpleNamespace(file=SimpleNamespace(src_uri=page)), None, None)


@pytest.mark.parametrize("page", WITH_MARKS, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_mark_is_filled(page, caplog):
    text = filled(page.read_text(encoding="utf-8"), str(page.relative_to(DOCS)))
    assert "<!-- made:" not in text
    assert not caplog.records


def test_an_unknown_mark_is_warned_of(caplog):
    filled("<!-- made: gold -->")
    assert "gold" in caplog.text


def test_pictures_are_linked_from_where_a_page_is():
    assert "](pictures/gallery/miss_map.svg)" in filled("<!-- made: picture gallery/miss_map -->", "python.md")
    assert "](../pictures/capacity.svg)" in filled("<!-- made: picture capacity -->", "attributes/capacity.md")
    assert filled("<!-- made: measured h200 -->", "results/h200.md").count("](../pictures/h200/") >= 7


def test_patterns_of_the_navigation_stand_for_what_is_left():
    pages = ["adr/1.md", "adr/2.md", "index.md", "new.md", "other/deep.md"]
    nav = [{"Start": "index.md"}, {"More": ["*.md", {"Named": "adr/1.md"}]}, {"Decisions": ["adr/*.md"]}]
    assert hooks.expanded(nav, pages) == [
        {"Start": "index.md"},
        {"More": ["new.md", {"Named": "adr/1.md"}]},
        {"Decisions": ["adr/2.md"]},
    ]


def test_a_table_of_many_columns_takes_the_whole_width():
    for columns, hidden in ((9, ["toc"]), (5, None)):
        page = SimpleNamespace(meta={})
        hooks.on_page_content("<table><tr>" + "<th>x</th>" * columns + "</tr></table>", page, None, None)
        assert page.meta.get("hide") == hidden


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://example.org/x.js"></script>'),
        ("a.html", "<img alt='' src='//example.org/x.png'>"),
        ("a.html", '<link rel="stylesheet" href="http://example.org/x.css">'),
        ("deep/a.css", "p { background: url(https://example.org/x.png) }"),
        ("a.css", '@import "https://example.org/x.css";'),
    ],
)
def test_what_would_be_loaded_from_elsewhere_is_warned_of(name, text, tmp_path, caplog):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    hooks.on_post_build({"site_dir": str(tmp_path)})
    assert f"{name} loads " in caplog.text


def test_links_and_local_files_are_not(tmp_path, caplog):
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">there</a> <img src="x.png"> <link rel="canonical" href="https://example.org/a">'
    )
    (tmp_path / "a.css").write_text("p { background: url(x.png) }")
    hooks.on_post_build({"site_dir": str(tmp_path)})
    assert not caplog.records

"""What is made takes its place on every page, and what would be fetched from elsewhere is found."""

import base64
import html
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from making import hooks
from tests.support.pages import DOCS, PAGES

WITH_MARKS = [page for page in PAGES if "<!-- made: " in page.read_text(encoding="utf-8")]


@pytest.mark.parametrize("page", WITH_MARKS, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_mark_is_filled(page, caplog):
    file = SimpleNamespace(src_uri=str(page.relative_to(DOCS)))
    text = hooks.on_page_markdown(page.read_text(encoding="utf-8"), SimpleNamespace(file=file), None, None)
    assert "<!-- made:" not in text
    assert not caplog.records


def test_a_mark_that_nothing_is_made_for_is_warned_of(caplog):
    page = SimpleNamespace(file=SimpleNamespace(src_uri="index.md"))
    hooks.on_page_markdown("<!-- made: gold -->", page, None, None)
    assert "gold" in caplog.text


def test_what_an_h200_showed_is_drawn_from_its_result_file():
    page = SimpleNamespace(file=SimpleNamespace(src_uri="results/h200.md"))
    text = hooks.on_page_markdown((DOCS / "results" / "h200.md").read_text(encoding="utf-8"), page, None, None)
    drawn = re.findall('<img class="seen" alt="([^"]+)" src="data:image/svg[+]xml;base64,([^"]+)">', text)
    assert len(drawn) >= 8
    for title, picture in drawn:
        assert ElementTree.fromstring(base64.b64decode(picture)).get("aria-label") == html.unescape(title)


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

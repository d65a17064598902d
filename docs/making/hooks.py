"""What mkdocs calls while it builds: what is made from the code takes its place on the pages.

A page says ``<!-- made: NAME -->`` where something comes: `commands`, `attributes`, `h200` (what an H200 gave for the
words in the head of the page), `seen` (what it showed, in pictures), `catalogue` (its README), `picture NAME`. Nothing
that is made is kept in the repository, so nothing goes stale.
"""

from __future__ import annotations

import html
import logging
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from making import commands, h200, navigation, seen, words
from making.pictures import PICTURES

DOCS = Path(__file__).parents[1]
CATALOGUE = DOCS.parent / "src" / "gpudissect" / "catalogue" / "README.md"
log = logging.getLogger("mkdocs.hooks.making")  # below "mkdocs": --strict counts what it warns of
WIDE = 8  # columns of a table that needs the whole width
MARK = re.compile(r"<!-- made: ([a-z0-9_-]+)(?: ([a-z0-9_-]+))? -->")
LOADS = re.compile(r"""<(?:link|script|img|iframe|source|video|audio|object|embed)\b[^>]*?"""
                   r"""\b(?:href|src|srcset|data)=["']?((?:https?:)?//[^"'\s>]+)""")  # fmt: skip
STYLE_LOADS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""")
HARMLESS = re.compile(r'<link[^>]*rel="?(?:canonical|prev|next)')


def on_config(config: Any) -> Any:
    """Fill in the pages that the navigation names by a pattern."""
    config.nav = navigation.expanded(config.nav, DOCS)
    return config


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Put what is made where the page asks for it."""
    source = DOCS / page.file.src_uri
    return MARK.sub(lambda mark: _made(mark[1], mark[2] or "", source), markdown)


def _made(what: str, name: str, source: Path) -> str:
    if what == "commands":
        return commands.reference()
    if what == "attributes":
        return words.table_of_attributes()
    if what == "catalogue":
        return CATALOGUE.read_text(encoding="utf-8").partition("\n")[2]
    if what == "h200":
        return _table(source)
    if what == "seen" and (pictures := seen.gallery()):
        return f'<p class="seen" markdown="0">{pictures}</p>'
    if what == "picture" and name in PICTURES:
        plot = PICTURES[name]()
        caption = f"<figcaption>{html.escape(plot.title)}.</figcaption>"
        return f'<figure class="plot" markdown="0">{plot.svg()}{caption}</figure>'
    log.warning("%s: nothing is made by the name %r", source.name, f"{what} {name}".strip())
    return ""


def _table(source: Path) -> str:
    lines = ["| element | attribute | value | bracket | confidence |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in h200.rows(*words.subjects(source))]
    if len(lines) == 2:
        log.warning("%s: the H200 gave nothing for the words in its head", source.name)
    return "\n".join(lines)


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """A table of many columns takes the place of the list of contents beside it: not to be scrolled on a desk."""
    if max((row.count("<th") for row in html.split("</tr>")), default=0) >= WIDE:
        page.meta.setdefault("hide", ["toc"])
    return html


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the theme's search for screen readers."""
    return output.replace(
        'data-md-component="search" role="dialog"', 'data-md-component="search" role="dialog" aria-label="Search"'
    )


def on_post_build(config: Any) -> None:
    """Warn of every page and style sheet that would load something from elsewhere."""
    site = Path(config["site_dir"])
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        found = LOADS.finditer(text) if path.suffix == ".html" else STYLE_LOADS.finditer(text)
        for load in found:
            if not HARMLESS.match(load[0]):
                log.warning("%s loads %s: the documentation works without a network", path.relative_to(site), load[1])

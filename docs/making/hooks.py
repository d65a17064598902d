"""What mkdocs calls while it builds: generated parts and pictures take their places on the pages.

A page has a mark ``<!-- made: NAME -->`` where something is inserted: `commands`, `attributes`, `catalogue` (its
README), `h200` (values of an H200 for the words in the head of the page), `measured GPU` (plots of a result),
`discoveries GPU`, `conditions GPU`, `summary GPU` and `findings GPU` (see `result_page`), `cards GPU` (see `cards`),
`picture NAME` (see `pictures`). Pages about results of `gpudissect hide` are made as a whole. Nothing of that is kept
in the repository.
"""

from __future__ import annotations

import logging
import posixpath
import re
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from making import cards, commands, hiding_page, pictures, result_page, tables

DOCS = Path(__file__).parents[1]
CATALOGUE = DOCS.parent / "src" / "gpudissect" / "catalogue" / "README.md"
GENERATED = tuple(f"results/{name}.md" for name in hiding_page.PAGES)
RESULT_PARTS = {
    "discoveries": result_page.discoveries,
    "conditions": result_page.conditions,
    "summary": result_page.summary,
    "findings": result_page.findings,
    "cards": cards.cards,
}
WIDE_COLUMNS = 8  # of a table that needs the whole width
SHEET_WIDTH = 'width="1040"'  # of a picture with two columns
MARK = re.compile(r"<!-- made: ([a-z0-9_-]+)(?: ([a-z0-9/_-]+))? -->")
LOADS = re.compile(
    r"""<(?:link|script|img|iframe|source|video|audio|object|embed)\b[^>]*?"""
    r"""\b(?:href|src|srcset|data)=["']?((?:https?:)?//[^"'\s>]+)"""
)
STYLE_LOADS = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])((?:https?:)?//[^"')\s]+)""")
HARMLESS = re.compile(r'<link[^>]*rel="?(?:canonical|prev|next)')
log = logging.getLogger("mkdocs.hooks.making")  # below "mkdocs": --strict counts its warnings
_svgs: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Fill in the pages that the navigation names by a pattern."""
    pages = sorted({*(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")), *GENERATED})
    config.nav = expanded(config.nav, pages)
    return config


def expanded(nav: Any, pages: Sequence[str]) -> Any:
    """The navigation; entries such as ``adr/*.md`` become the pages of that pattern that no other entry names."""
    named = set(_leaves(nav))
    return _filled(nav, [page for page in pages if page not in named])


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [leaf for each in (nav.values() if isinstance(nav, dict) else nav) for leaf in _leaves(each)]


def _filled(nav: Any, pages: Sequence[str]) -> Any:
    if isinstance(nav, dict):
        return {name: _filled(inner, pages) for name, inner in nav.items()}
    if isinstance(nav, str):
        return nav
    filled: list[Any] = []
    for each in nav:
        if isinstance(each, str) and "*" in each:
            filled += [page for page in pages if fnmatchcase(page, each) and page.count("/") == each.count("/")]
        else:
            filled.append(_filled(each, pages))
    return filled


def on_files(files: Any, config: Any) -> Any:
    """Add generated pages, tables and pictures."""
    from mkdocs.structure.files import File  # tests of the other hooks need no mkdocs

    for name in hiding_page.PAGES:
        corner = hiding_page.RESULTS / f"{name}-corner.json"
        results = hiding_page.results_of(name)
        text = hiding_page.markdown(name, results, corner if corner.exists() else None)
        files.append(File.generated(config, f"results/{name}.md", content=text))
    for path, text in result_page.files():
        files.append(File.generated(config, path, content=text))
    names = {name for file in files.documentation_pages() for name in pictures_in(file.content_string)}
    _svgs.update(pictures.draw(names - set(_svgs)))
    for name, svg in _svgs.items():
        files.append(File.generated(config, f"pictures/{name}.svg", content=svg))
    return files


def pictures_in(markdown: str) -> list[str]:
    """Names of the pictures that a page shows."""
    names = []
    for what, name in MARK.findall(markdown):
        names += [name] if what == "picture" else _measured_names(name) if what == "measured" else []
    return names


def _measured_names(gpu: str) -> list[str]:
    return [f"{gpu}/{number}" for number in range(len(pictures.MEASURED))]


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Insert what is generated at the marks of a page."""
    return MARK.sub(lambda mark: made(mark[1], mark[2] or "", page.file.src_uri, markdown), markdown)


def made(what: str, name: str, page: str, markdown: str) -> str:
    """What replaces one mark on a page."""
    if what == "commands":
        return commands.reference()
    if what == "attributes":
        return tables.attributes()
    if what == "catalogue":
        return CATALOGUE.read_text(encoding="utf-8").partition("\n")[2]
    if what == "h200" and (table := tables.measured(markdown)):
        return table
    if what == "measured":
        return f"{' '.join(_image(each, page) for each in _measured_names(name))}\n{{ .measured }}"
    if what in RESULT_PARTS and name in result_page.GPUS:
        return RESULT_PARTS[what](name)
    if what == "picture" and name:
        return _image(name, page)
    log.warning("%s: no generated part is named %r", page, f"{what} {name}".strip())
    return ""


def _image(name: str, page: str) -> str:
    svg = _svgs.get(name, "")
    path = posixpath.relpath(f"pictures/{name}.svg", posixpath.dirname(page))
    return f"![{pictures.title_of(svg)}]({path}){{ .{'sheet' if SHEET_WIDTH in svg else 'picture'} }}"


def on_page_content(html: str, page: Any, config: Any, files: Any) -> str:
    """A table with many columns takes the place of the table of contents beside it."""
    if max((row.count("<th") for row in html.split("</tr>")), default=0) >= WIDE_COLUMNS:
        page.meta.setdefault("hide", ["toc"])
    return html


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the theme's search for screen readers."""
    search = 'data-md-component="search" role="dialog"'
    return output.replace(search, f'{search} aria-label="Search"')


def on_post_build(config: Any) -> None:
    """Warn of every page and style sheet that would load something from elsewhere."""
    site = Path(config["site_dir"])
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        for load in (LOADS if path.suffix == ".html" else STYLE_LOADS).finditer(text):
            if not HARMLESS.match(load[0]):
                log.warning("%s loads %s: the documentation works without a network", path.relative_to(site), load[1])

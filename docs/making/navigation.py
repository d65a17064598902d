"""The navigation: entries such as ``adr/*`` stand for every page of that kind that no other entry names."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any


def expanded(nav: Any, docs: Path) -> Any:
    """The navigation with patterns replaced by the pages they stand for, so that a new decision needs no new line."""
    pages = sorted(str(path.relative_to(docs)) for path in docs.rglob("*.md"))
    named = set(_leaves(nav))
    return _filled(nav, [page for page in pages if page not in named])


def _leaves(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [leaf for each in inner for leaf in _leaves(each)]


def _filled(nav: Any, left: list[str]) -> Any:
    if isinstance(nav, dict):
        return {name: _filled(inner, left) for name, inner in nav.items()}
    if isinstance(nav, str):
        return nav
    filled: list[Any] = []
    for each in nav:
        if isinstance(each, str) and "*" in each:
            filled += [page for page in left if fnmatchcase(page, each) and page.count("/") == each.count("/")]
        else:
            filled.append(_filled(each, left))
    return filled

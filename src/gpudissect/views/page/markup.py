"""HTML and SVG whose text is escaped by construction: there is no string of markup that text is pasted into."""

from __future__ import annotations

import html
import json
from collections.abc import Iterable
from typing import Any

from gpudissect.results.text import clean

_VOID = frozenset({"meta", "input", "br", "hr", "link", "img"})
_EMPTY_SVG = frozenset({"path", "line", "rect", "circle", "use"})
LONGEST = 2000  # characters of one text from a file; nobody reads more, and a browser lays it out all the same


class Markup(str):
    """Text that is markup already. Only this module makes it of anything but other markup."""

    __slots__ = ()


Child = Markup | str | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. Strings among the children, and every attribute's value, are cleaned and escaped.

    An attribute's underscores become dashes, one at its end goes (``class_``, ``aria_label``). None and False leave it
    out, True writes its name alone; `Markup` there is as long as it likes, such as the path of a line.
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    if name in _EMPTY_SVG and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def join(children: Child) -> Markup:
    """Children one after the other, text among them escaped."""
    if children is None:
        return Markup("")
    if isinstance(children, Markup):
        return children
    if isinstance(children, str):
        return Markup(html.escape(shown(children)))
    return Markup("".join(map(join, children)))


def shown(text: str) -> str:
    """A text as it may stand in a page: printable, not endless."""
    return clean(text if len(text) <= LONGEST else f"{text[:LONGEST]} ... ({len(text)} characters)")


def data(identity: str, value: Any) -> Markup:
    """A block of JSON for a script to read, which is no script itself and cannot end early."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{text}</script>')


def verbatim(name: str, source: str) -> Markup:
    """A style or a script of the package's own. Raises `ValueError` for one that would end its own element."""
    if "</" + name in source.lower() or "<!--" in source:
        raise ValueError(f"this {name} would end early")
    return Markup(f"<{name}>{source}</{name}>")


def _attribute(key: str, value: str | float | bool | None) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {name}="{html.escape(text if isinstance(value, Markup) else shown(text))}"'

"""HTML and SVG whose text is escaped by construction, and the document around it."""

import base64
import hashlib
import html
import json
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any

from gpudissect.printable import clean

_VOID = frozenset({"meta", "input", "br", "hr", "link", "img"})
_EMPTY_SVG = frozenset({"path", "line", "rect", "circle", "use"})
MAX_TEXT_LENGTH = 2000  # characters of one text from a file


class Markup(str):
    """Text that is markup already. Only this module makes it from anything but markup and numbers."""

    __slots__ = ()


Child = Markup | str | None | Iterable["Child"]


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """An element. Strings among the children, and the value of every attribute, are cleaned and escaped.

    Underscores in names of attributes become dashes, one at the end is dropped (``class_``, ``aria_label``). None and
    False leave an attribute out, True writes its name alone. A `Markup` value has no maximum length.
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
    """A text as it may stand in a page: printable, and not longer than a reader reads."""
    return clean(text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]} ... ({len(text)} characters)")


def table(name: str, head: Iterable[str], rows: Iterable[Iterable[Child]]) -> Markup:
    """A table that scrolls within its own width; the first cell of each row is its heading."""
    header = tag("tr", *(tag("th", each, scope="col") for each in head))
    body = [tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in rest)) for first, *rest in rows]
    return scrolling(name, tag("table", tag("thead", header), tag("tbody", *body)))


def scrolling(name: str | None, content: Markup) -> Markup:
    """A region that scrolls within its own width."""
    return tag("div", content, class_="scroll", tabindex="0", role="region" if name else None, aria_label=name)


def data(identity: str, value: Any) -> Markup:
    """A block of JSON for a script to read; it is no script itself and cannot end early."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    text = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{text}</script>')


def document(title: str, *body: Child) -> str:
    """A whole page, whose policy allows no request and no style or script but the package's own, known by hashes."""
    style = _asset("plots", "plot.css") + _asset("page", "page.css")  # the page's own rules come last
    script = _asset("page", "page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
    policy += "img-src data:; base-uri 'none'; form-action 'none'"
    named = {"viewport": "width=device-width, initial-scale=1", "referrer": "no-referrer", "color-scheme": "light dark"}
    metas = [Markup('<meta charset="utf-8">'), tag("meta", http_equiv="Content-Security-Policy", content=policy)]
    metas += [tag("meta", name=name, content=content) for name, content in named.items()]
    icon = Markup('<link rel="icon" href="data:,">')
    head = tag("head", *metas, tag("title", title), icon, _verbatim("style", style))
    return "<!doctype html>\n" + tag("html", head, tag("body", *body, _verbatim("script", script)), lang="en") + "\n"


@cache
def _asset(folder: str, name: str) -> str:
    return files(f"gpudissect.views.{folder}").joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _verbatim(name: str, source: str) -> Markup:
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

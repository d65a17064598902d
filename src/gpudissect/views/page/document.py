"""The page's outside: head, policy, style and script, which forbid whatever is not in the file itself."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from gpudissect.views.page.markup import Child, Markup, tag, verbatim


def document(title: str, *body: Child) -> str:
    """A whole page.

    Its policy allows no request to anywhere, and no style or script but the package's own, known by their hashes.
    """
    style = _asset("plots", "plot.css") + _asset("page", "page.css")  # the page's own rules come last
    script = _asset("page", "page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        Markup('<link rel="icon" href="data:,">'),
        verbatim("style", style),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", *body, verbatim("script", script)), lang="en") + "\n"


@cache
def _asset(room: str, name: str) -> str:
    return files(f"gpudissect.views.{room}").joinpath(name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()

"""TOML as the catalogue's files have it: a number and its source on one line, comments between.

Only what such files need: strings, whole and real numbers, truth values, lists and inline tables. Whatever a string
holds, the text is valid TOML of printable characters, so that nothing of a stranger's drives a terminal or an editor.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from gpudissect.results.text import clean

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_GROUPED = 100_000  # digits of numbers from here on are grouped
_MANY = 24  # plain numbers that fit a line
_ROW = 16
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_REPLACEMENT = "\ufffd"  # for half a surrogate pair, which no TOML file can hold


@dataclass(frozen=True)
class Section:
    """A table of the file.

    Attributes:
        name: its dotted name, such as ``("caches", "l1")``; empty for the top of the file.
        body: values by key, written in this order.
        comment: lines that stand above it.
        remarks: what stands behind the value of a key, as a comment.

    """

    name: tuple[str, ...]
    body: Mapping[str, Any]
    comment: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)


def toml_text(sections: Iterable[Section]) -> str:
    """The text of a file of these tables, the one without a name first.

    Raises `ValueError` for a number that is not finite or a whole one beyond 64 bits.
    """
    return "\n".join("".join(f"{line}\n" for line in _lines(section)) for section in sections)


def _lines(section: Section) -> Iterable[str]:
    for line in section.comment.splitlines():
        yield f"# {clean(line)}".rstrip()
    if section.name:
        yield f"[{'.'.join(map(_key, section.name))}]"
    elif section.comment and section.body:
        yield ""
    for key, value in section.body.items():
        remark = section.remarks.get(key, "")
        yield f"{_key(key)} = {_top(value)}" + (f"  # {clean(remark)}" if remark else "")


def _top(value: Any) -> str:
    """A value that begins a line: a list of tables gets one line each."""
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        return "[\n" + "".join(f"  {_value(item)},\n" for item in value) + "]"
    return _value(value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence):
        return _list(value)
    raise TypeError(f"nothing that TOML could hold: {type(value).__name__}")


def _list(values: Sequence[Any]) -> str:
    texts = [_value(value) for value in values]
    if len(texts) <= _MANY:
        return f"[{', '.join(texts)}]"
    rows = (", ".join(texts[i : i + _ROW]) for i in range(0, len(texts), _ROW))
    return "[\n" + "".join(f"  {row},\n" for row in rows) + "]"


def _number(value: float) -> str:
    if not isfinite(value):
        raise ValueError(f"not a finite number: {value}")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"a whole number beyond 64 bits: {value}")
        return f"{value:_}" if abs(value) >= _GROUPED else str(value)
    return f"{value:_}" if _GROUPED <= abs(value) < 1e15 else repr(value)


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    return '"' + "".join(map(_character, text)) + '"'


def _character(c: str) -> str:
    if c in _ESCAPED:
        return _ESCAPED[c]
    if c.isprintable():
        return c
    number = ord(c)
    if 0xD800 <= number <= 0xDFFF:
        return _REPLACEMENT
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"

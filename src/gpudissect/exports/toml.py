"""TOML in the style of the catalogue's files: a number and its source on one line, comments between.

tomli-w writes no comments, and tomlkit would need every item built by hand to keep this style and to escape what is
not printable: nothing that a result of a stranger holds may drive a terminal or an editor.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from gpudissect.printable import clean

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_GROUPED = 100_000  # from here on the digits of numbers are grouped
_LINE_ITEMS, _ROW_ITEMS = 24, 16  # items of a list on one line, and in each row of a longer one


@dataclass(frozen=True)
class Section:
    """A table of the file: its dotted name (empty: the top), values by key, comment lines above, remarks by key."""

    name: tuple[str, ...]
    body: Mapping[str, Any]
    comment: str = ""
    remarks: Mapping[str, str] = field(default_factory=dict)


def toml_text(sections: Iterable[Section]) -> str:
    """The text of a file of these tables, the one without a name first.

    Raises `ValueError` for a number that is not finite or beyond 64 bits.
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
        is_list_of_tables = isinstance(value, list) and value and all(isinstance(item, dict) for item in value)
        text = _block(map(_value, value)) if is_list_of_tables else _value(value)
        remark = section.remarks.get(key, "")
        yield f"{_key(key)} = {text}" + (f"  # {clean(remark)}" if remark else "")


def _block(lines: Iterable[str]) -> str:
    return "[\n" + "".join(f"  {line},\n" for line in lines) + "]"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, Sequence):
        items = [_value(item) for item in value]
        if len(items) <= _LINE_ITEMS:
            return f"[{', '.join(items)}]"
        return _block(", ".join(items[i : i + _ROW_ITEMS]) for i in range(0, len(items), _ROW_ITEMS))
    raise TypeError(f"TOML has no {type(value).__name__}")


def _number(value: float) -> str:
    if not isfinite(value):
        raise ValueError(f"TOML readers refuse numbers that are not finite, got {value}")
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"TOML readers refuse whole numbers beyond 64 bits, got {value}")
        return f"{value:_}" if abs(value) >= _GROUPED else str(value)
    return f"{value:_}" if _GROUPED <= abs(value) < 1e15 else repr(value)


def _key(text: str) -> str:
    return text if _BARE.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    """A basic string of printable characters. Half a surrogate pair, which no TOML file can hold, is replaced."""
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in json.dumps(whole, ensure_ascii=False))

"""Result files of schema ``gpudissect/1``: the same content under older names of fields, notes, series and columns."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gpudissect.results.model import SCHEMA as CURRENT
from gpudissect.vocabulary import RENAMED
from gpudissect.workload.digest import WIRE_NOTES, current_names

SCHEMA = "gpudissect/1"
_NAMES: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("schema1.toml").read_text(encoding="utf-8"))
SERIES, PHRASES, COLUMNS = (_NAMES[kind] for kind in ("series", "phrases", "columns"))
"""Older names of series, phrases in such names, names of columns: the current ones."""


def convert(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of schema 1 in schema 2. A part of a wrong type stays as it is, for the check to refuse."""
    result = dict(content) | {"schema": CURRENT}
    if "conditions" in result:
        conditions = _rename(result["conditions"], {"clock_seen": "clock_observed"})
        result["conditions"] = _replace(conditions, "notes", lambda notes: current_names(notes, WIRE_NOTES))
    if "prediction" in result:
        result["prediction"] = _rename(result["prediction"], {"unforetold": "not_predicted"})
    for part in ("findings", "comparisons", "series"):
        if isinstance(result.get(part), list):
            result[part] = [_record(each) for each in result[part]]
    return result


def _record(record: Any) -> Any:
    """A finding, a comparison or a series."""
    record = _replace(record, "attribute", lambda name: RENAMED.get(name, name), str)
    record = _replace(record, "name", _series_name, str)
    record = _replace(record, "shows", lambda names: list(_rename(dict.fromkeys(map(str, names)), RENAMED)), list)
    for part in ("columns", "units"):
        record = _replace(record, part, lambda columns: _rename(columns, COLUMNS))
    return record


def _series_name(name: str) -> str:
    for older, current in PHRASES.items():
        name = name.replace(older, current)
    return SERIES.get(name, name)


def _rename(record: Any, names: Mapping[str, str]) -> Any:
    return {names.get(key, key): value for key, value in record.items()} if isinstance(record, dict) else record


def _replace(record: Any, name: str, change: Callable[[Any], Any], kind: type = dict) -> Any:
    if isinstance(record, dict) and isinstance(record.get(name), kind):
        return record | {name: change(record[name])}
    return record

"""Result files of schema ``gpudissect/1``: the same content under older names of fields, notes, series and columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpudissect.results.model import SCHEMA as CURRENT
from gpudissect.vocabulary import RENAMED
from gpudissect.workload.digest import WIRE_NOTES, current_names

SCHEMA = "gpudissect/1"
SERIES: Mapping[str, str] = {
    "time of a kernel's start by turn": "start time of a kernel by repetition",
    "time of a graph's start by turn": "start time of a graph by repetition",
}
"""Older names of series."""
COLUMNS: Mapping[str, str] = {"turn": "repetition"}
"""Older names of their columns."""


def convert(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file of schema 1 in schema 2. A part of a wrong type stays as it is, for the check to refuse."""
    result = dict(content) | {"schema": CURRENT}
    if "conditions" in result:
        conditions = _rename(result["conditions"], {"clock_seen": "clock_observed"})
        result["conditions"] = _replace(conditions, "notes", lambda notes: current_names(notes, WIRE_NOTES))
    if "prediction" in result:
        result["prediction"] = _rename(result["prediction"], {"unforetold": "not_predicted"})
    if isinstance(result.get("findings"), list):
        result["findings"] = [_replace(each, "attribute", _attribute, str) for each in result["findings"]]
    if isinstance(result.get("series"), list):
        result["series"] = [_series(each) for each in result["series"]]
    return result


def _attribute(name: Any) -> Any:
    return RENAMED.get(name, name) if isinstance(name, str) else name


def _series(series: Any) -> Any:
    series = _replace(series, "shows", lambda names: [_attribute(name) for name in names], list)
    series = _replace(series, "name", lambda name: SERIES.get(name, name), str)
    for part in ("columns", "units"):
        series = _replace(series, part, lambda columns: _rename(columns, COLUMNS))
    return series


def _rename(record: Any, names: Mapping[str, str]) -> Any:
    return {names.get(key, key): value for key, value in record.items()} if isinstance(record, dict) else record


def _replace(record: Any, name: str, change: Any, kind: type = dict) -> Any:
    if isinstance(record, dict) and isinstance(record.get(name), kind):
        return record | {name: change(record[name])}
    return record

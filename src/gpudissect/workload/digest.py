"""The digest by which a recording identifies a workload, the same in every process, machine and version.

Digests hash, and recordings store, names of classes, fields, arrays and notes. These *wire names* never change: to
rename something in the code, add its new name with its wire name to the tables here, and never alter an entry.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from gpudissect.workload.order import Explicit

WIRE_CLASSES = {"PriorAccesses": "Turn", "UnsupportedWorkload": "Unfit"}
"""Wire names of classes of workloads and of errors."""
WIRE_FIELDS: Mapping[str, Mapping[str, str]] = {
    "Stream": {"waves": "laps"},
    "Mix": {"waves": "rounds"},
    "Launch": {"method": "means"},
    "DeviceInfo": {"launch_methods": "means"},
}
"""Wire names of fields, by class."""
WIRE_ARRAYS = {"overflow_count": "beyond"}
"""Wire names of the arrays of a trace."""
WIRE_NOTES = {"prior_access_sms": "turn_sms", "carveout_requested": "carveout_asked"}
"""Wire names of the notes of a trace's context."""
_JSON_TYPES = {int, str, float, bool, type(None)}
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
_HELD = "_held_digest"  # attribute of a workload


def wire_names(values: Mapping[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    """`values` with every key replaced by its wire name."""
    return {table.get(name, name): value for name, value in values.items()}


def current_names(values: Mapping[str, Any], table: Mapping[str, str]) -> dict[str, Any]:
    """`values` with every wire name replaced by the name that the code uses: undoes `wire_names`."""
    return wire_names(values, {wire: name for name, wire in table.items()})


def current_name(wire: str, table: Mapping[str, str]) -> str:
    """The name that the code uses for one wire name."""
    return next((name for name, other in table.items() if other == wire), wire)


def digest(workload: object) -> str:
    """SHA-256 (32 hexadecimal digits) over the wire names of a workload's class and of its fields not at their default.

    So a field that a later version adds leaves the digests of old recordings as they are. For the same reason a default
    must never change.
    """
    held: dict[str, Any] = getattr(workload, "__dict__", {})
    if _HELD not in held:
        text = _ENCODER.encode(_plain(workload))
        held[_HELD] = hashlib.sha256(text.encode()).hexdigest()[:32]  # a workload never changes
    name: str = held[_HELD]
    return name


def _plain(value: object) -> object:
    kind = type(value)
    if kind in _JSON_TYPES:
        return value
    if isinstance(value, tuple):  # picks are many, and plain already
        return list(value) if value and isinstance(value[0], int) else [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Explicit):
        return {"kind": "Explicit", "digest": value.digest}
    if is_dataclass(kind):
        plain: dict[str, object] = {"kind": WIRE_CLASSES.get(kind.__name__, kind.__name__)}
        for name, wire, default in _wire_fields(kind):
            item = getattr(value, name)
            if item is not default and (default is MISSING or item != default):
                plain[wire] = item if type(item) in _JSON_TYPES else _plain(item)
        return plain
    return value


@cache
def _wire_fields(kind: type) -> tuple[tuple[str, str, object], ...]:
    """Name, wire name and default of each field of a class."""
    table = WIRE_FIELDS.get(kind.__name__, {})
    return tuple((field.name, table.get(field.name, field.name), field.default) for field in fields(kind))

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
    text = json.dumps(_plain(workload), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    if isinstance(value, Explicit):
        return {"kind": "Explicit", "digest": value.digest}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        plain: dict[str, object] = {"kind": WIRE_CLASSES.get(kind, kind)}
        for name, wire, default in _wire_fields(type(value)):
            if _differs(item := getattr(value, name), default):
                plain[wire] = _plain(item)
        return plain
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):  # picks are many, and plain already
        return list(value) if value and isinstance(value[0], int) else [_plain(item) for item in value]
    return value


@cache
def _wire_fields(kind: type) -> tuple[tuple[str, str, object], ...]:
    """Name, wire name and default of each field of a class."""
    table = WIRE_FIELDS.get(kind.__name__, {})
    return tuple((field.name, table.get(field.name, field.name), field.default) for field in fields(kind))


def _differs(value: object, default: object) -> bool:
    return default is MISSING or value != default

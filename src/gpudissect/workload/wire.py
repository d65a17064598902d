"""Wire names: what digests and recordings call classes, fields, arrays and notes.

A digest hashes these names and recordings store them, so they never change. To rename something in the code, add
its new name here with the old one as the wire name; entries are never removed or altered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLASSES = {"PriorAccesses": "Turn", "UnsupportedWorkload": "Unfit"}
"""Wire names of classes of workloads and of errors."""

FIELDS: Mapping[str, Mapping[str, str]] = {
    "Stream": {"waves": "laps"},
    "Mix": {"waves": "rounds"},
    "Launch": {"method": "means"},
    "DeviceInfo": {"launch_methods": "means"},
}
"""Wire names of fields, by class."""

ARRAYS = {"overflow_count": "beyond"}
"""Wire names of the arrays of a trace."""

NOTES = {"prior_access_sms": "turn_sms", "carveout_requested": "carveout_asked"}
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

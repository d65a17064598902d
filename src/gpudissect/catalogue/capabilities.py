"""What is documented of an SM by its compute capability."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")
SCHEDULERS = {"1": 1, "2": 2, "6.0": 2}
"""Warp schedulers of an SM, where they are not four (VV16 table 2.6)."""


def by_capability(table: Mapping[str, T], facts: Mapping[str, object]) -> T | None:
    """What a table has of the ``compute_capability`` among a device's facts, else of its major version; or None."""
    capability = str(facts.get("compute_capability", ""))
    return table.get(capability, table.get(capability.partition(".")[0]))


def schedulers(facts: Mapping[str, object]) -> int:
    """Warp schedulers of an SM; 4 if the device does not say what it is."""
    return by_capability(SCHEDULERS, facts) or 4

"""The hash by which a recording knows a workload: the same in every process, on every machine, in every version."""

from __future__ import annotations

import hashlib
import json
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum

from gpudissect.workload import wire
from gpudissect.workload.order import Explicit


def digest(workload: object) -> str:
    """SHA-256 (32 hexadecimal digits) over the wire names of a workload's class and of its fields not at their default.

    So a field that a later version adds leaves the digests of old recordings as they are. A default must never
    change for the same reason.
    """
    text = json.dumps(_plain(workload), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    if isinstance(value, Explicit):
        return {"kind": "Explicit", "digest": value.digest}
    if is_dataclass(value) and not isinstance(value, type):
        kind = type(value).__name__
        given = {f.name: getattr(value, f.name) for f in fields(value) if _differs(getattr(value, f.name), f.default)}
        named = wire.wire_names(given, wire.FIELDS.get(kind, {}))
        return {"kind": wire.CLASSES.get(kind, kind), **{name: _plain(item) for name, item in named.items()}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):  # picks are many, and plain already
        return list(value) if value and isinstance(value[0], int) else [_plain(item) for item in value]
    return value


def _differs(value: object, default: object) -> bool:
    return default is MISSING or value != default

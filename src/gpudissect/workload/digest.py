"""The hash by which a recording knows a workload: the same in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from enum import Enum

from gpudissect.workload.order import Explicit


def digest(workload: object) -> str:
    """SHA-256 (hexadecimal, 32 digits) over the kind and every field of a workload."""
    text = json.dumps(_plain(workload), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _plain(value: object) -> object:
    if isinstance(value, Explicit):
        return {"kind": "Explicit", "digest": value.digest}
    if is_dataclass(value) and not isinstance(value, type):
        return {"kind": type(value).__name__, **{f.name: _plain(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value

"""Which code reads traces: two readings can differ by it, as by the GPU."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import gpudissect

READING = ("measure", "models", "simulation", "survey")
"""Folders that decide what is asked for and what is made of the traces."""
LENGTH = 12  # hexadecimal digits


@cache
def reading_code() -> str:
    """Digest of the sources that choose workloads and read their traces; empty where there are none to read."""
    root = Path(gpudissect.__file__).parent
    digest = hashlib.sha256()
    try:
        sources = sorted(path for room in READING for path in (root / room).rglob("*.py"))
        for path in sources:
            digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    except OSError:
        return ""
    return digest.hexdigest()[:LENGTH] if sources else ""

"""Quantities as people write them: ``12 KiB`` and back, cycles and nanoseconds."""

from __future__ import annotations

import re

from gpudissect.errors import UsageError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB
WARP_SIZE = 32
"""Threads of a warp on every NVIDIA GPU."""

_SUFFIXES = {"": 1, "B": 1, "K": KIB, "KB": KIB, "KIB": KIB, "M": MIB, "MB": MIB, "MIB": MIB, "G": GIB,
             "GB": GIB, "GIB": GIB, "T": TIB, "TB": TIB, "TIB": TIB}  # fmt: skip


def parse_bytes(text: str) -> int:
    """Read a size such as ``4096``, ``12KiB`` or ``1.5 MiB`` into bytes (K, M, G, T are powers of 1024).

    Raises `UsageError` for anything that is not a whole, non-negative number of bytes.
    """
    match = re.fullmatch(r"\s*([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([A-Za-z]*)\s*", text)
    scale = _SUFFIXES.get(match.group(2).upper()) if match else None
    if match is None or scale is None:
        raise UsageError(f"not a size: {text[:40]!r}; write a number of bytes or something like 12KiB, 1.5MiB")
    value = float(match.group(1)) * scale
    if value != int(value):
        raise UsageError(f"not a whole number of bytes: {text!r}")
    return int(value)


def format_bytes(count: float) -> str:
    """Write a number of bytes with the largest binary unit that keeps it at or above one."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if count >= unit:
            return f"{count / unit:.7g} {name}"
    return f"{count:g} B"


def cycles_to_ns(cycles: float, clock_hz: float) -> float:
    """Convert cycles of a clock of `clock_hz` to nanoseconds."""
    return cycles / clock_hz * 1e9

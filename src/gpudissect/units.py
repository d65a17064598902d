"""Sizes such as ``12 KiB`` as text and numbers, times such as ``12.3 us``, cycles and nanoseconds, warps."""

import re

from gpudissect.errors import UsageError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB
BYTE_UNITS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
"""Binary units, the largest first."""
TIME_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns"))
"""Units of time in nanoseconds, the largest first."""
WARP_SIZE = 32
"""Threads of a warp on every NVIDIA GPU."""

_PREFIXES = {"K": KIB, "M": MIB, "G": GIB, "T": TIB}
_SUFFIXES = {"": 1, "B": 1} | {f"{name}{end}": size for name, size in _PREFIXES.items() for end in ("", "B", "IB")}


def parse_bytes(text: str) -> int:
    """Bytes of a size such as ``4096``, ``12KiB`` or ``1.5 MiB`` (K, M, G, T are powers of 1024).

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


def as_text(name: str) -> str:
    """A name with the bytes that are not UTF-8 (surrogates, in Python's paths) as escapes: results are UTF-8."""
    return name.encode("utf-8", "backslashreplace").decode()


def format_bytes(count: float) -> str:
    """A number of bytes with the largest binary unit in which it is at least one."""
    for unit, name in BYTE_UNITS:
        if count >= unit:
            return f"{count / unit:.7g} {name}"
    return f"{count:g} B"


def format_bytes_rounded(count: float) -> str:
    """The same in three significant digits, for limits whose last bytes say nothing: ``62.9 GiB``."""
    scale = next((unit for unit, _ in BYTE_UNITS if count >= unit), 1)
    return format_bytes(float(f"{count / scale:.3g}") * scale)


def format_ns(ns: float) -> str:
    """A time in three significant digits with its unit: ``12.3 us``."""
    value = float(f"{ns:.3g}")
    scale, name = next((each for each in TIME_UNITS if abs(value) >= each[0]), TIME_UNITS[-1])
    return f"{value / scale:.3g} {name}"


def cycles_to_ns(cycles: float, clock_hz: float) -> float:
    """Convert cycles of a clock of `clock_hz` to nanoseconds."""
    return cycles / clock_hz * 1e9

"""Sizes as text: exact, and rounded where the last bytes say nothing."""

import pytest

from gpudissect.units import GIB, KIB, MIB, format_bytes, format_bytes_rounded


@pytest.mark.parametrize(
    ("size", "text", "rounded"),
    [
        (67494739968, "62.85938 GiB", "62.9 GiB"),
        (227 * KIB, "227 KiB", "227 KiB"),
        (1023 * MIB + 900 * KIB, "1023.879 MiB", "1020 MiB"),
        (80 * GIB, "80 GiB", "80 GiB"),
        (12, "12 B", "12 B"),
    ],
)
def test_bytes(size: int, text: str, rounded: str) -> None:
    assert (format_bytes(size), format_bytes_rounded(size)) == (text, rounded)

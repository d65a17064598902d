"""Names of unknown origin in messages."""

import pytest

from gpudissect.printable import quoted


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("abc", "'abc'"),
        ("abcdefgh", "'abcdefgh'"),
        ("abcdefghi", "'abcde...'"),
        ("é" * 9, r"'\xe9...'"),
        ("\0" * 100_000, r"'\x00...'"),
        (123456789012, "1234567..."),
        (None, "None"),
    ],
)
def test_a_name_is_cut_inside_its_quotes(value, shown):
    assert quoted(value, 10) == shown

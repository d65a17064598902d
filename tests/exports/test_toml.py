"""The TOML that is written is valid, holds the values, and has no character that drives a terminal."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.exports.toml import Section, toml_text

NASTY = 'quote " back \\ line\nreturn\r tab\t bell\x07 esc\x1b[2J del\x7f nel\x85 bidi\u202e para\u2029 \0 𝔾 é'
texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    texts | numbers | st.booleans(),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=40,
)


@given(st.dictionaries(texts, values, max_size=4), texts, texts)
def test_values_are_read_back(body, name, comment):
    section = Section(("caches", name), body, comment, dict.fromkeys(body, comment))
    text = toml_text([Section((), {"format": 1}, comment), section])
    assert tomllib.loads(text) == {"format": 1, "caches": {name: body}}
    assert all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.parametrize(("text", "expected"), [(NASTY, NASTY), ("x\ud800y", "x\ufffdy")], ids=["nasty", "surrogate"])
def test_unprintable_characters_are_escaped_and_half_pairs_replaced(text, expected):
    written = toml_text([Section(("a",), {"b": text}, comment=NASTY)])
    assert tomllib.loads(written) == {"a": {"b": expected}}
    assert all(c.isprintable() or c == "\n" for c in written)
    assert "𝔾 é" in written


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 2**63, -(2**64)])
def test_numbers_that_toml_readers_refuse_are_refused(wrong):
    with pytest.raises(ValueError, match=r"not finite|beyond 64 bits"):
        toml_text([Section((), {"a": [wrong]})])


def test_the_style_is_that_of_the_catalogue():
    entry = {"value": 233_472, "source": "data sheet"}
    sections = [
        Section((), {"format": 1}, comment="A GPU\nof no vendor"),
        Section(("paths", "global"), {"latency": [entry, entry]}, comment="Two."),
        Section(("shared",), {"capacity": entry}, remarks={"capacity": "228 KiB"}),
    ]
    assert (
        toml_text(sections)
        == """\
# A GPU
# of no vendor

format = 1

# Two.
[paths.global]
latency = [
  { value = 233_472, source = "data sheet" },
  { value = 233_472, source = "data sheet" },
]

[shared]
capacity = { value = 233_472, source = "data sheet" }  # 228 KiB
"""
    )

"""The TOML that is written is TOML, says what it was given, and holds no character that drives anything."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpudissect.exports.toml import Section, toml_text

NASTY = 'quote " back \\ line\nreturn\r tab\t bell\x07 esc\x1b[2J del\x7f nel\x85 bidi\u202e para\u2029 \0 𝔾 é'

texts = st.text(st.characters(exclude_categories=["Cs"]))
numbers = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
scalars = texts | numbers | st.booleans()
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=30) | st.dictionaries(texts, inner, max_size=4), max_leaves=40
)


@given(st.dictionaries(texts, values, max_size=4), texts, texts)
def test_what_is_written_is_read_back(body, name, comment):
    section = Section(("caches", name), body, comment, dict.fromkeys(body, comment))
    text = toml_text([Section((), {"format": 1}, comment), section])
    assert tomllib.loads(text) == {"format": 1, "caches": {name: body}}
    assert all(c.isprintable() or c == "\n" for c in text)


def test_text_that_would_drive_something_is_escaped():
    text = toml_text([Section(("a",), {"b": NASTY}, comment=NASTY)])
    assert tomllib.loads(text) == {"a": {"b": NASTY}}
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "𝔾 é" in text


def test_half_a_surrogate_pair_is_replaced():
    assert tomllib.loads(toml_text([Section((), {"a": "x\ud800y"})])) == {"a": "x\ufffdy"}


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 2**63, -(2**64)])
def test_numbers_that_toml_readers_refuse_are_refused(wrong):
    with pytest.raises(ValueError, match=r"not finite|beyond 64 bits"):
        toml_text([Section((), {"a": [wrong]})])


def test_it_looks_like_the_catalogues_own_files():
    entry = {"value": 233_472, "source": "data sheet"}
    sections = [
        Section((), {"format": 1}, comment="A GPU\nof nobody's"),
        Section(("paths", "global"), {"latency": [entry, entry]}, comment="Two."),
        Section(("shared",), {"capacity": entry}, remarks={"capacity": "228 KiB"}),
    ]
    assert toml_text(sections) == (
        "# A GPU\n# of nobody's\n\nformat = 1\n\n"
        "# Two.\n[paths.global]\nlatency = [\n"
        '  { value = 233_472, source = "data sheet" },\n  { value = 233_472, source = "data sheet" },\n]\n\n'
        '[shared]\ncapacity = { value = 233_472, source = "data sheet" }  # 228 KiB\n'
    )

"""Wrong files end in one line: file, field, the value given, and what is allowed."""

import tomllib
from pathlib import Path

import pytest

from gpudissect.catalogue import load
from gpudissect.errors import CatalogueError

LINES = (Path(__file__).parent / "wrong_files.txt").read_text(encoding="utf-8").splitlines()
CASES = [line.replace("\\n", "\n").split(" | ") for line in LINES if not line.startswith("#")]


def load_text(content, folder):
    file = folder / "mine.toml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load(file)


def error_of(content, folder):
    """The message, one short line that starts with the file."""
    with pytest.raises(CatalogueError) as caught:
        load_text(content, folder)
    message = str(caught.value)
    assert "\n" not in message and len(message) < 800
    assert message.startswith(f"{folder}/mine.toml: ")
    return message.removeprefix(f"{folder}/mine.toml: ")


@pytest.mark.parametrize(
    ("old", "new", "field", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_wrong_files(old, new, field, words, example, tmp_path):
    assert old in example
    message = error_of(example.replace(old, "" if new == "-" else new, 1), tmp_path)
    assert message.startswith("" if field == "-" else field)
    assert words in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "required"),
        (b"\x7fELF\x00\xff\xfe\x80", "not text"),
        (bytes(range(256)) * 16, "not text"),
        (b"\x00\x00\x00", "not TOML"),
        (b"[" * 100_000, "not TOML"),
        (b"a = " + b"[" * 50_000 + b"]" * 50_000, "not TOML"),
        (b"a = " + b"9" * 5000, "not TOML"),
        (b"# \n" * 600_000, "too large"),
        (b"format = 1\nchip = 3\n", "name: "),
        (b"[[caches]]\n", "format: "),
        (b'"a\\nb" = 1', "a b: "),
        (b"x" * 100_000 + b" = 1", "no such field"),
    ],
    ids=range(12),
)
def test_junk(content, words, tmp_path):
    assert words in error_of(content, tmp_path)


@pytest.mark.parametrize(
    "text",
    ["a" + ".a" * 30_000 + " = 1", "[a" + " . 'a'" * 16 + "]", 'x = """\n"a.b"""\n"a"' + '."a"' * 16 + " = 1"],
    ids=["bare", "literal", "after a string"],
)
def test_a_key_of_many_parts_is_not_parsed(text, tmp_path, monkeypatch):
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("parsed"))
    assert "too many parts, allowed: 16" in error_of(text, tmp_path)


@pytest.mark.parametrize("quoted", ["'\"{}'", '"\'\\"{}"', '"""\n#{}\\"""\' {}""""', "'''\n\"{}'''"])
def test_dots_in_strings_and_comments_join_no_keys(quoted, example, tmp_path):
    old, dots = 'sm_count = { value = 8, source = "data sheet" }', "a." * 40
    assert old in example
    new = f"sm_count = {{ value = 8, source = {quoted.format(dots, dots)} }} # ' {dots}"
    assert load_text(example.replace(old, new, 1), tmp_path).table.chip.sm_count.value == 8


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("none.toml", "No such file"),
        (".", "directory"),
        ("folder.toml", "directory"),
        ("x" * 300 + ".toml", "too long"),
        ("null\0byte.toml", "null"),
    ],
    ids=["missing", "folder", "folder with the ending", "long", "null"],
)
def test_paths_that_are_no_files(name, words, tmp_path):
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(CatalogueError, match=words) as caught:
        load(tmp_path / name)
    assert "\n" not in str(caught.value)

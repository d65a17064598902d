"""Text of unknown origin in messages: printable, on one line, not too long.

Imports nothing: a stop signal may come during any import, and be reported after it.
"""


def clean(text: str) -> str:
    """One printable line: control characters, escapes, bidirectional marks and newlines are shown, not obeyed."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def cut(text: str, max_length: int, mark: str = " …") -> str:
    """The text, or its beginning with a mark where it is too long."""
    return text if len(text) <= max_length else f"{text[: max_length - len(mark)].rstrip()}{mark}"


def brief(text: str, max_length: int) -> str:
    """A text of unknown origin, printable and no longer than that."""
    return cut(clean(text[: max_length + 1]), max_length)


def counted(number: int, name: str) -> str:
    """Such as ``1 block`` and ``2 blocks``."""
    return f"{number} {name}{'' if number == 1 else 's'}"


def quoted(value: object, max_length: int) -> str:
    """``ascii(value)``, at most `max_length` characters: of a longer text its beginning and ``...``, in quotes."""
    if not isinstance(value, str):
        return cut(ascii(value), max_length, "...")
    text, length = ascii(value[: max_length + 1]), min(len(value), max_length)
    while len(text) > max_length and length:
        length -= 1
        text = ascii(f"{value[:length]}...")
    return text

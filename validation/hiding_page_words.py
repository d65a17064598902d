"""Words and figures of a page, as its parts put them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def capital(text: str) -> str:
    """With a capital letter at its begin."""
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str]) -> str:
    """As a sentence lists them."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def figure(shown: dict[str, str], key: str) -> Iterator[str]:
    """A figure, if it was drawn."""
    yield from ("", shown[key]) if key in shown else ()

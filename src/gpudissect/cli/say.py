"""One line on stderr."""

from __future__ import annotations

import contextlib
import sys


def error_line(message: str) -> None:
    """Say what went wrong, in one line whatever the message holds."""
    _line("error: " + message)


def note_line(message: str) -> None:
    """Say something the user should know."""
    _line(message)


def _line(message: str) -> None:
    from gpudissect.results.text import clean

    if sys.stderr is None:  # closed: print() would take stdout instead
        return
    with contextlib.suppress(OSError):  # nobody can be told; the exit code still says it
        print("gpudissect: " + clean(" ".join(message.split())), file=sys.stderr, flush=True)

"""One line on stderr."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


def error_line(message: str) -> None:
    """Say what went wrong, in one line whatever the message holds."""
    _line("error: " + message)


def note_line(message: str) -> None:
    """Say something the user should know."""
    _line(message)


def _line(message: str) -> None:
    from gpudissect.report.text import clean

    print("gpudissect: " + clean(" ".join(message.split())), file=sys.stderr, flush=True)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold off Ctrl-C while results are saved: a second one must not cost what the first one kept."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Ctrl-C, SIGTERM and SIGHUP all mean: stop measuring, keep what was measured."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_STOPPING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
_seen = False


def listen() -> None:
    """Turn the signals into KeyboardInterrupt from here on (main thread only; others never get them)."""
    global _seen
    _seen = False
    if threading.current_thread() is threading.main_thread():
        for each in _STOPPING:
            if signal.getsignal(each) is not signal.SIG_IGN:  # nohup means it
                signal.signal(each, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    global _seen
    _seen = True
    raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt if a signal came whose exception was lost, as in a callback of a compiler."""
    if _seen:
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold the signals off while results are saved: a second one must not cost what the first one kept."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, signal.SIG_IGN) for each in _STOPPING}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)

"""Ctrl-C, SIGTERM and SIGHUP all mean: stop measuring, keep what was measured."""

from __future__ import annotations

import signal
import threading
from types import FrameType

from gpudissect.api.saving import STOPPING

_seen = False


def listen() -> None:
    """Turn the signals into KeyboardInterrupt from here on (main thread only; others never get them)."""
    global _seen
    _seen = False
    if threading.current_thread() is threading.main_thread():
        for each in STOPPING:
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

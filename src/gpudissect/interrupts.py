"""Signals that ask the program to end: they raise KeyboardInterrupt, and are held off while results are saved."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
PATIENCE_S = 1.0  # signals are held off for so long; a later one means that what is being saved does not get on

_requested = False
_held_until = 0.0


def stop_requested() -> bool:
    """Whether a stop signal came since `catch_stop_signals`; its exception may have been lost or held off."""
    return _requested


def catch_stop_signals() -> None:
    """Raise KeyboardInterrupt on SIGINT, SIGTERM and SIGHUP from here on (in the main thread)."""
    global _requested
    _requested = False
    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # ignored under nohup
                signal.signal(number, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    global _requested
    _requested = True
    raise KeyboardInterrupt


def _hold(number: int, frame: FrameType | None) -> None:
    """Note the first signal; one that comes `PATIENCE_S` later or more is obeyed."""
    global _requested, _held_until
    _requested, now = True, time.monotonic()
    if not _held_until:
        _held_until = now + PATIENCE_S
    elif now > _held_until:
        raise KeyboardInterrupt


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Hold off `STOP_SIGNALS` in the block: a second one must not cost what was saved after the first."""
    global _held_until
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = _held_until
    handled = [number for number in STOP_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    handlers = {number: signal.signal(number, _hold) for number in handled}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        _held_until = before


@contextmanager
def delayed() -> Iterator[None]:
    """Handle stop signals at the end of the block: what is started in it is then noted, and can be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[tuple[int, FrameType | None]] = []
    handlers = {number: handler for number in STOP_SIGNALS if callable(handler := signal.getsignal(number))}
    try:
        for number in handlers:
            signal.signal(number, lambda *call: received.append(call))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for call in received:
            handlers[call[0]](*call)


@contextmanager
def interruptible() -> Iterator[None]:
    """Obey stop signals again, within `uninterrupted`, one that it held off too: a pipe's reader may never come."""
    if _held_until:
        raise KeyboardInterrupt
    held = {number for number in STOP_SIGNALS if signal.getsignal(number) is _hold}
    for number in held:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, _hold)

"""Signals that ask the program to end: they raise KeyboardInterrupt, and are held off while results are saved."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

STOP_SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
PATIENCE_S = 1.0  # of `uninterrupted` while printing: a pipe may have no reader

_requested = False
_hold_until = 0.0  # monotonic time; 0: signals go to `_handlers`
_held = set[int]()
_handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}


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


def _receive(number: int, frame: FrameType | None) -> None:
    """Hold a signal or call its handler. If that raises, hold those that follow: they must not end the clean-up."""
    global _requested, _hold_until
    if time.monotonic() < _hold_until:
        _requested = True
        _held.add(number)
        return
    before, _hold_until = _hold_until, math.inf
    _handlers[number](number, frame)
    _hold_until = before


@contextmanager
def uninterrupted(patience_s: float = math.inf, *, obey: bool = False) -> Iterator[set[int]]:
    """Hold off `STOP_SIGNALS` in the block, for `patience_s` from its beginning; yield the set of those held.

    At its end the caller's own handlers get their signals. Signals that only raise KeyboardInterrupt stay in the
    set, except with `obey`. Signals with the default action are not held.
    """
    global _hold_until
    if threading.current_thread() is not threading.main_thread():
        yield set()
        return
    before = _hold_until
    handlers = {n: old for n in STOP_SIGNALS if callable(old := signal.getsignal(n)) and old is not _receive}
    try:
        _hold_until = time.monotonic() + patience_s
        if handlers:
            _handlers.update(handlers)
            _held.clear()
        for number in handlers:
            signal.signal(number, _receive)
        yield _held
    finally:
        try:
            for number, handler in reversed(handlers.items()):  # SIGINT last: it is held until then
                signal.signal(number, handler)
        finally:  # a handler that is already restored may raise here
            _hold_until = before
        for number in tuple(_held) if before <= time.monotonic() else ():
            if obey or _handlers[number] not in (_stop, signal.default_int_handler):
                _held.remove(number)
                signal.raise_signal(number)


def delayed() -> AbstractContextManager[set[int]]:
    """Obey stop signals at the end of the block: what it started is then recorded, and can be ended."""
    return uninterrupted(obey=True)


@contextmanager
def interruptible(*, obey_held: bool = True) -> Iterator[None]:
    """Obey stop signals again, within `uninterrupted`; with `obey_held`, also those that it has held."""
    with uninterrupted(patience_s=0) as held:
        for number in tuple(held) if obey_held else ():
            held.remove(number)
            signal.raise_signal(number)
        yield

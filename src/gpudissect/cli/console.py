"""Messages on stderr, exit codes, stop signals and the progress bar: how a command talks to the shell."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudissect.child_processes import remove_children
from gpudissect.errors import DeviceError, GpudissectError, shorten_message
from gpudissect.estimate import Status
from gpudissect.interrupts import PATIENCE_S, STOP_SIGNALS, stop_requested, uninterrupted
from gpudissect.printable import clean, cut

if TYPE_CHECKING:
    from gpudissect.results.model import Result

Progress = Callable[[int, int, str], None]
Update = Callable[[int, int, str, str], None]  # also takes the time left
DONE, BUG, PARTIAL, INTERRUPTED = 0, 1, 4, 130

STOP_GRACE_S = 0.5  # after a stop signal; compiled code and compilers delay or lose its exception
LOG_INTERVAL_S = 5.0
DESCRIPTION_CHARS = 36  # of what is being measured; the bar gets the rest
MIN_BAR_COLUMNS = 80
TIME_EXPONENT = 2.0  # the longest experiments run last: share of time = share of experiments ** 2, about
EARLY_FACTOR, LATE_FACTOR = 3.0, 2.75  # range of that estimate over two simulated and two replayed surveys
MIN_EXPERIMENTS = 20  # latency hiding is one long experiment and a few short ones: no estimate
MIN_ELAPSED_S, MIN_DONE_SHARE = 3.0, 0.5


def print_error(message: str) -> None:
    """Print an error on stderr, on one line whatever the message holds."""
    print_note("error: " + shorten_message(clean(shorten_message(message))))


def print_note(message: str) -> None:
    """Print one line on stderr."""
    if sys.stderr is None:  # closed: print() would take stdout instead
        return
    with contextlib.suppress(OSError):  # the exit code still shows it
        print("gpudissect: " + clean(" ".join(message.split())), file=sys.stderr, flush=True)


def print_interrupted(note: str = "") -> None:
    """Print that a stop signal came. Further ones must not end the line."""
    with uninterrupted(PATIENCE_S):
        print_note(f"interrupted; {note}" if note else "interrupted")


def print_json(text: str) -> None:
    """Print JSON on stdout, with characters that a terminal obeys as escapes."""
    import re

    print(re.sub(r"[\x7f-\x9f\u2028-\u202e\u2066-\u2069]", lambda found: f"\\u{ord(found[0]):04x}", text.rstrip("\n")))


@contextlib.contextmanager
def closed_output_discarded() -> Iterator[None]:
    """Print to stdout inside; if its reader is gone, the rest goes nowhere and the command goes on."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except SystemExit as end:  # raised by click and rich for a broken pipe
        if end.code != 1:
            raise
        discard_output()


def discard_output() -> None:
    """Let the rest of stdout go nowhere, which Python flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def finish(results: Sequence[Result], errors: Sequence[GpudissectError]) -> int:
    """Print the errors that were deferred until the results were out; return the exit code."""
    for error in errors:
        print_error(str(error))
    found = any(finding.status is Status.FOUND for result in results for finding in result.findings)
    if stop_requested() or any(result.interrupted for result in results):
        print_note(f"interrupted; {'findings up to then are kept' if found else 'no finding was made'}")
        return INTERRUPTED
    incomplete = [result for result in results if result.failures]
    for result in incomplete:
        count, first = len(result.failures), result.failures[0]
        device = f"{result.device.spec}: " if len(results) > 1 else ""
        several = f"{count} experiments failed, the first, " if count > 1 else ""
        print_error(f"{device}{several}{first.experiment}: {first.reason}")
    if incomplete and not found:
        return DeviceError.exit_code
    if not results and errors:
        return errors[0].exit_code
    return PARTIAL if errors or incomplete else DONE


@contextlib.contextmanager
def stopped_at_once(note: str) -> Iterator[None]:
    """Print `note` and end the process at most about `STOP_GRACE_S` after a stop signal, whatever is running.

    Do not write files in this context: the process can end in the middle of a write.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    ended, hook, previous = threading.Event(), sys.unraisablehook, signal.set_wakeup_fd(sender.fileno())

    def watch() -> None:
        with receiver:
            while number := receiver.recv(1):
                if number[0] in STOP_SIGNALS and not ended.wait(STOP_GRACE_S):
                    remove_children()
                    print_note(f"interrupted; {note}")
                    os._exit(INTERRUPTED)

    threading.Thread(target=watch, daemon=True).start()
    sys.unraisablehook = lambda lost: None if stop_requested() else hook(lost)
    try:
        yield
        if stop_requested():
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        print_interrupted(note)
        raise SystemExit(INTERRUPTED) from None
    finally:
        ended.set()
        sys.unraisablehook = hook
        signal.set_wakeup_fd(previous)
        sender.close()


@contextlib.contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Yield the callback that a survey reports its progress to: a bar on a terminal, else a line now and then.

    It raises KeyboardInterrupt if a signal came whose exception was lost, as in a callback of a compiler.
    """
    begin = time.monotonic()
    is_terminal = sys.stderr is not None and sys.stderr.isatty()  # None: closed by the caller
    with _bar() if is_terminal else contextlib.nullcontext(_log()) as update:

        def step(done: int, total: int, experiment: str) -> None:
            if stop_requested():
                raise KeyboardInterrupt
            update(done, total, experiment, time_left(done, total, time.monotonic() - begin))

        yield step


def time_left(done: int, total: int, elapsed_s: float) -> str:
    """The time left as a range, in words; empty while it cannot be estimated.

    Experiments take from milliseconds to a minute and run together in batches: a single number would be a guess.
    """
    if total < MIN_EXPERIMENTS or elapsed_s < MIN_ELAPSED_S or done < MIN_DONE_SHARE * total or done >= total:
        return ""
    left = elapsed_s * ((total / done) ** TIME_EXPONENT - 1)
    low, high = left / EARLY_FACTOR, left * LATE_FACTOR
    if high < 5:
        return "a few seconds left"
    if high < 90:
        return f"{5 * math.floor(low / 5) or 1} to {5 * math.ceil(high / 5)} s left"
    return f"{max(1, math.floor(low / 60))} to {max(2, math.ceil(high / 60))} min left"


def label_of(experiments: str) -> str:
    """Names of running experiments in words, ``L2: bandwidth read`` for ``bandwidth.l2.read``; others are counted."""
    from gpudissect.results.text import title_of, words

    first, *others = experiments.split(", ")
    what, _, rest = first.partition(".")
    element, _, detail = rest.partition(".")
    text = f"{title_of(element, short=True)}: {words(what)} {detail}".rstrip() if element else words(what)
    return text + (f" and {len(others)} more" if others else "")


@contextlib.contextmanager
def _bar() -> Iterator[Update]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False), MofNCompleteColumn()]
    if console.width >= MIN_BAR_COLUMNS:
        columns.insert(1, BarColumn(bar_width=None))
        columns.append(TimeElapsedColumn())
    columns.append(TextColumn("{task.fields[left]}", markup=False))
    with Bar(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("starting", total=None, left="")
        width = min(DESCRIPTION_CHARS, max(12, console.width - 34))

        def update(done: int, total: int, experiment: str, left: str) -> None:
            description = cut(label_of(experiment), width).ljust(width)
            bar.update(task, completed=done, total=total, description=description, left=left)

        yield update


def _log() -> Update:
    last = time.monotonic()

    def update(done: int, total: int, experiment: str, left: str) -> None:
        nonlocal last
        if time.monotonic() - last >= LOG_INTERVAL_S:
            last = time.monotonic()
            print_note(f"{done} of {total}{f', {left}' if left else ''}: {label_of(experiment)}")

    return update

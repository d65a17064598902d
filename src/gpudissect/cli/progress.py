"""What is being measured and how long it may take: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from gpudissect.cli.say import note_line
from gpudissect.cli.signals import check

Progress = Callable[[int, int, str], None]
LINE_EVERY_S = 5.0  # in a log, more lines than this say nothing more
WIDTH = 36  # characters for what is being measured: the rest of 80 columns is the bar's
NARROW = 80  # columns below which there is no bar
SLOWER = 2.0  # what takes longest waits for most: the share of the time went with about this power of the experiments
SOONER, LATER = 3.0, 2.75  # by which surveys were done sooner or later than that says: two simulated, two replayed
FEWEST = 20  # experiments of which the numbers say something: latency hiding is one long one and a few short ones
SOONEST_S, SOONEST = 3.0, 0.5  # seconds, and share of the experiments, before which nobody can tell


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Give the callback that a survey reports its progress to. It raises KeyboardInterrupt where one was lost."""
    with _bar() if sys.stderr.isatty() else nullcontext(_Lines().update) as update:

        def step(done: int, total: int, what: str) -> None:
            check()
            update(done, total, what)

        yield step


def time_left(done: int, total: int, elapsed: float) -> str:
    """A range of seconds or minutes, as wide as experiments are uneven; empty where nobody can tell.

    Experiments take from milliseconds to a minute and run together in batches: one number would be a guess.
    """
    if total < FEWEST or elapsed < SOONEST_S or done < SOONEST * total or done >= total:
        return ""
    left = elapsed * ((total / done) ** SLOWER - 1)
    low, high = left / SOONER, left * LATER
    if high < 5:
        return "a few seconds left"
    if high < 90:
        return f"{5 * math.floor(low / 5) or 1} to {5 * math.ceil(high / 5)} s left"
    first, last = max(1, math.floor(low / 60)), max(2, math.ceil(high / 60))
    return f"{first} to {last} min left"


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn("{task.description}", markup=False), MofNCompleteColumn()]
    if console.width >= NARROW:
        columns.insert(1, BarColumn(bar_width=None))
    columns.append(TextColumn("{task.fields[left]}", markup=False))
    begin = time.monotonic()
    with Bar(*columns, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("starting", total=None, left="")
        width = min(WIDTH, max(12, console.width - 34))

        def update(done: int, total: int, what: str) -> None:
            short = what if len(what) <= width else what[: width - 3] + "..."
            left = time_left(done, total, time.monotonic() - begin)
            bar.update(task, completed=done, total=total, description=short.ljust(width), left=left)

        yield update


class _Lines:
    def __init__(self) -> None:
        self._begin = self._last = time.monotonic()

    def update(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY_S:
            self._last = now
            left = time_left(done, total, now - self._begin)
            note_line(f"{done} of {total}{f', {left}' if left else ''}: {what}")

"""What is being measured and how long it will take: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from gpudissect.cli.say import note_line
from gpudissect.cli.signals import check

Progress = Callable[[int, int, str], None]
LINE_EVERY_S = 5.0  # in a log, more lines than this say nothing more
WIDTH = 36  # characters for what is being measured: the rest of 80 columns is the bar's


@contextmanager
def progress_on_stderr() -> Iterator[Progress]:
    """Give the callback that a survey reports its progress to. It raises KeyboardInterrupt where one was lost."""
    with _bar() if sys.stderr.isatty() else nullcontext(_Lines().update) as update:

        def step(done: int, total: int, what: str) -> None:
            check()
            update(done, total, what)

        yield step


@contextmanager
def _bar() -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def update(done: int, total: int, what: str) -> None:
            short = what if len(what) <= WIDTH else what[: WIDTH - 3] + "..."
            bar.update(task, completed=done, total=total, description=short.ljust(WIDTH))  # a bar that does not jump

        yield update


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()

    def update(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._last >= LINE_EVERY_S:
            self._last = now
            note_line(f"{done} of {total}: {what}")

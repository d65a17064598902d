"""The folder of a fleet: a folder for each run, in it the result of each card."""

from __future__ import annotations

import fcntl
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gpudissect.errors import UsageError
from gpudissect.results.files import write_bytes

PREFIX, TIME_FORMAT = "run-", "%Y%m%dT%H%M%SZ"
RUN = ".run"  # what is measured, and by which process, which locks it
MAX_RUN_BYTES = 1 << 16
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")


@dataclass(frozen=True)
class RunFolder:
    """Results of one run, by the names of the cards."""

    path: Path

    def file(self, card: str) -> Path:
        """Where the result of a card is, or will be."""
        return self.path / f"{NOT_IN_NAMES.sub('-', card)}.json"

    def holds(self, card: str) -> bool:
        """Whether a card was measured."""
        return self.file(card).is_file()

    def write(self, card: str, content: bytes) -> None:
        """Store a result, whole or not at all. Raises `UsageError` if it cannot be written."""
        write_bytes(self.file(card), content)


@contextmanager
def run_folder(folder: Path, what: str, resume: bool) -> Iterator[RunFolder]:
    """The folder of a new run, or of the last one in `folder`; no other process can open it meanwhile.

    `what` describes what is measured. Raises `UsageError` if the folder cannot be written, if there is no run to
    resume, if that one measured something else, or if another process writes it.
    """
    runs = sorted(path for path in folder.glob(f"{PREFIX}*") if path.is_dir())
    if resume and not runs:
        raise UsageError(f"{folder} has no run to resume: leave out --resume to begin one")
    path = runs[-1] if resume else folder / f"{PREFIX}{datetime.now(UTC).strftime(TIME_FORMAT)}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / RUN, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}; choose another folder") from None
    try:
        before, _, owner = os.pread(lock, MAX_RUN_BYTES, 0).decode(errors="replace").partition("\n")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"{owner or 'another process'} writes to {path}: wait for its end") from None
        if before not in ("", what):
            raise UsageError(f"{path} is a run of {before}, not of {what}: resume it with the same options")
        text = f"{what}\nprocess {os.getpid()} on {socket.gethostname()}".encode()
        if os.pwrite(lock, text, 0) < len(text):
            raise UsageError(f"cannot write to {path}: no space left")
        yield RunFolder(path)
    except OSError as error:
        raise UsageError(f"cannot write to {path}: {error.strerror}") from None
    finally:
        os.close(lock)

"""The folder of a fleet: a folder for each run, in it the result of each card; and all runs of a folder, read again."""

from __future__ import annotations

import os
import re
import socket
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, pairwise, zip_longest
from pathlib import Path

from gpudissect.child_processes import usable_cores
from gpudissect.errors import UsageError
from gpudissect.fleet.readings import PartOfResult, Run, run_of, runs_of_links, seconds_of
from gpudissect.printable import brief
from gpudissect.results.files import load_part, load_result_or_links, write_bytes
from gpudissect.results.links import LinksFile

PREFIX, TIME_FORMAT = "run-", "%Y%m%dT%H%M%SZ"
RUN = ".run"  # what is measured, and by which process, which locks it
MAX_RUN_BYTES = 1 << 16
NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9.-]+")
MIN_PARALLEL_FILES = 64
MIN_CHUNK, MAX_CHUNK = 16, 128  # files that a process reads before it returns their runs, which share their texts
CHUNKS_PER_CORE = 8
FILES_AHEAD = 8  # of each process
MAX_FILES = 100_000
MAX_UUID_LENGTH = 60  # characters in a message


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
    import fcntl  # of POSIX alone: other systems read folders without it

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


def read_folder(folder: Path) -> tuple[list[Run], list[str]]:
    """The runs of all result files in a folder and its subfolders, and one line for each file that is none.

    Raises `UsageError` if there is no such folder, or no result in it.
    """
    if not os.path.isdir(folder):
        if os.path.exists(folder):
            raise UsageError(f"{folder} is no folder: name the folder that holds the result files")
        raise UsageError(f"no such folder: {folder}; 'gpudissect discover -o {folder}/NAME.json' writes a result there")
    files = sorted(path for path in folder.rglob("*.json") if not path.name.startswith(".") and path.is_file())
    if len(files) > MAX_FILES:
        raise UsageError(f"{folder} has {len(files)} JSON files, allowed: up to {MAX_FILES}")
    runs, unreadable = list[Run](), list[str]()
    for one in _read_all(files):
        if isinstance(one, Run):
            runs.append(one)
        else:
            unreadable.append(one)
    runs, shared = _separate_places(runs)
    unreadable += shared
    if not runs:
        why = f": {unreadable[0]}" if unreadable else f"; 'gpudissect discover -o {folder}/NAME.json' writes one"
        raise UsageError(f"no result file in {folder}{why}")
    return runs, unreadable


def _read_all(files: Sequence[Path]) -> Iterator[Run | str]:
    if len(files) < MIN_PARALLEL_FILES:
        yield from chain.from_iterable(map(_read, files))
        return
    cores = usable_cores()
    chunk = min(max(MIN_CHUNK, len(files) // (CHUNKS_PER_CORE * cores)), MAX_CHUNK)
    chunks = [files[first : first + chunk] for first in range(0, len(files), chunk)]
    with ProcessPoolExecutor(cores) as workers:
        for runs in workers.map(_read_chunk, chunks):
            yield from runs


def _read_chunk(files: Sequence[Path]) -> list[Run | str]:
    """Each file, while the disk reads the next ones."""
    runs = list[Run | str]()
    for file in files[:FILES_AHEAD]:
        _read_ahead(file)
    for file, later in zip_longest(files, files[FILES_AHEAD:]):
        if later is not None:
            _read_ahead(later)
        runs += _read(file)
    return runs


def _read_ahead(file: Path) -> None:
    """Ask the system for a file that is read soon; without effect where it cannot."""
    with suppress(OSError, AttributeError):  # AttributeError: not Linux
        number = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_WILLNEED)
        finally:
            os.close(number)


def _read(file: Path) -> list[Run | str]:
    """A run, or one of each GPU whose links the file has, or why the file is none."""
    try:
        found = load_part(file, PartOfResult) or load_result_or_links(file)
        return runs_of_links(found, str(file)) if isinstance(found, LinksFile) else [run_of(found, str(file))]
    except UsageError as error:
        return [str(error)]


def _separate_places(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """The runs, and a line for each UUID measured in two places at the same time; each place then counts as a card."""
    histories = defaultdict[tuple[tuple[str, ...], str], list[Run]](list)
    for run in runs:
        histories[run.group, run.card].append(run)
    lines = dict[tuple[tuple[str, ...], str], str]()
    for key, history in histories.items():
        history.sort(key=lambda run: (seconds_of(run.time) or 0.0, run.file))
        for one, other in pairwise(history):
            if _are_two_places(one, other):
                files, uuid = f"{other.file} and {one.file}", brief(one.card, MAX_UUID_LENGTH)
                same = f"{files} have one GPU UUID, {uuid}, but are of two places, at the same time or in one fleet run"
                lines[key] = f"{same}: {one.place} and {other.place} count as two cards"
    separate = [
        replace(run, card=f"{run.card} ({run.place})") if (run.group, run.card) in lines else run for run in runs
    ]
    return separate, [*lines.values()]


def _are_two_places(earlier: Run, later: Run) -> bool:
    """Whether two runs must be of different cards: in two places at the same time, or in one run of a fleet."""
    if earlier.place == later.place or not (earlier.place and later.place):
        return False
    folder, start, next_start = Path(later.file).parent, seconds_of(earlier.time), seconds_of(later.time)
    if folder == Path(earlier.file).parent and (folder / RUN).is_file():
        return True
    return start is not None and next_start is not None and next_start <= start + earlier.seconds

"""Result files on disk: written whole or not at all, read with suspicion."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from gpudissect.device.recording.format import ARRAYS, INDEX, is_recording
from gpudissect.errors import UsageError
from gpudissect.results import malformed
from gpudissect.results.model import SCHEMA, Result

MAX_BYTES = 16 << 20  # results are hundreds of kilobytes; a file takes up to 30 times its size to read


def check_writable(path: Path) -> None:
    """Make sure, before anything is measured, that a file can be written here. Raises `UsageError`."""
    folder = path.parent
    try:
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder; name a file")
        if not folder.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {folder}")
        if _is_special(path):
            return
        path = path.resolve()
        with tempfile.NamedTemporaryFile(prefix=f".{path.name}.", dir=path.parent):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None


def check_ending(path: Path, of: str, endings: Iterable[str]) -> None:
    """Raise `UsageError` for a name that is not one `of a page`, or whatever is written."""
    *others, last = endings
    if path.suffix not in (*others, last):
        named = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"cannot write {path}: the name {of} must end in {named}")


def check_page(path: Path) -> None:
    """Make sure that a page has the name of one, lest it takes a result's place. Raises `UsageError`."""
    if not _is_special(path):
        check_ending(path, "of a page", (".html", ".htm"))


def check_apart(path: Path, read: Iterable[Path]) -> None:
    """Make sure that what is written takes the place of nothing that is read. Raises `UsageError`."""
    for other in read:
        same = _resolved(path) == _resolved(other)
        with suppress(OSError):  # one of them does not exist
            same = same or path.samefile(other)  # hard links
        if same:
            raise UsageError(f"cannot write {path}: it is what is read; name another file")


def check_apart_from_run(path: Path, spec: str | None, record: Path | None) -> None:
    """Make sure that an output replaces no file of the device of this name, nor of the recording to be made.

    Raises `UsageError`.
    """
    kind, _, name = (spec or "").partition("?")[0].partition(":")
    if kind == "sim":
        check_apart(path, [Path(name)])
    if kind == "rec":
        check_apart(path, [Path(name) / INDEX, Path(name) / ARRAYS])
    if record is not None:
        output, folder = _resolved(path), _resolved(record)
        if folder.is_relative_to(output) or output in (folder / INDEX, folder / ARRAYS):
            raise UsageError(f"cannot write {path}: the recording {record} is made there; name another file")


def holds_data(path: Path) -> bool:
    """Whether writing here would replace the content of a file."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def write_text(path: Path, text: str) -> None:
    """Write a file in one step: whoever reads it meanwhile sees the old one or the new one. Raises `UsageError`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """As `write_text`, for bytes."""
    temporary: str | None = None
    try:
        if _is_special(path):  # /dev/stdout, a pipe: nothing to replace
            path.write_bytes(data)
            return
        path = path.resolve()  # write through a link, do not replace it
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        temporary = None
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def load(path: Path) -> Result:
    """Read a result file. Raises `UsageError`, in one line, for one that is missing, foreign, newer or malformed."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        do = f"-d rec:{path} replays it" if is_recording(path) else "name a file in it"
        kind = "recording" if is_recording(path) else "folder"
        raise UsageError(f"cannot read {path}: it is a {kind}; {do}") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is no result file: larger than {MAX_BYTES >> 20} MiB")
    try:
        text, content = malformed.parse(data)
    except malformed.NotJson as error:
        raise UsageError(f"{path} is no result file: {error}") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise UsageError(f"{path} {malformed.foreign(content, SCHEMA)}")
    try:
        return Result.model_validate_json(text)
    except ValidationError as error:
        raise UsageError(f"{path} is no valid result file: {malformed.malformed(error, content)}") from None


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _resolved(path: Path) -> Path:
    """The place that is written, through links; unlike `Path.resolve` it accepts loops of links."""
    return Path(os.path.realpath(path))


def _umask() -> int:
    mask = os.umask(0)  # there is no way to read it without setting it
    os.umask(mask)
    return mask

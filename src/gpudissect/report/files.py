"""Result files on disk: written whole or not at all, read with suspicion."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpudissect.errors import UsageError
from gpudissect.report.result import SCHEMA, Result

MAX_BYTES = 64 << 20  # results are tens of kilobytes


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


def check_apart(path: Path, read: Iterable[Path]) -> None:
    """Make sure that what is written takes the place of nothing that is read. Raises `UsageError`."""
    for other in read:
        try:
            same = path.samefile(other)
        except OSError:  # one of them is not there
            same = path.absolute() == other.absolute()
        if same:
            raise UsageError(f"cannot write {path}: it is what is read; name another file")


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


def write_plot(path: Path, svg: str) -> None:
    """Write a drawing. Raises `UsageError` for one that is empty, and for a name that is not of an SVG file."""
    if path.suffix != ".svg":
        raise UsageError(f"cannot write {path}: the name of a plot must end in .svg")
    if not svg:
        raise UsageError(f"cannot write {path}: there is nothing to plot")
    write_text(path, svg)


def load(path: Path) -> Result:
    """Read a result file. Raises `UsageError`, in one line, for one that is missing, foreign, newer or malformed."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{path} is no result file: larger than {MAX_BYTES >> 20} MiB")
    _check_schema(path, data)
    try:
        return Result.model_validate_json(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(f"{path} is no valid result file: {where}: {first['msg']}") from None


def _check_schema(path: Path, data: bytes) -> None:
    try:
        content: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError(f"{path} is no result file: it is not JSON") from None
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema == SCHEMA:
        return
    name, _, version = str(schema).partition("/")
    if name == SCHEMA.partition("/")[0] and version.isdecimal():
        raise UsageError(f"{path} has schema {schema:.40}, this program reads {SCHEMA}: update gpudissect")
    raise UsageError(f"{path} is no result file: its schema is not {SCHEMA!r}")


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _umask() -> int:
    mask = os.umask(0)  # there is no way to read it without setting it
    os.umask(mask)
    return mask

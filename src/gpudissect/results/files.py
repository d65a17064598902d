"""Result files on disk: written whole or not at all; files of unknown origin are read without harm."""

from __future__ import annotations

import json
import os
import secrets
import stat
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from gpudissect.device.recording.format import ARRAYS, INDEX, count_values, is_recording
from gpudissect.errors import UsageError
from gpudissect.interrupts import interruptible, stop_requested
from gpudissect.results import schema1
from gpudissect.results.model import SCHEMA, Result

if TYPE_CHECKING:
    from gpudissect.results.links import LinksFile

MAX_BYTES = 16 << 20  # results have hundreds of kilobytes; reading a file takes up to 30 times its size
MAX_NAMES_PER_OBJECT = 4096  # each may cost an error of hundreds of bytes
CHUNK_BYTES = 1 << 20
MAX_VALUES = 1 << 19  # of a file, as `count_values` counts them: hundreds of bytes each in memory
MAX_SHOWN = 40  # characters of a wrong value in a message
MAX_NAME_BYTES = 255  # of a file
_TEMPORARY = ".gpudissect-"  # beginning of the name of a file that is not complete; short as names are limited
_EXPECTED = "a result file is written by 'gpudissect discover -o FILE' or 'gpudissect hide -o FILE'"
_PAGES = (".html", ".htm")
_OTHERS = {
    "gpudissect/profile": "it is a profile of a kernel: 'gpudissect explain' reads it as FILE, a result as --machine",
    "gpudissect-links": "it is a file of links of another version: update gpudissect",
    "gpudissect/explanation": "it is an explanation: 'gpudissect explain' prints it again from its profile",
}
_LINKS = "it is a file of links: 'gpudissect check' and 'gpudissect fleet report' read these"
_ALTERED = "the file was altered: use the original, or measure again"
Part = TypeVar("Part", bound=BaseModel)


def load(path: Path) -> Result:
    """Read a result file of any schema version so far.

    Raises `UsageError`, in one line, for a file that is missing, of another kind, of a newer version or malformed.
    """
    if not isinstance(found := load_result_or_links(path), Result):
        raise UsageError(f"{path} is not a result file: {_LINKS}")
    return found


def load_result_or_links(path: Path) -> Result | LinksFile:
    """As `load`; also read a file of links."""
    from gpudissect.results.links import LINKS_SCHEMA, LinksFile

    if str(path).startswith(("sim:", "cuda:", "rec:")) and not path.exists():
        raise UsageError(f"{path} is a device, not a result file: 'gpudissect discover -d {path} -o FILE' writes one")
    data = read_bounded(path, MAX_BYTES, "result file")
    if (count := count_values(data)) > MAX_VALUES:
        raise UsageError(f"{path} is not a result file: it has {count} values, allowed: up to {MAX_VALUES}")
    kind = "result file"
    try:
        content = _parse(data)
        schema = content.get("schema") if isinstance(content, dict) else None
        if schema == LINKS_SCHEMA:
            kind = "file of links"
            return LinksFile.model_validate_json(json.dumps(content))
        if schema == schema1.SCHEMA:
            content = schema1.convert(content)
        elif schema != SCHEMA:
            raise ValueError(_foreign(schema))
        return Result.model_validate_json(json.dumps(content))
    except ValidationError as error:
        raise UsageError(f"{path} is not a valid {kind}: {_first_error(error, content)}; {_ALTERED}") from None
    except RecursionError:
        raise UsageError(f"{path} is not a result file: it is nested deeper than any result; {_EXPECTED}") from None
    except ValueError as error:
        reason = str(error).partition("; use sys.")[0]  # Python's advice on numbers of thousands of digits
        raise UsageError(f"{path} is not a result file: {reason}") from None


def load_part(path: Path, part: type[Part]) -> Part | None:
    """Some fields of a result file, in a fraction of the time; None for a file that only `load` can read or refuse.

    Of a name that occurs twice, the last value is taken. Raises `UsageError` if the file cannot be read.
    """
    data = read_bounded(path, MAX_BYTES, "result file")
    try:
        return part.model_validate_json(data) if count_values(data) <= MAX_VALUES else None
    except ValidationError:
        return None


def read_bounded(path: Path, max_bytes: int, kind: str) -> bytes:
    """The content of a file of this kind. Raises `UsageError` if it cannot be read or is larger."""
    data = _read(path, max_bytes + 1)
    if len(data) > max_bytes:
        raise UsageError(f"{path} is not a {kind}: larger than {max_bytes >> 20} MiB")
    return data


def check_readable(path: Path) -> None:
    """Make sure, before anything is measured, that a file can be read. Raises `UsageError`."""
    _read(path, 0)


def _read(path: Path, max_bytes: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            room, left = max(os.fstat(file.fileno()).st_size, CHUNK_BYTES), max_bytes  # memory for what there is
            chunks = list[bytes]()
            while more := file.read(min(left, room)):
                chunks.append(more)
                left, room = left - len(more), CHUNK_BYTES
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
    except IsADirectoryError:
        if is_recording(path):
            raise UsageError(f"cannot read {path}: it is a recording; -d rec:{path} replays it") from None
        raise UsageError(f"cannot read {path}: it is a folder; name a file in it") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None


def _parse(data: bytes) -> Any:
    """The content of a JSON file. Raises `ValueError`, also for an object with a name twice or with too many names."""
    if not data.strip():
        raise ValueError(f"it is empty; {_EXPECTED}")
    try:
        text = data.decode(json.detect_encoding(data))  # a pipe of PowerShell writes UTF-16
        return json.loads(text, object_pairs_hook=_object)
    except UnicodeDecodeError:
        raise ValueError(f"it is not text; {_EXPECTED}") from None
    except json.JSONDecodeError as error:
        if (data.lstrip()[:1] == b"{" and error.pos >= len(text.rstrip()) - 1) or "Unterminated" in error.msg:
            raise ValueError("it is not JSON: it is cut off; copy the whole file again") from None
        raise ValueError(f"it is not JSON (line {error.lineno}, column {error.colno}); {_EXPECTED}") from None


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_NAMES_PER_OBJECT:
        raise ValueError(f"an object in it has {len(pairs)} names, allowed: up to {MAX_NAMES_PER_OBJECT}")
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"it has two values of {_show(max(names, key=names.count))}; {_ALTERED}")
    return content


def _foreign(schema: Any) -> str:
    """Why a schema cannot be read: newer, of something else, or none."""
    name, _, version = schema.partition("/") if isinstance(schema, str) else ("", "", "")
    if name == SCHEMA.partition("/")[0] and version.isdecimal():
        return f"it has schema {schema:.40}, this program reads up to {SCHEMA}: update gpudissect"
    if isinstance(schema, str) and (kind := _OTHERS.get(schema.rpartition("/")[0])):
        return kind
    why = f"its schema is {_show(schema)}, not {SCHEMA!r}" if schema else f"it has no schema {SCHEMA!r}"
    return f"{why}; {_EXPECTED}"


def _first_error(error: ValidationError, content: Any) -> str:
    """Place, message and wrong value of the first error."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = []
    for part in first["loc"]:
        with suppress(LookupError, TypeError):  # pydantic also names the types of a union that it tried
            content = content[part]
            place.append(str(part)[:MAX_SHOWN])
    message = first["msg"].removeprefix("Value error, ")[:160]
    if first["type"] == "missing":
        return f"{'.'.join(place) or 'the file'} lacks {_show(first['loc'][-1])}"
    got = "" if first["type"] in ("value_error", "json_invalid") else f", got {_show(content)}"
    return f"{'.'.join(place)}: {message}{got}" if place else message + got


def _show(value: Any) -> str:
    """A value as JSON writes it, cut."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    text = json.dumps(value[:MAX_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def check_writable(path: Path) -> None:
    """Make sure, before anything is measured, that a file can be written here. Raises `UsageError`."""
    folder = path.parent
    try:
        if path.is_dir():
            raise UsageError(f"cannot write {path}: it is a folder; name a file")
        if not folder.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {folder}")
        if is_special(path):
            return
        path = path.resolve()
        with suppress(FileNotFoundError):
            path.lstat()  # its name may be too long
        with tempfile.NamedTemporaryFile(prefix=_TEMPORARY, dir=path.parent):
            pass
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links
        raise _unwritable(path, error) from None


def check_ending(path: Path, of: str, endings: Iterable[str]) -> None:
    """Raise `UsageError` for a name without one of these endings; `of` is the kind of file, such as ``of a page``."""
    *others, last = endings
    if path.suffix not in (*others, last):
        expected = f"{', '.join(others)} or {last}" if others else last
        raise UsageError(f"cannot write {path}: the name {of} must end in {expected}")


def check_names(data: Path | None, page: Path | None) -> None:
    """Make sure that no data replace a page or a GPU file, and that a page has the name of one. Raises `UsageError`."""
    if data is not None and data.suffix in _PAGES:
        raise UsageError(f"cannot write {data}: -o writes data, which need another name; --html {data} writes a page")
    if data is not None and data.suffix == ".toml":
        raise UsageError(
            f"cannot write {data}: that is the name of a GPU file, which these data are not; use another name"
        )
    if page is not None and not is_special(page):
        check_ending(page, "of a page", _PAGES)


def check_card(path: Path) -> None:
    """Make sure that a card has the name of one and can be made. Raises `UsageError`."""
    if not is_special(path):
        check_ending(path, "of a card", (".svg", ".png"))
    if path.suffix.lower() == ".png" and find_spec("resvg_py") is None:
        raise UsageError("a PNG needs resvg-py: pip install '.[png]', or name a file that ends in .svg")


def check_apart(path: Path, inputs: Iterable[Path]) -> None:
    """Make sure that an output replaces no input. Raises `UsageError`."""
    for other in inputs:
        if same_file(path, other):
            raise UsageError(f"cannot write {path}: it is an input; name another file")


def file_identity(path: Path) -> object:
    """What all paths to one file have in common, through links too."""
    try:
        status = path.stat()
        return status.st_dev, status.st_ino
    except OSError:  # it does not exist
        return _real_path(path)


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths name the same file, through links too."""
    return file_identity(path) == file_identity(other)


def check_apart_from_run(path: Path, spec: str | None, record: Path | None) -> None:
    """Make sure that an output replaces no file of the device of this name, nor of the recording to be made.

    Raises `UsageError`.
    """
    kind, _, text = (spec or "").partition(":")
    for name in {text, text.partition("?")[0]} if kind in ("sim", "rec") else ():  # a name may have a question mark
        check_apart(path, [Path(name)] if kind == "sim" else [Path(name) / INDEX, Path(name) / ARRAYS])
    if record is not None:
        output, folder = _real_path(path), _real_path(record)
        if folder.is_relative_to(output) or output in (folder / INDEX, folder / ARRAYS):
            raise UsageError(f"cannot write {path}: the recording {record} is made there; name another file")


def holds_data(path: Path) -> bool:
    """Whether writing here would replace the content of a file."""
    try:
        return path.is_file() and path.stat().st_size > 0
    except OSError:
        return False


def partial_path(path: Path) -> Path:
    """A free name beside a file for an interrupted result: ``name.partial.json``, or else ``name.partial2.json``."""
    for number in count(1):
        stem, ending = path.stem, f".partial{number if number > 1 else ''}{path.suffix}"
        while stem and len(os.fsencode(stem + ending)) > MAX_NAME_BYTES:
            stem = stem[:-1]
        if not os.path.lexists(free := path.with_name(stem + ending)):
            break
    return free


def write_text(path: Path, text: str) -> None:
    """Replace a file in one step: another reader sees the old content or the new one. Raises `UsageError`."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """As `write_text`, for bytes."""
    try:
        if is_special(path):  # /dev/stdout, a pipe: nothing to replace
            with interruptible(obey_held=False):  # a pipe without a reader blocks, but not after a stop signal
                file_number = os.open(path, os.O_WRONLY | (os.O_NONBLOCK if stop_requested() else 0))
                os.set_blocking(file_number, True)
                with open(file_number, "wb") as special:
                    special.write(data)
            return
        path = path.resolve()  # write through a link, do not replace it
        temporary = path.with_name(f"{_TEMPORARY}{secrets.token_hex(8)}")
        try:
            with temporary.open("xb") as file:
                with suppress(FileNotFoundError):  # a file that others may not read stays so
                    os.fchmod(file.fileno(), stat.S_IMODE(path.stat().st_mode))
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        raise _unwritable(path, error) from None


def _unwritable(path: Path, error: Exception) -> UsageError:
    return UsageError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")


def is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe: nothing to replace, and writing may block."""
    return path.exists() and not path.is_file()


def _real_path(path: Path) -> Path:
    """The path that is written, through links; unlike `Path.resolve` it accepts loops of links."""
    return Path(os.path.realpath(path))

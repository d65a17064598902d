"""Find and read GPU files: the built-in ones by name, a user's own by path."""

from __future__ import annotations

import fnmatch
import pathlib
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from gpudissect.catalogue.build import hierarchy_of
from gpudissect.catalogue.build_processor import processor_of
from gpudissect.catalogue.capabilities import FIRST_WITH_CLUSTERS, NEEDS_CLUSTERS
from gpudissect.catalogue.published import Published, published_of
from gpudissect.errors import CatalogueError
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.simulation.sm.description import Processor

NO_CODE = "its GPU file does not describe the instruction caches"
LARGEST_FILE = 1024 * 1024  # bytes; the longest built-in file has some 20 KB
MAX_KEY_PARTS = 16  # the longest key of the schema has five; tomllib needs memory by the square of them

_NO_KEYS = re.compile(  # strings and comments, in which dots join no keys; an unclosed one ends where tomllib stops
    "|".join(
        (
            r'"""(?s:\\.|(?!""")[^\\])*+(?:""")?',
            r"'''(?s:(?!''').)*+(?:''')?",
            r'"(?:\\.|[^"\\\n])*+"?',
            r"'[^'\n]*+'?",
            r"(?P<comment>#[^\n]*+)",
        )
    )
)
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


@dataclass(frozen=True)
class Gpu:
    """One GPU of the catalogue.

    Attributes:
        key: the name it is loaded by: ``gtx980``, or the stem of a user's file.
        table: the whole file, checked; the methods below are the usual ways into it.

    """

    key: str
    table: GpuTable = field(repr=False)

    @property
    def name(self) -> str:
        """Name as the driver prints it."""
        return self.table.name

    @property
    def architecture(self) -> str:
        """Generation: ``Maxwell``."""
        return self.table.architecture

    def hierarchy(self) -> Hierarchy:
        """Build the memory hierarchy a simulator runs: the truth of this GPU."""
        return hierarchy_of(self.table)

    def processor(self) -> Processor | None:
        """Build the SM that a simulator runs; None if the file does not describe it."""
        return processor_of(self.table)

    def published(self) -> list[Published]:
        """List the published numbers that a measurement could find, by element and attribute."""
        return published_of(self.table)

    def unsupported(self) -> dict[Path, str]:
        """Name the paths this GPU lacks, each with the reason."""
        from gpudissect.catalogue.schema import NEWER

        capability = self.table.chip.compute_capability.value.partition(".")[0]
        older = capability.isdecimal() and int(capability) < FIRST_WITH_CLUSTERS
        reason = NEEDS_CLUSTERS if older else "its GPU file does not describe it"
        silent = {path: reason for path in NEWER} | {Path.CODE: NO_CODE}
        silent = {path: text for path, text in silent.items() if path not in self.table.paths}
        return silent | dict(self.table.unsupported)

    def facts(self) -> dict[str, int | float | str]:
        """Give what its driver would say, by the names of `DeviceInfo.facts`; bytes, Hz."""
        chip = self.table.chip
        known: dict[str, int | float | str] = {}
        for fact in type(chip).model_fields:
            entry = getattr(chip, fact)
            if entry is not None and fact not in ("sm_count", "timer"):
                known[fact] = entry.value
        for element, cache_table in self.table.caches.items():
            if element == "l2":
                split = self.table.partition
                known["l2_size"] = split.capacity.value if split else cache_table.capacity.value
        return known


def names() -> list[str]:
    """Names of the built-in GPUs, sorted."""
    folder = resources.files("gpudissect.catalogue") / "gpus"
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load(name_or_path: str | pathlib.Path) -> Gpu:
    """Read a built-in GPU by name, or any GPU file by path (what ends in .toml or holds a separator is a path).

    Raises `CatalogueError`, one line naming file, field, what was got and what is allowed, if there is no such
    GPU or its file is wrong.
    """
    text = str(name_or_path)
    if text in names():
        return _built_in(text)
    path = pathlib.Path(name_or_path)
    if isinstance(name_or_path, str) and path.suffix != ".toml" and path.name == text and not path.exists():
        raise CatalogueError(f"no GPU named {text!r}; known: {', '.join(names())}, or give the path of a .toml file")
    return Gpu(path.stem, _checked(text, _parsed(text, _bytes_of(path))))


def for_name(driver_name: str) -> Gpu | None:
    """Find the built-in GPU that a driver's name such as ``NVIDIA A100-SXM4-40GB`` means, None if there is none.

    An entry matches by its `name` or one of its `family`, where ``*`` stands for anything; a leading ``NVIDIA``
    and upper or lower case make no difference. Documents win over a measurement (a file with `run`), then the longest
    pattern that matches.
    """
    wanted = _plain(driver_name)
    fitting = [
        (_is_documented(key), len(pattern), key)
        for key in names()
        for pattern in _patterns(key)
        if fnmatch.fnmatchcase(wanted, pattern)
    ]
    return _built_in(max(fitting)[2]) if fitting else None


@cache
def _built_in(key: str) -> Gpu:
    return Gpu(key, _checked(f"{key}.toml", _built_in_data(key)))


@cache
def _built_in_data(key: str) -> dict[str, Any]:
    where = resources.files("gpudissect.catalogue") / "gpus" / f"{key}.toml"
    return _parsed(f"{key}.toml", where.read_bytes())


def _patterns(key: str) -> list[str]:
    data = _built_in_data(key)
    return [_plain(text) for text in [data["name"], *data.get("family", [])]]


def _is_documented(key: str) -> bool:
    return "run" not in _built_in_data(key)


def _plain(name: str) -> str:
    return " ".join(name.casefold().split()).removeprefix("nvidia ")


def _bytes_of(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CatalogueError(f"{path}: cannot read the GPU file: {reason}") from error
    if len(content) > LARGEST_FILE:
        raise CatalogueError(f"{path}: too large for a GPU file, allowed: up to {LARGEST_FILE} bytes")
    return content


def _parsed(label: str, content: bytes) -> dict[str, Any]:
    try:
        text = content.decode("utf-8")
        if long := _LONG_KEY.search(_NO_KEYS.sub(lambda found: "" if found["comment"] else "_", text)):
            raise CatalogueError(f"{label}: the key {long[0]:.20}... has too many parts, allowed: {MAX_KEY_PARTS}")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{label}: not text (byte {error.start} is not UTF-8), allowed: a TOML file") from error
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise CatalogueError(f"{label}: not TOML: {reason}") from error


def _checked(label: str, data: dict[str, Any]) -> GpuTable:
    from pydantic import ValidationError

    from gpudissect.catalogue.explain import first_problem
    from gpudissect.catalogue.schema import GpuTable

    try:
        return GpuTable.model_validate(data)
    except ValidationError as error:
        raise CatalogueError(f"{label}: {first_problem(error)}") from error

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

from gpudissect.catalogue.build import hierarchy_of, processor_of
from gpudissect.catalogue.compute_capability import FIRST_WITH_CLUSTERS, NEEDS_CLUSTERS
from gpudissect.catalogue.published import Published, alternatives_of, published_of
from gpudissect.errors import CatalogueError
from gpudissect.simulation.cache.geometry import Hierarchy
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.simulation.sm.description import Processor

MAX_FILE_BYTES = 1024 * 1024  # the longest built-in file has some 60 KB
MAX_KEY_PARTS = 16  # the longest key of the schema has five; tomllib needs memory by their square
_FOLDER = resources.files("gpudissect.catalogue") / "gpus"
_NO_KEYS = re.compile(  # strings and comments, in which dots join no keys; an unclosed one ends where tomllib stops
    r'"""(?s:\\.|(?!""")[^\\])*+(?:""")?|'
    r"'''(?s:(?!''').)*+(?:''')?|"
    r'"(?:\\.|[^"\\\n])*+"?|'
    r"'[^'\n]*+'?|"
    r"(?P<comment>#[^\n]*+)"
)
_LONG_KEY = re.compile(rf"(?<![A-Za-z0-9_-])(?:[A-Za-z0-9_-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


@dataclass(frozen=True)
class Gpu:
    """One GPU of the catalogue."""

    key: str  # the name it is loaded by: gtx980, or the stem of a user's file
    table: GpuTable = field(repr=False)  # the whole file, checked

    @property
    def name(self) -> str:
        """Name as the driver prints it."""
        return self.table.name

    @property
    def architecture(self) -> str:
        """Generation: ``Maxwell``."""
        return self.table.architecture

    def hierarchy(self, alternative: bool = False) -> Hierarchy:
        """Build the memory hierarchy that a simulator runs, with the alternative structures of arrays if requested.

        Raises `CatalogueError` if the file has no alternative.
        """
        caches, tlbs = self.table.caches.values(), self.table.tlbs.values()
        if alternative and not (any(each.alternative for each in caches) or any(each.alternative for each in tlbs)):
            raise CatalogueError(f"{self.key}: its GPU file has no alternative structure")
        return hierarchy_of(self.table, alternative)

    def processor(self) -> Processor | None:
        """Build the SM that a simulator runs; None if the file does not describe it."""
        return processor_of(self.table)

    def published(self, *, alternatives: bool = False) -> list[Published]:
        """List the published numbers that a measurement can find, by element and attribute; alternatives if requested.

        These are lines, sets and ways of `CacheTable.alternative` and `TlbTable.alternative`, after the others.
        """
        return [*published_of(self.table), *(alternatives_of(self.table) if alternatives else ())]

    def unsupported(self) -> dict[Path, str]:
        """Paths that this GPU lacks, each with the reason."""
        from gpudissect.catalogue.schema import OPTIONAL_PATHS

        major = self.table.chip.compute_capability.value.partition(".")[0]
        is_older = major.isdecimal() and int(major) < FIRST_WITH_CLUSTERS
        reasons = dict.fromkeys(OPTIONAL_PATHS, NEEDS_CLUSTERS if is_older else "its GPU file does not describe it")
        reasons[Path.HOST] = "its GPU file describes no link to the host"
        reasons |= dict.fromkeys((Path.PEER, Path.PEER_L1), "GPUs are simulated one by one")
        reasons[Path.CODE] = "its GPU file does not describe the instruction caches"
        unmentioned = {path: reason for path, reason in reasons.items() if path not in self.table.paths}
        return unmentioned | dict(self.table.unsupported)

    def facts(self) -> dict[str, int | float | str]:
        """What its driver would state, by the names of `DeviceInfo.facts`; bytes, Hz."""
        chip, partition = self.table.chip, self.table.partition
        entries = {fact: getattr(chip, fact) for fact in type(chip).model_fields if fact not in ("sm_count", "timer")}
        facts = {fact: entry.value for fact, entry in entries.items() if entry is not None}
        if "l2" in self.table.caches:
            facts["l2_size"] = (partition or self.table.caches["l2"]).capacity.value
        return facts


def names() -> list[str]:
    """Names of the built-in GPUs, sorted."""
    return sorted(entry.name.removesuffix(".toml") for entry in _FOLDER.iterdir() if entry.name.endswith(".toml"))


def load(name_or_path: str | pathlib.Path) -> Gpu:
    """Read a built-in GPU by name, or any GPU file by path (a text with a separator, or that ends in .toml, is a path).

    Raises `CatalogueError`, one line, if there is no such GPU or its file is wrong.
    """
    text = str(name_or_path)
    if text in names():
        return _built_in(text)
    path = pathlib.Path(name_or_path)
    if isinstance(name_or_path, str) and path.suffix != ".toml" and path.name == text and not path.exists():
        raise CatalogueError(f"no GPU named {text!r}; known: {', '.join(names())}, or give the path of a .toml file")
    return Gpu(path.stem, check(text, parse(text, _read(path))))


def prepare() -> None:
    """Import and build the schema of GPU files, which takes 0.1 s: for times at which there is nothing else to do."""
    from gpudissect.catalogue.schema import GpuTable

    GpuTable.model_rebuild()


def for_name(driver_name: str) -> Gpu | None:
    """Find the built-in GPU that a driver calls, say, ``NVIDIA A100-SXM4-40GB``; None if there is none.

    An entry matches by its `name` or one of its `family`, where ``*`` stands for anything; a leading ``NVIDIA`` and
    case are ignored. Documents win over a measurement (a file with `run`), then the longest pattern that matches.
    """
    normalized = _normalize(driver_name)
    matches = [
        ("run" not in data, len(pattern), key)
        for key in names()
        for data in [parse(key, _content(key).partition(b"\n[")[0])]  # what stands before the first table
        for pattern in map(_normalize, [data["name"], *data.get("family", [])])
        if fnmatch.fnmatchcase(normalized, pattern)
    ]
    return _built_in(max(matches)[2]) if matches else None


def parse(label: str, content: bytes) -> dict[str, Any]:
    """The tables of a TOML file. Raises `CatalogueError`; messages start with `label`."""
    try:
        text = content.decode("utf-8")
        if long := _LONG_KEY.search(_NO_KEYS.sub(lambda match: "" if match["comment"] else "_", text)):
            raise CatalogueError(f"{label}: the key {long[0]:.20}... has too many parts, allowed: {MAX_KEY_PARTS}")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise CatalogueError(f"{label}: not text (byte {error.start} is not UTF-8), allowed: a TOML file") from error
    except (ValueError, RecursionError) as error:
        raise CatalogueError(f"{label}: not TOML: {' '.join(str(error).split())}") from error


def check(label: str, data: dict[str, Any]) -> GpuTable:
    """The tables, checked. Raises `CatalogueError` with the first problem; messages start with `label`."""
    from pydantic import ValidationError

    from gpudissect.catalogue.quantity import first_problem
    from gpudissect.catalogue.schema import GpuTable

    try:
        return GpuTable.model_validate(data)
    except ValidationError as error:
        raise CatalogueError(f"{label}: {first_problem(error)}") from error


@cache
def _built_in(key: str) -> Gpu:
    return Gpu(key, check(f"{key}.toml", parse(f"{key}.toml", _content(key))))


def _content(key: str) -> bytes:
    return (_FOLDER / f"{key}.toml").read_bytes()


def _normalize(name: str) -> str:
    return " ".join(name.casefold().split()).removeprefix("nvidia ")


def _read(path: pathlib.Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CatalogueError(f"{path}: cannot read the GPU file: {reason}") from error
    if len(content) > MAX_FILE_BYTES:
        raise CatalogueError(f"{path}: too large for a GPU file, allowed: up to {MAX_FILE_BYTES} bytes")
    return content

"""A result as a GPU file of the catalogue: what was measured becomes a GPU that can be simulated.

Every number that was found has the run for its source; what no finding gives, and a simulated GPU needs, is assumed
and says so. The file is read back and checked before it is handed out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from gpudissect import catalogue
from gpudissect.catalogue.build import hierarchy_of
from gpudissect.catalogue.load import MAX_FILE_BYTES
from gpudissect.catalogue.quantity import first_problem
from gpudissect.catalogue.schema import GpuTable
from gpudissect.errors import UsageError
from gpudissect.exports.gpu.caches import Arrays, arrays
from gpudissect.exports.gpu.chip import REQUIRED, chip
from gpudissect.exports.gpu.paths import levels, partition, ways
from gpudissect.exports.gpu.processor import alike, banks, processor
from gpudissect.exports.gpu.published import published
from gpudissect.exports.gpu.readings import LONGEST_NAME, Entry, Readings, assumed, words
from gpudissect.exports.gpu.tlbs import tlbs
from gpudissect.exports.toml import Section, toml_text
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.units import KIB, format_bytes

if TYPE_CHECKING:
    from gpudissect.results.model import Result

_SIZES = ("memory_size", "shared_per_sm", "shared_per_block", "constant_size", "capacity", "page_size", "reach",
          "segment_size")  # fmt: skip
_ABOUT = """\
Made by `gpudissect export --format gpu` of the result of
{source}.
What stands as assumed completes the simulated GPU and is no claim: it was not found. Below [published] stand further
findings, those that the simulated GPU does not show with simulated = false and the reason."""


def gpu_file(result: Result) -> str:
    """The text of the GPU file, TOML.

    Raises:
        UsageError: if the result holds no finding on any path to memory, or a GPU that cannot be simulated.

    """
    readings = Readings(result)
    sections = list(_sections(readings))
    table = _checked(toml_text(sections), readings)
    sections += [_section(("published", element), body) for element, body in published(readings, table).items()]
    text = toml_text(sections)
    _checked(text, readings)
    return text


def _sections(readings: Readings) -> Iterator[Section]:
    """Every table but ``[published]``, in the order of the catalogue's files."""
    caches, translation = arrays(readings, levels(readings)), tlbs(readings)
    routes = ways(readings, caches, bool(translation.levels))
    name = words(readings.result.device.name, LONGEST_NAME) or "unnamed"
    if not any("memory_latency" in table for table in routes.paths.values()):
        raise UsageError(f"the result of {name} has no latency of a cache or of memory: run discover on all elements")
    yield _top(name, readings)
    yield _section(("chip",), chip(readings))
    yield from _of_arrays(caches, partition(readings, caches))
    like = alike(readings)
    yield _section(("shared",), _shared(readings, like))
    for path, route in routes.paths.items():
        yield _section(("paths", path.value), route)
    if routes.unsupported:
        yield Section(("unsupported",), {path.value: reason for path, reason in routes.unsupported.items()})
    for level, entries in translation.levels.items():
        yield _section(("tlbs", level), entries)
    if translation.walk is not None:
        yield _section(("walk",), translation.walk)
    if like is not None:
        for table, body in processor(readings, like, caches.caches):
            yield _section(table, body)


def _top(name: str, readings: Readings) -> Section:
    top = {
        "format": 1,
        "name": name,
        "architecture": _architecture(readings.result.device.catalogue),
        "run": words(readings.source),
    }
    return Section((), top, comment=f"{name}\n" + _ABOUT.format(source=readings.source))


def _of_arrays(arrays: Arrays, parts: Mapping[str, Entry] | None) -> Iterator[Section]:
    """Caches, their parts and the views into them."""
    for element, body in arrays.caches.items():
        scope = {"scope": "gpu"} if element == "l2" else {}
        yield _section(("caches", element), scope | dict(body), "One of its two parts." if scope and parts else "")
    if not arrays.caches:
        yield Section(("caches",), {})
    if parts is not None:
        yield _section(("partition",), parts)
    for element, body in arrays.views.items():
        yield _section(("views", element), body)


def _shared(readings: Readings, like: catalogue.Gpu | None) -> dict[str, Entry]:
    of_a_block = readings.fact("shared_per_block") or REQUIRED["shared_per_block"]
    size = readings.entry("shared", "capacity") or assumed(of_a_block, "not stated; what a block can have")
    return {"capacity": size} | banks(readings, like)


def _architecture(key: str | None) -> str:
    """That of the catalogue's entry that the result was held against, for a result does not name it."""
    return catalogue.load(key).architecture if key is not None and key in catalogue.names() else "unknown"


def _section(name: tuple[str, ...], body: Mapping[str, Any], comment: str = "") -> Section:
    remarks = {
        key: format_bytes(entry["value"])
        for key, entry in body.items()
        if key in _SIZES and isinstance(entry, dict) and entry["value"] >= KIB
    }
    return Section(name, body, comment, remarks)


def _checked(text: str, readings: Readings) -> GpuTable:
    """The file as the catalogue reads it. Raises `UsageError` if it does not: a GPU that cannot be."""
    name = readings.result.device.name
    if len(text.encode()) > MAX_FILE_BYTES:
        raise UsageError(f"the result of {name:.60} makes a GPU file larger than {format_bytes(MAX_FILE_BYTES)}")
    try:
        table = GpuTable.model_validate(tomllib.loads(text))
        check_hierarchy(hierarchy_of(table))
        return table
    except (ValidationError, UsageError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"the result of {name:.60} makes no GPU that can be simulated: {why}") from None

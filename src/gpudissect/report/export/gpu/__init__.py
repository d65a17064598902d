"""A result as a GPU file of the catalogue: what was measured becomes a GPU that can be simulated.

Every number that was found has the run for its source; what no finding gives, and a simulated GPU needs, is assumed
and says so. The file is read back and checked before it is handed out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpudissect.errors import UsageError
from gpudissect.report.export.toml import Section, toml_text
from gpudissect.units import KIB, format_bytes

if TYPE_CHECKING:
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.report.export.gpu.readings import Readings
    from gpudissect.report.result import Result

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
    from gpudissect.report.export.gpu.published import published
    from gpudissect.report.export.gpu.readings import Readings

    readings = Readings(result)
    sections = list(_sections(readings))
    table = _checked(toml_text(sections), readings)
    sections += [_section(("published", element), body) for element, body in published(readings, table).items()]
    text = toml_text(sections)
    _checked(text, readings)
    return text


def _sections(readings: Readings) -> Iterator[Section]:
    from gpudissect.report.export.gpu.caches import arrays
    from gpudissect.report.export.gpu.chip import chip
    from gpudissect.report.export.gpu.paths import levels, partition, ways
    from gpudissect.report.export.gpu.readings import LONGEST_NAME, assumed, words
    from gpudissect.report.export.gpu.tlbs import tlbs

    device = readings.result.device
    caches, translation = arrays(readings, levels(readings)), tlbs(readings)
    routes = ways(readings, caches, bool(translation.levels))
    if not any("memory_latency" in table for table in routes.paths.values()):
        name = words(device.name, LONGEST_NAME)
        raise UsageError(f"the result of {name} has no latency of a cache or of memory: run discover on all elements")
    top: dict[str, Any] = {
        "format": 1,
        "name": words(device.name, LONGEST_NAME) or "unnamed",
        "architecture": _architecture(device.catalogue),
        "run": words(readings.source),
    }
    yield Section((), top, comment=f"{top['name']}\n" + _ABOUT.format(source=readings.source))
    yield _section(("chip",), chip(readings))
    for element, body in caches.caches.items():
        scope = {"scope": "gpu"} if element == "l2" else {}
        of_two = "One of its two parts." if element == "l2" and caches.partition else ""
        yield _section(("caches", element), scope | dict(body), of_two)
    if not caches.caches:
        yield Section(("caches",), {})
    if (parts := partition(readings, caches)) is not None:
        yield _section(("partition",), parts)
    for element, body in caches.views.items():
        yield _section(("views", element), body)
    shared = {
        attribute: readings.entry("shared", attribute) for attribute in ("banks", "bank_width", "conflict_latency")
    }
    size = readings.entry("shared", "capacity") or assumed(
        _shared_of_a_block(readings), "not stated; what a block can have"
    )
    yield _section(("shared",), {"capacity": size} | {key: entry for key, entry in shared.items() if entry})
    for path, route in routes.paths.items():
        yield _section(("paths", path.value), route)
    if routes.unsupported:
        yield Section(("unsupported",), {path.value: reason for path, reason in routes.unsupported.items()})
    for level, entries in translation.levels.items():
        yield _section(("tlbs", level), entries)
    if translation.walk is not None:
        yield _section(("walk",), translation.walk)


def _shared_of_a_block(readings: Readings) -> int:
    """Bytes of shared memory that a block can have."""
    return readings.fact("shared_per_block") or 48 * KIB


def _architecture(key: str | None) -> str:
    """That of the catalogue's entry that the result was held against, for a result does not name it."""
    from gpudissect.catalogue import load, names

    return load(key).architecture if key is not None and key in names() else "unknown"


def _section(name: tuple[str, ...], body: Mapping[str, Any], comment: str = "") -> Section:
    remarks = {
        key: format_bytes(entry["value"])
        for key, entry in body.items()
        if key in _SIZES and isinstance(entry, dict) and entry["value"] >= KIB
    }
    return Section(name, body, comment, remarks)


def _checked(text: str, readings: Readings) -> GpuTable:
    """The file as the catalogue reads it. Raises `UsageError` if it does not: a GPU that cannot be."""
    from pydantic import ValidationError

    from gpudissect.cachemodel.check import check_hierarchy
    from gpudissect.catalogue.build import hierarchy_of
    from gpudissect.catalogue.explain import first_problem
    from gpudissect.catalogue.load import LARGEST_FILE
    from gpudissect.catalogue.schema import GpuTable

    name = readings.result.device.name
    if len(text.encode()) > LARGEST_FILE:
        raise UsageError(f"the result of {name:.60} makes a GPU file larger than {format_bytes(LARGEST_FILE)}")
    try:
        table = GpuTable.model_validate(tomllib.loads(text))
        check_hierarchy(hierarchy_of(table))
        return table
    except (ValidationError, UsageError) as error:
        why = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UsageError(f"the result of {name:.60} makes no GPU that can be simulated: {why}") from None

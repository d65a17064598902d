"""A result as a GPU file of the catalogue: what was measured becomes a GPU that can be simulated.

Every number that was found has the run as its source; what no finding gives, and a simulated GPU needs, is assumed
and marked so. The file is read back and checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpudissect import catalogue
from gpudissect.catalogue.build import hierarchy_of
from gpudissect.catalogue.load import MAX_FILE_BYTES, check, parse
from gpudissect.catalogue.published import published_of
from gpudissect.errors import CatalogueError, UsageError
from gpudissect.estimate import Status
from gpudissect.exports.gpu.caches import arrays, prefetch, tlbs
from gpudissect.exports.gpu.chip import chip, processor, shared_memory
from gpudissect.exports.gpu.paths import known_caches, routes
from gpudissect.exports.readings import MAX_NAME, Entry, Readings, documented_gpu, line
from gpudissect.exports.toml import Section, toml_text
from gpudissect.simulation.cache.check import check_hierarchy
from gpudissect.units import KIB, format_bytes
from gpudissect.workload import Path

if TYPE_CHECKING:
    from gpudissect.catalogue.schema import GpuTable
    from gpudissect.results.model import Finding, Result

CLOSE_CYCLES = 1.0
_SIZES = (
    *("memory_size", "shared_per_sm", "shared_per_block", "constant_size", "capacity", "page_size", "reach", "size"),
    "segment_size",
)
_HEADER = """\
Made by `gpudissect export --format gpu` of the result of
{source}.
What stands as assumed completes the simulated GPU and is no claim: it was not found. Below [published] stand further
findings, those that the simulated GPU does not show with simulated = false and the reason."""
_PARTITION_FINDINGS = tuple((element, name) for element in ("l2", "dram") for name in ("near_latency", "far_latency"))
NOT_SIMULATED = "no part of the simulated GPU"
SIMULATED_OTHERWISE = "simulated otherwise, the reason stands there"
ONE_MEMORY_LATENCY = "memory is simulated with one latency, or one near and one far, without a tail of slow accesses"
SIMULATED_MEAN = (
    "{:.0f} cycles when simulated: median latency of near and far lines, without the slow accesses in this mean"
)
WIDE = "translations that were not found, and the slow tail of a real memory, are in it and not in the simulated one"
SHARED_ARRAY = "the array that it shares is simulated once, as the element it is of has it"
NO_PARTITIONS = "nothing was observed that a cache in two partitions would explain"


def gpu_file(result: Result) -> str:
    """The GPU file, TOML. Raises `UsageError` without latency of a cache or memory, or if it cannot be simulated."""
    readings = Readings(result)
    sections = list(_sections(readings))
    table = _checked(toml_text(sections), readings)
    sections += [_section(("published", element), body) for element, body in _published(readings, table).items()]
    text = toml_text(sections)
    _checked(text, readings)
    return text


def _sections(readings: Readings) -> Iterator[Section]:
    """Every table but ``[published]``, in the order of the catalogue's files."""
    result = readings.result
    caches, (levels, walk) = arrays(readings, known_caches(readings)), tlbs(readings)
    paths, unsupported = routes(readings, caches, bool(levels))
    name = line(result.device.name, MAX_NAME) or "unnamed"
    if not any("memory_latency" in table for table in paths.values()):
        raise UsageError(f"the result of {name} has no latency of a cache or of memory: run discover on all elements")
    key = result.device.catalogue  # a result does not name the architecture, its reference does
    architecture = catalogue.load(key).architecture if key in catalogue.names() and key is not None else "unknown"
    top = {"format": 1, "name": name, "architecture": architecture, "run": line(readings.source)}
    yield Section((), top, comment=f"{name}\n" + _HEADER.format(source=readings.source))
    yield _section(("chip",), chip(readings))
    for element, body in caches.caches.items():
        scope = {"scope": "gpu"} if element == "l2" else {}
        comment = "One of its two partitions." if scope and caches.partition else ""
        yield _section(("caches", element), scope | dict(body), comment)
    if not caches.caches:
        yield Section(("caches",), {})
    if caches.partition is not None:
        yield _section(("partition",), caches.partition)
    yield from (_section(("views", element), body) for element, body in caches.views.items())
    documented = documented_gpu(result.device)
    yield _section(("shared",), shared_memory(readings, documented))
    yield from (_section(("paths", path.value), route) for path, route in paths.items())
    if unsupported:
        yield Section(("unsupported",), {path.value: reason for path, reason in unsupported.items()})
    yield from (_section(("tlbs", level), entries) for level, entries in levels.items())
    if walk:
        yield _section(("walk",), walk)
        size, penalty = (readings.entry("page_table", name) for name in ("window", "switch_penalty"))
        if size is not None and penalty is not None:
            yield _section(("page_window",), {"size": size, "penalty": penalty})
    if "l2" in caches.caches and (ahead := prefetch(readings)):
        yield _section(("prefetch",), ahead)
    if documented is not None:
        yield from (_section(name, body) for name, body in processor(readings, documented, caches.caches))


def _section(name: tuple[str, ...], body: Mapping[str, Any], comment: str = "") -> Section:
    remarks = {
        key: format_bytes(entry["value"])
        for key, entry in body.items()
        if key in _SIZES and isinstance(entry, dict) and entry["value"] >= KIB
    }
    return Section(name, body, comment, remarks)


def _checked(text: str, readings: Readings) -> GpuTable:
    """The file as the catalogue reads it. Raises `UsageError` for a GPU that cannot be simulated."""
    name, content = f"the result of {readings.result.device.name:.60}", text.encode()
    if len(content) > MAX_FILE_BYTES:
        raise UsageError(f"{name} makes a GPU file larger than {format_bytes(MAX_FILE_BYTES)}")
    try:
        table = check(name, parse(name, content))
        check_hierarchy(hierarchy_of(table))
        return table
    except (CatalogueError, UsageError) as error:
        reason = str(error).removeprefix(f"{name}: ")
        raise UsageError(f"{name} makes no GPU that can be simulated: {reason}") from None


def _published(readings: Readings, gpu: GpuTable) -> dict[str, dict[str, Entry]]:
    """Entries by element and attribute of every number found that `gpu` does not have in another table."""
    present = {(item.element, item.attribute) for item in published_of(gpu)}
    tables: dict[str, dict[str, Entry]] = {}
    for finding in readings:
        element, attribute = finding.element, finding.attribute
        entry = readings.entry(element, attribute)
        if entry is None or finding.status is not Status.FOUND or (element, attribute) in present or element == "timer":
            continue
        if reason := _why_not_simulated(readings, finding, gpu):
            entry |= {"note": line("; ".join([reason, *finding.caveats])), "simulated": False}
        tables.setdefault(element, {})[attribute] = entry
    return tables


def _why_not_simulated(readings: Readings, finding: Finding, gpu: GpuTable) -> str:
    """Why a survey of the simulated GPU would not find a number again; empty if it would."""
    element, attribute = finding.element, finding.attribute
    if (element, attribute) in _PARTITION_FINDINGS:
        return "" if gpu.partition is not None else NO_PARTITIONS
    if attribute == "miss_penalty" and element in gpu.caches | gpu.views and element != "l2":
        return ""
    if attribute in ("prefetch_reach", "prefetch_run") and (gpu.prefetch or not readings.number(element, attribute)):
        return ""
    if attribute == "max_miss_rate" and _has_found_policy(element, gpu):
        return ""
    if element in gpu.views:
        return SHARED_ARRAY
    value, memory = readings.number(element, attribute), readings.number("dram", "hit_latency")
    hit = 0.0 if element == "dram" else readings.number("l2", "hit_latency")
    if element == "dram" or (element, attribute) == ("l2", "miss_penalty"):
        is_simulated = gpu.partition is None and not (value is None or memory is None or hit is None)
        if is_simulated and abs((memory or 0) - (hit or 0) - (value or 0)) <= CLOSE_CYCLES:
            return ""
        return WIDE if attribute == "wide_latency" else _why_other_mean(gpu, attribute)
    return SIMULATED_OTHERWISE if element in (*gpu.caches, *gpu.tlbs) else NOT_SIMULATED


def _why_other_mean(gpu: GpuTable, attribute: str) -> str:
    """Why a mean over near and far lines of memory differs when simulated, and what it is then."""
    route, partition = gpu.paths.get(Path.GLOBAL_L2), gpu.partition
    is_mean = attribute in ("hit_latency", "miss_penalty")
    if not is_mean or partition is None or partition.far_memory_penalty is None or not (route and route.memory_latency):
        return ONE_MEMORY_LATENCY
    mean = route.memory_latency.value + partition.far_memory_penalty.value / 2  # half of the lines are far
    return SIMULATED_MEAN.format(mean - (route.latency[-1].value if attribute == "miss_penalty" else 0))


def _has_found_policy(element: str, gpu: GpuTable) -> bool:
    """Whether sets and policy of the array were found, not assumed."""
    view = gpu.views.get(element)
    array = gpu.caches.get(view.of.value if view else element)
    return array is not None and None not in (array.index_function.source, array.replacement_policy.source)

"""Paths to memory: the caches on each, and the cycles from load to use for a hit in each of them."""

from collections.abc import Sequence
from typing import Any

from gpudissect.estimate import Status
from gpudissect.exports.gpu.caches import Arrays
from gpudissect.exports.readings import Entry, Readings, assumed, line, round_cycles, sourced
from gpudissect.vocabulary import EVERY_ACCESS, MISSES_ONLY, PATHS
from gpudissect.workload import Path

ASSUMED_CYCLES = 30  # more than the previous level
ASSUMED_MEMORY_RATIO = 2  # latency of memory over that of the nearest level
NO_FINDING = "the result has no finding on this path"


def known_caches(readings: Readings) -> list[str]:
    """Caches of which a hit was timed or the capacity found."""
    caches = [*(element for elements in PATHS.values() for element in elements), "l2"]
    attributes = ("hit_latency", "capacity")
    return [cache for cache in caches if any(readings.number(cache, name) is not None for name in attributes)]


def routes(readings: Readings, arrays: Arrays, has_tlbs: bool) -> tuple[dict[Path, dict[str, Any]], dict[Path, str]]:
    """The tables of the paths that a GPU has, and the reasons why it lacks others."""
    missing = readings.result.device.unsupported
    paths: dict[Path, dict[str, Any]] = {}
    unsupported: dict[Path, str] = {}
    for path in (Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT, Path.SHARED):
        table = None if path.value in missing else _route(readings, arrays, path)
        if table is None:
            unsupported[path] = line(missing.get(path.value) or NO_FINDING)
            continue
        if has_tlbs and "memory_latency" in table:
            table["translated_from"] = _translated_from(readings, table["caches"])
        paths[path] = table
    if (link := readings.entry("host", "hit_latency")) is not None:
        paths[Path.HOST] = {"caches": [], "latency": [link]}
    return paths, unsupported


def _translated_from(readings: Readings, caches: Sequence[str]) -> Entry:
    """Position in `caches` before which the TLBs are looked up."""
    private = sum(element != "l2" for element in caches)
    accesses = readings.text(caches[0], "translated") if private else None
    if accesses in (EVERY_ACCESS, MISSES_ONLY):
        return sourced(0 if accesses == EVERY_ACCESS else 1, readings.source)
    return assumed(private, "TLBs are taken to be looked up after the caches of the SM")


def _route(readings: Readings, arrays: Arrays, path: Path) -> dict[str, Any] | None:
    if path is Path.SHARED:
        latency = readings.entry("shared", "hit_latency")
        return None if latency is None else {"caches": [], "latency": [latency]}
    private = [element for element in PATHS.get(path, ()) if element in arrays.caches or element in arrays.views]
    if not private and not _was_observed(readings, path):
        return None
    entries = _private_hits(readings, private)
    behind = _behind(readings, private, entries[-1]["value"]) if private else None
    if has_l2 := "l2" in arrays.caches:
        hit, memory = _l2_and_memory(readings, arrays, bool(private), behind)
        entries.append(hit)
    else:
        memory = behind or _memory(readings, arrays, None)
    if memory is None:
        nearest = entries[-1]["value"] if entries else ASSUMED_CYCLES
        reason = f"not found; {ASSUMED_MEMORY_RATIO} x the nearest level taken"
        memory = assumed(round_cycles(max(nearest, 1) * ASSUMED_MEMORY_RATIO), reason)
    *hits, last = _rising([*entries, memory])
    return {"caches": [*private, *(["l2"] * has_l2)], "latency": hits, "memory_latency": last}


def _l2_and_memory(
    readings: Readings, arrays: Arrays, has_private: bool, behind: Entry | None
) -> tuple[Entry, Entry | None]:
    """A hit in the L2, and memory, on a path with or without private caches; `behind`: what serves their misses."""
    reason = f"not found; {ASSUMED_CYCLES} taken"
    direct = readings.entry("l2", "hit_latency") or behind or assumed(ASSUMED_CYCLES, reason)
    memory = _memory(readings, arrays, direct)
    if not has_private:
        return direct, memory
    hit = behind or assumed(direct["value"], "as past the caches of the SM")
    if memory is not None:
        extra = max(0.0, hit["value"] - direct["value"])
        reason = "as past the caches of the SM, and what the L2 adds then"
        memory = assumed(round_cycles(memory["value"] + extra), reason)
    return hit, memory


def _was_observed(readings: Readings, path: Path) -> bool:
    """Whether the result has findings on a path without private caches."""
    has_latency = any(readings.number(element, "hit_latency") is not None for element in ("l2", "dram"))
    if path in (Path.GLOBAL, Path.GLOBAL_L2):
        return has_latency
    findings = filter(None, (readings.finding(element, "hit_latency") for element in PATHS[path]))
    return has_latency and any(finding.status is Status.NOT_SUPPORTED for finding in findings)


def _private_hits(readings: Readings, elements: Sequence[str]) -> list[Entry]:
    """Hits in the private caches of a path."""
    entries: list[Entry] = []
    for i, element in enumerate(elements):
        previous = entries[-1]["value"] if entries else 0
        entry = readings.entry(element, "hit_latency")
        if entry is None and entries:
            entry = _behind(readings, elements[:i], previous)
        reason = f"not found; {ASSUMED_CYCLES} cycles more taken"
        entries.append(entry or assumed(round_cycles(previous + ASSUMED_CYCLES), reason))
    return entries


def _behind(readings: Readings, elements: Sequence[str], hit: float) -> Entry | None:
    """What serves the misses of the last of some caches: later than its hit by the miss penalty."""
    last = elements[-1]
    penalty = readings.number(last, "miss_penalty")
    if penalty is None or readings.number(last, "hit_latency") is None:
        return None
    return readings.sum(hit, penalty, f"hit_latency and miss_penalty of {last}")


def _memory(readings: Readings, arrays: Arrays, l2: Entry | None) -> Entry | None:
    """Memory on the nearest path to it."""
    if arrays.partition is not None and (near := readings.number("dram", "near_latency")) is not None:
        # Not as a source: as such it would be the latency of memory, which lies between near and far.
        return assumed(near, "memory behind the near partition: see [published.dram]")
    entry = readings.entry("dram", "hit_latency")
    if entry is not None:
        return entry
    penalty = readings.number("l2", "miss_penalty")
    if penalty is not None and l2 is not None and readings.number("l2", "hit_latency") is not None:
        return readings.sum(l2["value"], penalty, "hit_latency and miss_penalty of l2")
    return None


def _rising(entries: Sequence[Entry]) -> list[Entry]:
    """Latencies that rise from the nearest cache to memory: one that was found to fall is replaced."""
    risen: list[Entry] = []
    for entry in entries:
        minimum = risen[-1]["value"] if risen else 0.0
        if entry["value"] < minimum:
            reason = f"found {entry['value']:g} cycles, less than the cache before it; as that taken"
            entry = assumed(minimum, reason)
        risen.append(entry)
    return risen

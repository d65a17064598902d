"""The ways to memory: which caches lie on each, and the cycles from load to use when each of them serves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpudissect.estimate import Status
from gpudissect.exports.gpu.caches import Arrays
from gpudissect.exports.gpu.readings import DIGITS, Entry, Readings, assumed, sourced, words
from gpudissect.vocabulary import PATHS
from gpudissect.workload import Path

SOME_CYCLES = 30  # of a level whose latency is not known: more than that before it
FAR_AWAY = 2  # memory, in latencies of the nearest level, where nothing is known of it
HOME_BITS = (12, 15, 18, 21, 24, 27)
NO_FINDING = "the result has no finding on this path"


@dataclass(frozen=True)
class Ways:
    """The paths that a GPU has, and the reasons why it lacks the others."""

    paths: dict[Path, dict[str, Any]]
    unsupported: dict[Path, str]


def levels(readings: Readings) -> list[str]:
    """The caches that a result knows: a hit in them was timed, or their size was found."""
    every = [*(element for elements in PATHS.values() for element in elements), "l2"]
    return [
        element
        for element in every
        if readings.number(element, "hit_latency") is not None or readings.number(element, "capacity") is not None
    ]


def ways(readings: Readings, arrays: Arrays, translated: bool) -> Ways:
    """Every path, with its latencies or with the reason why there is none; `translated`: the GPU has TLBs."""
    missing = readings.result.device.unsupported
    paths: dict[Path, dict[str, Any]] = {}
    unsupported: dict[Path, str] = {}
    for path in (Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT, Path.SHARED):
        table = None if path.value in missing else _path(readings, arrays, path)
        if table is None:
            unsupported[path] = words(missing.get(path.value) or NO_FINDING)
            continue
        if translated and "memory_latency" in table:
            own = sum(element != "l2" for element in table["caches"])
            table["translated_from"] = assumed(own, "TLBs are taken to be asked after the caches of the SM")
        paths[path] = table
    return Ways(paths, unsupported)


def partition(readings: Readings, arrays: Arrays) -> dict[str, Entry] | None:
    """What the far part costs, beside the capacity of both."""
    if arrays.partition is None:
        return None
    near, far = readings.number("l2", "hit_latency"), readings.number("l2", "far_latency")
    assert near is not None and far is not None  # or there would be no partition
    line = arrays.caches["l2"]["line_size"]["value"].bit_length() - 1
    table = dict(arrays.partition)
    home = [max(bit, line) for bit in HOME_BITS]
    table["home"] = assumed(list(dict.fromkeys(home)), "which bits choose the part was not looked for")
    table["far_penalty"] = _sum(readings, far, -near, "far_latency less hit_latency of the L2")
    near, far = readings.number("dram", "near_latency"), readings.number("dram", "far_latency")
    if near is not None and far is not None and far >= near:
        table["far_memory_penalty"] = _sum(readings, far, -near, "far_latency less near_latency of memory")
    return table


def _path(readings: Readings, arrays: Arrays, path: Path) -> dict[str, Any] | None:
    if path is Path.SHARED:
        latency = readings.entry("shared", "hit_latency")
        return None if latency is None else {"caches": [], "latency": [latency]}
    own = [element for element in PATHS.get(path, ()) if arrays.has(element)]
    l2 = ["l2"] if "l2" in arrays.caches else []
    if not own and not _looked_at(readings, path):
        return None
    entries = _of_the_own(readings, own)
    behind = _behind(readings, own, entries[-1]["value"]) if own else None
    if l2:
        through, memory = _through_the_l2(readings, arrays, bool(own), behind)
        entries.append(through)
    else:
        memory = behind or _memory(readings, arrays, None)
    if memory is None:
        nearest = entries[-1]["value"] if entries else SOME_CYCLES
        memory = assumed(_cycles(max(nearest, 1) * FAR_AWAY), f"not found; {FAR_AWAY} x the nearest level taken")
    *cycles, last = _rising([*entries, memory])
    return {"caches": [*own, *l2], "latency": cycles, "memory_latency": last}


def _through_the_l2(
    readings: Readings, arrays: Arrays, past_others: bool, behind: Entry | None
) -> tuple[Entry, Entry | None]:
    """A hit in the L2 and memory on a path, which leads past other caches to what lies `behind` them or does not."""
    alone = readings.entry("l2", "hit_latency") or behind or assumed(SOME_CYCLES, f"not found; {SOME_CYCLES} taken")
    memory = _memory(readings, arrays, alone)
    if not past_others:
        return alone, memory
    through = behind or assumed(alone["value"], "as past the caches of the SM")
    if memory is not None:
        more = max(0.0, through["value"] - alone["value"])
        memory = assumed(_cycles(memory["value"] + more), "as past the caches of the SM, and what the L2 adds then")
    return through, memory


def _looked_at(readings: Readings, path: Path) -> bool:
    """Whether a path without caches of its own is one that the result knows."""
    found = any(readings.number(element, "hit_latency") is not None for element in ("l2", "dram"))
    if path in (Path.GLOBAL, Path.GLOBAL_L2):
        return found
    lacking = [readings.finding(element, "hit_latency") for element in PATHS[path]]
    return found and any(each is not None and each.status is Status.NOT_SUPPORTED for each in lacking)


def _of_the_own(readings: Readings, elements: Sequence[str]) -> list[Entry]:
    """Hits in the caches of a path that are private to an SM."""
    entries: list[Entry] = []
    for i, element in enumerate(elements):
        entry = readings.entry(element, "hit_latency")
        if entry is None and i:
            entry = _behind(readings, elements[:i], entries[-1]["value"])
        before = entries[-1]["value"] if i else 0
        entries.append(entry or assumed(_cycles(before + SOME_CYCLES), f"not found; {SOME_CYCLES} cycles more taken"))
    return entries


def _behind(readings: Readings, elements: Sequence[str], hit: float) -> Entry | None:
    """What answers the misses of the last of some caches: as much later than its hit as a miss costs."""
    last = elements[-1]
    penalty = readings.number(last, "miss_penalty")
    if penalty is None or readings.number(last, "hit_latency") is None:
        return None
    return _sum(readings, hit, penalty, f"hit_latency and miss_penalty of {last}")


def _memory(readings: Readings, arrays: Arrays, l2: Entry | None) -> Entry | None:
    """Memory, on the nearest way to it."""
    if arrays.partition is not None and (near := readings.number("dram", "near_latency")) is not None:
        # Not as a source: it would stand for the latency of memory, which lies between near and far.
        return assumed(near, "memory behind the near part: see [published.dram]")
    entry = readings.entry("dram", "hit_latency")
    if entry is not None:
        return entry
    penalty = readings.number("l2", "miss_penalty")
    if penalty is not None and l2 is not None and readings.number("l2", "hit_latency") is not None:
        return _sum(readings, l2["value"], penalty, "hit_latency and miss_penalty of l2")
    return None


def _sum(readings: Readings, one: float, other: float, what: str) -> Entry:
    return sourced(_cycles(one + other), readings.source, note=what)


def _cycles(value: float) -> float:
    return round(float(value), DIGITS)


def _rising(entries: Sequence[Entry]) -> list[Entry]:
    """Latencies rise from the nearest cache to memory; one that was found to fall is assumed not to."""
    risen: list[Entry] = []
    for entry in entries:
        least = risen[-1]["value"] if risen else 0.0
        if entry["value"] < least:
            entry = assumed(least, f"found {entry['value']:g} cycles, less than the cache before it; as that taken")
        risen.append(entry)
    return risen

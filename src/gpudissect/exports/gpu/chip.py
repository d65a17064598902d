"""Chip and SM of a GPU file: what the driver states and what was found, the rest as on a documented GPU.

A result has rates, latencies and bandwidths, but not how many schedulers there are or how they issue. A documented GPU
of the same compute capability provides that; without one the file describes no processor and runs chases only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from gpudissect.exports.readings import Entry, Readings, assumed, line, sourced
from gpudissect.units import GIB, KIB

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu
    from gpudissect.catalogue.quantity import Sourced, Table

NamedTable = tuple[tuple[str, ...], Mapping[str, Any]]
"""A table's name and body."""
REQUIRED = {"memory_size": 4 * GIB, "shared_per_block": 48 * KIB, "constant_size": 64 * KIB}
"""Facts that a GPU file needs, with what is assumed if they are not stated."""
OPTIONAL = (
    *("shared_per_sm", "memory_clock_hz", "memory_bus_bits", "memory_data_rate"),
    *("warp_size", "threads_per_sm", "registers_per_sm"),
)
ASSUMED_CLOCK_HZ, ASSUMED_TIMER_CYCLES = 1e9, 10.0
MAX_COUNTED = 2**20
MIN_CLOCK_HZ, MAX_CLOCK_HZ = 1e6, 1e11
FOUND_OF_BANKS = ("banks", "bank_width", "conflict_latency", "write_conflict")


def chip(readings: Readings) -> dict[str, Entry]:
    """The table ``[chip]``."""
    device, stated = readings.result.device, readings.stated_source
    capability = device.facts.get("compute_capability")
    entries = {"compute_capability": assumed("unknown", "not stated"), "sm_count": assumed(1, "not stated; one taken")}
    if isinstance(capability, str) and capability.strip():
        entries["compute_capability"] = sourced(line(capability, 20), stated)
    if 1 <= device.sm_count <= MAX_COUNTED:
        entries["sm_count"] = sourced(device.sm_count, stated)
    entries["clock_hz"] = _clock(readings)
    for name, value in REQUIRED.items():
        fact = readings.fact(name)
        entries[name] = assumed(value, "not stated") if fact is None else sourced(fact, stated)
    for name in OPTIONAL:
        fact, is_clock = readings.fact(name), name.endswith("_hz")
        if fact is not None and (_is_clock(fact) if is_clock else fact <= MAX_COUNTED):
            entries[name] = sourced(float(fact) if is_clock else fact, stated)
    entries["timer"] = readings.entry("timer", "overhead") or assumed(ASSUMED_TIMER_CYCLES, "not found")
    return entries


def _is_clock(hz: float) -> bool:
    return MIN_CLOCK_HZ <= hz <= MAX_CLOCK_HZ


def _clock(readings: Readings) -> Entry:
    """The clock by which the result's nanoseconds were computed: the one observed, or else the one stated."""
    conditions, fact = readings.result.conditions, readings.result.device.facts.get("clock_hz")
    stated = float(fact) if isinstance(fact, int | float) and not isinstance(fact, bool) else 0.0
    note = f"the driver states {stated / 1e6:.0f} MHz" if _is_clock(stated) else ""
    if conditions.clock_observed and conditions.clock_hz is not None and _is_clock(conditions.clock_hz):
        return sourced(float(round(conditions.clock_hz)), readings.source, note=note)
    if note:
        return sourced(float(round(stated)), readings.stated_source)
    return assumed(ASSUMED_CLOCK_HZ, "not stated")


def shared_memory(readings: Readings, gpu: Gpu | None) -> dict[str, Entry]:
    """The table ``[shared]``; `gpu`: the documented one."""
    per_block = readings.fact("shared_per_block") or REQUIRED["shared_per_block"]
    capacity = readings.entry("shared", "capacity") or assumed(per_block, "not stated; what a block can have")
    banks = readings.entries("shared", FOUND_OF_BANKS)
    if gpu is not None:
        banks = _completed(gpu.table.shared, gpu, banks, (*FOUND_OF_BANKS, "interleave", "lanes"))
    return {"capacity": capacity} | banks


def processor(readings: Readings, gpu: Gpu, caches: Mapping[str, Any]) -> Iterator[NamedTable]:
    """The tables that come with ``[processor]``; `gpu`: the documented one, `caches`: those of the file."""
    table = gpu.table
    assert table.processor is not None and table.memory is not None  # a documented GPU has them all
    assert table.bandwidth is not None and table.launch is not None
    yield ("processor",), _completed(table.processor, gpu, {})
    for instruction, unit in table.units.items():
        found = _positive(readings, str(instruction), ("rate", "latency"))
        if "latency" in found:
            found["latency"] = _in_whole_cycles(found["latency"])
        yield ("units", str(instruction)), {"pipe": unit.pipe.value} | _completed(unit, gpu, found)
    latency = readings.entry("ldg_streaming", "latency") or readings.entry("dram", "hit_latency")
    found = {} if latency is None else {"latency": latency}
    found |= {"random_" + name: entry for name, entry in _positive(readings, "ldg_random", ("rate",)).items()}
    yield ("memory",), _completed(table.memory, gpu, found)
    for element, level in (("dram", table.bandwidth.dram), ("l2", table.bandwidth.l2), ("l1", table.bandwidth.l1)):
        if level is not None and (element != "l2" or element in caches):
            found = _positive(readings, element, tuple(type(level).model_fields))
            scaled = _scaled_by_pins(readings, gpu, found) if element == "dram" else {}
            yield ("bandwidth", element), _completed(level, gpu, found) | scaled
    link = _positive(readings, "host", tuple(type(table.bandwidth.dram).model_fields))
    if len(link) == len(type(table.bandwidth.dram).model_fields) and readings.entry("host", "hit_latency"):
        yield ("bandwidth", "host"), link
    found = _positive(readings, "launch", tuple(type(table.launch).model_fields))
    yield ("launch",), _completed(table.launch, gpu, found)


def _positive(readings: Readings, element: str, attributes: tuple[str, ...]) -> dict[str, Entry]:
    return {name: entry for name, entry in readings.entries(element, attributes).items() if entry["value"] > 0}


def _in_whole_cycles(entry: Entry) -> Entry:
    """A latency in whole cycles if its bracket has any: a simulated SM delivers results at whole cycles.

    The value found is the mean over a chain and its end, a fraction of a cycle more.
    """
    value, low, high = entry["value"], entry.get("low"), entry.get("high")
    if low is None or high is None or value == int(value) or max(1, ceil(low)) > floor(high):
        return entry
    whole = float(min(max(round(value), 1, ceil(low)), floor(high)))
    note = f"found {value:g}, whole cycles taken"
    return {**entry, "value": whole, "note": line("; ".join(filter(None, (entry.get("note"), note))))}


def _scaled_by_pins(readings: Readings, gpu: Gpu, found: Mapping[str, Entry]) -> dict[str, Entry]:
    """Bandwidths of DRAM that were not found: the same share of pin bandwidth as on the documented GPU."""
    clock, bits = readings.fact("memory_clock_hz"), readings.fact("memory_bus_bits")
    chip, bandwidth = gpu.table.chip, gpu.table.bandwidth
    if not (clock and bits and chip.memory_clock_hz and chip.memory_bus_bits) or bandwidth is None:
        return {}
    ratio = clock * bits / (chip.memory_clock_hz.value * chip.memory_bus_bits.value)
    names = [name for name in type(bandwidth.dram).model_fields if name not in found]
    values = {name: float(round(getattr(bandwidth.dram, name).value * ratio, -8)) for name in names}
    return {name: assumed(value, f"as {gpu.name}, by pins") for name, value in values.items()}


def _completed(table: Table, gpu: Gpu, found: Mapping[str, Entry], names: tuple[str, ...] = ()) -> dict[str, Entry]:
    """The entries that were found; for other fields the documented GPU's values."""
    fields = {name: getattr(table, name) for name in names or type(table).model_fields}
    return {
        name: found[name] if name in found else _as_documented(documented, gpu)
        for name, documented in fields.items()
        if name in found or (documented is not None and name != "pipe")
    }


def _as_documented(entry: Sourced[Any], gpu: Gpu) -> Entry:
    value = [str(item) for item in entry.value] if isinstance(entry.value, tuple) else entry.value
    value = value.value if isinstance(value, StrEnum) else value
    return assumed(value, f"as {gpu.name}: {entry.source or entry.assumed}")

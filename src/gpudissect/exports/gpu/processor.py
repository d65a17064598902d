"""How fast things go, of a GPU file made of a result: what was found, and the rest as of a GPU that is alike.

A result finds rates, latencies and bandwidths, not how many schedulers there are or how they issue. A documented GPU of
the same compute capability stands in for that; without one the file describes no processor and runs chases only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from gpudissect import catalogue
from gpudissect.exports.gpu.readings import Entry, Readings, assumed, words

if TYPE_CHECKING:
    from gpudissect.catalogue import Gpu
    from gpudissect.catalogue.quantity import Sourced, Table

Named = tuple[tuple[str, ...], Mapping[str, Any]]
"""A table's name and what it holds."""

OF_BANKS = ("banks", "bank_width", "conflict_latency", "write_conflict", "interleave", "lanes")


def alike(readings: Readings) -> Gpu | None:
    """The documented GPU whose processor stands in: the catalogue's entry of this GPU, or one as capable."""
    capability = readings.result.device.facts.get("compute_capability")
    own = readings.result.device.catalogue
    known = [catalogue.load(name) for name in sorted(catalogue.names(), key=lambda name: name != own)]
    for gpu in known:
        same = gpu.key == own or gpu.table.chip.compute_capability.value == capability
        if same and gpu.table.run is None and gpu.table.processor is not None:
            return gpu
    return None


def banks(readings: Readings, gpu: Gpu | None) -> dict[str, Entry]:
    """What ``[shared]`` says of banks."""
    found = {name: readings.entry("shared", name) for name in OF_BANKS[:4]}
    entries = {name: entry for name, entry in found.items() if entry is not None}
    return entries if gpu is None else _filled(gpu.table.shared, gpu, entries, OF_BANKS)


def processor(readings: Readings, gpu: Gpu, arrays: Mapping[str, Any]) -> Iterator[Named]:
    """Names and bodies of the tables that come with ``[processor]``; `arrays` are the caches of the file."""
    table = gpu.table
    assert table.processor is not None and table.memory is not None  # `alike` and the schema see to it
    assert table.bandwidth is not None and table.launch is not None
    yield ("processor",), _filled(table.processor, gpu, {})
    for instruction, unit in table.units.items():
        found = _found(readings, str(instruction), ("rate", "latency"))
        if "latency" in found:
            found["latency"] = _in_whole_cycles(found["latency"])
        yield ("units", str(instruction)), {"pipe": unit.pipe.value} | _filled(unit, gpu, found)
    yield ("memory",), _filled(table.memory, gpu, _of_memory(readings))
    levels = {"dram": table.bandwidth.dram, "l2": table.bandwidth.l2, "l1": table.bandwidth.l1}
    for element, level in levels.items():
        if level is not None and (element != "l2" or element in arrays):
            found = _found(readings, element, tuple(type(level).model_fields))
            yield ("bandwidth", element), _filled(level, gpu, found) | _by_pins(readings, gpu, element, found)
    yield ("launch",), _filled(table.launch, gpu, _found(readings, "launch", tuple(type(table.launch).model_fields)))


def _found(readings: Readings, element: str, attributes: tuple[str, ...]) -> dict[str, Entry]:
    entries = {attribute: readings.entry(element, attribute) for attribute in attributes}
    return {name: entry for name, entry in entries.items() if entry is not None and entry["value"] > 0}


def _in_whole_cycles(entry: Entry) -> Entry:
    """A latency as whole cycles, if its bracket has any: results of a simulated SM are there at whole cycles.

    What was found is the mean of a chain and of how it ends, a fraction of a cycle more.
    """
    value, low, high = entry["value"], entry.get("low"), entry.get("high")
    if low is None or high is None or value == int(value) or max(1, ceil(low)) > floor(high):
        return entry
    whole = float(min(max(round(value), 1, ceil(low)), floor(high)))
    note = f"found {value:g}, whole cycles taken"
    return {**entry, "value": whole, "note": words("; ".join(filter(None, (entry.get("note"), note))))}


def _of_memory(readings: Readings) -> dict[str, Entry]:
    """What the queue before DRAM shows: latency of a coalesced load, rate of random ones."""
    latency = readings.entry("ldg_streaming", "latency") or readings.entry("dram", "hit_latency")
    rate = _found(readings, "ldg_random", ("rate",)).get("rate")
    return {name: entry for name, entry in (("latency", latency), ("random_rate", rate)) if entry is not None}


def _by_pins(readings: Readings, gpu: Gpu, element: str, found: Mapping[str, Entry]) -> dict[str, Entry]:
    """Bandwidths of DRAM that were not found: the same share of what the pins can move."""
    clock, bits = readings.fact("memory_clock_hz"), readings.fact("memory_bus_bits")
    chip = gpu.table.chip
    if element != "dram" or not (clock and bits and chip.memory_clock_hz and chip.memory_bus_bits):
        return {}
    ratio = clock * bits / (chip.memory_clock_hz.value * chip.memory_bus_bits.value)
    table = gpu.table.bandwidth
    assert table is not None
    names = [name for name in type(table.dram).model_fields if name not in found]
    values = {name: getattr(table.dram, name).value * ratio for name in names}
    return {name: assumed(float(round(value, -8)), f"as {gpu.name}, by pins") for name, value in values.items()}


def _filled(table: Table, gpu: Gpu, found: Mapping[str, Entry], names: tuple[str, ...] = ()) -> dict[str, Entry]:
    """The entries that were found and, for the others that the table of the GPU that is alike has, its values."""
    entries: dict[str, Entry] = {}
    for name in names or type(table).model_fields:
        own = getattr(table, name)
        if name in found:
            entries[name] = found[name]
        elif own is not None and name != "pipe":
            entries[name] = _as_there(own, gpu)
    return entries


def _as_there(entry: Sourced[Any], gpu: Gpu) -> Entry:
    value = entry.value
    plain = [str(each) for each in value] if isinstance(value, tuple) else value
    plain = plain.value if isinstance(plain, StrEnum) else plain
    return assumed(plain, f"as {gpu.name}: {entry.source or entry.assumed}")

"""What the driver says of a GPU, and the clock and the timer that were seen."""

from __future__ import annotations

from gpudissect.exports.gpu.readings import Entry, Readings, assumed, sourced, words
from gpudissect.units import GIB, KIB

MOST_COUNTED = 2**20
REQUIRED = {"memory_size": 4 * GIB, "shared_per_block": 48 * KIB, "constant_size": 64 * KIB}
OPTIONAL = (
    "shared_per_sm", "memory_clock_hz", "memory_bus_bits", "memory_data_rate", "warp_size", "threads_per_sm",
    "registers_per_sm",
)  # fmt: skip
SLOWEST, FASTEST = 1e6, 1e11  # Hz, of anything
SOME_CLOCK = 1e9
SOME_TIMER = 10.0


def chip(readings: Readings) -> dict[str, Entry]:
    """The table ``[chip]``: facts that the result lacks are assumed if a GPU file needs them."""
    device, stated = readings.result.device, readings.stated_source
    capability = device.facts.get("compute_capability")
    entries = {
        "compute_capability": sourced(words(capability, 20), stated)
        if isinstance(capability, str) and capability.strip()
        else assumed("unknown", "not stated"),
        "sm_count": sourced(device.sm_count, stated)
        if 1 <= device.sm_count <= MOST_COUNTED
        else assumed(1, "not stated; one taken"),
        "clock_hz": _clock(readings),
    }
    for name, value in REQUIRED.items():
        fact = readings.fact(name)
        entries[name] = assumed(value, "not stated") if fact is None else sourced(fact, stated)
    for name in OPTIONAL:
        fact = readings.fact(name)
        if fact is not None and (SLOWEST <= fact <= FASTEST if name.endswith("_hz") else fact <= MOST_COUNTED):
            entries[name] = sourced(float(fact) if name.endswith("_hz") else fact, stated)
    entries["timer"] = readings.entry("timer", "overhead") or assumed(SOME_TIMER, "not found")
    return entries


def _clock(readings: Readings) -> Entry:
    """The rate by which the result's nanoseconds were made: the one seen, or else the one stated."""
    conditions, fact = readings.result.conditions, readings.result.device.facts.get("clock_hz")
    stated = float(fact) if isinstance(fact, int | float) and not isinstance(fact, bool) else 0.0
    note = f"the driver states {stated / 1e6:.0f} MHz" if SLOWEST <= stated <= FASTEST else ""
    seen = conditions.clock_hz
    if conditions.clock_observed and seen is not None and SLOWEST <= seen <= FASTEST:
        return sourced(float(round(seen)), readings.source, note=note)
    if note:
        return sourced(float(round(stated)), readings.stated_source)
    return assumed(SOME_CLOCK, "not stated")

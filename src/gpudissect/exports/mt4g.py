"""The JSON of MT4G, version 1, which sys-sage and GPUscout read (caps-tum/mt4g; sys-sage, parsers/mt4g_v1_x.cpp).

sys-sage takes some keys for granted: where it does, and nothing was found, the whole object is left out.
"""

from __future__ import annotations

import json
from typing import Any

from gpudissect.errors import UsageError
from gpudissect.exports.stated import Known, limits_of
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import clean

GIB = 1 << 30
_NAMES = {"l1": "L1", "readonly": "Read Only", "texture": "Texture", "constant_l1": "Constant L1"}
_SIZES = {
    "size": "capacity",
    "lineSize": "line_size",
    "fetchGranularity": "fetch_granularity",
    "segmentSize": "segment_size",
}
_FACTS = ("clock_hz", "warp_size", "threads_per_sm", "memory_size", "memory_clock_hz", "memory_bus_bits",
          "shared_per_sm", "shared_per_block", "constant_size")  # fmt: skip
Table = dict[str, Any]


def mt4g(result: Result) -> str:
    """The text of the file.

    Raises `UsageError` for a result that lacks what every reader of the format takes for granted.
    """
    known = Known(result)
    lacking = [name for name in _FACTS if known.fact(name) is None]
    if known.fact("l2_size") is None and known.number("l2", "capacity") is None:
        lacking.append("l2_size")
    if lacking:
        raise UsageError(f"MT4G's format needs what this result does not state: {', '.join(lacking)}")
    return json.dumps(_whole(known), indent=4, sort_keys=True) + "\n"


def _whole(known: Known) -> Table:
    result, limits = known.result, limits_of(known)
    major, minor = known.capability
    memory: Table = {
        "main": _main(known), "l2": _l2(known), "shared": _shared(known), "constant": _constant(known),
        "l1": _cache(known, "l1", whole=False),
    }  # fmt: skip
    for key, element in (("readOnly", "readonly"), ("texture", "texture")):
        if cache := _cache(known, element, whole=True):
            memory[key] = cache
    meta = {"tool": f"gpudissect {clean(result.environment.get('gpudissect', ''))}".strip(),
            "origin": result.device.origin.value, "driver": clean(result.environment.get("driver", ""))}  # fmt: skip
    if limits.assumed:
        meta["assumed"] = ", ".join(limits.assumed)
    return {
        "general": {"name": clean(result.device.name), "vendor": "NVIDIA", "clockRate": _kilohertz(known, "clock_hz"),
                    "computeCapability": {"major": major, "minor": minor}},
        "compute": {
            "multiProcessorCount": result.device.sm_count, "numberOfCoresPerMultiProcessor": limits.cores,
            "maxThreadsPerBlock": limits.block_size, "maxBlocksPerMultiProcessor": limits.blocks,
            "warpSize": _whole_number(known, "warp_size"),
            "maxThreadsPerMultiProcessor": _whole_number(known, "threads_per_sm"),
        },
        "memory": memory,
        "meta": meta,
    }  # fmt: skip


def _whole_number(known: Known, fact: str) -> int:
    return int(known.fact(fact) or 0)


def _bytes(value: float) -> Table:
    return {"value": int(value), "unit": "bytes"}


def _kilohertz(known: Known, fact: str) -> Table:
    return {"value": round((known.fact(fact) or 0) / 1000), "unit": "kHz"}


def _main(known: Known) -> Table:
    table = {"totalGlobalMem": _bytes(known.fact("memory_size") or 0),
             "memoryClockRate": _kilohertz(known, "memory_clock_hz"),
             "memoryBusWidth": {"value": _whole_number(known, "memory_bus_bits"), "unit": "bit"}}  # fmt: skip
    return table | _reached(known, "dram")


def _l2(known: Known) -> Table:
    size = known.fact("l2_size") or known.number("l2", "capacity") or 0
    table = _sizes(known, "l2", ("lineSize", "fetchGranularity", "segmentSize")) | _reached(known, "l2")
    return {"size": _bytes(size)} | table


def _reached(known: Known, element: str) -> Table:
    """Latency, only together with both bandwidths: readers take them for granted then."""
    rates = [known.number(element, f"{way}_bandwidth") for way in ("read", "write")]
    latency = known.finding(element, "hit_latency")
    if latency is None or any(rate is None for rate in rates):
        return {}
    table: Table = {f"{way}Bandwidth": {"value": (rate or 0) / GIB, "unit": "GiB/s"}
                    for way, rate in zip(("read", "write"), rates, strict=True)}  # fmt: skip
    return table | {"latency": _latency(latency)} | _penalty(known, element)


def _shared(known: Known) -> Table:
    table = {"sharedMemPerBlock": _bytes(known.fact("shared_per_block") or 0),
             "sharedMemPerMultiProcessor": _bytes(known.fact("shared_per_sm") or 0)}  # fmt: skip
    latency = known.finding("shared", "hit_latency")
    return table if latency is None else table | {"latency": _latency(latency)}


def _constant(known: Known) -> Table:
    """Both levels, or only how much there is: one level without the other cannot be read."""
    total = {"totalConstMem": _bytes(known.fact("constant_size") or 0)}
    near, far = _cache(known, "constant_l1", whole=True), _cache(known, "constant_l15", whole=True)
    return total | {"l1": near, "l1.5": far} if near and far else total


def _cache(known: Known, element: str, *, whole: bool) -> Table:
    """One cache of an SM; with `whole`, empty unless it has size, granularity and latency."""
    table = _sizes(known, element, ("size", "lineSize", "fetchGranularity"))
    least = known.at_least(element, "capacity")
    if "size" not in table and least is not None:  # it holds at least so much: MT4G writes this with confidence 0, too
        table["size"] = {"size": int(least), "unit": "bytes", "confidence": 0.0, "method": "at least"}
    latency = known.finding(element, "hit_latency")
    if latency is not None:
        table["latency"] = _latency(latency)
    if whole and not {"size", "fetchGranularity", "latency"} <= set(table):
        return {}
    table |= _penalty(known, element)
    if (count := known.number(element, "count_per_sm")) is not None and count >= 1:
        table["amountPerMultiprocessor"] = int(count)
    if shared := [_NAMES[other] for other in known.shared_with(element) if other in _NAMES]:
        table["sharedWith"] = shared
    return table


def _sizes(known: Known, element: str, wanted: tuple[str, ...]) -> Table:
    table: Table = {}
    for key in wanted:
        found = known.finding(element, _SIZES[key])
        if found is not None and isinstance(found.value, int | float) and found.value > 0:
            table[key] = {"size": int(found.value), "unit": "bytes", "confidence": found.confidence or 0.0,
                          "method": clean(found.method)[:200]}  # fmt: skip
    return table


def _latency(found: Finding) -> Table:
    table = {"mean": found.value, "unit": "cycles", "method": clean(found.method)[:200]}
    return table | {key: each for key, each in (("low", found.low), ("high", found.high)) if each is not None}


def _penalty(known: Known, element: str) -> Table:
    value = known.number(element, "miss_penalty")
    return {} if value is None else {"missPenalty": {"value": value, "unit": "cycles"}}

"""The JSON of MT4G, version 1, which sys-sage and GPUscout read (caps-tum/mt4g; sys-sage, parsers/mt4g.cpp).

sys-sage takes some keys for granted: where one of them was not found, the whole object is left out.
"""

import json
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

from gpudissect.errors import UsageError
from gpudissect.exports.readings import Lookup, SmLimits, sm_limits
from gpudissect.printable import clean
from gpudissect.results.evidence.series import PERCENTILE_SHOWN
from gpudissect.results.model import Finding, Result
from gpudissect.units import GIB

_NAMES = {"l1": "L1", "readonly": "Read Only", "texture": "Texture", "constant_l1": "Constant L1"}
_SIZES = {"size": "capacity", "lineSize": "line_size"}
_SIZES |= {"fetchGranularity": "fetch_granularity", "segmentSize": "segment_size", "measuredSize": "capacity"}
_FACTS = (
    *("clock_hz", "warp_size", "threads_per_sm", "memory_size", "memory_clock_hz", "memory_bus_bits"),
    *("shared_per_sm", "shared_per_block", "constant_size"),
)
_REGISTERS = {"regsPerBlock": "registers_per_block", "regsPerMultiProcessor": "registers_per_sm"}
_LAUNCH_FLAGS = {"supportsCooperativeLaunch": "cooperative_launch", "concurrentKernels": "concurrent_kernels"}
_L1_FLAGS = {"globalL1CacheSupported": "global_l1", "localL1CacheSupported": "local_l1"}
HISTOGRAM = ("cycles", "accesses")  # columns of a histogram of single accesses
CHAIN_NUMBERS = ("sm", "chain")  # columns of chains followed by several SMs, and in older results by one
Table = dict[str, Any]


def mt4g(result: Result) -> str:
    """The text of the file. Raises `UsageError` for a result that lacks what every reader takes for granted."""
    lookup = Lookup(result)
    missing = [name for name in _FACTS if lookup.fact(name) is None]
    if lookup.fact("l2_size") is None and lookup.number("l2", "capacity") is None:
        missing.append("l2_size")
    if missing:
        raise UsageError(f"MT4G's format needs what this result does not state: {', '.join(missing)}")
    device, limits = result.device, sm_limits(lookup)
    major, minor = lookup.capability
    general = {
        "name": clean(device.name),
        "vendor": "NVIDIA",
        "clockRate": _kilohertz(lookup, "clock_hz"),
        "computeCapability": {"major": major, "minor": minor},
    }
    compute = {
        "multiProcessorCount": device.sm_count,
        "numberOfCoresPerMultiProcessor": limits.cores,
        "maxThreadsPerBlock": limits.block_size,
        "maxBlocksPerMultiProcessor": limits.blocks,
        "warpSize": _whole(lookup, "warp_size"),
        "maxThreadsPerMultiProcessor": _whole(lookup, "threads_per_sm"),
    }
    compute |= {key: _whole(lookup, fact) for key, fact in _REGISTERS.items() if lookup.fact(fact)}
    compute |= _flags(lookup, _LAUNCH_FLAGS)
    tables = {"general": general, "compute": compute, "memory": _memory(lookup), "meta": _meta(lookup, limits)}
    return json.dumps(tables, indent=4, sort_keys=True) + "\n"


def _meta(lookup: Lookup, limits: SmLimits) -> Table:
    """Where the numbers are from; what is not known is left out."""
    result, environment, provenance = lookup.result, lookup.result.environment, lookup.result.provenance
    known = {
        "tool": f"gpudissect {environment.get('gpudissect', '')}".strip(),
        "origin": result.device.origin.value,
        "driver": _cuda_version(environment.get("cuda_driver", "")),
        "driverVersion": provenance.driver or environment.get("driver", ""),
        "gpuCompiler": f"nvrtc {environment['nvrtc']}" if "nvrtc" in environment else "",
        "hostname": provenance.host,
        "timestamp": provenance.time,
        "gpuUuid": provenance.gpu_uuid,
        "assumed": ", ".join(limits.assumed),
    }
    return {name: clean(each) if isinstance(each, str) else each for name, each in known.items() if each}


def _cuda_version(text: str) -> int:
    """13.0 as CUDA numbers it, 13000; 0 if it is not known."""
    major, _, minor = text.partition(".")
    return int(major) * 1000 + int(minor) * 10 if (major + minor).isdecimal() and len(text) < 8 and minor else 0


def _memory(lookup: Lookup) -> Table:
    main = {
        "totalGlobalMem": _bytes(lookup, "memory_size"),
        "memoryClockRate": _kilohertz(lookup, "memory_clock_hz"),
        "memoryBusWidth": {"value": _whole(lookup, "memory_bus_bits"), "unit": "bit"},
    }
    default = "default_shared_per_block"  # MT4G's meaning; older results have only what a block may request
    shared: Table = {
        "sharedMemPerBlock": _bytes(lookup, default if lookup.fact(default) else "shared_per_block"),
        "sharedMemPerMultiProcessor": _bytes(lookup, "shared_per_sm"),
    }
    if lookup.result.device.facts.get("reserved_shared_per_block") is not None:  # 0 before Ampere
        shared["reservedSharedMemPerBlock"] = _bytes(lookup, "reserved_shared_per_block")
    if latency := _hit_latency(lookup, "shared"):
        shared["latency"] = latency
    near, far = _whole_cache(lookup, "constant_l1"), _whole_cache(lookup, "constant_l15")
    levels = {"l1": near, "l1.5": far} if near and far else {}  # one level without the other cannot be read
    caches = {"readOnly": _whole_cache(lookup, "readonly"), "texture": _whole_cache(lookup, "texture")}
    l2_size = lookup.fact("l2_size") or lookup.number("l2", "capacity") or 0
    l2: Table = {"size": {"value": int(l2_size), "unit": "bytes"}}
    if lookup.fact("persisting_l2_size"):
        l2["persistingL2CacheMaxSize"] = _bytes(lookup, "persisting_l2_size")
    l2 |= _sizes(lookup, "l2", ("measuredSize", "lineSize", "fetchGranularity", "segmentSize"))
    return {
        "main": main | _latency_and_bandwidth(lookup, "dram"),
        "l2": l2 | _latency_and_bandwidth(lookup, "l2"),
        "shared": shared,
        "constant": {"totalConstMem": _bytes(lookup, "constant_size")} | levels,
        "l1": _cache(lookup, "l1") | _flags(lookup, _L1_FLAGS),
    } | {key: cache for key, cache in caches.items() if cache}


def _whole(lookup: Lookup, fact: str) -> int:
    return int(lookup.fact(fact) or 0)


def _flags(lookup: Lookup, facts: dict[str, str]) -> Table:
    """Facts that are "yes" or "no", by MT4G's keys; without those that are not stated."""
    stated = {key: lookup.result.device.facts.get(fact) for key, fact in facts.items()}
    return {key: text == "yes" for key, text in stated.items() if text in ("yes", "no")}


def _bytes(lookup: Lookup, fact: str) -> Table:
    return {"value": _whole(lookup, fact), "unit": "bytes"}


def _kilohertz(lookup: Lookup, fact: str) -> Table:
    return {"value": round((lookup.fact(fact) or 0) / 1000), "unit": "kHz"}


def _latency_and_bandwidth(lookup: Lookup, element: str) -> Table:
    """Latency with both bandwidths, which readers then take for granted, or nothing."""
    rates = {f"{way}Bandwidth": lookup.number(element, f"{way}_bandwidth") for way in ("read", "write")}
    latency = _hit_latency(lookup, element)
    if not latency or any(rate is None for rate in rates.values()):
        return {}
    table: Table = {key: {"value": (rate or 0) / GIB, "unit": "GiB/s"} for key, rate in rates.items()}
    return table | {"latency": latency} | _penalty(lookup, element)


def _whole_cache(lookup: Lookup, element: str) -> Table:
    """A cache of an SM; empty unless size, granularity and latency are known."""
    table = _cache(lookup, element)
    return table if {"size", "fetchGranularity", "latency"} <= set(table) else {}


def _cache(lookup: Lookup, element: str) -> Table:
    table = _sizes(lookup, element, ("size", "lineSize", "fetchGranularity"))
    minimum = lookup.lower_bound(element, "capacity")
    if "size" not in table and minimum is not None:  # MT4G writes a lower bound with confidence 0, too
        table["size"] = {"size": int(minimum), "unit": "bytes", "confidence": 0.0, "method": "at least"}
    if latency := _hit_latency(lookup, element):
        table["latency"] = latency
    table |= _penalty(lookup, element)
    if (count := lookup.number(element, "count_per_sm")) is not None and count >= 1:
        table["amountPerMultiprocessor"] = int(count)
    if shared := [_NAMES[other] for other in lookup.shared_with(element) if other in _NAMES]:
        table["sharedWith"] = shared
    return table


def _sizes(lookup: Lookup, element: str, keys: tuple[str, ...]) -> Table:
    table: Table = {}
    for key in keys:
        found = lookup.finding(element, _SIZES[key])
        if found is not None and isinstance(found.value, int | float) and found.value > 0:
            quality = {"confidence": found.confidence or 0.0, "method": clean(found.method)[:200]}
            table[key] = {"size": int(found.value), "unit": "bytes", **quality}
    return table


def _hit_latency(lookup: Lookup, element: str) -> Table:
    found = lookup.finding(element, "hit_latency")
    return _latency(lookup, found) if found is not None else {}


OVER_SMS = ("l2", "dram")
"""Elements whose hit latency depends on the SM. That of the L2 is a median over chains, each followed by another SM;
that of memory a mean over single accesses if these were timed (then they have a histogram), else such a median."""


def _latency(lookup: Lookup, found: Finding) -> Table:
    """Cycles of a hit: `mean` over the loads of laps or chains, percentiles only of what is known load by load.

    A median over chains is their `p50`, and their mean is taken from the series behind it. Empty without a mean, which
    readers take for granted.
    """
    table: Table = {"mean": found.value, "unit": "cycles", "method": clean(found.method)[:200]}
    starts, counts = lookup.numbers(found, *HISTOGRAM) if found.element == "dram" else ([], [])
    overhead = lookup.number("timer", "overhead")
    if starts and overhead is not None:
        p50, p95 = (_quantile(starts, counts, share) - overhead for share in (0.5, 0.95))
        table |= {"p50": p50, "p95": p95, "measurements": round(sum(counts))}
    elif found.element in OVER_SMS and not starts:
        by_chain = (lookup.numbers(found, number, "latency")[1] for number in CHAIN_NUMBERS)
        if (chains := next(filter(None, by_chain), None)) is None:
            return {}
        table |= {"mean": sum(chains) / len(chains), "p50": found.value, "measurements": len(chains)}
    return table | {key: end for key, end in (("low", found.low), ("high", found.high)) if end is not None}


def _quantile(starts: Sequence[float], counts: Sequence[float], share: float) -> float:
    """A quantile of a histogram with the first cycle of each bin; the histogram leaves out the longest accesses."""
    ends = list(accumulate(counts))
    rank = min(share * 100 / PERCENTILE_SHOWN, 1.0) * ends[-1]
    bin_index = bisect_left(ends, rank)
    width = min((later - earlier for earlier, later in pairwise(starts)), default=1.0)
    return starts[bin_index] + width * (1 - (ends[bin_index] - rank) / counts[bin_index])


def _penalty(lookup: Lookup, element: str) -> Table:
    value = lookup.number(element, "miss_penalty")
    return {} if value is None else {"missPenalty": {"value": value, "unit": "cycles"}}

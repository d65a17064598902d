"""hwloc's XML, version 2: ``lstopo -i FILE.xml`` draws the GPU, and programs that use hwloc find its caches.

The GPU is a machine: an SM is a core with one processing unit below its L1 and instruction cache, below the L2 (or its
partitions). What hwloc has no object for (latencies, bandwidths, TLBs) is information.
"""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import count

from gpudissect.errors import UsageError
from gpudissect.exports.readings import Lookup
from gpudissect.printable import clean
from gpudissect.results.model import Result
from gpudissect.results.text import quantity

MAX_SMS = 4096
UNIFIED, DATA, INSTRUCTION = "0", "1", "2"  # hwloc's types of caches
_INFOS = (
    *("hit_latency", "near_latency", "far_latency", "miss_penalty", "read_bandwidth", "write_bandwidth", "read_rate"),
    *("replacement_policy", "fetch_granularity", "sets", "ways", "entries", "page_size", "reach"),
)
_CHIP = ("tlb_l1", "tlb_l2", "tlb_l3", "shared", "constant_l1", "constant_l15")


def hwloc(result: Result) -> str:
    """The text of the file. Raises `UsageError` for an impossible number of SMs."""
    if not 1 <= result.device.sm_count <= MAX_SMS:
        raise UsageError(f"a topology has 1 to {MAX_SMS} SMs, this result has {result.device.sm_count}")
    text = ET.tostring(_Topology(Lookup(result)).build(), encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n{text}\n'


class _Topology:
    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._indices = count(1)

    def build(self) -> ET.Element:
        lookup, device = self._lookup, self._lookup.result.device
        sms = range(device.sm_count)
        root = ET.Element("topology", version="2.0")
        allowed = {"allowed_cpuset": _bits(sms), "allowed_nodeset": _bits([0])}
        machine = self._object(root, "Machine", sms, os_index="0", **allowed)
        _add_info(machine, "Backend", "gpudissect")
        _add_info(machine, "Origin", device.origin.value)
        memory = lookup.fact("memory_size") or lookup.number("dram", "capacity") or 0
        node = self._object(machine, "NUMANode", sms, os_index="0", local_memory=str(int(memory)))
        self._add_infos(node, "dram")
        package = self._object(machine, "Package", sms, os_index="0")
        _add_info(package, "GPUModel", device.name)
        for element in _CHIP:
            self._add_infos(package, element, prefix=f"{element}.")
        for partition in self._partitions(sms):
            self._add_partition(package, partition, len(partition) < len(sms))
        return root

    def _partitions(self, sms: Sequence[int]) -> list[list[int]]:
        """SMs by the near L2 partition; one list if there is a single one."""
        found = self._lookup.finding("l2", "partition_by_sm")
        if found is None or not isinstance(found.value, tuple) or len(found.value) != len(sms):
            return [list(sms)]
        return [[sm for sm in sms if found.value[sm] == number] for number in dict.fromkeys(found.value)]

    def _add_partition(self, parent: ET.Element, sms: list[int], is_partition: bool) -> None:
        size = self._lookup.number("l2", "segment_size") if is_partition else None
        size = size or self._lookup.number("l2", "capacity") or self._lookup.fact("l2_size")
        if size:
            parent = self._cache(parent, "L2Cache", sms, "l2", size, "2", UNIFIED)
        for sm in sms:
            self._add_sm(parent, sm)

    def _add_sm(self, parent: ET.Element, sm: int) -> None:
        if size := self._lookup.number("l1", "capacity"):
            parent = self._cache(parent, "L1Cache", [sm], "l1", size, "1", DATA)
        for element in ("icache_l1", "icache_l0"):
            if size := self._lookup.number(element, "capacity"):
                parent = self._cache(parent, "L1iCache", [sm], element, size, "1", INSTRUCTION)
                break
        core = self._object(parent, "Core", [sm], os_index=str(sm), subtype="SM")
        self._object(core, "PU", [sm], os_index=str(sm))

    def _cache(
        self, parent: ET.Element, kind: str, sms: Sequence[int], element: str, size: float, depth: str, cache_type: str
    ) -> ET.Element:
        attributes = {"cache_size": str(int(size)), "depth": depth}
        for name, attribute in (("cache_linesize", "line_size"), ("cache_associativity", "ways")):
            attributes[name] = str(int(self._lookup.number(element, attribute) or 0))
        cache = self._object(parent, kind, sms, **attributes, cache_type=cache_type)
        if sms[0] == 0 or len(sms) > 1:  # all SMs are alike: once is enough
            self._add_infos(cache, element)
        return cache

    def _object(self, parent: ET.Element, kind: str, sms: Sequence[int], **attributes: str) -> ET.Element:
        whole = {"type": kind, "gp_index": str(next(self._indices))}
        for name, members in (("cpuset", sms), ("nodeset", [0])):
            whole[name] = whole[f"complete_{name}"] = _bits(members)
        return ET.SubElement(parent, "object", whole | attributes)

    def _add_infos(self, node: ET.Element, element: str, prefix: str = "") -> None:
        for attribute in ("capacity", *_INFOS) if prefix else _INFOS:
            found = self._lookup.finding(element, attribute)
            if found is not None:
                _add_info(node, prefix + attribute, quantity(found.value, found.unit))


def _add_info(node: ET.Element, name: str, value: str) -> None:
    ET.SubElement(node, "info", name=name, value=clean(value)[:500])


def _bits(sms: Sequence[int]) -> str:
    """A set as hwloc writes it: words of 32 bits, the highest first."""
    whole = sum(1 << sm for sm in sms)
    words = [whole >> shift & 0xFFFFFFFF for shift in range(0, max(1, whole.bit_length()), 32)]
    return ",".join(f"0x{word:08x}" for word in reversed(words))

"""hwloc's XML, version 2: ``lstopo -i FILE.xml`` draws the GPU, and programs that use hwloc find its caches.

The GPU stands as a machine of its own: an SM is a core with one processing unit, its L1 and instruction cache are above
it, the L2 (or its parts) above those; what hwloc has no object for (latencies, bandwidths, TLBs) is information.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from itertools import count

from gpudissect.errors import UsageError
from gpudissect.exports.stated import Known
from gpudissect.results.model import Result
from gpudissect.results.text import clean, quantity

MOST_SMS = 4096
UNIFIED, DATA, INSTRUCTION = "0", "1", "2"  # hwloc's types of caches
_INFOS = (
    "hit_latency", "near_latency", "far_latency", "miss_penalty", "read_bandwidth", "write_bandwidth", "read_rate",
    "replacement_policy", "fetch_granularity", "sets", "ways", "entries", "page_size", "reach",
)  # fmt: skip
_CHIP = ("tlb_l1", "tlb_l2", "tlb_l3", "shared", "constant_l1", "constant_l15")


def hwloc(result: Result) -> str:
    """The text of the file. Raises `UsageError` for a result with more SMs than any GPU, or with none."""
    if not 1 <= result.device.sm_count <= MOST_SMS:
        raise UsageError(f"a topology has 1 to {MOST_SMS} SMs, this result says {result.device.sm_count}")
    topology = _Topology(Known(result))
    text = ET.tostring(topology.build(), encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE topology SYSTEM "hwloc2.dtd">\n{text}\n'


class _Topology:
    def __init__(self, known: Known) -> None:
        self._known = known
        self._numbers = count(1)

    def build(self) -> ET.Element:
        known = self._known
        every = range(known.result.device.sm_count)
        root = ET.Element("topology", version="2.0")
        machine = self._object(
            root, "Machine", every, os_index="0", allowed_cpuset=_bits(every), allowed_nodeset=_bits([0])
        )
        self._say(machine, "Backend", "gpudissect")
        self._say(machine, "Origin", known.result.device.origin.value)
        memory = known.fact("memory_size") or known.number("dram", "capacity") or 0
        node = self._object(machine, "NUMANode", every, os_index="0", local_memory=str(int(memory)))
        self._about(node, "dram", "")
        package = self._object(machine, "Package", every, os_index="0")
        self._say(package, "GPUModel", known.result.device.name)
        for element in _CHIP:
            self._about(package, element, element)
        for part in self._parts(every):
            self._part(package, part, len(part) < len(every))
        return root

    def _parts(self, every: Sequence[int]) -> list[list[int]]:
        """SMs by the part of the L2 they are near; all of them together where it is one."""
        found = self._known.finding("l2", "partition_by_sm")
        if found is None or not isinstance(found.value, tuple) or len(found.value) != len(every):
            return [list(every)]
        return [[sm for sm in every if found.value[sm] == part] for part in dict.fromkeys(found.value)]

    def _part(self, package: ET.Element, sms: list[int], is_part: bool) -> None:
        size = self._known.number("l2", "segment_size") if is_part else None
        size = size or self._known.number("l2", "capacity") or self._known.fact("l2_size")
        home = package
        if size:
            home = self._cache(package, "L2Cache", sms, "l2", size, "2", UNIFIED)
        for sm in sms:
            self._sm(home, sm)

    def _sm(self, home: ET.Element, sm: int) -> None:
        known = self._known
        if size := known.number("l1", "capacity"):
            home = self._cache(home, "L1Cache", [sm], "l1", size, "1", DATA)
        if size := known.number("icache_l1", "capacity") or known.number("icache_l0", "capacity"):
            element = "icache_l1" if known.number("icache_l1", "capacity") else "icache_l0"
            home = self._cache(home, "L1iCache", [sm], element, size, "1", INSTRUCTION)
        core = self._object(home, "Core", [sm], os_index=str(sm))
        self._object(core, "PU", [sm], os_index=str(sm))

    def _cache(
        self, home: ET.Element, kind: str, sms: Sequence[int], element: str, size: float, depth: str, holds: str
    ) -> ET.Element:
        line, ways = self._known.number(element, "line_size"), self._known.number(element, "ways")
        made = self._object(home, kind, sms, cache_size=str(int(size)), depth=depth, cache_linesize=str(int(line or 0)),
                            cache_associativity=str(int(ways or 0)), cache_type=holds)  # fmt: skip
        if sms[0] == 0 or len(sms) > 1:  # all SMs are alike: said once
            self._about(made, element, "")
        return made

    def _object(self, home: ET.Element, kind: str, sms: Sequence[int], **attributes: str) -> ET.Element:
        made = ET.SubElement(home, "object", type=kind, gp_index=str(next(self._numbers)), cpuset=_bits(sms),
                             complete_cpuset=_bits(sms), nodeset=_bits([0]), complete_nodeset=_bits([0]))  # fmt: skip
        for name, value in attributes.items():
            made.set(name, value)
        return made

    def _about(self, made: ET.Element, element: str, prefix: str) -> None:
        for attribute in ("capacity", *_INFOS) if prefix else _INFOS:
            found = self._known.finding(element, attribute)
            if found is not None:
                self._say(made, f"{prefix}.{attribute}" if prefix else attribute, quantity(found.value, found.unit))

    def _say(self, made: ET.Element, name: str, value: str) -> None:
        ET.SubElement(made, "info", name=name, value=clean(value)[:500])


def _bits(sms: Sequence[int]) -> str:
    """A set as hwloc writes it: words of 32 bits, the highest first."""
    whole = sum(1 << sm for sm in sms)
    words = [whole >> shift & 0xFFFFFFFF for shift in range(0, max(1, whole.bit_length()), 32)]
    return ",".join(f"0x{word:08x}" for word in reversed(words))

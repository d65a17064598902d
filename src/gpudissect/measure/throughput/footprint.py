"""How far a measurement of throughput may reach: the path past the L1s, the sizes of the L2, the memory there is."""

from __future__ import annotations

from gpudissect.device_info import DeviceInfo
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.plan import Bench, Known
from gpudissect.workload import Path

WITHOUT_L2 = 256 << 20  # bytes that are surely more than a cache holds, where nobody knows an L2
MOST = 0.4  # of the memory that there is, for all that is gone through


def past_the_l1(info: DeviceInfo) -> Path:
    """The path to memory that takes no detour, if the device has it."""
    return Path.GLOBAL if not info.limit(Path.GLOBAL_L2) else Path.GLOBAL_L2


def l2_sizes(bench: Bench, known: Known) -> list[int]:
    """Sizes of the L2 in bytes: as the device states it, as it was measured; those that there are."""
    stated, measured = bench.info.facts.get("l2_size"), known.get(capacity_of("l2"))
    return [size for size in (stated, measured) if isinstance(size, int) and size]


def beyond(times: int, l2: int | None, path: Path, buffers: int, bench: Bench) -> int:
    """Bytes of each of so many buffers: so many times the L2, if the memory has room for them."""
    room = int(MOST * bench.info.limit(path)) // buffers
    return min(times * l2 if l2 else WITHOUT_L2, room)

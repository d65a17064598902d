"""Small SMs for tests."""

from gpudissect.simulation.sm.description import Bandwidth, Launches, MemorySystem, Processor, SharedMemory


def sm(**changes) -> Processor:
    """A Maxwell-like SM, unless changed: four schedulers that issue once a cycle."""
    given = {
        "sms": 1, "clock_hz": 1e9, "schedulers": 4, "warps": 64, "operations": {}, "shared": SharedMemory(),
        "memory": MemorySystem(400), "dram": Bandwidth(1, 1, 1), "launches": Launches(block_replacement=100),
    }  # fmt: skip
    return Processor(**(given | changes))

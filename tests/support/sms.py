"""Small SMs for tests."""

from gpudissect.simulation.sm.description import Bandwidth, Launches, MemorySystem, Processor, SharedMemory

SM = Processor(
    sms=1,
    clock_hz=1e9,
    schedulers=4,
    warps=64,
    operations={},
    shared=SharedMemory(),
    memory=MemorySystem(400),
    dram=Bandwidth(1, 1, 1),
    launches=Launches(block_replacement=100),
)
"""Like an SM of Maxwell: four schedulers that issue once per cycle."""

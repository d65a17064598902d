"""Small SMs for tests."""

from gpudissect.simulation.sm.description import Bandwidth, Launches, MemorySystem, Processor, SharedMemory

FERMI_BANKS = SharedMemory(banks=32, width=4, interleave=4, lanes=32)
SM = Processor(
    sms=1,
    clock_hz=1e9,
    schedulers=4,
    warps=64,
    blocks=16,
    block_size=1024,
    operations={},
    shared=FERMI_BANKS,
    memory=MemorySystem(
        400,
        variability=1.0,
        transactions=4,
        transaction_latency=6.0,
        random_bandwidth=1.0,
        random_variability=0.6,
        alone=4.0,
    ),
    dram=Bandwidth(1, 1, 1),
    launches=Launches(kernel_start=5000.0, kernel_interval=2000.0, block_replacement=100),
)
"""Like an SM of Maxwell: four schedulers that issue once per cycle."""

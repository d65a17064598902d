"""What a memory can give by its clock and the width of its bus."""

from __future__ import annotations

from gpudissect.device_info import DeviceInfo
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.measure.throughput.bound import Bound, Unbounded

DATA_RATE = 2
"""Transfers in a cycle of the memory's clock, where the device does not say: drivers state a clock of which both edges
carry data, of GDDR as of HBM (``2 * memoryClockRate * memoryBusWidth / 8`` of the CUDA samples). Documents that print
the command clock of GDDR5, half as fast, take 4 (MC16 s5.1); GPUs that are simulated after them say so."""
THE_MEMORY = "the memory"
NO_PEAK = Unbounded("not held against what the memory can give: the device does not say")


def peak(info: DeviceInfo) -> Bound | Unbounded:
    """Theoretical peak of the memory, B/s (MC16 s5.1), if the device says enough."""
    clock, bus, rate = (info.facts.get(name) for name in ("memory_clock_hz", "memory_bus_bits", "memory_data_rate"))
    if not (isinstance(clock, int | float) and isinstance(bus, int) and clock > 0 and bus > 0):
        return NO_PEAK
    transfers = rate if isinstance(rate, int) and rate > 0 else DATA_RATE
    return Bound(transfers * float(clock) * bus / 8, THE_MEMORY)


def peak_plan(bench: Bench, known: Known) -> Plan:
    """The same as a finding: stated, not measured."""
    yield from ()
    bound = peak(bench.info)
    if isinstance(bound, Unbounded):
        reason = "the device does not state the clock of its memory and the width of its bus"
        return Outcome(without(Status.NOT_FOUND, "dram", reason, "peak_bandwidth"))
    transfers = bench.info.facts.get("memory_data_rate", DATA_RATE)
    stated = Estimate(
        element="dram", attribute="peak_bandwidth", status=Status.STATED, value=bound.rate,
        method=f"clock of the memory x width of its bus x {transfers} transfers a cycle (MC16 s5.1), as stated",
    )  # fmt: skip
    return Outcome((stated,))


EXPERIMENTS = (Experiment(key=Key("peak.dram"), element="dram", plan=peak_plan, emits=("peak_bandwidth",)),)

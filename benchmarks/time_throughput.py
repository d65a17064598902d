"""Time the throughput experiments on a device: ``python benchmarks/time_throughput.py [DEVICE]``.

Bandwidths, banks, instructions and launches need the capacities of L1 and L2; these are timed alone first, in the same
process, so that their time can be subtracted. Kernels that were never compiled are compiled in both.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from gpudissect.device.kinds import open_device
from gpudissect.measure.instructions.instructions import KINDS
from gpudissect.measure.plan import Study
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_experiments

FIRST_WORDS = ("bandwidth", "rate", "warps", "banks", "conflicts", "launch", "peak", "stores")
CAPACITIES = ("levels.global", "capacity.l1", "capacity.l2")


def run_seconds(spec: str, names: Sequence[str]) -> float:
    """Seconds of these experiments and those that they need, on a device opened for them."""
    declared = experiments(Study.DISCOVER)
    with open_device(spec) as device:
        begin = time.perf_counter()
        survey = run_experiments(device, [declared[name] for name in names], declared)
        seconds = time.perf_counter() - begin
    for failure in survey.failures:
        print(f"{failure.experiment} failed: {failure.reason}")
    return seconds


if __name__ == "__main__":
    spec = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
    latencies = {f"latency.{kind.element}" for kind in KINDS}
    names = [name for name in experiments(Study.DISCOVER) if name.split(".")[0] in FIRST_WORDS or name in latencies]
    capacities, total = run_seconds(spec, CAPACITIES), run_seconds(spec, names)
    print(f"{spec}: {total:.1f} s, of which capacities alone {capacities:.1f} s: throughput {total - capacities:.1f} s")

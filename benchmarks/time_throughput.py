"""How long all of throughput takes on a device, beside what must be known for it.

    python benchmarks/time_throughput.py DEV

Bandwidths, banks, instructions and launches need the L1's and the L2's capacities; these are timed alone first, in the
same process, so that what they take can be told from the rest. Kernels that were never compiled are compiled in both.
"""

from __future__ import annotations

import sys
import time

from gpudissect.device.find import open_device
from gpudissect.measure.instructions.instructions import KINDS
from gpudissect.measure.plan import Experiment, Study
from gpudissect.survey.registry import experiments
from gpudissect.survey.run import run_experiments

FIRST_WORDS = ("bandwidth", "rate", "warps", "banks", "conflicts", "launch", "peak", "stores")
NEEDED = ("levels.global", "capacity.l1", "capacity.l2")


def throughput() -> list[Experiment]:
    """Every experiment of throughput, and the latencies of instructions."""
    instructions = {f"latency.{kind.element}" for kind in KINDS}
    return [
        each
        for name, each in experiments(Study.DISCOVER).items()
        if name.split(".")[0] in FIRST_WORDS or name in instructions
    ]


def seconds(spec: str, wanted: list[Experiment]) -> float:
    """Of some experiments and what they need, on a device opened for them."""
    with open_device(spec) as device:
        begin = time.perf_counter()
        survey = run_experiments(device, wanted, experiments(Study.DISCOVER))
        took = time.perf_counter() - begin
    for failure in survey.failures:
        print(f"{failure.experiment} failed: {failure.reason}")
    return took


if __name__ == "__main__":
    spec = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
    needed = seconds(spec, [experiments(Study.DISCOVER)[name] for name in NEEDED])
    whole = seconds(spec, throughput())
    print(f"{spec}: {whole:.1f} s, of which {needed:.1f} s alone are for capacities: throughput {whole - needed:.1f} s")

"""Throughput of random loads against the size of the array (VV16 s6.7, fig 6.6): it falls beyond the L2 and the TLBs.

Nothing is inferred. Every lane of every load reads a different line. Blocks have the shape that was fastest for
`ldg_random.rate`.
"""

from dataclasses import replace

import numpy as np

from gpudissect.estimate import Series
from gpudissect.measure.curves.plan_curves import ELEMENT, footprints
from gpudissect.measure.instructions.instructions import KINDS, MAX_LINK_REACH_BYTES, in_warps
from gpudissect.measure.instructions.plan_rate import instruction_rate_of, rate_of
from gpudissect.measure.plan import Bench, Experiment, Key, Known, Outcome, Plan
from gpudissect.units import MIB
from gpudissect.workload import Path
from gpudissect.workload.digest import digest

KIND = next(kind for kind in KINDS if kind.element == "ldg_random")
SERIES = "random loads against footprint"
MIN_BYTES = MIB
RUNS = 3


def random_load_curve_plan(bench: Bench, known: Known) -> Plan:
    """Random loads per cycle and SM, with all SMs running, over arrays of powers of two."""
    rate = known[instruction_rate_of(KIND.element)]
    if rate is None or not rate.surface.counted:
        return Outcome()
    best = max(rate.surface.counted, key=lambda i: rate.surface.again[i].rate)
    warps, chains = (int(rate.surface.columns[name][best]) for name in ("warps", "chains"))
    mix = in_warps(rate.pattern, warps, chains, bench.info)
    first = max(MIN_BYTES, 1 << (mix.min_footprint(bench.info.sm_count) - 1).bit_length())
    last = min(MAX_LINK_REACH_BYTES, bench.info.limit(Path.GLOBAL) or 0)
    sizes = sorted({*footprints(first, last, steps_per_octave=1), last // MIB * MIB}) if last >= first else []
    mixes = [replace(mix, footprint=size, repetition=n) for size in sizes for n in range(RUNS)]
    if not mixes:
        return Outcome()
    traces = yield mixes
    rates = [rate_of(KIND, each, trace).rate for each, trace in zip(mixes, traces, strict=True)]
    columns = {
        "footprint": tuple(map(float, sizes)),
        "rate": tuple(np.median(np.reshape(rates, (-1, RUNS)), axis=1).tolist()),
    }
    units = {"footprint": "B", "rate": "ops/cycle"}
    return Outcome(series=(Series(ELEMENT, SERIES, columns, units, tuple(map(digest, mixes))),))


EXPERIMENTS = (
    Experiment(Key(f"random_loads.{ELEMENT}"), random_load_curve_plan, needs=(instruction_rate_of(KIND.element),)),
)

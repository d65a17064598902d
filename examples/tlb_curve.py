"""Latency against the number of pages, one line in each: the TLB curve (MC16 section 5.2)."""

import sys

import numpy as np

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
PAGE, LINES = 2 << 20, 8192  # page of most GPUs up to Volta, and its lines: the same one in each would conflict
counts = [*range(4, 24, 2), *range(24, 100, 4), *range(100, 161, 10)]

rng = np.random.default_rng(1)
chases = [
    gd.Chase(
        path=gd.Path.GLOBAL_L2,
        order=gd.Explicit(rng.permutation(np.arange(count) * PAGE + rng.integers(0, LINES, count) * 128)),
        timing=gd.Timing.EACH,
        warmup=2,
        laps=20,
    )
    for count in counts
]
latency = [float(np.median(trace.cycles.reshape(20, -1).mean(axis=1))) for trace in gd.run(chases, DEVICE)]
gd.Series(
    element="TLBs",
    name="latency against pages",
    columns={"pages": counts, "latency": latency},
    units={"latency": "cycles"},
).save("tlb_curve.svg")

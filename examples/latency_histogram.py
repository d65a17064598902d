"""Histogram of latencies for a footprint a little larger than the L1: hits and misses are apart."""

import sys
from collections import Counter

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
chain = gd.Shuffled(count=776, stride=32, seed=3)  # 24.25 KiB
trace = gd.run(gd.Chase(path=gd.Path.GLOBAL, order=chain, timing=gd.Timing.EACH, laps=20), DEVICE)
counted = sorted(Counter((trace.cycles // 8 * 8).tolist()).items())

gd.Series(
    element=trace.info.name,
    name="histogram of single latencies",
    columns={"cycles": [cycles for cycles, _ in counted], "accesses": [count for _, count in counted]},
    units={"cycles": "cycles"},
).save("latency_histogram.svg")

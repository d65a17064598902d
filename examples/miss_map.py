"""Misses by line and lap of a footprint one line larger than the L1 (MC16 figure 11)."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
l1 = gd.discover(DEVICE, only="l1", quick=True)["l1"]
capacity, line = l1.capacity.number, l1.line_size.number

chain = gd.Sequential(capacity // line + 1, line)
chase = gd.Chase(path=gd.Path.GLOBAL, order=chain, timing=gd.Timing.EACH, warmup=2, laps=30)
trace = gd.run(chase, DEVICE)
print(trace.summary())
trace.save("miss_map.svg")

"""Latency of memory from every SM to some lines: in a partitioned L2 each line is near to half of the SMs."""

import sys

import numpy as np

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:h200"
LINES, REPETITIONS = 24, 5  # now and then a line is delayed by a refresh of the memory
lines = np.random.default_rng(1).permutation(1 << 14)[: LINES + 1] * 128
cold = {"path": gd.Path.GLOBAL_L2, "order": gd.Explicit(lines), "timing": gd.Timing.EACH, "warmup": 0, "flush": True}


def access(sm: int, repetition: int) -> gd.Chase:
    """The same lines from one SM, with cold caches."""
    return gd.Chase(**cold, alone=True, sm=sm, repetition=repetition)


sms = gd.run(access(0, 0), DEVICE).info.sm_count
traces = gd.run([access(sm, n) for sm in range(sms) for n in range(REPETITIONS)], DEVICE)
cycles = np.median(np.reshape([trace.cycles for trace in traces], (sms, REPETITIONS, LINES + 1)), axis=1)
cycles = cycles[:, 1:]  # the first line waits for its address translation, too
order = np.argsort(np.linalg.svd(cycles - cycles.mean(axis=0))[2][0])  # similar lines side by side
gd.Series(
    element=traces[0].info.name,
    name="first access by sm and line",
    columns={"sm": np.repeat(range(sms), LINES), "line": [*range(LINES)] * sms, "latency": cycles[:, order].ravel()},
    units={"latency": "cycles"},
).save("l2_map.svg")

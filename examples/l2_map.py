"""What memory takes from every SM to some lines: of an L2 in two parts each line is near to half of the SMs."""

import sys

import numpy as np

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:h200"
LINES, TIMES = 24, 5  # once in a while a line comes late, by a refresh of the memory
lines = np.random.default_rng(1).permutation(1 << 14)[: LINES + 1] * 128


def touch(sm: int, time: int) -> gd.Chase:
    """The same lines from one SM, when no cache has them."""
    order = gd.Explicit(lines)
    return gd.Chase(path=gd.Path.GLOBAL_L2, order=order, timing=gd.Timing.EACH, warmup=0, flush=True, alone=True, sm=sm,
                    repetition=time)  # fmt: skip


sms = gd.run(touch(0, 0), DEVICE).info.sm_count
traces = gd.run([touch(sm, time) for sm in range(sms) for time in range(TIMES)], DEVICE)
cycles = np.median(np.reshape([trace.cycles for trace in traces], (sms, TIMES, LINES + 1)), axis=1)
cycles = cycles[:, 1:]  # the first line waits for its translation, too
alike = np.argsort(np.linalg.svd(cycles - cycles.mean(axis=0))[2][0])  # lines that SMs see alike, side by side
gd.Series(
    element=traces[0].info.name,
    name="first touch by sm and line",
    columns={"sm": np.repeat(range(sms), LINES), "line": [*range(LINES)] * sms, "latency": cycles[:, alike].ravel()},
    units={"latency": "cycles"},
).save("l2_map.svg")

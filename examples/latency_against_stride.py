"""Latency against stride (Saavedra 1992): it rises until every access has a line of its own."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
columns = {"footprint": [], "stride": [], "latency": []}
for footprint in (16 << 10, 64 << 10, 1 << 20, 4 << 20):
    strides = [8 << n for n in range(10)]  # 8 B to 4 KiB
    chases = [
        gd.Chase(path=gd.Path.GLOBAL, order=gd.Sequential(footprint // stride, stride), timing=gd.Timing.LAP)
        for stride in strides
    ]
    for stride, trace in zip(strides, gd.run(chases, DEVICE), strict=True):
        columns["footprint"].append(footprint)
        columns["stride"].append(stride)
        columns["latency"].append(float(trace.cycles[0]) / trace.request.order.count)

gd.Series(
    element=DEVICE,
    name="latency against stride",
    columns=columns,
    units={"footprint": "B", "stride": "B", "latency": "cycles"},
).save("latency_against_stride.svg")

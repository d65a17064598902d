"""Latency against size: one step per cache that the footprint exceeds."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
STRIDE = 32
sizes = [int(1024 * 2 ** (n / 4)) for n in range(8, 53)]  # 4 KiB to 8 MiB, four to a power of two
chases = [
    gd.Chase(path=gd.Path.GLOBAL, order=gd.Shuffled(size // STRIDE, STRIDE, seed=1), timing=gd.Timing.LAP, laps=2)
    for size in sizes
]
with gd.open_device(DEVICE) as device:
    name = device.info.name
    traces = gd.run(chases, device)
latency = [float(trace.cycles.min()) / trace.request.order.count for trace in traces]

gd.Series(
    element=name,
    name="latency against footprint",
    columns={"footprint": tuple(sizes), "latency": tuple(latency)},
    units={"footprint": "B", "latency": "cycles"},
).save("latency_against_size.svg")

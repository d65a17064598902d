"""Bandwidth against bytes in flight: more blocks and more loads each, until the memory is saturated (Little's law)."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
THREADS, WIDTH = 256, 4
columns = {"ilp": [], "bytes": [], "bandwidth": []}
with gd.open_device(DEVICE) as device:
    path = gd.Path.GLOBAL_L2 if gd.Path.GLOBAL_L2 in device.info.streams else gd.Path.GLOBAL
    shape = {"path": path, "transfer": gd.Transfer.READ, "footprint": 16 << 20, "threads": THREADS, "width": WIDTH}
    for ilp in (1, 2, 4):
        for blocks in (1, 2, 4, 8):
            trace = gd.run(gd.Stream(**shape, blocks=blocks * device.info.sm_count, ilp=ilp), device)
            columns["ilp"].append(ilp)
            columns["bytes"].append(blocks * THREADS * WIDTH * ilp)
            columns["bandwidth"].append(float((trace.bytes / trace.nanoseconds).max()) * 1e9)

gd.Series(
    element=device.info.name,
    name="read bandwidth against bytes in flight per SM",
    columns=columns,
    units={"bytes": "B", "bandwidth": "B/s"},
).save("bandwidth.svg")

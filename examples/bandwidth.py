"""Bandwidth against bytes in flight: more blocks and more loads each, until the memory is full (Little's law)."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
columns = {"ilp": [], "bytes": [], "bandwidth": []}
with gd.open_device(DEVICE) as device:
    path = gd.Path.GLOBAL_L2 if gd.Path.GLOBAL_L2 in device.info.streams else gd.Path.GLOBAL
    for ilp in (1, 2, 4):
        for blocks in (1, 2, 4, 8):
            stream = gd.Stream(path=path, transfer=gd.Transfer.READ, footprint=16 << 20, threads=256, width=4,
                               blocks=blocks * device.info.sm_count, ilp=ilp)  # fmt: skip
            trace = gd.run(stream, device)
            columns["ilp"].append(ilp)
            columns["bytes"].append(blocks * 256 * 4 * ilp)
            columns["bandwidth"].append(float((trace.bytes / trace.nanoseconds).max()) * 1e9)

gd.Series(
    element=device.info.name,
    name="read bandwidth against bytes in flight of an SM",
    columns=columns,
    units={"bytes": "B", "bandwidth": "B/s"},
).save("bandwidth.svg")

"""Throughput against occupancy, measured and by two models (VV16 figure 4.2): loads with 8 additions between two."""

import sys

import gpudissect as gd
from gpudissect.models.base import Loop
from gpudissect.models.volkov import Basic, Refined
from gpudissect.results.machine import machine_of

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
ALPHA = 8.0
result = gd.hide(DEVICE, quick=True)
columns = result.observed("hiding", "throughput against warps and alpha").columns
points = zip(columns["alpha"], columns["warps"], columns["rate"], strict=True)
measured = {warps: rate for alpha, warps, rate in points if alpha == ALPHA}

machine, loop = machine_of(result), Loop(alpha=ALPHA, access="ldg_streaming")
rows = [("measured", warps, rate) for warps, rate in sorted(measured.items())]
for model in (Basic(), Refined()):
    rows += [(model.name, warps, float(model.throughput(machine, loop, warps))) for warps in sorted(measured)]
curve, warps, rate = zip(*rows, strict=True)
gd.Series(
    element=result.device.name,
    name="throughput against warps",
    columns={"curve": curve, "warps": warps, "rate": rate},
    units={"rate": "ops/cycle"},
).save("throughput_against_occupancy.svg")

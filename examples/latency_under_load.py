"""Latency of memory against its throughput, with the curve a + b x / (c - x) through it (VV16 section 6.4)."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
result = gd.hide(DEVICE, quick=True)
print(result["hiding"].contention_base, "up to", result["hiding"].contention_ceiling)
result.observed("hiding", "latency against throughput").save("latency_under_load.svg")

"""Shared memory: latency against the stride between the words of a warp, by width of a word."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
result = gd.discover(DEVICE, only="shared")
print(result["shared"])
result.observed("shared", "latency against stride").save("bank_conflicts.svg")

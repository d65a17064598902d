"""Warps needed for 90 % of the peak against additions per load, measured and by two models: the cusp (VV16 s4.5)."""

import sys

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
result = gd.hide(DEVICE, quick=True)
print("cusp at alpha", result["hiding"].cusp_alpha)
result.observed("hiding", "warps needed for 90 % of the peak").save("cusp.svg")

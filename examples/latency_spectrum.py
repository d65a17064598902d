"""The latency spectrum P1 to P6: every combination of cache and TLB hits and misses (MC16 section 5.2)."""

import sys
from pathlib import Path

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
plots = gd.discover(DEVICE, only="spectrum_global").plots("spectrum_global")
title = next(title for title in plots if title.endswith("what an access hits"))
print(title)
Path("latency_spectrum.svg").write_text(plots[title])

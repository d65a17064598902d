"""The address bits that each bit of the set number is the XOR of, by the index function that was found."""

import sys
from pathlib import Path

import gpudissect as gd

DEVICE = sys.argv[1] if len(sys.argv) > 1 else "sim:gtx980"
result = gd.discover(DEVICE, only="texture")
print(result["texture"].index_function.value)
for title, svg in result.plots("texture").items():
    if "address bits" in title:
        Path("index_matrix.svg").write_text(svg)

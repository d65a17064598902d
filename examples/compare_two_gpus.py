"""Two GPUs side by side: what is the same, what differs, what is inconclusive."""

import sys
from pathlib import Path

import gpudissect as gd

DEVICES = sys.argv[1:] if len(sys.argv) > 2 else ["sim:gtx980", "sim:gtx780"]
results = [gd.discover(device, only=["l1", "texture", "shared"], quick=True) for device in DEVICES]
comparison = gd.compare(*results)
for row in comparison.rows:
    print(row.element, row.attribute, row.outcome, row.why)
Path("compare_two_gpus.html").write_text(comparison.to_html())

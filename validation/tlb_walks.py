"""Check what `docs/tlb.md` says of the SMs that share walk caches, on recorded runs: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/tlb-walks-h200.npz` from the files that `tlb_walks_probe.py` wrote, one for
each GPU. Names of arrays begin with the number of the GPU.

- `walks`: rows of the address bits within what an entry of a walk cache covers, two SMs, whether the first one did
  nothing, and the excess in cycles of `LOADS` loads by the second SM. Each is in a region of its own, and misses in all
  TLBs. Before them, the first SM loaded another page of each region; before that, both SMs flushed all TLBs and walk
  caches.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map

DATA = Path(__file__).parents[1] / "docs" / "results" / "tlb-walks-h200.npz"

SMALL, LARGE = 33, 40  # address bits within what an entry of two walk caches covers
LOADS = 8
BOUNDS = {SMALL: (400, 735), LARGE: (700, 1115)}
"""Excess, in cycles, between which a walk reads one entry less than it would without an entry for its region."""
MIN_SHARED, MAX_IDLE = 0.99, 0.01  # shares of the walks that read less


def check(data: Mapping[str, Any]) -> bool:
    """Print how many walks read less after walks of the same SM, its neighbour, or any SM; whether most of them."""
    holds = []
    for gpu, arrays in recorded_map.by_gpu(data).items():
        bits, first, second, idle = arrays["walks"][:, :4].T
        for size, (low, high) in BOUNDS.items():
            reads_less = (arrays["walks"][:, 4:] > low) & (arrays["walks"][:, 4:] <= high)
            of_size = bits == size
            cases = {
                "none": of_size & (idle == 1),
                "the same SM": of_size & (idle == 0) & (first == second),
                "its neighbour": of_size & (first == second ^ 1),
                "another SM": of_size & (first >> 1 != second >> 1),
            }
            shares = {name: float(np.mean(reads_less[rows])) for name, rows in cases.items()}
            print(f"GPU {gpu}: walks with a hit in the {1 << size - 30} GiB walk cache, after walks of:", end=" ")
            print(", ".join(f"{name} {share:.3f}" for name, share in shares.items()))
            holds += [shares["none"] <= MAX_IDLE, *(shares[name] >= MIN_SHARED for name in [*shares][1:])]
    return all(holds)


def pack(files: list[Path]) -> None:
    """Write `DATA` from the recordings of the GPUs."""
    recorded_map.save(DATA, recorded_map.joined(files))


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

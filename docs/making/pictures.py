"""Every picture of the documentation by its name. ``python docs/making/pictures.py FOLDER`` writes them all."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from making import pictures_of_caches as caches
from making import pictures_of_rates as rates

PICTURES = {
    "capacity": caches.capacity,
    "line": caches.line,
    "latency": caches.latency,
    "sets": caches.sets,
    "policy": caches.policy,
    "tlb": caches.tlb,
    "sharing": caches.sharing,
    "l2-parts": caches.parts,
    "l2-map": rates.l2_map,
    "instruction-caches": caches.instruction_caches,
    "clusters": caches.clusters,
    "prediction": caches.prediction,
    "spectrum": rates.spectrum,
    "bandwidth": rates.bandwidth,
    "banks": rates.banks,
    "instructions": rates.instructions,
    "launch": rates.launch,
    "hiding": rates.hiding,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")

"""Descriptions of the kernels that `limiter_timing` launches, and what Nsight Compute counts in these launches."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpudissect.explanation.profile import Point, Profile


def chosen_points(profile: Profile) -> list[Point]:
    """The kernel's own occupancy, and the recorded one nearest to a quarter of it."""
    own, others = profile.sweep[-1], [p for p in profile.sweep if p.blocks_per_sm < profile.sweep[-1].blocks_per_sm]
    return [own, *([min(others, key=lambda p: abs(p.warps_per_sm - own.warps_per_sm / 4))] if others else [])]


def variant_row(file: str, accesses: Sequence[int] = (), width: float = 0, level: int = 0) -> dict[str, Any]:
    """A variant of a kernel in its description; `file`: its machine code, ``KERNEL.VARIANT.cubin``."""
    return {"name": file.split(".")[1], "file": file, "accesses": accesses, "width": width, "level": level}


def write_description(path: Path, profiles: Mapping[str, Profile], variants: Sequence[dict[str, Any]]) -> None:
    """Describe a kernel with its variants, from its profiles by GPU."""
    profile = next(iter(profiles.values()))
    description = {
        "kernel": profile.kernel,
        "grid": profile.launch.grid,
        "block": profile.launch.block,
        "shared": profile.launch.shared_bytes,
        "arguments": profile.arguments,
        "points": {gpu: [[p.blocks_per_sm, p.carveout] for p in chosen_points(each)] for gpu, each in profiles.items()},
        "variants": variants,
    }
    path.write_text(json.dumps(description), encoding="utf-8")


def read_counters(files: Sequence[Path], metrics: Collection[str]) -> list[dict[str, float]]:
    """Values of the metrics of each launch in files of ``ncu --csv``."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for file in files:
        with file.open(encoding="utf-8") as lines:
            for row in csv.DictReader(line for line in lines if line.startswith('"')):
                if row["Metric Name"] in metrics:
                    found[row["ID"]][row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return list(found.values())

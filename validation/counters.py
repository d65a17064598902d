"""What `explain` counts beside what hardware counters count, for the recorded kernels.

``python validation/counters.py prepare FOLDER`` writes the machine code of all recorded kernels. On a GPU,
``ncu --profile-from-start off --cache-control none --clock-control none --csv --metrics $(counters.py metrics)
python validation/limiter_timing.py launch FOLDER OUT.json h100`` counts. ``counters.py show FOLDER CSV h100`` compares.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from kernels import read_entries
from limiters import COUNTERS, GPUS, RECORDINGS, assessed, chosen_points

from gpudissect.explanation.model.predict import steps_of
from gpudissect.explanation.profile import read_profile

PIPES = ("alu", "fma", "fp64", "xu", "lsu", "uniform", "cbu", "adu")
STALLS = (
    *("barrier", "branch_resolving", "dispatch_stall", "drain", "imc_miss", "lg_throttle", "long_scoreboard"),
    *("math_pipe_throttle", "membar", "mio_throttle", "no_instruction", "not_selected", "selected"),
    *("short_scoreboard", "sleeping", "wait"),
)
COUNTED = {
    "smsp__inst_executed.sum": "executed",
    **{f"smsp__inst_executed_pipe_{pipe}.sum": pipe for pipe in PIPES},
    "l1tex__data_pipe_lsu_wavefronts.sum": "wavefronts",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum": "load sectors",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum": "load hits",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum": "store sectors",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": "local sectors",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld_lookup_hit.sum": "local hits",
    "lts__t_sectors_srcunit_tex_op_read.sum": "l2 reads",
    "lts__t_sectors_srcunit_tex_op_write.sum": "l2 writes",
    "dram__bytes_read.sum": "memory read",
    "dram__bytes_write.sum": "memory written",
    "gpu__time_duration.sum": "ns",
}
STALLED = {f"smsp__average_warps_issue_stalled_{name}_per_issue_active.ratio": name for name in STALLS}


def prepare(folder: Path) -> None:
    """Write the code and the launch of each recorded kernel, for `limiter_timing`."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in read_entries():
        profiles = {gpu: read_profile(RECORDINGS / gpu / f"{entry.name}.json") for gpu in GPUS}
        profile = profiles[GPUS[0]]
        (folder / f"{entry.name}.plain.cubin").write_bytes(profile.machine_code()[0].data)
        row = {"name": "plain", "file": f"{entry.name}.plain.cubin", "accesses": [], "width": 0, "level": 0}
        description = {
            "kernel": profile.kernel,
            "grid": profile.launch.grid,
            "block": profile.launch.block,
            "shared": profile.launch.shared_bytes,
            "arguments": profile.arguments,
            "points": {gpu: [[p.blocks_per_sm, p.carveout] for p in chosen_points(p_)] for gpu, p_ in profiles.items()},
            "variants": [row],
        }
        (folder / f"{entry.name}.json").write_text(json.dumps(description), encoding="utf-8")


def read_csv(file: Path) -> list[dict[str, float]]:
    """Counters of each launch in a file of ``ncu --csv``."""
    names = COUNTED | COUNTERS | STALLED
    found: dict[str, dict[str, float]] = defaultdict(dict)
    with file.open(encoding="utf-8") as lines:
        for row in csv.DictReader(line for line in lines if line.startswith('"')):
            if row["Metric Name"] in names:
                value = float(row["Metric Value"].replace(",", "")) if row["Metric Value"] != "n/a" else 0.0
                scale = {"Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "us": 1e3, "usecond": 1e3, "ms": 1e6}
                found[row["ID"]][names[row["Metric Name"]]] = value * scale.get(row["Metric Unit"], 1.0)
    return list(found.values())


def expected(gpu: str, name: str) -> list[dict[str, float]]:
    """What the model counts at each chosen occupancy."""
    profile, _, found = assessed(gpu, name)
    rows = []
    for point in chosen_points(profile):
        prediction = found.predict(point.blocks_per_sm, largest_carveout=point.carveout == 100)
        steps = steps_of(found.program, found.costs, prediction.requests, found.card, found.events)
        counts = found.path.executed * found.launch.blocks * found.launch.warps_per_block
        row: dict[str, float] = defaultdict(float)
        for place, (count, step, use) in enumerate(zip(counts, steps, found.program.uses, strict=True)):
            row["executed"] += count
            pipe = step.shared_pipe if step.shared_pipe and step.pipe == "issue" else step.pipe
            row[{"imad": "fma"}.get(pipe, pipe)] += count
            if step.shared_pipe == "lsu" and not step.fits:
                row["wavefronts"] += count * step.shared_interval
            each = prediction.requests.get(place)
            if each is None or use.space == "shared" or not each.sectors:
                continue
            sectors, missed = count * each.sectors, count * (1 - each.in_sm) * each.l2_bytes / 32
            is_load = use.access == "load"
            space = "local" if use.space == "local" else "global"
            if is_load:
                row["load sectors" if space == "global" else "local sectors"] += sectors
                row["load hits" if space == "global" else "local hits"] += sectors - missed
            elif use.access == "store" and space == "global":
                row["store sectors"] += sectors
            behind = found.behind_l1.get(found.accessed[place])
            moved = count * each.sectors * behind.memory_bytes if behind else 0.0
            if is_load:
                row["l2 reads"] += missed
                row["memory read"] += moved
            else:
                row["l2 writes"] += missed
                row["memory written"] += moved
        row["ns"], row["measured"] = prediction.nanoseconds, point.ns
        row["warps"] = point.warps_per_sm
        rows.append(dict(row))
    return rows


def compare(gpu: str, counted: Mapping[str, list[dict[str, float]]]) -> dict[str, list[dict[str, float]]]:
    """What the model counts, by kernel."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        return dict(zip(counted, pool.map(expected, [gpu] * len(counted), counted), strict=True))


def main() -> None:
    """Read the command line."""
    command, *rest = sys.argv[1:]
    if command == "prepare":
        prepare(Path(rest[0]))
    elif command == "metrics":
        print(",".join(COUNTED | COUNTERS | STALLED))
    else:
        folder, file, gpu, out = Path(rest[0]), Path(rest[1]), rest[2], Path(rest[3])
        launches = iter(read_csv(file))
        rows = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
        counted = {name: [next(launches) for _ in row["points"][gpu]] for name, row in rows.items()}
        out.write_text(json.dumps({"counted": counted, "expected": compare(gpu, counted)}))


if __name__ == "__main__":
    main()

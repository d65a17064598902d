"""The true limiter of the example kernels, found by changing what limits.

``python validation/limiters.py prepare FOLDER`` assembles variants of each kernel that demand more of one resource
(`limiter_variants`), without a GPU. ``measure FOLDER OUT.json`` times them on GPU 0. ``collect FOLDER OUT.json GPU``
adds the demand of each variant and writes validation/limiters-GPU.json. `limiters_page` judges them.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any


from gpudissect.explanation.arguments import parse_arguments
from gpudissect.explanation.assemble import assemble
from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.mapping import map_counts
from gpudissect.explanation.model.assess import Assessment, assess, facts_of
from gpudissect.explanation.model.card import Card, card_of
from gpudissect.explanation.model.costs import cost_of
from gpudissect.explanation.model.predict import Prediction, bounds_of, l2_load, sm_of, steps_of
from gpudissect.explanation.model.walk import walk
from gpudissect.explanation.profile import Point, Profile, read_profile
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.machine_code.kernel import choose_kernel, read_cubin
from gpudissect.machine_code.program import Program, read_program
from gpudissect.results.files import load
from kernels import read_entries
from limiter_variants import LEVEL, UNITS, Demand, Variant, with_accesses, with_work

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings" / "kernels"
GPUS = ("h200", "h100")
MIN_SHARE = 0.2  # of the time that a resource must be busy to be tried
MORE_WORK = 0.3  # relative to the demand of the kernel
MORE_ISSUES = 0.25
LEVEL_SHARE = 0.25  # of the warps that repeat accesses at level 1
MAX_L1_HITS = 0.5  # of a load that is repeated from the L2 or memory
ALIGNMENT = 512


def chosen_points(profile: Profile) -> list[Point]:
    """The kernel's own occupancy, and the recorded one nearest to a quarter of it."""
    own, others = profile.sweep[-1], [p for p in profile.sweep if p.blocks_per_sm < profile.sweep[-1].blocks_per_sm]
    return [own, *([min(others, key=lambda p: abs(p.warps_per_sm - own.warps_per_sm / 4))] if others else [])]


def card_for(gpu: str) -> Card:
    """The measured values of a GPU."""
    return card_of(*(load(ROOT / "docs" / "results" / f"{name}.json") for name in (gpu, f"{gpu}-instructions")))


def assessed(gpu: str, kernel: str) -> tuple[Profile, Module, Assessment]:
    """A recorded kernel."""
    profile, card = read_profile(RECORDINGS / gpu / f"{kernel}.json"), card_for(gpu)
    cubin, machine = profile.machine_code()
    module = parse_ptx(profile.ptx())
    return profile, module, assess(read_program(cubin, machine), module, facts_of(profile, card), card)


def offset_of(specs: Sequence[str]) -> int:
    """Bytes from an array to its copy: all arrays lie side by side."""
    sizes = [argument.array_bytes for argument in parse_arguments(specs) if argument.count is not None]
    return sum(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes) + (1 << 21)


class Kernel:
    """A recorded kernel on one GPU: what it needs, and what its variants add."""

    def __init__(self, gpu: str, name: str) -> None:
        self.profile, self.module, self.found = assessed(gpu, name)
        self.card, self.points = self.found.card, chosen_points(self.profile)
        self.predictions = [self._predict(point) for point in self.points]
        self.function = self.module.function(self.profile.kernel)

    def _predict(self, point: Point) -> Prediction:
        return self.found.predict(point.blocks_per_sm, largest_carveout=point.carveout == 100)

    def shares(self) -> dict[str, float]:
        """Largest share of the measured time that each resource is busy at any point."""
        shares: dict[str, float] = defaultdict(float)
        for point, prediction in zip(self.points, self.predictions, strict=True):
            for name, bound in prediction.bounds.items():
                shares[name] = max(shares[name], bound / point.ns)
        return shares

    def demand(self) -> Demand:
        """What each block needs of the units, in cycles by all executions of a warp."""
        program, path = self.found.program, self.found.path
        warps = self.profile.launch.blocks * self.profile.launch.warps_per_block
        steps = steps_of(program, self.found.costs, self.predictions[0].requests, self.card)
        block_of = {
            self.function.first + n: index
            for index, block in enumerate(self.function.blocks)
            for n in range(block.start, block.end)
        }
        cycles: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
        for instruction, step, count in zip(program.instructions, steps, path.executed, strict=True):
            block = block_of.get(instruction.line or 0)
            if block is None:
                continue
            cycles["issue"][block] += count
            if step.shared_pipe is not None:
                cycles[step.shared_pipe][block] += count * step.shared_interval
            if step.pipe != "issue":
                cycles[step.pipe][block] += count * step.interval / (1 + step.is_either)
        counts = self.found.facts.counts
        names = {n: counts.get((self.function.name, n)) for n in range(len(self.function.blocks))}
        return Demand({n: found.warps / warps if found else 0.0 for n, found in names.items()}, cycles)

    def unit_bounds(self, program: Program, module: Module) -> dict[str, float]:
        """Nanoseconds that a program needs of each unit, one pass for each access."""
        facts, launch = self.found.facts, self.found.launch
        counts = map_counts(program, module.functions, facts.counts, facts.blocks * facts.threads)
        path = walk(program, counts, launch.blocks * launch.warps_per_block, 1)
        costs = [cost_of(i, use, self.card) for i, use in zip(program.instructions, program.uses, strict=True)]
        steps = steps_of(program, costs, {}, self.card)
        return bounds_of(program, path, costs, steps, sm_of(self.card, 0.0, 1), launch, self.card)

    def access_share(self, resource: str, numbers: Sequence[int], point: int) -> dict[str, float]:
        """What accesses of a share of the warps add to the demand for each resource, relative to that of the kernel."""
        prediction, found = self.predictions[point], self.found
        steps = steps_of(found.program, found.costs, prediction.requests, self.card)
        sm, added = sm_of(self.card, 0.0, 1), defaultdict[str, float](float)
        accesses = found.facts.accesses
        for place, index in found.accessed.items():
            if accesses[index].instruction not in numbers:
                continue
            outside, step = found.traffic.outside[index], steps[place]
            use, count = found.program.uses[place], found.path.executed[place]
            added["lsu"] += count * step.shared_interval
            if resource != "l1":
                added["l2"] += count * l2_load(outside, use.access or "", self.card) / sm.l2_bytes
            if resource == "memory":
                added["memory"] += count * (1 - step.in_l2) * step.dram_bytes / sm.dram_bytes
        launch = found.launch
        scale = LEVEL_SHARE * launch.blocks * launch.warps_per_block / self.card.sms / self.card.clock_hz * 1e9
        return {name: scale * each / prediction.bounds[name] for name, each in added.items() if prediction.bounds[name]}


def busy_unit(shares: dict[str, float]) -> str:
    """The unit with most room for instructions that cost issue slots: one cycle each for fma, two for others."""
    more = MORE_ISSUES * shares.get("issue", 0.0)
    room = {"fma": shares.get("fma", 0.0) + more, "alu": shares.get("alu", 0.0) + 2 * more}
    return min(room, key=lambda unit: room[unit])


def variants_of(kernel: Kernel, shares: dict[str, float]) -> list[Variant]:
    """The variants of a kernel, for the resources that are busy for a large enough share of the time."""
    module, name, launch = kernel.module, kernel.profile.kernel, kernel.profile.launch
    demand = kernel.demand()
    found = [with_work(module, name, "setup", (), "", Demand({}, {}), 0.0, 1.0)]
    control = busy_unit(shares)
    found.append(with_work(module, name, "issue", (control,), "issue", demand, MORE_ISSUES, 1.0))
    costs = {"fma": 1.0, "alu": 2.0, "imad": 2.0, "xu": 8.0, "fp64": 2.0, "lsu": 1.0}
    for unit in UNITS:
        if shares.get(unit, 0.0) >= MIN_SHARE:
            found.append(with_work(module, name, unit, (unit,), unit, demand, MORE_WORK, costs[unit]))
    accesses, requests = kernel.found.facts.accesses, kernel.predictions[0].requests
    hits = {accesses[index].instruction: requests[place].in_sm for place, index in kernel.found.accessed.items()}
    far = {number for number, share in hits.items() if share <= MAX_L1_HITS}
    chosen = {"l1": set(hits), "l2": far, "memory": far}
    for resource, busy in (("l1", "lsu"), ("l2", "l2"), ("memory", "memory")):
        if shares.get(busy, 0.0) >= MIN_SHARE:
            offset = offset_of(kernel.profile.arguments) if resource == "memory" else 0
            variant = with_accesses(module, name, resource, launch, chosen[resource].__contains__, offset)
            found += [variant] if variant.accesses else []
    return found


def max_registers(kernel: Kernel) -> int:
    """Registers of a thread with which as many blocks fit on an SM as of the kernel."""
    launch = kernel.profile.launch
    warps = kernel.profile.blocks_per_sm * launch.warps_per_block
    return min(255, kernel.card.registers // (warps * 32) // 8 * 8)


def prepare_kernel(name: str, folder: Path) -> str:
    """Assemble the variants of a kernel and describe them in a file; a few words on it."""
    kernels = {gpu: Kernel(gpu, name) for gpu in GPUS}
    first = kernels[GPUS[0]]
    shares: dict[str, float] = defaultdict(float)
    for kernel in kernels.values():
        for resource, share in kernel.shares().items():
            shares[resource] = max(shares[resource], share)
    symbol, limit = first.profile.kernel, max_registers(first)
    plain = Variant("plain", first.module.text)
    rows, notes, bounds = [], list[str](), dict[str, dict[str, dict[str, float]]]()
    for variant in [plain, *variants_of(first, shares)]:
        module = parse_ptx(variant.ptx)
        cubin = assemble(with_source_lines(module), "sm_90", limit, symbol)
        machine = choose_kernel(cubin.kernels, symbol)
        is_too_large = machine.registers > limit
        notes += [f"{variant.name}: {machine.registers} registers of {limit}"] if is_too_large else []
        file = f"{name}.{variant.name}.cubin"
        (folder / file).write_bytes(cubin.data)
        program = read_program(read_cubin(cubin.data), machine)
        bounds[variant.name] = {gpu: kernel.unit_bounds(program, module) for gpu, kernel in kernels.items()}
        rows.append(
            {"name": variant.name, "file": file, "accesses": list(variant.accesses), "registers": machine.registers}
        )
    demand = {
        gpu: [
            {
                row["name"]: added(kernel, row, bounds, gpu, point)
                for row in rows
                if row["name"] not in ("plain", "setup")
            }
            for point in range(len(kernel.points))
        ]
        for gpu, kernel in kernels.items()
    }
    launch = first.profile.launch
    points = {gpu: [[p.blocks_per_sm, p.carveout] for p in kernel.points] for gpu, kernel in kernels.items()}
    description = {
        "kernel": symbol,
        "grid": launch.grid,
        "block": launch.block,
        "shared": launch.shared_bytes,
        "arguments": first.profile.arguments,
        "offset": offset_of(first.profile.arguments),
        "points": points,
        "variants": rows,
        "demand": demand,
    }
    (folder / f"{name}.json").write_text(json.dumps(description), encoding="utf-8")
    text = "; ".join(
        f"{row['name']} "
        + ",".join(f"{k} {100 * v:.0f}" for k, v in demand["h200"][0].get(row["name"], {}).items() if v > 0.02)
        for row in rows
    )
    return f"{name}: {text}; {notes}"


def added(kernel: Kernel, row: dict[str, Any], bounds: Any, gpu: str, point: int) -> dict[str, float]:
    """What a variant adds to the demand for each resource, relative to that of the kernel."""
    if row["accesses"]:
        share = kernel.access_share(row["name"], row["accesses"], point)
        return {name: round(value, 4) for name, value in share.items()}
    own = kernel.predictions[point].bounds
    more = {name: bounds[row["name"]][gpu][name] - bounds["setup"][gpu][name] for name in (*UNITS, "issue")}
    return {name: round(value / own[name], 4) for name, value in more.items() if own[name] > 0 and abs(value) > 0}


def prepare(folder: Path, only: Sequence[str]) -> None:
    """Prepare all kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [entry.name for entry in read_entries() if not only or entry.name in only]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for future in [pool.submit(prepare_kernel, name, folder) for name in names]:
            print(future.result(), flush=True)


def collect(folder: Path, times: Path) -> None:
    """Write the times of a GPU with the demand of each variant to validation/limiters-GPU.json."""
    measured = json.loads(times.read_text(encoding="utf-8"))
    gpu = measured["gpu"]
    for name, row in measured["kernels"].items():
        demand = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["demand"][gpu]
        for point, more in zip(row.get("points", ()), demand, strict=False):
            point["demand"] = more
    path = ROOT / "validation" / f"limiters-{gpu}.json"
    path.write_text(json.dumps(measured, separators=(",", ":")) + "\n", encoding="utf-8")
    print(path, path.stat().st_size)


def main() -> None:
    """Prepare or collect."""
    command, folder, *rest = sys.argv[1:]
    if command == "prepare":
        prepare(Path(folder), rest)
    else:
        collect(Path(folder), Path(rest[0]))


if __name__ == "__main__":
    main()

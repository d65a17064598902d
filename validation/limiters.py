"""The true limiter of the example kernels, found by changing what limits.

``python validation/limiters.py prepare FOLDER`` assembles variants of each kernel that demand more of one resource
(`limiter_variants`), without a GPU; ``demand FOLDER`` counts what they add. `limiter_timing` times them on a GPU.
``collect FOLDER TIMES.json [COUNTERS.csv]`` writes validation/limiters-GPU.json. `limiters_page` judges.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from kernels import read_entries
from launches import chosen_points, read_counters, variant_row, write_description
from limiter_variants import ACCESSES, UNITS, Demand, Variant, with_accesses, with_stream, with_work

from gpudissect.explanation.instrument import with_source_lines
from gpudissect.explanation.mapping import map_counts
from gpudissect.explanation.model.assess import Assessment, assess
from gpudissect.explanation.model.card import Card, card_of
from gpudissect.explanation.model.costs import cost_of
from gpudissect.explanation.model.facts import facts_of
from gpudissect.explanation.model.occupancy import occupancy_of
from gpudissect.explanation.model.predict import Prediction, bounds_of, demand_of, sm_of
from gpudissect.explanation.model.requests import l2_load
from gpudissect.explanation.model.steps import steps_of
from gpudissect.explanation.model.traffic import bytes_of_random_line
from gpudissect.explanation.model.walk import walk
from gpudissect.explanation.profile import Point, Profile, read_profile
from gpudissect.explanation.ptx import Module, parse_ptx
from gpudissect.explanation.user_code import assemble
from gpudissect.machine_code.kernel import Cubin, choose_kernel, read_cubin
from gpudissect.machine_code.program import Program, read_program
from gpudissect.results.files import load
from gpudissect.units import WARP_SIZE

ROOT = Path(__file__).parents[1]
RECORDINGS = ROOT / "tests" / "recordings" / "kernels"
GPUS = ("h200", "h100")
MIN_SHARE = 0.2  # of the time that a resource must be busy to be tried
MORE_WORK = 0.3  # relative to the demand of the kernel
MORE_ISSUES = 0.25
MORE_BYTES = 0.3
MORE_ACCESSES = 0.25
_PERCENT = "avg.pct_of_peak_sustained_elapsed"
COUNTERS = {
    "dram__bytes.sum": "bytes",
    "dram__bytes.sum.pct_of_peak_sustained_elapsed": "memory",
    f"lts__t_sectors.{_PERCENT}": "l2",
    f"l1tex__data_pipe_lsu_wavefronts.{_PERCENT}": "lsu",
    f"sm__inst_issued.{_PERCENT}": "issue",
}
"""Counters of Nsight Compute: bytes of memory, and percent of the peak."""
PADDINGS = (0, 2, 4, 8, 12, 16)  # registers
LEVEL_SHARE = 0.25  # of the warps that repeat accesses at level 1
MAX_L1_HITS = 0.5  # of a load that is repeated from the L2 or memory


def card_for(gpu: str) -> Card:
    """The measured values of a GPU."""
    return card_of(load(ROOT / "docs" / "results" / f"{gpu}.json"))


def recorded_gpus(name: str) -> list[str]:
    """The GPUs on which a kernel was recorded."""
    return [gpu for gpu in GPUS if (RECORDINGS / gpu / f"{name}.json").exists()]


def assessed(gpu: str, kernel: str) -> tuple[Profile, Module, Assessment]:
    """A recorded kernel."""
    profile, card = read_profile(RECORDINGS / gpu / f"{kernel}.json"), card_for(gpu)
    cubin, machine = profile.machine_code()
    module = parse_ptx(profile.ptx())
    return profile, module, assess(read_program(cubin, machine), module, facts_of(profile, card), card)


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
        return bounds_of(demand_of(steps, path.executed, sm_of(self.card, 0.0, 1)), launch, self.card)

    def bytes_of_memory(self) -> tuple[dict[int, float], bool]:
        """Bytes of memory of all executions of each access by a warp, by number of its PTX instruction.

        Stores' bytes are those of the loads, if it has any. And whether most are of lines far apart.
        """
        found, needs, scattered = self.found, defaultdict[int, float](float), 0.0
        steps, loads = steps_of(found.program, found.costs, self.predictions[0].requests, self.card), set[int]()
        for place, index in found.accessed.items():
            moved = found.path.executed[place] * (1 - steps[place].in_l2) * steps[place].dram_bytes
            number = found.facts.accesses[index].instruction
            needs[number] += moved
            scattered += moved * found.traffic.outside[index].scattered
            loads |= {number} if found.program.uses[place].access == "load" and moved > 0 else set()
        total = sum(needs.values())
        chosen = {number: need for number, need in needs.items() if number in loads} or needs
        scale = total / max(1e-9, sum(chosen.values()))
        return {number: scale * need for number, need in chosen.items() if need > 0}, scattered > total / 2

    def shares_of_accesses(self, resource: str) -> dict[int, float]:
        """What repeating each access would add to the demand for the L2 or the pipe of loads, by number."""
        numbers = {self.found.facts.accesses[index].instruction for index in self.found.accessed.values()}
        name = "lsu" if resource == "l1" else resource
        return {n: self.repeated_share(resource == "l1", (n,), 0).get(name, 0.0) / LEVEL_SHARE for n in numbers}

    def repeated_share(self, is_cached: bool, numbers: Sequence[int], point: int) -> dict[str, float]:
        """What repeated accesses add to the demand for each resource, relative to that of the kernel."""
        prediction, found = self.predictions[point], self.found
        steps = steps_of(found.program, found.costs, prediction.requests, self.card)
        sm, more = sm_of(self.card, 0.0, 1), defaultdict[str, float](float)
        for place, index in found.accessed.items():
            if found.facts.accesses[index].instruction not in numbers:
                continue
            use, count = found.program.uses[place], found.path.executed[place]
            more["lsu"] += count * steps[place].shared_interval
            if not is_cached:
                more["l2"] += count * l2_load(found.traffic.outside[index], use.access or "", self.card) / sm.l2_bytes
        return self._relative(more, prediction)

    def streamed_share(self, numbers: Sequence[int], width: float, point: int) -> dict[str, float]:
        """The same for loads of `width` bytes of a lane from lines of their own."""
        prediction, found, more = self.predictions[point], self.found, defaultdict[str, float](float)
        bandwidth = self.card.bytes_per_cycle("dram", "read_bandwidth")
        of_l2 = self.card.bytes_per_cycle("l2", "read_bandwidth")
        places = {found.facts.accesses[index].instruction: place for place, index in found.accessed.items()}
        counts = self.demand().executions
        for number in numbers:
            lanes = prediction.requests[places[number]].lanes
            block = next(n for n, b in enumerate(self.function.blocks) if number - self.function.first < b.end)
            unit = self.card.values.get(("l2", "fetch_granularity"), 32.0)
            together = max(1.0, unit / width)  # lanes that share a unit, of which any one moves it
            moved = counts[block] * WARP_SIZE * max(unit, width) / together * (1 - (1 - lanes / WARP_SIZE) ** together)
            more["lsu"] += counts[block]
            more["l2"] += moved / of_l2
            more["memory"] += moved / bandwidth
        return self._relative(more, prediction)

    def _relative(self, cycles: dict[str, float], prediction: Prediction) -> dict[str, float]:
        launch = self.found.launch
        scale = LEVEL_SHARE * launch.blocks * launch.warps_per_block / self.card.sms / self.card.clock_hz * 1e9
        return {n: scale * each / prediction.bounds[n] for n, each in cycles.items() if prediction.bounds[n] > 0}


def busy_unit(shares: dict[str, float]) -> str:
    """The unit with most room for instructions that cost issue slots: one cycle each for fma, two for others."""
    more = MORE_ISSUES * shares.get("issue", 0.0)
    room = {"fma": shares.get("fma", 0.0) + more, "alu": shares.get("alu", 0.0) + 2 * more}
    return min(room, key=lambda unit: room[unit])


def variants_of(kernel: Kernel, shares: dict[str, float], padding: int = 0) -> Iterator[Variant]:
    """The variants of a kernel, for the resources that are busy for a large enough share of the time."""
    module, name, launch = kernel.module, kernel.profile.kernel, kernel.profile.launch
    demand, control = kernel.demand(), busy_unit(shares)
    yield with_work(module, name, "setup", (), "", Demand({}, {}), 0.0, 1.0, padding)
    yield with_work(module, name, "issue", (control,), "issue", demand, MORE_ISSUES, 1.0, padding)
    costs = {"fma": 1.0, "alu": 2.0, "imad": 2.0, "xu": 8.0, "fp64": 2.0, "lsu": 1.0}
    for unit in UNITS:
        if shares.get(unit, 0.0) >= MIN_SHARE:
            yield with_work(module, name, unit, (unit,), unit, demand, MORE_WORK, costs[unit], padding)
    accesses, requests = kernel.found.facts.accesses, kernel.predictions[0].requests
    hits = {accesses[index].instruction: requests[place].in_sm for place, index in kernel.found.accessed.items()}
    for resource, busy, max_hits in (("l1", "lsu", 1.0), ("l2", "l2", MAX_L1_HITS)):
        if shares.get(busy, 0.0) < MIN_SHARE:
            continue
        of = {n: share for n, share in kernel.shares_of_accesses(resource).items() if hits[n] <= max_hits}
        chosen = dict[int, float]()
        for number in sorted(of, key=lambda n: (-of[n], n)):
            if sum(chosen.values()) < MORE_ACCESSES and of[number] > 0:
                chosen[number] = of[number]
        level = min(4, max(1, round(4 * MORE_ACCESSES / max(1e-9, sum(chosen.values())))))
        variant = with_accesses(module, name, resource, launch, chosen.__contains__, padding)
        if variant.accesses:
            yield replace(variant, level=level)
    if shares.get("memory", 0.0) >= MIN_SHARE:
        needs, is_random = kernel.bytes_of_memory()
        needs = {number: MORE_BYTES * need for number, need in needs.items()}
        of_random = bytes_of_random_line(kernel.card) if is_random else 0.0
        variant = with_stream(module, name, "memory", launch, demand, needs, of_random, padding)
        if variant.accesses:
            yield variant


def max_registers(kernel: Kernel) -> int:
    """Registers of a thread with which as many blocks fit on an SM as of the kernel."""
    launch = kernel.profile.launch
    warps = kernel.profile.blocks_per_sm * launch.warps_per_block
    return min(255, kernel.card.registers // (warps * 32) // 8 * 8)


def assembled(ptx: str, symbol: str, limit: int, blocks: int) -> Cubin:
    """Machine code with at most `limit` registers of a thread where that is possible, so that `blocks` fit on an SM."""
    text = with_source_lines(parse_ptx(ptx))
    bounded = re.sub(r"(\.maxntid[^{\n]*)", rf"\1\n.minnctapersm {blocks}", text)
    for code, registers in ((text, None), (text, limit), (bounded, None)):
        cubin = assemble(code, "sm_90", registers, symbol)
        if choose_kernel(cubin.kernels, symbol).registers <= limit:
            break
    return cubin


def prepare_kernel(name: str, folder: Path) -> str:
    """Assemble the variants of a kernel and describe them in a file; a few words on it."""
    kernel = Kernel(recorded_gpus(name)[0], name)
    symbol, launch, limit = kernel.profile.kernel, kernel.profile.launch, max_registers(kernel)
    rows, notes = list[dict[str, Any]](), list[str]()
    shares = kernel.shares()
    padded = zip(*(variants_of(kernel, shares, padding) for padding in PADDINGS), strict=True)
    for forms in [(Variant("plain", kernel.module.text),), *padded]:
        for variant in forms:
            cubin = assembled(variant.ptx, symbol, limit, kernel.profile.blocks_per_sm)
            machine = choose_kernel(cubin.kernels, symbol)
            occupancy = occupancy_of(machine, launch.threads_per_block, launch.shared_bytes, kernel.card)
            if occupancy.blocks <= kernel.profile.blocks_per_sm:
                break
        fits = "" if occupancy.blocks == kernel.profile.blocks_per_sm else f" ({occupancy.blocks} blocks)"
        notes.append(f"{variant.name} {machine.registers}{fits}")
        file = f"{name}.{variant.name}"
        (folder / f"{file}.cubin").write_bytes(cubin.data)
        (folder / f"{file}.ptx").write_text(variant.ptx, encoding="utf-8")
        rows.append(variant_row(f"{file}.cubin", variant.accesses, variant.width, variant.level))
    # occupancies are those of the other GPU where only one was recorded
    write_description(folder / f"{name}.json", dict.fromkeys(GPUS, kernel.profile), rows)
    return f"{name}: registers of {limit}: {', '.join(notes)}"


def added(name: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """What each variant of a kernel adds to the demand for each resource, by GPU and occupancy."""
    rows = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["variants"]
    kernels = {gpu: Kernel(gpu, name) for gpu in recorded_gpus(name)}
    found: dict[str, Any] = {gpu: [{} for _ in kernel.points] for gpu, kernel in kernels.items()}
    setup: dict[str, dict[str, float]] = {}
    for row in rows[1:]:
        if not row["accesses"]:
            module = parse_ptx((folder / f"{name}.{row['name']}.ptx").read_text(encoding="utf-8"))
            cubin = read_cubin((folder / row["file"]).read_bytes())
            program = read_program(cubin, choose_kernel(cubin.kernels, next(iter(kernels.values())).profile.kernel))
        for gpu, kernel in kernels.items():
            bounds = {} if row["accesses"] else kernel.unit_bounds(program, module)
            setup.setdefault(gpu, bounds)
            for point, prediction in enumerate(kernel.predictions):
                if row["width"]:
                    more = kernel.streamed_share(row["accesses"], row["width"], point)
                elif row["accesses"]:
                    more = kernel.repeated_share(row["name"] == "l1", row["accesses"], point)
                    more = {n: row["level"] * each for n, each in more.items()}
                else:
                    own = {n: prediction.bounds[n] for n in (*UNITS, "issue") if prediction.bounds[n] > 0}
                    more = {n: (bounds[n] - setup[gpu][n]) / each for n, each in own.items()}
                found[gpu][point][row["name"]] = {n: round(each, 4) for n, each in more.items() if abs(each) > 0.001}
    return name, found


def prepare(folder: Path, only: Sequence[str]) -> None:
    """Prepare all kernels."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [entry.name for entry in read_entries() if not only or entry.name in only]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for text in pool.map(prepare_kernel, names, [folder] * len(names)):
            print(text, flush=True)


def demand(folder: Path) -> None:
    """Write what all variants add to demand.json of the folder."""
    names = [entry.name for entry in read_entries() if (folder / f"{entry.name}.json").exists()]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        found = dict(pool.map(added, names, [folder] * len(names)))
    (folder / "demand.json").write_text(json.dumps(found), encoding="utf-8")


def collect(folder: Path, times: Path, profiled: Path | None) -> None:
    """Write the times of a GPU, with the demand of each variant and counters, to validation/limiters-GPU.json.

    Kernels that were measured before stay there.
    """
    measured = json.loads(times.read_text(encoding="utf-8"))
    gpu, more = measured["gpu"], json.loads((folder / "demand.json").read_text(encoding="utf-8"))
    counters = iter(read_counters([profiled], COUNTERS) if profiled else ())
    for name, row in measured["kernels"].items():
        paddings = {path.name.split(".")[1]: path.read_text().count("_q") for path in folder.glob(f"{name}.*.ptx")}
        for point, each in zip(row.get("points", ()), more[name][gpu], strict=False):
            point["demand"] = {variant: shares for variant, shares in each.items() if shares}
            point["padded"] = [n for n in each if n not in ACCESSES and paddings[n] != paddings["setup"]]
            point["counters"] = {COUNTERS[metric]: value for metric, value in next(counters, {}).items()}
    path = ROOT / "validation" / f"limiters-{gpu}.json"
    if path.exists():
        measured["kernels"] = json.loads(path.read_text(encoding="utf-8"))["kernels"] | measured["kernels"]
    path.write_text(json.dumps(measured, separators=(",", ":")) + "\n", encoding="utf-8")
    print(path, path.stat().st_size)


def main() -> None:
    """Read the command line."""
    command, folder, *rest = sys.argv[1:]
    if command == "prepare":
        prepare(Path(folder), rest)
    elif command == "demand":
        demand(Path(folder))
    else:
        collect(Path(folder), Path(rest[0]), Path(rest[1]) if rest[1:] else None)


if __name__ == "__main__":
    main()

"""Predicted time of a kernel at an occupancy: the simulated SM, the bounds of throughput, and what limits it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.explanation.model.card import Card
from gpudissect.explanation.model.costs import PIPES, SHARED_PIPES, Cost
from gpudissect.explanation.model.dispatch import Launch, assign_last_wave, blocks_of_fullest_sm
from gpudissect.explanation.model.requests import Requests
from gpudissect.explanation.model.sample import Sample
from gpudissect.explanation.model.sm.engine import MemoryLatency, Run, Sm, Step, Work, run
from gpudissect.explanation.model.steps import steps_of
from gpudissect.explanation.model.walk import Path
from gpudissect.machine_code.program import Program
from gpudissect.units import WARP_SIZE

MAX_ISSUES = 400_000  # simulated one by one at an occupancy; a looked up line counts as two thirds of one
MIN_WAVES, MAX_WARPS_ALONE = 4, 32
QUEUE_DEPTH, BACKLOG, CREDIT = 24, 4000.0, 4000.0  # instructions, cycles, cycles: see `Sm`
LINK_BYTES = 64.0  # per cycle, between an SM and the L2
RISE = 0.09  # of the memory latency, unless measured: 62 of 698 cycles on an H200 (`hiding.contention_rise`)
L2_RISE = 0.045  # of the latency of the L2: fitted to kernels on an H200 that load at random
MIXED_RISE = 2.0  # times that, the mean wait for writes if half of the bytes are written: from the tuning half
LINE_INTERVAL = 1.4  # cycles from one line of a request to the next: half of what random lines through a small L1 take
REFRESHING = 0.12  # of the time of a bank of memory: 12 % of the cold loads of an H200 wait up to 500 cycles (ADR 23)
MAX_BLOCK_DIFFERENCE = 0.2  # relative difference of instructions
MAX_WAVES = 4  # before a partial wave that counts
MIN_BUSY_L2 = 0.75  # of all cycles, from which a last wave of blocks runs on few SMs
LIMITING = dict.fromkeys(PIPES, 0.63) | dict.fromkeys(SHARED_PIPES, 0.70) | {"fetch": 0.63, "l2": 0.80, "memory": 0.80}
"""Share of the predicted time from which a busy resource limits: chosen with the first 152 kernels of `examples`; that
of fetch is that of issue slots."""

MIN_FETCH_INTERVAL = 1.1  # cycles of an instruction, from which its fetch can limit
ALWAYS_BUSY = 0.95
"""Share of the predicted time from which no other resource can limit."""

Floats = NDArray[np.float64]
AfterL1 = Callable[[int, Requests, Floats], Requests]
"""Requests of an instruction, from its counts in the simulated L1: see `traffic.after_l1`."""


@dataclass(frozen=True)
class Prediction:
    """Time of a launch with `resident` blocks on an SM; `bounds`: nanoseconds that each resource needs at least.

    `demand`: see `demand_of`. `requests`: of each instruction, with the hits in the simulated L1.
    """

    resident: int
    nanoseconds: float
    limiter: str
    bounds: Mapping[str, float]
    demand: Mapping[str, Floats] = field(repr=False)
    run: Run = field(repr=False)
    requests: Mapping[int, Requests] = field(repr=False)


def sm_of(card: Card, write_share: float, l1_lines: int) -> Sm:
    """The SM of a card with an L1 of so many lines; `write_share`: of the bytes of memory, those that are written."""
    latency = card.value("dram", "hit_latency")
    rise = min(max(0.0, card.values.get(("hiding", "contention_rise"), RISE * latency)), latency)
    return Sm(
        schedulers=card.schedulers,
        pipes=PIPES,
        shared_pipes=SHARED_PIPES,
        l2_latency=card.value("l2", "hit_latency"),
        dram_latency=memory_latency(card),
        l2_bytes=card.bytes_per_cycle("l2", "read_bandwidth"),
        dram_bytes=memory_bandwidth(card, write_share) / (card.sms * card.clock_hz),
        link_bytes=LINK_BYTES,
        rise=rise,
        l2_rise=L2_RISE * card.value("l2", "hit_latency"),
        mixed_rise=rise * MIXED_RISE * 4 * write_share * (1 - write_share),
        credit=CREDIT,
        block_replacement=_block_replacement(card),
        depth=QUEUE_DEPTH,
        backlog=BACKLOG,
        lines=l1_lines,
        l2_farther=max(0.0, card.values.get(("l2", "far_latency"), 0.0) - card.value("l2", "hit_latency")),
        line_interval=LINE_INTERVAL,
    )


def memory_latency(card: Card) -> MemoryLatency:
    """Latency of device memory by home and refresh.

    The mean is the measured latency. A refresh lasts so long that the slowest of 32 random lines takes as long as
    measured.
    """
    mean, near = card.value("dram", "hit_latency"), card.values.get(("dram", "near_latency"))
    farther = 0.0 if near is None else max(0.0, card.values.get(("dram", "far_latency"), near) - near)
    far = mean + (1 - card.far_homes) * farther
    slowest = 1 - (1 - (1 - REFRESHING) ** (WARP_SIZE + 1)) / ((WARP_SIZE + 1) * REFRESHING)  # relative to a refresh
    longer = card.values.get(("ldg_random", "latency"), 0.0) - far - (WARP_SIZE - 1) * LINE_INTERVAL
    refresh = min(max(0.0, longer / (slowest - REFRESHING / 2)), mean)
    least = mean - REFRESHING * refresh / 2 - card.far_homes * farther
    return MemoryLatency(least, farther, card.far_homes, refresh, max(1.0, refresh / REFRESHING))


def _block_replacement(card: Card) -> float:
    """Cycles from the end of a block, its stores in the L2, to the next; it was measured with a store at the end."""
    return max(0.0, card.value("launch", "block_replacement") - card.value("l2", "hit_latency"))


def memory_bandwidth(card: Card, write_share: float) -> float:
    """Bytes per second of device memory for a mixture of reads and writes: between those of read, copy and write."""
    read, copy = card.value("dram", "read_bandwidth"), card.value("dram", "copy_bandwidth")
    write = card.values.get(("dram", "write_bandwidth"), copy)
    return float(np.interp(write_share, (0.0, 0.5, 1.0), (read, copy, write)))


def predict(
    program: Program,
    path: Path,
    costs: Sequence[Cost],
    requests: Mapping[int, Requests],
    after_l1: AfterL1,
    sample: Sample,
    card: Card,
    launch: Launch,
    resident: int,
    l1_lines: int,
    bare: Sequence[Step],
) -> Prediction:
    """Predicted time of a launch with this many blocks on each SM beside an L1 with room for so many lines.

    `bare`: the steps of the program without requests.

    A path that lacks iterations of loops gets their time from a run with still fewer.
    """
    steps = steps_of(program, costs, requests, card, sample.events, bare)
    written, moved = _traffic(program, requests, path)
    sm = sm_of(card, written / moved if moved else 0.0, l1_lines)
    lookups = sum(path.executed[index] * each.lines for index, each in requests.items() if each.access is not None)
    length = max(1, int(path.length + path.share * float(lookups) / 1.5))
    affordable = max(MIN_WAVES * resident, MAX_ISSUES // (length * launch.warps_per_block))
    blocks = blocks_of_fullest_sm(launch, card.sms, resident)
    scales = _traffic_scales(path) if path.missing_iterations else None
    simulated = min(math.ceil(blocks), affordable)
    work = Work(steps, path.variants, launch.warps_per_block, resident, simulated, sample, path.order, scales)
    found = run(sm, work)
    if launch.working and found.busy["l2"] >= MIN_BUSY_L2 * found.cycles:  # all SMs share the L2: the mean one counts
        blocks = launch.working / card.sms
        work = replace(work, blocks=min(math.ceil(blocks), affordable))
        found = run(sm, work)
    shares = _shares_of_blocks(work)
    cycles = _cycles(found, shares, blocks)
    if path.missing_iterations:
        fewer = run(sm, replace(work, paths=path.shorter))
        cycles += path.missing_iterations * max(0.0, cycles - _cycles(fewer, shares, blocks))
        found = found.with_more(fewer, path.missing_iterations)
    cycles *= _partial_wave(sm, work, launch, card, found) / (path.relative * launch.working_share)
    requests = {
        index: each if each.access is None else after_l1(index, each, found.l1_counts[index])
        for index, each in requests.items()
    }
    steps = steps_of(program, costs, requests, card, sample.events, bare)
    demand = demand_of(steps, path.executed, sm)
    bounds = bounds_of(demand, launch, card)
    best = max(bounds, key=lambda name: bounds[name])
    nanoseconds = max(cycles / card.clock_hz * 1e9, bounds[best])  # runs are short: their pace has an error
    nanoseconds += card.values.get(("launch", "kernel_interval"), 0.0)
    return Prediction(resident, nanoseconds, _limiter(bounds, nanoseconds), bounds, demand, found, requests)


def _traffic_scales(path: Path) -> Floats:
    """Scale of the traffic of each step on a path that lacks iterations: less than 1 for code outside loops.

    This code is a larger part of the path than of the kernel, and would limit the path but not the kernel.
    """
    whole = path.executed * path.relative
    density = np.divide(path.counts, whole, out=np.full(whole.size, path.share), where=whole > 0)
    return np.asarray(np.minimum(1.0, path.share / np.maximum(density, 1e-9)))


def _limiter(bounds: Mapping[str, float], nanoseconds: float) -> str:
    """The resource that is always busy, or has the highest busy share relative to its threshold; else latency."""
    busiest = max(bounds, key=lambda name: bounds[name])
    if bounds[busiest] >= ALWAYS_BUSY * nanoseconds:
        return busiest
    best = max(bounds, key=lambda name: bounds[name] / LIMITING[name])
    return best if bounds[best] >= LIMITING[best] * nanoseconds else "latency"


def _shares_of_blocks(work: Work) -> Floats:
    """Instructions of each block of a run, relative to the mean of all blocks."""
    sizes = np.array([path.size for path in work.paths])[list(work.order or range(len(work.paths)))]
    warps = np.resize(sizes, work.blocks * work.warps_per_block)
    return np.asarray(warps.reshape(work.blocks, -1).mean(axis=1) / sizes.mean())


def _cycles(found: Run, shares: Floats, blocks: float) -> float:
    """Cycles of `blocks` of an SM: those of the run, extrapolated at the rate of the second half of its blocks.

    If these have another mean number of instructions than all blocks, time is proportional to instructions.
    `shares`: see `_shares_of_blocks`.
    """
    simulated, half = found.ends.size, found.ends.size // 2
    if simulated >= blocks:
        return float(found.cycles)
    if abs(shares[half:].mean() - 1) > MAX_BLOCK_DIFFERENCE:
        return float(found.cycles * blocks / shares.sum())
    pace = (found.cycles - np.sort(found.ends)[half - 1]) / (simulated - half)
    return float(found.cycles + pace * (blocks - simulated))


def _partial_wave(sm: Sm, work: Work, launch: Launch, card: Card, found: Run) -> float:
    """Time relative to that of `found` if the L2 limits and the blocks of the last wave go to the SMs that end first.

    An SM whose blocks end together takes as many of them as it has room for, while others get none.
    """
    waves, left = divmod(launch.blocks, card.sms * work.resident)
    is_whole = work.blocks >= launch.blocks / card.sms
    if found.busy["l2"] < MIN_BUSY_L2 * found.cycles or not (left and is_whole and 0 < waves <= MAX_WAVES):
        return 1.0
    evenly = -(-left // card.sms)
    _, blocks = assign_last_wave(card, found.ends[: waves * work.resident], work.resident, left)
    if blocks.max() <= evenly:
        return 1.0
    free, blocks = assign_last_wave(
        card, run(sm, replace(work, blocks=waves * work.resident)).ends, work.resident, left
    )
    max_blocks, more = int(blocks.max()), card.sms / np.count_nonzero(blocks)
    if max_blocks <= evenly:
        return 1.0
    alone = replace(sm, l2_bytes=more * sm.l2_bytes, dram_bytes=more * sm.dram_bytes)
    last = run(alone, replace(work, resident=max_blocks, blocks=max_blocks)).cycles
    start = float(free[blocks == max_blocks, max_blocks - 1].max())
    return max(1.0, (start + last) / found.cycles)


def volkov(found: Prediction, latency: float, launch: Launch, card: Card) -> float:
    """Nanoseconds by Volkov's model (VV16 s3.3): the bounds of throughput, or the latency of a warp.

    A block is replaced in every wave (VV16 s3.7).
    """
    waves = max(1.0, launch.blocks / (card.sms * found.resident))
    return max(
        waves * (latency + _block_replacement(card) / card.clock_hz * 1e9),
        *(ns for name, ns in found.bounds.items() if name != "fetch"),
    )


def roofline(found: Prediction) -> float:
    """Nanoseconds by the roofline: bytes of memory or arithmetic, whichever takes longer."""
    return max(found.bounds[name] for name in ("memory", "fma", "fp64", "tensor"))


def latency_of_warp(
    program: Program, path: Path, costs: Sequence[Cost], requests: Mapping[int, Requests], card: Card
) -> float:
    """Nanoseconds of a warp that has the GPU to itself: the mean of several, one after the other."""
    sm = replace(sm_of(card, 0.0, 1024), rise=0.0, block_replacement=0.0)
    warps = max(1, min(MAX_WARPS_ALONE, MAX_ISSUES // max(1, 4 * int(path.length))))
    work = Work(steps_of(program, costs, requests, card), path.variants, 1, 1, warps, order=path.order)
    return run(sm, work).cycles / warps / (path.share * path.relative) / card.clock_hz * 1e9


def demand_of(steps: Sequence[Step], executed: Floats, sm: Sm) -> dict[str, Floats]:
    """Cycles of each resource that all executions of each instruction take (VV16 s4.1, for all pipes).

    The issue path, data banks and tags of the LSU work at the same time, and so do loads and stores in the L2: the
    busiest part counts.
    """
    requesting = executed * [step.predicated_on for step in steps]
    is_either = np.array([step.is_either for step in steps], dtype=bool)
    of_pipe = executed * [step.interval for step in steps] / sm.schedulers / (1 + is_either)
    demand = {name: of_pipe * [step.pipe == name for step in steps] for name in PIPES}
    demand["issue"] = executed / sm.schedulers
    fetched = [step.fetch * (step.fetch >= MIN_FETCH_INTERVAL) for step in steps]
    demand["fetch"] = executed * fetched / sm.schedulers
    if is_either.any():
        demand["fma"] = demand["fma"] + demand["imad"] / 2
    passes = requesting * [0.0 if step.fits else step.shared_interval for step in steps]
    demand |= {name: passes * [step.shared_pipe == name for step in steps] for name in SHARED_PIPES}
    uses_lsu = [step.shared_pipe == "lsu" for step in steps]
    path = requesting * [step.shared_interval if step.fits else min(1.0, step.shared_interval) for step in steps]
    tags = requesting * [step.tag_interval for step in steps]
    demand["lsu"] = max(demand["lsu"], path * uses_lsu, tags * uses_lsu, key=np.sum)
    loaded = requesting * [1 - step.in_sm for step in steps] * [step.l2_bytes for step in steps] / sm.l2_bytes
    demand["l2"] = max(loaded, requesting * [step.l2_written for step in steps] / sm.l2_bytes, key=np.sum)
    moved = requesting * [1 - step.in_l2 for step in steps] * [step.dram_bytes for step in steps]
    return demand | {"memory": moved / sm.dram_bytes}


def bounds_of(demand: Mapping[str, Floats], launch: Launch, card: Card) -> dict[str, float]:
    """Nanoseconds that each resource needs for all warps if it never waits; `demand`: of a warp, see `demand_of`."""
    warps = launch.blocks * launch.warps_per_block / card.sms
    cycles = np.stack(list(demand.values()), axis=1).sum(axis=0) * warps
    return dict(zip(demand, (cycles / card.clock_hz * 1e9).tolist(), strict=True))


def moved_bytes(found: Prediction, executed: Floats, launch: Launch) -> dict[str, float]:
    """Bytes that a launch moves between all SMs and the L2, and between the L2 and memory."""
    moved = {"l2": 0.0, "memory": 0.0}
    for index, each in found.requests.items():
        requests = float(executed[index]) * each.predicated_on * launch.blocks * launch.warps_per_block
        moved["l2"] += requests * (1 - each.in_sm) * each.l2_bytes
        moved["memory"] += requests * each.memory_bytes
    return moved


def _traffic(program: Program, requests: Mapping[int, Requests], path: Path) -> tuple[float, float]:
    """Bytes that a warp writes to memory, and all that it moves."""
    written = moved = 0.0
    for index, found in requests.items():
        each = path.executed[index] * found.predicated_on * found.memory_bytes
        moved += each
        written += each if program.uses[index].access in ("store", "reduction", "atomic") else 0.0
    return written, moved

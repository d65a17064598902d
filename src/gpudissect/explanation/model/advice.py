"""Changes of a kernel and the time predicted for each.

Some gains are upper limits (`Advice.is_limit`): the model without a wait, or with all hits in a nearer cache.
"""

import math
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace

from gpudissect.explanation.counts import Count
from gpudissect.explanation.curve import MIN_FILL
from gpudissect.explanation.listing import address_of, source_of
from gpudissect.explanation.model.advice_latency import fewer_barriers, fewer_waits, more_in_flight
from gpudissect.explanation.model.advice_memory import combined_atomics, fewer_passes, no_local_memory, reuse_in_block
from gpudissect.explanation.model.advice_occupancy import fewer_blocks, more_blocks
from gpudissect.explanation.model.advice_shared import fewer_retries
from gpudissect.explanation.model.requests import SECTOR, TAG_BANKS, Requests
from gpudissect.explanation.model.trial import GLOBAL, Trial
from gpudissect.explanation.model.walk import walk
from gpudissect.explanation.result import Advice
from gpudissect.explanation.sentences import CONVERGED_THREADS
from gpudissect.units import WARP_SIZE, format_bytes_rounded

FP32 = ("FADD", "FMUL", "FFMA")
INTEGER = ("IMAD", "IADD", "LEA", "SHF", "LOP", "ISETP", "VIADD", "IMNMX", "VIMNMX", "PRMT", "IABS")
MIN_SHARE_OF_KIND = 0.15  # of the instructions that a warp executes, from which a kind is named
MIN_USED = 0.9  # of the bytes that memory moves, or of its time: then nearly all
SATURATED, MIN_STALLED = 0.9, 0.2  # busy share of a resource; share of a warp's time
ONE_THREAD = 1.5 / WARP_SIZE  # of the lanes of a warp, below which one is active
CLOSE_GAIN = 0.05  # share of the time; within it local memory is named before the waits that it causes


def advise(trial: Trial, pool: Executor) -> tuple[Advice, ...]:
    """Changes that were tried, largest gain first, local memory before close ones; `pool` runs the trials."""
    limiter = trial.found.limiter
    tries = [fewer_passes, reuse_in_block, combined_atomics, no_local_memory, full_waves, smaller_blocks, converged]
    tries += [fewer_blocks, fewer_retries]
    has_waits = limiter == "latency" or _has_waits(trial)
    tries += [more_blocks, fewer_waits, more_in_flight] if has_waits else []
    tries += [fewer_barriers] if has_waits or limiter == "adu" else []
    found = pool.map(lambda find: tuple(find(trial)), tries)
    bonus = [CLOSE_GAIN if find is no_local_memory else 0.0 for find in tries]
    ranked = [(each.gain + more, each) for more, group in zip(bonus, found, strict=True) for each in group]
    return tuple(each for _, each in sorted(ranked, key=lambda pair: -pair[0]))


def _has_waits(trial: Trial) -> bool:
    """Whether warps wait for results or barriers although a resource is named: it is not always busy."""
    busy = trial.found.bounds[trial.found.limiter]
    return busy < SATURATED * trial.found.nanoseconds and sum(line.stall for line in trial.lines) >= MIN_STALLED


def full_waves(trial: Trial) -> Iterator[Advice]:
    """A grid of full waves: the same total work in more, smaller blocks."""
    if trial.launch.working is not None:
        return
    blocks, capacity = trial.launch.blocks, trial.resident * trial.card.sms
    waves = blocks / capacity
    if waves >= MIN_FILL * math.ceil(waves):
        return
    whole = math.ceil(waves) * capacity
    larger = replace(trial.assessment, facts=replace(trial.assessment.facts, blocks=whole))
    start = trial.card.values.get(("launch", "kernel_interval"), 0.0)
    time = larger.predict(trial.resident, largest_carveout=False).nanoseconds - start
    if waves < 1:
        text = f"Divide the work into at least {capacity} blocks, with less work per block"
        evidence = f"upper limit: {blocks}/{whole} of the predicted time of {whole} blocks"
    else:
        text = f"Use a grid of {whole} blocks with less work per block"
        evidence = f"upper limit: {blocks}/{whole} of the predicted time of {whole} blocks; their start is not included"
    yield Advice(text=text, gain=trial.gain(start + time * blocks / whole), is_limit=True, evidence=evidence)


def smaller_blocks(trial: Trial) -> Iterator[Advice]:
    """Smaller blocks, if some SMs have no block."""
    blocks, warps, sms = trial.launch.blocks, trial.launch.warps_per_block, trial.card.sms
    factor = next((each for each in range(-(-sms // blocks), warps + 1) if warps % each == 0), warps)
    if factor < 2:
        return
    threads = warps // factor * WARP_SIZE
    facts = replace(trial.assessment.facts, blocks=blocks * factor, threads=threads)
    changed = replace(trial.assessment, facts=facts)
    time = changed.predict(changed.occupancy.blocks, largest_carveout=False).nanoseconds
    text = f"Use blocks of {threads} threads (now {trial.assessment.facts.threads}) so that more SMs have one"
    yield Advice(text=text, gain=trial.gain(time), evidence=f"predicted with {blocks * factor} blocks for {sms} SMs")


def converged(trial: Trial) -> Iterator[Advice]:
    """Every warp follows one path: the same thread executions in fewer warps, with the same traffic."""
    assessment, launch = trial.assessment, trial.launch
    counts, flow = assessment.counts, trial.program.flow
    lanes = assessment.facts.threads / launch.warps_per_block
    sizes = [block.end - block.start for block in flow.blocks]
    warps = [each.value for each in counts.warps]
    needed = [min(now, each.value / lanes) for now, each in zip(warps, counts.threads, strict=True)]
    issued, least = (sum(n * size for n, size in zip(each, sizes, strict=True)) for each in (warps, needed))
    if not issued or WARP_SIZE * least / issued >= CONVERGED_THREADS:
        return
    fewer = replace(counts, warps=tuple(Count(each, each, each) for each in needed))
    path = walk(
        trial.program,
        fewer,
        launch.blocks * launch.warps_per_block,
        assessment.facts.max_path(issued / assessment.facts.launched_warps, trial.card.sms),
    )
    more = {
        index: warps[number] / needed[number]
        for number, block in enumerate(flow.blocks)
        for index in range(block.start, block.end)
        if needed[number] > 0
    }
    means = trial.found.requests
    grown = {index: _scaled(each, more.get(index, 1.0)) for index, each in means.items()}
    changed = replace(assessment, path=path).predict(trial.resident, grown, largest_carveout=False)
    lost = [(now - n) * size for now, n, size in zip(warps, needed, sizes, strict=True)]
    number = lost.index(max(lost))
    lines = trial.lines[flow.blocks[number].start : flow.blocks[number].end]
    place = next(filter(None, map(source_of, lines)), address_of(lines[0].address))
    if needed[number] <= ONE_THREAD * warps[number]:
        text = f"Share the work of the one active thread at {place} among the lanes of its warp, or do it less often"
    else:
        text = "Let the threads of a warp do the same work: sort the data by path or number of iterations, launch a "
        text += "kernel for each path, or share long rows among lanes"
    active = f"{WARP_SIZE * needed[number] / warps[number]:.3g}"
    where = "in the slow path of a division or root at" if number in trial.program.slow_paths else "at"
    evidence = f"{active} of {WARP_SIZE} threads {'is' if active == '1' else 'are'} active {where} {place}"
    gain = trial.gain_from(trial.predict(means).nanoseconds, changed)
    yield Advice(text=text, gain=gain, is_limit=True, evidence=f"{evidence}; upper limit: memory traffic unchanged")


def _scaled(requests: Requests, factor: float) -> Requests:
    """Requests with lanes and traffic multiplied by `factor`."""
    return replace(
        requests,
        lanes=requests.lanes * factor,
        tags=max(requests.tags, requests.lines * factor / (1 << len(TAG_BANKS))),
        lines=requests.lines * factor,
        sectors=requests.sectors * factor,
        l2_bytes=requests.l2_bytes * factor,
        dram_bytes=requests.dram_bytes * factor,
        operations=requests.operations * factor,
    )


def hint_of(trial: Trial, measured: float) -> str:
    """What needs less of the limiting resource, as far as it applies to this kernel; empty if nothing is known.

    `measured` is the time in nanoseconds, 0 if unknown.
    """
    if trial.found.limiter == "issue":
        return _fewer_instructions(trial)
    time = max(measured, trial.found.nanoseconds)
    return _fewer_bytes(trial, trial.found.bounds["memory"] / time) if trial.found.limiter == "memory" else ""


def _fewer_instructions(trial: Trial) -> str:
    """Kinds of instructions that are many, and the source lines with most."""
    executed, program = trial.executed, trial.program
    kinds, places = Counter[str](), Counter[str]()
    for index, (instruction, use) in enumerate(zip(program.instructions, program.uses, strict=True)):
        if instruction.opcode.startswith(INTEGER):
            kinds["simpler or 32-bit index arithmetic ({:.0%} are integer instructions)"] += executed[index]
        elif instruction.opcode in FP32:
            kinds["a smaller type, or tensor cores for matrix products ({:.0%} are FP32)"] += executed[index]
        elif use.access and (use.bytes or WARP_SIZE) <= 4:
            kinds["wider loads and stores ({:.0%} access at most 4 bytes per thread)"] += executed[index]
        elif use.unit == "cbu":
            kinds["unrolled loops or fewer branches ({:.0%} are branches)"] += executed[index]
        places[source_of(trial.lines[index])] += executed[index]
    total = sum(places.values())
    parts = [name.format(count / total) for name, count in kinds.most_common() if count >= MIN_SHARE_OF_KIND * total]
    most = [f"{place} ({count / total:.0%})" for place, count in places.most_common(3) if place]
    text = f"Execute fewer instructions{': ' if parts else ''}{', '.join(parts)}"
    return f"{text}; mostly at {', '.join(most)}" if most else text


def _fewer_bytes(trial: Trial, busy: float) -> str:
    """Whether each byte of the arrays is moved once, and is used; `busy`: share of the time that memory is."""
    used, by_access = 0.0, Counter[str]()
    for index, each in trial.found.requests.items():
        use = trial.program.uses[index]
        if use.space in GLOBAL:
            size = trial.warps * trial.executed[index] * each.sectors * SECTOR * each.from_memory
            by_access["load" if use.access == "load" else "store"] += size
            used += size * min(1.0, each.lanes * (use.bytes or 4) / (each.sectors * SECTOR or 1))
    moved, loaded = by_access.total(), by_access["load"]
    arrays = trial.assessment.facts.allocated
    if not moved or not arrays:
        return ""
    if used < MIN_USED * moved:
        return f"Move fewer bytes: only {used / moved:.0%} of the bytes moved are used"
    if max(loaded, moved - loaded) > arrays / MIN_USED:
        sizes = f"{format_bytes_rounded(max(loaded, moved - loaded))} for arrays of {format_bytes_rounded(arrays)}"
        if loaded > arrays / MIN_USED:
            return f"Device memory reads {sizes}: let blocks that run together load the same data, or use smaller types"
        return f"Device memory writes {sizes}: write each element once, or use smaller types"
    start = "Already at the bandwidth of device memory, and each" if busy >= MIN_USED else "Each"
    return f"{start} byte is moved only once: use smaller types, or fuse the kernel with the next"

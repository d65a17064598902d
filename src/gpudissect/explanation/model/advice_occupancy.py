"""Changes of how many blocks an SM holds: more to hide latencies, or fewer so that their data stay in caches."""

import math
from collections.abc import Iterator

from gpudissect.explanation.listing import address_of, source_of
from gpudissect.explanation.model.occupancy import SHARED_UNIT, l1_beside, limited_blocks, shared_of_block
from gpudissect.explanation.model.predict import Prediction
from gpudissect.explanation.model.requests import SECTOR
from gpudissect.explanation.model.trial import Trial
from gpudissect.explanation.result import Advice
from gpudissect.machine_code.accesses import most_live
from gpudissect.units import WARP_SIZE, format_bytes, format_bytes_rounded, format_ns

MIN_LIVE = 0.75  # of the registers needed at once, below which another order of instructions does not avoid spills
OTHER_REGISTERS = 4  # beside those needed at once, of 80 kernels: the stack pointer, and gaps before aligned ones
MIN_RISE = 0.05
"""Share of the sectors that loads request which fewer blocks must move to a nearer cache.

With fewer blocks, the predicted time of 18 of 152 kernels on an H100 falls by 5 % or more. For five of them, hits rise
by so much: timed with the largest carveout, four get faster by 17 to 61 %, one does not change. Of the other 13, which
this excludes, none gets faster by 5 %.
"""
TRIED = (1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4, 7 / 8)  # of the resident blocks


def more_blocks(trial: Trial) -> Iterator[Advice]:
    """More resident blocks, if what limits them is registers or shared memory."""
    occupancy, card, kernel = trial.assessment.occupancy, trial.card, trial.program.kernel
    others = [blocks for name, blocks in occupancy.by_limit.items() if name not in occupancy.limits]
    if len(occupancy.limits) != 1 or occupancy.limits[0] in ("warps", "blocks") or min(others) <= trial.resident:
        return
    advice = []
    live, index = most_live(trial.program.flow)
    place_name = source_of(trial.lines[index]) or address_of(trial.lines[index].address)
    for blocks in range(trial.resident + 1, min(min(others), trial.resident + 4) + 1):
        warps, now = (each * trial.launch.warps_per_block for each in (blocks, trial.resident))
        waves = [trial.launch.blocks / (each * card.sms) for each in (trial.resident, blocks)]
        evidence, is_limit = f"predicted with {blocks} blocks per SM instead of {trial.resident}", False
        if math.ceil(waves[1]) < math.ceil(waves[0]):
            evidence += f": {waves[1]:.2f} waves instead of {waves[0]:.2f}"
        if occupancy.limits[0] == "registers":
            most = card.registers // card.schedulers // (-(-warps // card.schedulers) * WARP_SIZE) // 8 * 8
            if most < MIN_LIVE * live:
                break
            text = f"Use at most {most} registers per thread (now {kernel.registers})"
            is_limit = most < live + OTHER_REGISTERS
            if is_limit:
                evidence += f"; {live} registers are live at {place_name}; upper limit: no spills"
        else:
            most = (card.shared_bytes // blocks - card.reserved_shared) // SHARED_UNIT * SHARED_UNIT
            used = kernel.shared_bytes + trial.assessment.facts.dynamic_shared
            text = f"Use at most {format_bytes(most)} of shared memory per block (now {format_bytes_rounded(used)})"
        text += f": {warps} warps per SM instead of {now}"
        gain = trial.gain(trial.time_with(blocks))
        advice.append(Advice(text=text, gain=gain, is_limit=is_limit, evidence=evidence))
    if advice:
        yield max(advice, key=lambda each: each.gain)


def fewer_blocks(trial: Trial) -> Iterator[Advice]:
    """Fewer resident blocks, if more of what they load then stays in the L1 or the L2.

    An upper limit: hits beside fewer blocks are predicted, and a grid-stride loop has a cost.
    """
    launch, card, facts = trial.launch, trial.card, trial.assessment.facts
    shared = shared_of_block(trial.program.kernel, facts.dynamic_shared, card)
    busiest = min(trial.resident, math.ceil(launch.blocks / card.sms))
    if trial.found.limiter not in ("latency", "l2", "memory") or _lost_share(trial) < MIN_RISE:
        return
    tried = dict[int, tuple[Prediction, int, int]]()
    for blocks in {max(1, round(share * trial.resident)) for share in TRIED}:
        limit = limited_blocks(card, trial.resident, shared, blocks) if blocks < busiest else None
        if limit is not None:
            found = trial.assessment.predict(blocks, largest_carveout=False, l1_bytes=l1_beside(card, limit[0]))
            tried[blocks] = (found, *limit)
    if not tried:
        return
    blocks = min(tried, key=lambda each: tried[each][0].nanoseconds)
    found, carveout, size = tried[blocks]
    hits = [trial.hit_rates(each.requests, each.requests) or (0.0, 0.0) for each in (trial.found, found)]
    if max(after - before for before, after in zip(*hits, strict=True)) < MIN_RISE:
        return
    warps, now = (each * launch.warps_per_block for each in (blocks, trial.resident))
    percent = 100 * carveout // card.shared_bytes  # the driver rounds up
    how = f"add {format_bytes(size - shared)} of dynamic shared memory per block and " if size > shared else ""
    text = f"Run {warps} warps per SM instead of {now} ({blocks} blocks): use a grid of {blocks * card.sms} blocks "
    text += f"and a grid-stride loop, or {how}prefer a carveout of {percent}%"
    names = "loads that hit the L1:", "loads that hit L1 or L2:"
    rises = [f"{name} {a:.0%} -> {b:.0%}" for name, a, b in zip(names, *hits, strict=True) if b - a >= MIN_RISE]
    evidence = [*rises, *local_footprint(trial, blocks)]
    evidence.append(f"predicted with an L1 of {format_bytes(l1_beside(card, carveout))}")
    if carveout < card.shared_bytes:
        largest = format_ns(trial.assessment.predict(blocks, largest_carveout=True).nanoseconds)
        least = format_bytes(l1_beside(card, 0))
        evidence[-1] += f"; if the driver chooses a larger carveout (L1 down to {least}): {largest}"
    yield Advice(text=text, gain=trial.gain(found.nanoseconds), is_limit=True, evidence="; ".join(evidence))


def local_footprint(trial: Trial, fewer: int | None = None) -> list[str]:
    """Local memory of all resident threads, and with `fewer` blocks on each SM, beside the L2; empty without any."""
    stack = trial.program.kernel.stack_bytes
    if not stack:
        return []
    of_block = trial.launch.warps_per_block * WARP_SIZE * stack
    blocks = [min(trial.launch.blocks, trial.card.sms * each) for each in (trial.resident, fewer) if each is not None]
    sizes = [format_bytes_rounded(each * of_block) for each in blocks]
    l2 = trial.card.values.get(("l2", "capacity"))
    holds = f"; the L2 holds {format_bytes_rounded(l2)}" if l2 else ""
    return [f"local memory of all resident threads: {' -> '.join(sizes)}{holds}"]


def _lost_share(trial: Trial) -> float:
    """Share of the sectors that loads request which miss the L1 although their block has loaded them before."""
    weights, lost = trial.loaded_sectors(), 0.0
    for index, weight in weights.items():
        each = trial.found.requests[index]
        missed = (1 - each.in_sm) * each.l2_bytes / (SECTOR * each.sectors)
        lost += weight * max(0.0, missed - trial.new_shares.get(trial.assessment.accessed[index], missed))
    return lost / (sum(weights.values()) or 1.0)

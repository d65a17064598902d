"""Which warp goes first on VV16's GPUs: what it tells, beside simulated schedulers that take turns or go by age."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpudissect import catalogue
from gpudissect.device.simulated.costs import costs_of
from gpudissect.measure.latency_hiding.infer_warps import Lifetimes, attained, between_rounds, mean_latency, occupancy
from gpudissect.models import by_key, published
from gpudissect.models.base import Loop
from gpudissect.simulation.sm.description import Scheduling
from gpudissect.simulation.sm.engine import Job, run
from gpudissect.units import WARP_SIZE
from gpudissect.workload import Access, Instruction, Mix, Step

G80, GT200, FERMI, KEPLER, MAXWELL = published.gpus()
NAMES = {Scheduling.ROUND_ROBIN: "in turns", Scheduling.OLDEST: "oldest block first"}
ALPHAS, FEWEST, ROUNDS, INSTRUCTIONS = (16, 23, 32, 45, 64), 32, 8, 4096
SEED = 1


def lines() -> Iterator[str]:
    """The section in Markdown."""
    yield from ("", "### Which warp goes first", "")
    yield "A simulated scheduler takes turns, unless its GPU file says that the oldest block goes first (`scheduling`)."
    yield "VV16 tells of two GPUs. On GT200 occupancy varies less where warps stay to the end (s5.9): in turns. On G80"
    yield "it varies more (figure 5.4): 20 warps of shared memory in blocks of 10, half of them end after about 2/3 of"
    yield "the time, and fewer than 9 are there in the last 7 %. Neither rule gives both, so G80's file names none:"
    yield from ("", "| rule | half of the warps have ended after | less than 9 warps are there for |", "|---|---|---|")
    for rule, name in NAMES.items():
        mix = Mix(body=(Step(Instruction.LDS),), warps=20, block_size=10 * WARP_SIZE, iterations=2000)
        seen = _seen(G80, rule, mix)
        ended = np.sort(seen.end - seen.begin.min())
        short = occupancy(seen, 0).below(9)
        yield f"| {name} | {ended[seen.end.size // 2 - 1] / ended[-1]:.2f} | {short:.0%} |"
    yield ""
    yield "The refined model's most over-estimate, by the mean latency of warps that all begin together, and by blocks"
    yield "that take the places of others. Where the oldest goes first, mean latency tells too high a throughput: warps"
    yield "that end early count, but not that others then wait for them no more. So 1.09, what VV16 prints of Fermi, is"
    yield "no reason to think that its oldest warps go first:"
    yield from ("", "| GPU | printed | rule | by mean latency | by rounds of blocks |", "|---|---|---|---|---|")
    for gpu, printed in ((FERMI, "1.09"), (KEPLER, "about 1.2")):
        for rule, name in NAMES.items():
            worst = " | ".join(f"{_most(gpu, rule, rounds):.2f}" for rounds in (1, ROUNDS))
            yield f"| {published.generation(gpu)} | {printed} | {name} | {worst} |"
    yield ""
    yield "Of Hopper it was measured: the oldest block goes first"
    yield "([latency hiding of an H200](results/h200-latency-hiding.md))."


def _seen(gpu: str, rule: Scheduling, mix: Mix) -> Lifetimes:
    known = catalogue.load(gpu)
    processor = known.processor()
    assert processor is not None, f"{gpu} has no processor"
    changed = replace(processor, scheduling=rule)
    per_block = mix.block_size // WARP_SIZE
    body = costs_of(mix, changed, known.hierarchy())
    done = run(changed, Job(body, mix.warps, per_block, mix.iterations, 1, mix.waves * mix.warps // per_block), SEED)
    return Lifetimes(done.begin, done.end, np.zeros(done.begin.size, np.int64))


def _most(gpu: str, rule: Scheduling, rounds: int) -> float:
    machine, refined = published.machine(gpu), by_key("refined")
    processor = catalogue.load(gpu).processor()
    assert processor is not None, f"{gpu} has no processor"
    found = []
    for alpha in ALPHAS:
        for warps in range(FEWEST // machine.schedulers * machine.schedulers, machine.warps + 1, machine.schedulers):
            blocks = next((n for n in range(processor.blocks, 0, -1) if warps % n == 0), 1)
            mix = Mix(body=(Step(Instruction.LDG), Step(Instruction.FADD, alpha)), warps=warps, waves=rounds,
                      block_size=warps // blocks * WARP_SIZE, iterations=max(8, INSTRUCTIONS // (alpha + 1)),
                      access=Access.STREAMING, footprint=1 << 28)  # fmt: skip
            seen = _seen(gpu, rule, mix)
            rate = warps * mix.instructions / mean_latency(seen)
            if rounds > 1:
                rate = between_rounds(seen, mix.instructions) or attained(seen, mix.instructions)
            found.append(float(refined.throughput(machine, Loop(alpha=alpha), warps)) / rate)
    return max(found)

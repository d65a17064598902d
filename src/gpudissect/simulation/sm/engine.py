"""Runs warps on one SM: what the compiled loop takes, and what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.sm.description import Pipe, Processor, Scheduling

_PIPES = list(Pipe)
BINS = 1 << 16
FEWEST = 16  # iterations that are simulated one by one, however long they are: warps begin in step


@dataclass(frozen=True)
class Queue:
    """Service behind the SM: one access at a time, each for `service` cycles on average, see `MemorySystem`.

    `name` tells queues apart: accesses of the same name wait for one another. An access that is not `awaited` (a
    store) keeps its chain only until it has been served.
    """

    name: str
    service: float
    variability: float = 0.5
    awaited: bool = True


@dataclass(frozen=True)
class Cost:
    """What one instruction of a job costs, conflicts and all: see `Operation` for the names.

    `core`: whether the cores execute it, so that some results reach it sooner. `barrier`: whether it waits for all
    warps of its block. `queue`: where it waits for its share of a memory; its latency is then that of an access that is
    alone.
    """

    pipe: Pipe
    interval: float
    latency: float
    latency_to_core: float | None = None
    slots: int = 1
    core: bool = False
    barrier: bool = False
    queue: Queue | None = None


@dataclass(frozen=True)
class Job:
    """What an SM runs.

    Attributes:
        body: one iteration, instruction by instruction; each depends on the one before, the first on the last of the
            iteration before.
        warps: at once. A whole number of blocks of `warps_per_block`.
        iterations: how often a warp runs the body.
        chains: of each warp, interleaved instruction by instruction.
        blocks: all of them; None for as many as run at once. As blocks end, others take their place.
        sampled: of how many accesses of warp 0 that wait in a queue one is timed; 0: none is.

    """

    body: tuple[Cost, ...]
    warps: int
    warps_per_block: int
    iterations: int
    chains: int = 1
    blocks: int | None = None
    sampled: int = 0


@dataclass(frozen=True)
class Run:
    """When the warps of all blocks began and ended; cycles, shape (blocks * warps_per_block,).

    `samples`: how many of the accesses that were timed took so many cycles, the last: or more; shape (BINS,).
    """

    begin: NDArray[np.int64]
    end: NDArray[np.int64]
    samples: NDArray[np.int64]


def run(processor: Processor, job: Job, seed: int = 0) -> Run:
    """Run a job on one SM, cycle by cycle.

    Warp w belongs to scheduler w modulo their number. `seed` is that of the service times. Raises `ValueError` for
    warps that are not whole blocks.
    """
    from gpudissect.simulation.sm import _engine as engine

    if job.warps % job.warps_per_block or job.warps < 1:
        raise ValueError(f"{job.warps} warps are no whole number of blocks of {job.warps_per_block}")
    at_once = job.warps // job.warps_per_block
    blocks = max(at_once, job.blocks or at_once)
    kinds = list(dict.fromkeys(job.body))
    queues = list(dict.fromkeys(cost.queue.name for cost in kinds if cost.queue))
    operations = np.array([_row(processor, cost, queues) for cost in kinds], dtype=np.float64)
    body = np.array([kinds.index(cost) for cost in job.body], dtype=np.int64)

    machine = np.zeros(engine.M_SIZE, dtype=np.int64)
    machine[engine.M_SCHEDULERS] = processor.schedulers
    machine[engine.M_STEP] = processor.issue_interval
    machine[engine.M_WIDTH] = processor.issue_width
    machine[engine.M_REISSUE] = processor.reissue
    machine[engine.M_OLDEST] = processor.scheduling is Scheduling.OLDEST
    machine[engine.M_PIPES] = len(_PIPES)
    machine[engine.M_REPLACEMENT] = round(processor.launches.block_replacement)
    task = np.zeros(engine.J_SIZE, dtype=np.int64)
    task[engine.J_WARPS], task[engine.J_PER_BLOCK] = job.warps, job.warps_per_block
    task[engine.J_CHAINS], task[engine.J_ITERATIONS] = job.chains, job.iterations
    task[engine.J_BLOCKS], task[engine.J_STARTED] = blocks, at_once
    task[engine.J_SAMPLED] = job.sampled

    warps = np.zeros((job.warps, engine.W_SIZE), dtype=np.int64)
    warps[:, engine.W_RECORD] = np.arange(job.warps)
    seats = np.zeros((at_once, engine.B_SIZE), dtype=np.int64)
    seats[:, engine.B_LEFT] = job.warps_per_block
    schedulers = np.zeros((processor.schedulers, engine.S_SIZE), dtype=np.int64)
    schedulers[:, engine.S_LAST] = -1
    records = np.zeros((blocks * job.warps_per_block, engine.R_SIZE), dtype=np.int64)
    draws = np.zeros(engine.D_SIZE, dtype=np.uint64)
    draws[engine.D_STATE] = seed
    samples = np.zeros(BINS if job.sampled else 1, dtype=np.int64)
    engine.simulate(
        machine, task, operations, body, warps,
        np.zeros((job.warps, job.chains), dtype=np.int64), seats, schedulers,
        np.zeros(len(_PIPES) * (1 + processor.schedulers)), np.zeros(max(1, len(queues))), records,
        draws, samples,
    )  # fmt: skip
    return Run(records[:, engine.R_BEGIN].copy(), records[:, engine.R_END].copy(), samples)


def run_long(processor: Processor, job: Job, most: int, seed: int = 0) -> Run:
    """Run a job of one round; of more than about `most` instructions only the first so many, one by one.

    What a warp takes for the rest follows from two runs, one twice as long as the other: what grows with the number of
    iterations grows on, warps that run alone because others have ended included.
    """
    each = job.warps * job.chains * len(job.body)
    half = max(FEWEST, most // each // 2)
    if 2 * half >= job.iterations or job.blocks not in (None, job.warps // job.warps_per_block):
        return run(processor, job, seed)
    shorter, longer = (run(processor, replace(job, iterations=count), seed) for count in (half, 2 * half))
    pace = (longer.end - shorter.end) / half
    rest = np.rint(pace * (job.iterations - 2 * half)).astype(np.int64)
    return Run(longer.begin, longer.end + rest, longer.samples)


def _row(processor: Processor, cost: Cost, queues: Sequence[str]) -> list[float]:
    """A cost in the order of the engine's columns."""
    pipe = _PIPES.index(cost.pipe)
    queue = cost.queue
    return [
        pipe if cost.pipe in processor.single else -1 - pipe,
        cost.interval,
        cost.latency,
        cost.latency if cost.latency_to_core is None else cost.latency_to_core,
        cost.core,
        cost.slots,
        cost.barrier,
        queues.index(queue.name) if queue else -1,
        queue.service if queue else 0.0,
        queue.variability if queue else 0.0,
        queue.awaited if queue else True,
    ]

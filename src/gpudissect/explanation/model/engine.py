"""Runs the warps of a kernel on one SM: the interface of the compiled loop."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sm:
    """The machine that runs them: an SM with its share of the L2 and of device memory.

    Latencies in cycles of a request that goes to the L2 or memory, bandwidths in bytes per cycle of one SM.
    `link_bytes` is what the SM takes from both at most. Memory latency rises by `rise` times load over what is left of
    it. `credit`: cycles by which an SM that was idle may be ahead of its share. `depth`: cycles by which the queue in
    front of a shared pipe may be behind; `backlog`: by which the L2 and memory may be before loads wait in the SM.
    """

    schedulers: int
    pipes: tuple[str, ...]  # of each scheduler
    shared_pipes: tuple[str, ...]  # of the SM
    l2_latency: float
    dram_latency: float
    l2_bytes: float
    dram_bytes: float
    link_bytes: float
    rise: float
    credit: float
    block_replacement: float
    depth: float
    backlog: float
    lines: int  # of the L1: also the lines that it can wait for


@dataclass(frozen=True)
class Step:
    """One instruction on the path: see the columns of the compiled loop."""

    stall: int
    waits: int
    sets: int | None
    reads: int | None
    pipe: str
    interval: float
    shared_pipe: str | None = None
    shared_interval: float = 0.0
    latency: float = 1.0
    read_latency: float = 1.0
    kind: str = "plain"  # plain, load, store, barrier
    in_sm: float = 1.0  # share of requests that end in the SM
    in_l2: float = 1.0  # ... or in the L2
    l2_bytes: float = 0.0
    dram_bytes: float = 0.0
    link_bytes: float = 0.0
    lines: float = 0.0  # of the L1, held until the data are there
    spread: float = 0.0  # cycles from the first of them to the last


@dataclass(frozen=True)
class Work:
    """Blocks of an SM: how many, how many at once, warps of each, which have the `paths` in turn."""

    steps: tuple[Step, ...]
    paths: tuple[NDArray[np.int64], ...]
    warps_per_block: int
    resident: int
    blocks: int


@dataclass(frozen=True)
class Run:
    """What a run took: end of each block in cycles; work in cycles by pipe; cycles waited by step.

    `busy` has the pipes of the schedulers (cycles of all of them together), the shared pipes, `l2` and `memory`.
    `waited` (steps, 2): for barriers of scoreboards or blocks, and for pipes or issue slots.
    """

    ends: NDArray[np.int64]
    busy: dict[str, float]
    waited: Floats = field(repr=False)

    @property
    def cycles(self) -> int:
        """Cycles until the last block ended."""
        return int(self.ends.max())


KINDS = ("plain", "load", "store", "barrier")


def run(sm: Sm, work: Work) -> Run:
    """Run all blocks on an SM. Raises `ValueError` without a path, warps or blocks."""
    from gpudissect.explanation.model import _engine as engine

    if (
        not work.paths
        or not all(path.size for path in work.paths)
        or min(work.warps_per_block, work.resident, work.blocks) < 1
    ):
        raise ValueError("a run needs a path, warps and blocks")
    resident = min(work.resident, work.blocks)
    warps = resident * work.warps_per_block
    machine = np.zeros(engine.M_SIZE)
    machine[engine.M_SCHEDULERS], machine[engine.M_DEPTH], machine[engine.M_BACKLOG] = (
        sm.schedulers,
        sm.depth,
        sm.backlog,
    )
    machine[engine.M_REPLACEMENT] = sm.block_replacement
    machine[engine.M_L2_LATENCY], machine[engine.M_DRAM_LATENCY] = sm.l2_latency, sm.dram_latency
    machine[engine.M_L2_BYTES], machine[engine.M_DRAM_BYTES] = sm.l2_bytes, sm.dram_bytes
    machine[engine.M_LINK_BYTES], machine[engine.M_RISE], machine[engine.M_CREDIT] = sm.link_bytes, sm.rise, sm.credit
    job = np.zeros(engine.J_SIZE, dtype=np.int64)
    job[engine.J_PER_BLOCK], job[engine.J_BLOCKS] = work.warps_per_block, work.blocks
    instructions = np.array([_row(sm, step) for step in work.steps])
    state = np.zeros((warps, engine.W_SIZE), dtype=np.int64)
    schedulers = np.zeros((sm.schedulers, engine.S_SIZE), dtype=np.int64)
    schedulers[:, engine.S_LAST] = np.arange(sm.schedulers) - sm.schedulers
    ends = np.zeros(work.blocks, dtype=np.int64)
    names = (*sm.pipes, *sm.shared_pipes, "l2", "memory")
    busy, waited = np.zeros(len(names)), np.zeros((len(work.steps), 2))
    engine.simulate(
        engine.State(
            machine,
            instructions,
            np.concatenate(work.paths).astype(np.int64),
            np.cumsum([0, *(path.size for path in work.paths)], dtype=np.int64),
            job,
            state,
            np.zeros((resident, engine.B_SIZE), dtype=np.int64),
            schedulers,
            np.zeros((sm.schedulers, len(sm.pipes))),
            np.zeros(max(1, len(sm.shared_pipes))),
            np.zeros(3),
            np.zeros(max(1, sm.lines)),
            ends,
            busy,
            waited,
            np.zeros(len(work.steps), dtype=np.int64),
        )
    )
    return Run(ends, dict(zip(names, busy.tolist(), strict=True)), waited)


def _row(sm: Sm, step: Step) -> list[float]:
    """A step in the order of the engine's columns."""
    shared = -1 if step.shared_pipe is None else sm.shared_pipes.index(step.shared_pipe)
    return [
        max(1, step.stall),
        step.waits,
        -1 if step.sets is None else step.sets,
        -1 if step.reads is None else step.reads,
        sm.pipes.index(step.pipe),
        step.interval,
        shared,
        step.shared_interval,
        step.latency,
        step.read_latency,
        KINDS.index(step.kind),
        step.in_sm,
        step.in_l2,
        step.l2_bytes,
        step.dram_bytes,
        step.link_bytes,
        step.lines,
        step.spread,
    ]

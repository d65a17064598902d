"""Workloads by short calls."""

from typing import Any

from gpudissect.workload import Chase, Instruction, Mix, Order, Path, Step, Stream, Timing, Transfer

EACH, LAP, COUNT = Timing.EACH, Timing.LAP, Timing.COUNT
CHAINED = [path for path in Path if path not in (Path.NOTHING, Path.TMA, Path.CODE)]
"""Paths of chains that are timed in any way: bulk copies and code are timed in laps only."""


def chase(path: Path, order: Order, timing: Timing = EACH, **fields: Any) -> Chase:
    return Chase(path=path, order=order, timing=timing, **fields)


def stream(path: Path, transfer: Transfer, footprint: int, blocks: int, threads: int, **fields: Any) -> Stream:
    shape = {"footprint": footprint, "blocks": blocks, "threads": threads}
    return Stream(path=path, transfer=transfer, **shape, **fields)


def mix(*steps: Step | Instruction, **fields: Any) -> Mix:
    body = tuple(step if isinstance(step, Step) else Step(step) for step in steps)
    return Mix(**{"body": body, "warps": 4, "block_size": 128, "iterations": 64} | fields)

"""Which clusters a GPU takes: groups of blocks that reach each other's shared memory (Hopper on)."""

from __future__ import annotations

from gpudissect.device.cuda.chase.layout import TRAITS
from gpudissect.device.cuda.chase.runner import Runner
from gpudissect.device.cuda.driver import Board
from gpudissect.errors import DeviceError
from gpudissect.workload import Path

SIZES = (2, 4, 8, 16)


def clusters(board: Board, runner: Runner, shared: int) -> dict[int, int]:
    """How many clusters run at once, by their blocks, each of which takes `shared` bytes: all that an SM has.

    Raises `DeviceError` if there are none.
    """
    kernel = runner.kernel("chase.cu", "chase_lap", TRAITS[Path.CLUSTER].macro)
    kernel.configure(shared=shared, carveout=100)
    kernel.allow_any_cluster()
    found = {size: board.clusters_at_once(kernel, size, 1, shared) for size in SIZES}
    found = {size: count for size, count in found.items() if count > 0}
    if not found:
        raise DeviceError("the driver takes no cluster of blocks with an SM each")
    return found

"""What host and kernels tell each other, as numpy sees it, and the traits of each path.

The fields of `JOB`, `REPORT`, `RING`, `TURN`, `STREAM_REPORT`, `MIX_REPORT`, `MEETING` and `SAMPLES` stand in the order
of ``kernels/job.cuh``, ``lay.cu``, ``turns.cuh``, ``stream.cuh`` and ``mix.cuh``; a test compiles the C++ and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gpudissect.units import KIB
from gpudissect.workload import Path

JOB = np.dtype([
    ("start", "u8"), ("results", "u8"), ("ring", "u8"), ("turns", "u8"), ("ring_bytes", "u4"), ("slots_at", "u4"),
    ("slots", "u4"), ("count", "u4"), ("laps", "u4"), ("first", "i4"), ("hit_max", "u4"), ("miss_min", "u4"),
    ("miss_max", "u4"), ("one", "u4"), ("turn_count", "u4"), ("sm", "u4"), ("taken", "u4"), ("peer", "u4"),
])  # fmt: skip
REPORT = np.dtype([
    ("start", "u8"), ("end", "u8"), ("base", "u8"), ("sm", "u8"), ("peer_sm", "u8"), ("cycles", "u8"), ("ns", "u8"),
])  # fmt: skip
RING = np.dtype([
    ("region", "u8"), ("origin", "u8"), ("table", "u8"), ("picks", "u8"), ("mark", "u8"), ("stride", "u8"),
    ("start", "u8"), ("first", "u8"), ("count", "u4"), ("pick_count", "u4"), ("kind", "u4"), ("seed", "u4"),
    ("half", "u4"), ("word", "u4"), ("shift", "u4"), ("reserved", "u4"),
])  # fmt: skip
TURN = np.dtype([
    ("start", "u8"), ("accesses", "u4"), ("path", "u4"), ("warp", "u4"), ("sm", "u4"), ("done", "u4"),
    ("seen_sm", "u4"), ("broken", "u4"), ("laps", "u4"),
])  # fmt: skip
TURN_PATHS = (Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT, Path.CODE)
"""Paths of turns, as ``kernels/turns.cuh`` numbers them."""
STREAM_REPORT = np.dtype([
    ("begin", "u8"), ("end", "u8"), ("cycles", "u8"), ("sm", "u4"), ("rank", "u4"), ("sum", "u4"),
    ("unused", "u4", (7,)),
])  # fmt: skip
"""What every block of a stream tells, as in ``kernels/stream.cuh``."""
MIX_REPORT = np.dtype([
    ("begin", "u8"), ("end", "u8"), ("begin_ns", "u8"), ("end_ns", "u8"), ("sm", "u4"), ("broken", "u4"),
])  # fmt: skip
"""What every warp of a mix tells, as in ``kernels/mix.cuh``."""
MEETING = np.dtype([
    ("arrived", "u4"), ("done", "u4"), ("warm", "u4"), ("ranks", "u4"), ("cycles", "u8"), ("ns", "u8"),
    ("starts", "u8", (1024,)),
])  # fmt: skip
"""Where the blocks of a mix meet, as in ``kernels/mix.cuh``."""
SAMPLES = np.dtype([("overhead", "u4"), ("reserved", "u4"), ("bins", "u4", (65536,))])
"""How long single loads of a mix took, as in ``kernels/mix.cuh``."""
POINTER = 8
"""Bytes of a link that is an address; a longer link begins with it."""
SLOT = 8
"""Bytes of one record in shared memory."""
CODE_BODY = 512 * KIB
"""Bytes of straight-line code in ``kernels/code.cuh``."""
UNRINGED = (Path.NOTHING, Path.CODE)
"""Paths on which nothing is laid in memory."""


class RingKind(IntEnum):
    """How a ring's offsets are found, as ``kernels/lay.cu`` numbers it."""

    SEQUENTIAL = 0
    SHUFFLED = 1
    EXPLICIT = 2


@dataclass(frozen=True)
class Traits:
    """How a path's links look.

    Attributes:
        macro: what ``kernels/path.cuh`` is compiled with.
        absolute: links are addresses; otherwise they count from the start of the memory that the load sees.
        shift: links count ``offset >> shift``.
        mark: the bit of a link that marks a picked position.
        through_l1: shared memory taken for records is taken from the cache under test.
        front: bytes at the start of a block's shared memory that the load itself needs.
        ring_inside: the ring is copied into the start of a block's shared memory.

    """

    macro: str
    absolute: bool = False
    shift: int = 0
    mark: int = 1
    through_l1: bool = False
    front: int = 0
    ring_inside: bool = False


TRAITS = {
    Path.NOTHING: Traits("PATH_NOTHING"),
    Path.GLOBAL: Traits("PATH_GLOBAL", absolute=True, through_l1=True),
    Path.GLOBAL_L2: Traits("PATH_GLOBAL_L2", absolute=True),
    Path.READONLY: Traits("PATH_READONLY", absolute=True, through_l1=True),
    Path.TEXTURE: Traits("PATH_TEXTURE", shift=2, mark=1 << 31, through_l1=True),
    Path.CONSTANT: Traits("PATH_CONSTANT"),
    Path.SHARED: Traits("PATH_SHARED", ring_inside=True),
    Path.CLUSTER: Traits("PATH_CLUSTER", ring_inside=True),
    Path.TMA: Traits("PATH_TMA", absolute=True, front=32),
    Path.CODE: Traits("PATH_CODE"),
}


def origin(path: Path, base: int, region: int) -> int:
    """The link to offset 0 of a ring whose region lies `region` bytes into the arena at `base`."""
    if TRAITS[path].absolute:
        return base + region
    return region >> TRAITS[path].shift if path is Path.TEXTURE else 0

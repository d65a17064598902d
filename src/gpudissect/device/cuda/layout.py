"""Structures that host and kernels share, as numpy types, and the traits of each path's load.

The fields stand in the order of ``kernels/job.cuh``, ``chains.cu``, ``prior.cuh``, ``stream.cuh``, ``stream_words.cu``
and ``mix.cuh``; a test compiles the C++ and compares.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from gpudissect.units import KIB
from gpudissect.workload import Path


def _fields(declaration: str) -> list[tuple[str, str]]:
    """Fields of a structure declared as ``type name name; type name``."""
    groups = (group.split() for group in declaration.split(";"))
    return [(name, kind) for kind, *names in groups for name in names]


_JOB = "u8 start results chain prior; u4 chain_bytes slots_offset slots count laps; i4 first; "
_JOB += "u4 hit_max miss_min miss_max one prior_count sm taken peer"
_CHAIN = "u8 region origin table picks mark stride start first; "
_CHAIN += "u4 count pick_count kind seed half link_bytes shift reserved"
_PRIOR = "u8 starts; u4 count path warp sm done actual_sm broken laps threads claimed"
JOB = np.dtype(_fields(_JOB))  # of one block of a chase
REPORT = np.dtype(_fields("u8 start end base sm peer_sm cycles ns"))  # of one block of a chase
CHAIN = np.dtype(_fields(_CHAIN))  # to be written to memory
PRIOR = np.dtype(_fields(_PRIOR))  # accesses before a chase
PRIOR_PATHS = (Path.GLOBAL, Path.GLOBAL_L2, Path.READONLY, Path.TEXTURE, Path.CONSTANT, Path.CODE)
"""Paths of prior accesses, as ``kernels/prior.cuh`` numbers them."""
LOADS_OF_PEERS = {Path.PEER: Path.GLOBAL_L2, Path.PEER_L1: Path.GLOBAL}
"""Paths with the same loads; addresses lead to memory of another GPU."""
STREAM_REPORT = np.dtype([*_fields("u8 begin end cycles; u4 sm rank sum"), ("unused", "u4", (7,))])  # of one block
_SUMMARY = "u8 first_begin last_begin first_end last_end block_ns cycles missing wrong"
STREAM_SUMMARY = np.dtype([*_fields(_SUMMARY), ("blocks_by_sm", "u4", (1024,))])  # of one run
MIX_REPORT = np.dtype(_fields("u8 begin end begin_ns end_ns; u4 sm broken"))  # of one warp
GRID_BARRIER = np.dtype([*_fields("u4 arrived done warm ranks; u8 cycles ns"), ("starts", "u8", (1024,))])  # of a mix
SAMPLES = np.dtype([*_fields("u4 overhead reserved"), ("bins", "u4", (65536,))])  # latencies of a mix's single loads
POINTER_BYTES = 8  # of a link that is an address; a longer link begins with it
SLOT_BYTES = 8  # of one record in shared memory
CODE_BYTES = 512 * KIB  # of straight-line code in ``kernels/code.cuh``
CONSTANT_BANK_BYTES = 64 * KIB  # of constant memory that a module may have
UNCHAINED = (Path.NOTHING, Path.CODE)  # paths without a chain in memory


class ChainKind(IntEnum):
    """How a chain's offsets are computed, as ``kernels/chains.cu`` numbers it."""

    SEQUENTIAL = 0
    SHUFFLED = 1
    EXPLICIT = 2


@dataclass(frozen=True)
class Traits:
    """The links of a path, and what its load needs."""

    macro: str  # with which ``kernels/path.cuh`` is compiled
    absolute: bool = False  # links are addresses; otherwise they count from the start of the memory
    shift: int = 0  # links count ``offset >> shift``
    mark: int = 1  # the bit of a link that marks a picked position
    through_l1: bool = False  # shared memory for records is taken from the cache under test
    front_bytes: int = 0  # of a block's shared memory that the load itself needs
    chain_in_shared: bool = False  # the chain is copied to the start of a block's shared memory


TRAITS = {
    Path.NOTHING: Traits("PATH_NOTHING"),
    Path.GLOBAL: Traits("PATH_GLOBAL", absolute=True, through_l1=True),
    Path.GLOBAL_L2: Traits("PATH_GLOBAL_L2", absolute=True),
    Path.READONLY: Traits("PATH_READONLY", absolute=True, through_l1=True),
    Path.TEXTURE: Traits("PATH_TEXTURE", shift=2, mark=1 << 31, through_l1=True),
    Path.CONSTANT: Traits("PATH_CONSTANT"),
    Path.SHARED: Traits("PATH_SHARED", chain_in_shared=True),
    Path.CLUSTER: Traits("PATH_CLUSTER", chain_in_shared=True),
    Path.TMA: Traits("PATH_TMA", absolute=True, front_bytes=32),
    Path.HOST: Traits("PATH_GLOBAL_L2", absolute=True),  # the same instructions; addresses lead to other memory
    Path.PEER: Traits("PATH_GLOBAL_L2", absolute=True),
    Path.PEER_L1: Traits("PATH_GLOBAL", absolute=True, through_l1=True),
    Path.CODE: Traits("PATH_CODE"),
}

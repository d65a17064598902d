"""Compilation of inner loops, their arrays and their random numbers. Imports numba: import it only to simulate.

Compiled functions take arrays of fixed types (contiguous, writeable), so that each is compiled once and then found in
numba's cache on disk. That cache notices changes only in the file of the called function; a digest of all modules of
its folder is part of its place: keep an inner loop, with everything it calls, in one folder.
"""

import hashlib
import inspect
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpudissect.cache_folder import cache_folder, private_folder

I8 = NDArray[np.int8]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F64 = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])
config: Any = numba.config

# Divisions need no test for zero. Without numba's runtime (_nrt) nothing can be allocated, and in return arrays are not
# reference-counted, which took two thirds of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False, "nogil": True}


class Arrays(NamedTuple):
    """All caches and TLBs of a hierarchy, packed.

    Columns of `shape`: LINE_SHIFT, SECTOR_SHIFT: log2 of the bytes; SECTORS per line; INDEX: kind; TABLE: start in
    `tables`; PER: lines per granule; PERIOD: of MODULO and LOOKUP; FIRST: start in `tags`; WAYS: 0 for unequal sets;
    STARTS: of their list in `tables`; POLICY: kind; ODDS: start in `odds`; ORDERS: start in `tables`;
    TOUCHED: start in `touched`; SETS: number; ROOM: limit in half lines, 0 for none; FIRST_USE: half lines that a new
    line takes.
    """

    shape: I64  # (arrays, COLUMNS)
    tables: I32  # orders after their lengths, index tables, and for unequal sets the starts in `tags` and the last end
    odds: F64  # cumulative probabilities of WEIGHTED
    tags: I32  # per way the line number there, or EMPTY
    marks: (
        I8  # per way reference bit, prediction, rank (SLRU) or node of the PLRU tree (1 the root, 0 unused); of way 0
    )
    #            the place in the order (ORDER); half lines that a line takes, where ROOM limits them
    sectors: I32  # per way, bit i is set when sector i is valid. A single element if nothing is sectored
    touched: I32  # per set, the numbers of the sets that hold lines, so that a reset is cheap
    filled: I64  # (arrays,), number of valid entries of `touched`
    draws: U64  # (arrays,), states of the random streams
    used: I64  # (arrays,), half lines of room in use
    turns: I64  # (arrays,), set that is next to lose a line if room runs out


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or load it from an earlier process's compilation."""
    beside = Path(inspect.getfile(function)).parent / "__pycache__"
    folder = _numba_folder(beside)
    if folder is None:
        return called(function)
    configured = config.CACHE_DIR
    config.CACHE_DIR = str(folder / _digest(Path(inspect.getfile(function)).parent))  # read when numba decorates
    try:
        cached: Any = njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder can be written to
        return called(function)
    finally:
        config.CACHE_DIR = configured
    if cached is function:  # NUMBA_DISABLE_JIT is set
        return function
    # Where numba cannot write to this folder, it uses others, which are not checked.
    return cached if Path(cached.stats.cache_path).is_relative_to(folder) else called(function)


@cache
def _digest(folder: Path) -> str:
    """Of all modules of a folder."""
    found = hashlib.sha256()
    for file in sorted(folder.glob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _numba_folder(beside: Path) -> Path | None:
    """Folder for numba's cache, whose files are unpickled; None if there is no safe one.

    `beside`, Python's own cache of the source, needs no check: who can write there can also replace bytecode.
    """
    if config.CACHE_DIR and (configured := private_folder(Path(config.CACHE_DIR))):
        return configured
    try:
        beside.mkdir(exist_ok=True)
    except OSError:
        return cache_folder("numba")
    return beside if os.access(beside, os.W_OK) else cache_folder("numba")


def inlined(function: Function) -> Function:
    """Compile a function into each of its callers."""
    return njit(forceinline=True, **OPTIONS)(function)  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile a function in every process: one that compiled functions call rarely."""
    return njit(**OPTIONS)(function)  # type: ignore[no-any-return]


@inlined
def uniform(draws: U64, stream: int | np.int64) -> float:
    """Next number, in [0, 1), of the SplitMix64 stream with state draws[stream] (source: `geometry.PolicyKind`)."""
    state = draws[stream] + np.uint64(0x9E3779B97F4A7C15)
    draws[stream] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

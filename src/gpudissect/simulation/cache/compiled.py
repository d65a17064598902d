"""How inner loops are compiled, and the random numbers they draw. Imports numba: import it only to simulate.

Whatever is compiled here or elsewhere takes arrays of fixed types (contiguous, writeable), so that each function
is compiled once and then found in numba's cache on disk. That cache notices changes only in the file of the
function that was called: keep an inner loop, with all it calls, in one file.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from gpudissect.cache_folder import cache_folder, private_folder

Function = TypeVar("Function", bound=Callable[..., Any])
config: Any = numba.config

# Divisions need no test for zero. Without numba's runtime (_nrt) nothing can be allocated, and in return arrays
# are not reference-counted: the counting, not the caches, took two thirds of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or load it from an earlier process's compilation."""
    beside = Path(inspect.getfile(function)).parent / "__pycache__"
    folder = _numba_folder(beside)
    if folder is None:
        return called(function)
    configured = config.CACHE_DIR
    config.CACHE_DIR = "" if folder == beside else str(folder)  # numba chooses the folder when it decorates
    try:
        cached: Any = njit(cache=True, **OPTIONS)(function)
    except RuntimeError:  # no folder can be written to
        return called(function)
    finally:
        config.CACHE_DIR = configured
    if cached is function:  # NUMBA_DISABLE_JIT is set
        return function
    # Where numba cannot write to this folder, it takes others, which are not checked.
    return cached if Path(cached.stats.cache_path).is_relative_to(folder) else called(function)


def _numba_folder(beside: Path) -> Path | None:
    """Folder for numba's cache, whose files are unpickled; None if there is no safe one: compile in every process.

    Args:
        beside: Python's own cache of the source. It needs no check: who can write there can also replace bytecode.

    """
    if config.CACHE_DIR and (named := private_folder(Path(config.CACHE_DIR))):
        return named
    try:
        beside.mkdir(exist_ok=True)
    except OSError:
        return cache_folder("numba")
    return beside if os.access(beside, os.W_OK) else cache_folder("numba")


def inlined(function: Function) -> Function:
    """Compile a function into each place that calls it."""
    return njit(forceinline=True, **OPTIONS)(function)  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile a function in every process: one that compiled functions call, rarely enough to keep it apart."""
    return njit(**OPTIONS)(function)  # type: ignore[no-any-return]


@inlined
def uniform(draws: NDArray[np.uint64], stream: int | np.int64) -> float:
    """Next number, in [0, 1), of a SplitMix64 stream, whose state is draws[stream] (see `policy` for the source)."""
    state = draws[stream] + np.uint64(0x9E3779B97F4A7C15)
    draws[stream] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

"""How inner loops are compiled, and the random numbers they draw. Imports numba: import it only to simulate.

Whatever is compiled here or elsewhere takes arrays of fixed types (contiguous, writeable), so that each function
is compiled once and then found in numba's cache on disk. That cache notices changes only in the file of the
function that was called: keep an inner loop, with all it calls, in one file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

# Divisions need no test for zero. Without numba's runtime (_nrt) nothing can be allocated, and in return arrays
# are not reference-counted: the counting, not the caches, took two thirds of the time.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "_nrt": False}


def compiled(function: Function) -> Function:
    """Compile a function that Python calls, or load it from an earlier process's compilation."""
    try:
        return njit(cache=True, **OPTIONS)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the user's can be written: compile in every process
        return njit(**OPTIONS)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile a function into each place that calls it."""
    return njit(forceinline=True, **OPTIONS)(function)  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile a function that compiled functions call, rarely enough to keep it apart."""
    return njit(**OPTIONS)(function)  # type: ignore[no-any-return]


@inlined
def uniform(draws: NDArray[np.uint64], stream: int | np.int64) -> float:
    """Next number, in [0, 1), of a SplitMix64 stream, whose state is draws[stream] (see `policy` for the source)."""
    state = draws[stream] + np.uint64(0x9E3779B97F4A7C15)
    draws[stream] = state
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((state ^ (state >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53

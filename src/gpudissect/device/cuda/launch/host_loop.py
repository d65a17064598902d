"""The loop that times starts, compiled: import it only to time something, it imports numba.

Functions of other libraries are called by their addresses, which are arguments: what is compiled is then found in
numba's cache on disk by the next process.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from gpudissect.simulation.cache.compiled import compiled, inlined

_MONOTONIC = 1  # CLOCK_MONOTONIC of Linux
_SECOND = 1_000_000_000


def _address_call(typing: Any, address: Any, arguments: Any) -> Any:
    """Call the C function at an address with integers and handles; its result, an int.

    Each argument goes as 64 bits: a register or a place on the stack holds so many on x86-64 and AArch64 alike, and who
    wants fewer takes the lower ones.
    """

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        values = _unpack(builder, given[1])
        function = ir.FunctionType(ir.IntType(32), [ir.IntType(64)] * len(values))
        return builder.call(builder.inttoptr(given[0], function.as_pointer()), values)

    return types.int32(address, arguments), generate


_call: Any = intrinsic(_address_call)
_unpack: Any = cgutils.unpack_tuple


@inlined
def _now(get_time: int, at: NDArray[np.int64]) -> Any:
    _call(get_time, (_MONOTONIC, at.ctypes.data))
    return at[0] * _SECOND + at[1]


@compiled
def time_starts(
    start: int, arguments: tuple[int, ...], count: int, wait: int, queue: int, get_time: int,
    warm_up: int, took: NDArray[np.int64], at: NDArray[np.int64],
) -> Any:  # fmt: skip
    """Start something in a queue and wait for it, over and over: nanoseconds of every run in `took`, shape (runs,).

    Args:
        start, wait, get_time: addresses of what starts it, cuStreamSynchronize and clock_gettime.
        arguments: of `start`, which is called `count` times a run.
        warm_up: runs before those that count.
        at: room for a time, two words.

    Returns the driver's first status that is not 0, else 0.

    """
    for run in range(-warm_up, took.size):
        before = _now(get_time, at)
        for _ in range(count):
            status = _call(start, arguments)
            if status != 0:
                return status
        status = _call(wait, (queue,))
        after = _now(get_time, at)
        if status != 0:
            return status
        if run >= 0:
            took[run] = after - before
    return 0

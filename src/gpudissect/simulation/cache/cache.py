"""`CacheModel`: one cache (or TLB), simulated access by access."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.errors import UsageError
from gpudissect.simulation.cache.check import check_cache
from gpudissect.simulation.cache.geometry import Cache

CHUNK = 1 << 18  # accesses simulated at a time; between chunks Ctrl-C gets through


class CacheModel:
    """A cache that remembers what it holds. Begins empty.

    The first one made in a process loads numba, about half a second (once more compiling, the first time ever).

    Args:
        cache: its geometry.
        seed: of the random replacement policies.

    Raises:
        UsageError: for a geometry that cannot be.

    """

    def __init__(self, cache: Cache, seed: int = 0) -> None:
        from gpudissect.simulation.cache import _kernel, _pack

        check_cache(cache)
        self.geometry = cache
        self._arrays = _pack.pack([cache])
        self._reach = _pack.reach(cache)
        self._steps = np.array([[_kernel.CACHE, 0, 0]], dtype=np.int64)
        self._state = np.zeros(_kernel.S_SIZE, dtype=np.int64)
        self._prefetch = np.full(_kernel.P_SIZE, -1, dtype=np.int64)
        self.reset(seed)

    def access_many(self, offsets: ArrayLike) -> NDArray[np.int8]:
        """Access byte addresses one after the other.

        Args:
            offsets: shape (n,), not negative, below 2^31 lines.

        Returns:
            Shape (n,): 0 where the access hit, 1 where it missed (and fetched).

        Raises:
            UsageError: for an address out of range.

        """
        from gpudissect.simulation.cache._kernel import X_SIZE, walk

        # A copy of its own: a read-only array would be another type to numba, and compile everything again.
        ring = np.array(offsets, dtype=np.int64).reshape(-1)
        levels = np.empty(ring.size, dtype=np.int8)
        if ring.size == 0:
            return levels
        if ring.min() < 0 or ring.max() >= self._reach:
            raise UsageError(f"addresses of this cache must be in [0, {self._reach}), got {ring.min()}..{ring.max()}")
        nothing = np.empty(0, dtype=np.float64)
        costs, extras = np.zeros(2), np.zeros(X_SIZE)
        for start in range(0, ring.size, CHUNK):
            part = levels[start : start + CHUNK]
            walk(self._arrays, self._steps, costs, extras, self._prefetch, self._state, ring, start, part, nothing)
        return levels

    def reset(self, seed: int = 0) -> None:
        """Empty it, and start the random replacement over from `seed`."""
        from gpudissect.simulation.cache import _kernel, _pack

        _kernel.reset(self._arrays)
        _pack.seed_draws(self._arrays, seed)

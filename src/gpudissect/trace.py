"""`Trace`: what one workload gave, raw and immutable, with the context that makes it mean something."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Context:
    """Under what circumstances a trace was taken.

    Attributes:
        device: the name of the GPU.
        clock_hz: SM clock rate seen while the workload ran, None if it could not be read.
        sm: index of the SM that ran it, None if several or not known.
        notes: whatever else was seen: throttle reasons, other users of the GPU, the carve-out asked for and preferred
            (no call tells the one in force), ``windows`` if the trace is put together of several runs of the whole
            workload, ``prior_access_sms``, the SM of each turn before a chase.

    """

    device: str
    clock_hz: float | None = None
    sm: int | None = None
    notes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "notes", MappingProxyType(dict(self.notes)))


@dataclass(frozen=True, eq=False)
class Trace:
    """Named int64 arrays and their context.

    A chase gives, by its timing: EACH `offsets` (n,) byte offsets visited and `cycles` (n,), laps one after
    the other; LAP `cycles` (laps,); COUNT `counts` (laps, 3): hits, misses, unknown. A stream gives `nanoseconds`
    and `bytes` (runs,), from the start of its first block to the end of its last; most also `cycles` (runs, blocks). A
    mix gives `begin` and `end` (cycles of its own SM's clock), `sm` and `block` of each warp (warps,), and if single
    loads of it were timed `latency` and `count` (latencies,), `overhead` and `overflow_count` (1,).
    Asking for an array that this trace does not have raises `KeyError` with the names it has.
    """

    workload: str
    arrays: Mapping[str, Array]
    context: Context

    def __post_init__(self) -> None:
        own: dict[str, Array] = {}
        for name, array in self.arrays.items():
            own[name] = np.array(array, dtype=np.int64)
            own[name].flags.writeable = False
        object.__setattr__(self, "arrays", MappingProxyType(own))

    def _get(self, name: str) -> Array:
        if name not in self.arrays:
            raise KeyError(f"this trace has no {name!r}, only {sorted(self.arrays)}")
        return self.arrays[name]

    @property
    def cycles(self) -> Array:
        """Cycles: one for each timed access (EACH) or lap (LAP); of a stream for each run and block."""
        return self._get("cycles")

    @property
    def offsets(self) -> Array:
        """Byte offsets visited (EACH)."""
        return self._get("offsets")

    @property
    def counts(self) -> Array:
        """Hits, misses and unknown of each lap (COUNT), shape (laps, 3)."""
        return self._get("counts")

    @property
    def nanoseconds(self) -> Array:
        """How long each run of a stream took."""
        return self._get("nanoseconds")

    @property
    def bytes(self) -> Array:
        """What each run of a stream moved."""
        return self._get("bytes")

    @property
    def begin(self) -> Array:
        """When each warp of a mix began."""
        return self._get("begin")

    @property
    def end(self) -> Array:
        """When each warp of a mix ended."""
        return self._get("end")

    @property
    def sm(self) -> Array:
        """The SM of each warp of a mix."""
        return self._get("sm")

    @property
    def block(self) -> Array:
        """The block of each warp of a mix."""
        return self._get("block")

    @property
    def latency(self) -> Array:
        """Cycles that single loads of a mix took, rising, as the clock showed them."""
        return self._get("latency")

    @property
    def count(self) -> Array:
        """How many of the single loads took each `latency`."""
        return self._get("count")

    @property
    def overflow_count(self) -> int:
        """How many of the single loads took the longest `latency` or longer; 0 where the trace does not say."""
        return int(self.arrays["overflow_count"][0]) if "overflow_count" in self.arrays else 0

    @property
    def overhead(self) -> Array:
        """What the clock shows of no load at all, shape (1,)."""
        return self._get("overhead")

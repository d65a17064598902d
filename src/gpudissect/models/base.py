"""What every model of latency hiding is given, and what it answers: one machine, one loop, throughput at n warps.

All rates are per cycle of one SM, in instructions of a warp. Throughput counts all instructions of the loop, so that
it is finite both without arithmetic (alpha = 0) and without accesses (alpha infinite); `Loop.accesses` and
`Loop.operations` turn it into what VV16 plots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf, isinf
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.units import WARP_SIZE

Floats = NDArray[np.float64]


class Limit(StrEnum):
    """What throughput is bound by (VV16 s3.5, 3.6)."""

    LATENCY = "latency"  # more warps would help
    ISSUE = "issue"  # the schedulers
    PIPELINE = "pipeline"  # a functional unit of the SM
    MEMORY = "memory bandwidth"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One kind of instruction (VV16 tables 6.1, 6.2).

    Attributes:
        resource: what it uses exclusively; kinds with the same resource share it (VV16 s3.6).
        latency: cycles until an instruction that needs its result can issue.
        throughput: instructions a cycle of one SM, at most, of this kind alone.
        latency_to_core: the latency if the next instruction is arithmetic; None for no difference (VV16 s4.7).
        slots: issue cycles that it takes, with reissues (VV16 s3.6, s4.7).
        bytes: that the memory system moves for one of them; 0 for what stays in the SM.

    Raises `ValueError` for what is not positive.

    """

    resource: str
    latency: float
    throughput: float
    latency_to_core: float | None = None
    slots: float = 1.0
    bytes: float = 0.0

    def __post_init__(self) -> None:
        if not (self.latency > 0 and self.throughput > 0 and self.slots > 0 and self.bytes >= 0):
            raise ValueError(f"latency, throughput and issue slots are positive, got {self}")


@dataclass(frozen=True)
class Contention:
    """Mean memory latency under load: ``base + sum of b x / (c - x)`` at x accesses a cycle of one SM (VV16 s6.4).

    Attributes:
        base: cycles, of a system that is idle.
        terms: pairs of b (cycles) and c (accesses a cycle of one SM); one of them, on the G80 better two.

    """

    base: float
    terms: tuple[tuple[float, float], ...]

    @property
    def ceiling(self) -> float:
        """The rate that is never reached, accesses a cycle of one SM."""
        return min((c for _, c in self.terms), default=inf)

    def latency(self, rate: ArrayLike) -> Floats:
        """Cycles at `rate`, infinite at the ceiling and beyond; shape as `rate`."""
        x = np.asarray(rate, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = self.base + sum(b * x / (c - x) for b, c in self.terms)
        return np.where(x < self.ceiling, total, inf)


@dataclass(frozen=True)
class Curve:
    """Throughput of one kind of instruction alone, measured at some occupancies (VV16 figure 7.4).

    Attributes:
        warps: of an SM, rising.
        rate: instructions a cycle of one SM.

    """

    warps: tuple[float, ...]
    rate: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.warps or len(self.warps) != len(self.rate) or np.any(np.diff(self.warps) <= 0):
            raise ValueError(f"a curve has rising warps and a rate for each, got {self.warps} and {self.rate}")

    def at(self, warps: ArrayLike) -> Floats:
        """The rate at `warps`: between points on a line, below the first on one through zero, then as the last."""
        found: Floats = np.interp(np.asarray(warps, float), (0.0, *self.warps), (0.0, *self.rate))
        return found


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The hardware as far as these models know it (VV16 table 4.1 and what they need beside).

    Attributes:
        name: for people.
        sms, clock_hz: of the GPU.
        schedulers: of an SM.
        warps: most that an SM holds.
        issue: issue cycles a cycle of one SM: issue_thru of VV16 table 4.1.
        units: by kind: ``fadd``, ``rsq``, ``lds``, ``ldg_streaming``, ``ldg_random``, ...
        reissue: cycles from one issue of a warp to its next, even of an independent one (VV16 s3.7).
        pin_bandwidth: B/s of the memory's pins, for models that use it; None: what the memory sustains.
        contention: latency under load, by kind of access.
        curves: throughput against occupancy, by kind, measured with that kind alone; for models that ask for it.

    """

    name: str
    sms: int
    clock_hz: float
    schedulers: int
    warps: int
    issue: float
    units: Mapping[str, Unit]
    reissue: float = 1.0
    pin_bandwidth: float | None = None
    contention: Mapping[str, Contention] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("units", "contention", "curves"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def unit(self, kind: str) -> Unit:
        """The unit of `kind`. Raises `ValueError` for one that this machine does not know."""
        if kind not in self.units:
            raise ValueError(f"{self.name}: unknown instruction {kind!r}; known: {', '.join(sorted(self.units))}")
        return self.units[kind]

    def bytes_per_second(self, kind: str, accesses: ArrayLike) -> Floats:
        """B/s of the whole GPU at so many accesses a cycle of one SM (VV16 s6.5: lambda)."""
        return np.asarray(accesses, float) * self.unit(kind).bytes * self.sms * self.clock_hz

    def pin_throughput(self, kind: str) -> float:
        """Accesses a cycle of one SM at pin bandwidth, or what is sustained where that is not known (VV16 s3.2)."""
        unit = self.unit(kind)
        if self.pin_bandwidth is None or not unit.bytes:
            return unit.throughput
        return self.pin_bandwidth / (self.sms * self.clock_hz * unit.bytes)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """What every warp runs for ever: `alpha` arithmetic instructions per access, each dependent on the one before.

    VV16 s4.1, 4.7. Models are written per instruction, with the shares of the two kinds in place of alpha.

    Attributes:
        alpha: from 0 (accesses only) to infinity (arithmetic only); below 1, one of them per 1 / alpha accesses.
        arithmetic, access: kinds of `Machine.units`.
        ilp: chains of a warp that are independent of one another, interleaved (VV16 s6.3).

    Raises `ValueError` for a negative alpha or no chain.

    """

    alpha: float
    arithmetic: str = "fadd"
    access: str = "ldg_streaming"
    ilp: int = 1

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise ValueError(f"alpha is at least 0, got {self.alpha}")
        if self.ilp < 1:
            raise ValueError(f"a warp has at least one chain, got {self.ilp}")

    @property
    def arithmetic_share(self) -> float:
        """Of all instructions: alpha / (alpha + 1)."""
        return 1.0 if isinf(self.alpha) else self.alpha / (self.alpha + 1)

    @property
    def access_share(self) -> float:
        """Of all instructions: 1 / (alpha + 1)."""
        return 1 / (self.alpha + 1)

    def chains(self, warps: ArrayLike) -> Floats:
        """Dependent sequences at `warps` of an SM: ILP acts as so many times the warps (VV16 s6.3, figure 6.2)."""
        return np.asarray(warps, float) * self.ilp

    def accesses(self, throughput: ArrayLike) -> Floats:
        """Memory throughput of VV16 s4.1, accesses a cycle of one SM."""
        return np.asarray(throughput, float) * self.access_share

    def operations(self, throughput: ArrayLike) -> Floats:
        """Arithmetic throughput as VV16 plots it: operations of single threads a cycle of one SM (table 4.2)."""
        return np.asarray(throughput, float) * self.arithmetic_share * WARP_SIZE


class Model(Protocol):
    """A model of latency hiding: parameters and a loop in, throughput at n warps out. Stateless."""

    @property
    def key(self) -> str:
        """A short name, for options and files."""

    @property
    def name(self) -> str:
        """As it is cited."""

    @property
    def source(self) -> str:
        """Where its equations are."""

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Instructions a cycle of one SM at `warps` warps of it (above 0, not always whole); shape as `warps`.

        Raises `ValueError` for a kind of instruction that the machine does not know.
        """

    def limit(self, machine: Machine, loop: Loop, warps: float) -> Limit:
        """What binds there according to the model."""

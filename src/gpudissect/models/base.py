"""Input and output of every latency hiding model: a machine and a loop in, throughput at n warps out.

All rates are per cycle of one SM, in warp instructions. Throughput counts all instructions of the loop, so that it is
finite without arithmetic (alpha = 0) and without accesses (alpha infinite); `Loop.accesses` and `Loop.operations` turn
it into what VV16 plots. The bounds of a loop (VV16 s4.1) are here too.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isinf
from types import MappingProxyType
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpudissect.units import WARP_SIZE

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One kind of instruction (VV16 tables 6.1, 6.2). Raises `ValueError` for what is not positive."""

    resource: str  # used exclusively; kinds with the same resource share it (VV16 s3.6)
    latency: float  # cycles until a dependent instruction can issue
    throughput: float  # peak instructions per cycle of one SM, of this kind alone
    latency_to_core: float | None = None  # latency if the dependent instruction is arithmetic (VV16 s4.7); None: same
    slots: float = 1.0  # issue cycles, reissues included (VV16 s3.6, s4.7)
    bytes: float = 0.0  # moved by the memory system; 0: stays in the SM

    def __post_init__(self) -> None:
        if not (self.latency > 0 and self.throughput > 0 and self.slots > 0 and self.bytes >= 0):
            raise ValueError(f"latency, throughput and issue slots must be positive, got {self}")


@dataclass(frozen=True)
class Contention:
    """Mean memory latency under load: ``base + sum of b x / (c - x)`` at x accesses per cycle of one SM (VV16 s6.4)."""

    base: float  # cycles, idle system
    terms: tuple[tuple[float, float], ...]  # pairs of b (cycles) and c (accesses per cycle of one SM); two on the G80

    @property
    def ceiling(self) -> float:
        """The rate that is approached but never reached, accesses per cycle of one SM."""
        return min((c for _, c in self.terms), default=inf)

    def latency(self, rate: ArrayLike) -> Floats:
        """Cycles at `rate`, infinite from the ceiling on; shape as `rate`."""
        x = np.asarray(rate, float)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = self.base + sum(b * x / (c - x) for b, c in self.terms)
        return np.where(x < self.ceiling, total, inf)


@dataclass(frozen=True)
class Curve:
    """Measured throughput of one kind of instruction alone, against occupancy (VV16 figure 7.4)."""

    warps: tuple[float, ...]  # per SM, rising
    rate: tuple[float, ...]  # instructions per cycle of one SM

    def __post_init__(self) -> None:
        if not self.warps or len(self.warps) != len(self.rate) or np.any(np.diff(self.warps) <= 0):
            raise ValueError(f"a curve needs rising warps and one rate for each, got {self.warps} and {self.rate}")

    def at(self, warps: ArrayLike) -> Floats:
        """Rate at `warps`: linear between points and from zero to the first one, constant after the last."""
        found: Floats = np.interp(np.asarray(warps, float), (0.0, *self.warps), (0.0, *self.rate))
        return found


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Hardware parameters of the models (VV16 table 4.1 and others)."""

    name: str
    sms: int
    clock_hz: float
    schedulers: int  # per SM
    warps: int  # maximum per SM
    issue: float  # issue cycles per cycle of one SM: issue_thru of VV16 table 4.1
    units: Mapping[str, Unit]  # by kind: ``fadd``, ``rsq``, ``lds``, ``ldg_streaming``, ``ldg_random``, ...
    reissue: float = 1.0  # cycles between two issues of a warp, even if independent (VV16 s3.7)
    pin_bandwidth: float | None = None  # B/s of the memory's pins; None: what the memory sustains
    contention: Mapping[str, Contention] = field(default_factory=dict)  # latency under load, by kind of access
    curves: Mapping[str, Curve] = field(default_factory=dict)  # throughput against occupancy, by kind run alone

    def __post_init__(self) -> None:
        for name in ("units", "contention", "curves"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def unit(self, kind: str) -> Unit:
        """The unit of `kind`. Raises `ValueError` if this machine has none."""
        if kind not in self.units:
            raise ValueError(f"{self.name}: unknown instruction {kind!r}; known: {', '.join(sorted(self.units))}")
        return self.units[kind]

    def bytes_per_second(self, kind: str, accesses: ArrayLike) -> Floats:
        """B/s of the whole GPU at `accesses` per cycle of one SM (VV16 s6.5: lambda)."""
        return np.asarray(accesses, float) * self.unit(kind).bytes * self.sms * self.clock_hz

    def pin_throughput(self, kind: str) -> float:
        """Accesses per cycle of one SM at pin bandwidth, or sustained if that is unknown (VV16 s3.2)."""
        unit = self.unit(kind)
        if self.pin_bandwidth is None or not unit.bytes:
            return unit.throughput
        return self.pin_bandwidth / (self.sms * self.clock_hz * unit.bytes)


@dataclass(frozen=True, kw_only=True)
class Loop:
    """The endless loop of every warp: `alpha` arithmetic instructions per access, each dependent on the previous one.

    VV16 s4.1, 4.7. Models are written per instruction, with the shares of the two kinds in place of alpha.
    Raises `ValueError` for a negative alpha or no chain.
    """

    alpha: float  # 0: accesses only; infinite: arithmetic only; below 1: one arithmetic instruction per 1 / alpha
    arithmetic: str = "fadd"  # kind of `Machine.units`, as is `access`
    access: str = "ldg_streaming"
    ilp: int = 1  # independent chains of a warp, interleaved (VV16 s6.3)

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise ValueError(f"alpha must be at least 0, got {self.alpha}")
        if self.ilp < 1:
            raise ValueError(f"a warp needs at least one chain, got {self.ilp}")

    @property
    def arithmetic_share(self) -> float:
        """Share of all instructions: alpha / (alpha + 1)."""
        return 1.0 if isinf(self.alpha) else self.alpha / (self.alpha + 1)

    @property
    def access_share(self) -> float:
        """Share of all instructions: 1 / (alpha + 1)."""
        return 1 / (self.alpha + 1)

    def chains(self, warps: ArrayLike) -> Floats:
        """Chains per SM: ILP counts as that many times the warps (VV16 s6.3, figure 6.2)."""
        return np.asarray(warps, float) * self.ilp

    def accesses(self, throughput: ArrayLike) -> Floats:
        """Memory throughput of VV16 s4.1, accesses per cycle of one SM."""
        return np.asarray(throughput, float) * self.access_share

    def operations(self, throughput: ArrayLike) -> Floats:
        """Arithmetic throughput as VV16 plots it: operations of threads per cycle of one SM (table 4.2)."""
        return np.asarray(throughput, float) * self.arithmetic_share * WARP_SIZE


class Model(Protocol):
    """A model of latency hiding. Stateless."""

    @property
    def key(self) -> str:
        """Short name, for options and files."""

    @property
    def name(self) -> str:
        """Name as it is cited."""

    @property
    def source(self) -> str:
        """Where its equations are."""

    def throughput(self, machine: Machine, loop: Loop, warps: ArrayLike) -> Floats:
        """Instructions per cycle of one SM at `warps` per SM (above 0, fractions allowed); shape as `warps`.

        Raises `ValueError` for a kind of instruction that the machine does not have.
        """


def access_latency(machine: Machine, loop: Loop) -> float:
    """Mean cycles of one access of the loop, unloaded.

    Where the dependent instruction matters (VV16 s4.7), min(alpha, 1) of all accesses are followed by arithmetic.
    """
    unit = machine.unit(loop.access)
    if unit.latency_to_core is None:
        return unit.latency
    followed = min(loop.alpha, 1.0)
    return followed * unit.latency_to_core + (1 - followed) * unit.latency


def latency(machine: Machine, loop: Loop, memory_latency: float | None = None) -> float:
    """Mean cycles between instructions of a chain: (mem_lat + alpha alu_lat) / (alpha + 1), VV16 s4.1.

    `memory_latency` replaces the unloaded one (VV16 s6.5).
    """
    access = access_latency(machine, loop) if memory_latency is None else memory_latency
    return loop.access_share * access + loop.arithmetic_share * machine.unit(loop.arithmetic).latency


def throughput_bounds(machine: Machine, loop: Loop) -> dict[str, float]:
    """Maximum instructions per cycle of one SM by resource, and by ``issue``: VV16 s4.1, there per access.

    ``min(mem_thru, alu_thru / alpha, issue_thru / (alpha + 1))``.
    """
    cycles: defaultdict[str, float] = defaultdict(float)
    slots = 0.0
    for kind, share in ((loop.arithmetic, loop.arithmetic_share), (loop.access, loop.access_share)):
        unit = machine.unit(kind)
        if share:
            cycles[unit.resource] += share / unit.throughput
            slots += share * unit.slots
    return {resource: 1 / total for resource, total in cycles.items()} | {"issue": machine.issue / slots}


def peak(machine: Machine, loop: Loop) -> float:
    """The tightest throughput bound, instructions per cycle of one SM (VV16 s4.1)."""
    return min(throughput_bounds(machine, loop).values())

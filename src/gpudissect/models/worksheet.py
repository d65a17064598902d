"""The worksheet of VV16 tables 3.2 to 3.4: an instruction mix in, warp throughput and what binds it out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from gpudissect.models.base import Limit, Machine

ISSUE = "issue"


@dataclass(frozen=True)
class Row:
    """What one kind of instruction uses of one resource (a line of VV16 table 3.4).

    Attributes:
        resource: as `base.Unit.resource`, or ``issue``.
        kind: the instruction; for ``issue`` also ``reissue`` and ``dual issue``.
        cycles_each: cycles of exclusive use by one instruction of a warp (CPI).
        count: of them in a warp.

    """

    resource: str
    kind: str
    cycles_each: float
    count: float

    @property
    def cycles(self) -> float:
        """Cycles total."""
        return self.cycles_each * self.count


@dataclass(frozen=True)
class Sheet:
    """The worksheet, filled in (VV16 s3.5-3.7).

    Attributes:
        rows: resource by resource.
        warps: occupancy, warps of an SM.
        latency: bound on mean warp latency, cycles (VV16 s3.7).
        moved: bytes of memory that a warp moves.
        machine: whose it is.

    """

    rows: tuple[Row, ...]
    warps: float
    latency: float
    moved: float
    machine: Machine

    @property
    def totals(self) -> dict[str, float]:
        """Cycles of each resource for one warp: the totals of table 3.4, the tightest being the largest."""
        found: dict[str, float] = {}
        for row in self.rows:
            found[row.resource] = found.get(row.resource, 0.0) + row.cycles
        return found

    @property
    def tightest(self) -> str:
        """The resource that bounds throughput (VV16 s3.6)."""
        totals = self.totals
        return max(totals, key=lambda resource: totals[resource])

    @property
    def throughput_bound(self) -> float:
        """Warps a cycle of one SM (VV16 s3.6)."""
        return 1 / self.totals[self.tightest]

    @property
    def latency_bound(self) -> float:
        """Warps a cycle of one SM: occupancy over warp latency (VV16 s3.5)."""
        return self.warps / self.latency

    @property
    def throughput(self) -> float:
        """The estimate, the smaller of both (VV16 s3.5), warps a cycle of one SM."""
        return min(self.latency_bound, self.throughput_bound)

    @property
    def limit(self) -> Limit:
        """Which bound that is."""
        if self.latency_bound < self.throughput_bound:
            return Limit.LATENCY
        if self.tightest == ISSUE:
            return Limit.ISSUE
        memory = any(unit.bytes for unit in self.machine.units.values() if unit.resource == self.tightest)
        return Limit.MEMORY if memory else Limit.PIPELINE

    @property
    def needed(self) -> float:
        """Warps of an SM at which the bounds meet: warp latency times warp throughput (VV16 s3.10)."""
        return self.latency * self.throughput_bound

    def bytes_per_second(self, warp_throughput: float | None = None) -> float:
        """Memory throughput of the whole GPU at `throughput`, or at another one (VV16 s3.8)."""
        rate = self.throughput if warp_throughput is None else warp_throughput
        return rate * self.moved * self.machine.sms * self.machine.clock_hz


def worksheet(
    machine: Machine, counts: Mapping[str, float], warps: float, *, latency: float | None = None, pairs: float = 0
) -> Sheet:
    """Fill in the worksheet.

    Args:
        machine: throughputs of the units, and the schedulers'.
        counts: instructions of a warp by kind.
        warps: occupancy, warps of an SM.
        latency: of a warp; without it every instruction waits for the one before (VV16 s3.7). `schedule` finds it for
            a program.
        pairs: instructions that are issued together with another, in the same cycle (VV16 s3.6).

    Raises `ValueError` for an unknown kind, no instructions at all, a count below 0, an occupancy that the machine does
    not hold, a latency that is not positive, or more pairs than there can be.

    """
    used = {kind: count for kind, count in counts.items() if count}
    if not used or any(not 0 < count < inf for count in used.values()):
        raise ValueError(f"a mix has some instructions, and of none fewer than 0, got {dict(counts)}")
    if not 0 < warps <= machine.warps:
        raise ValueError(f"an SM of {machine.name} holds 1 to {machine.warps} warps, got {warps:g}")
    if not 0 <= pairs <= sum(used.values()) / 2:
        raise ValueError(f"of {sum(used.values()):g} instructions at most half are issued with another, got {pairs:g}")
    units = {kind: machine.unit(kind) for kind in used}
    total = sum(count * units[kind].latency for kind, count in used.items()) if latency is None else latency
    if not 0 < total < inf:
        raise ValueError(f"a warp takes some cycles, got {total:g}")
    rows = [Row(units[kind].resource, kind, 1 / units[kind].throughput, count) for kind, count in used.items()]
    rows.sort(key=lambda row: row.resource)
    rows += _issues(machine, used, pairs)
    moved = sum(count * units[kind].bytes for kind, count in used.items())
    return Sheet(tuple(rows), warps, total, moved, machine)


def _issues(machine: Machine, counts: Mapping[str, float], pairs: float) -> list[Row]:
    """Single, dual and repeated issues (the last part of VV16 table 3.4)."""
    each = 1 / machine.issue
    again = sum(count * (machine.unit(kind).slots - 1) for kind, count in counts.items())
    rows = [Row(ISSUE, "single issue", each, sum(counts.values()) - 2 * pairs)]
    rows += [Row(ISSUE, "dual issue", each, pairs)] if pairs else []
    rows += [Row(ISSUE, "reissue", each, again)] if again else []
    return rows

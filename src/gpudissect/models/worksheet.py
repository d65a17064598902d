"""The worksheet of VV16 tables 3.2 to 3.4: instruction mix in, warp throughput and its bound out."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from gpudissect.models.base import Machine

ISSUE = "issue"


class Limit(StrEnum):
    """What bounds throughput (VV16 s3.5, 3.6)."""

    LATENCY = "latency"  # more warps would help
    ISSUE = "issue"  # the schedulers
    PIPELINE = "pipeline"  # a functional unit of the SM
    MEMORY = "memory bandwidth"


@dataclass(frozen=True)
class Row:
    """One kind of instruction on one resource (a line of VV16 table 3.4)."""

    resource: str  # as `base.Unit.resource`, or ``issue``
    kind: str  # the instruction; for ``issue`` also ``reissue`` and ``dual issue``
    cycles_each: float  # of exclusive use by one warp instruction (CPI)
    count: float  # per warp

    @property
    def cycles(self) -> float:
        """Total cycles."""
        return self.cycles_each * self.count


@dataclass(frozen=True)
class Sheet:
    """The worksheet, filled in (VV16 s3.5-3.7)."""

    rows: tuple[Row, ...]  # by resource
    warps: float  # per SM
    latency: float  # bound on mean warp latency, cycles (VV16 s3.7)
    moved: float  # bytes of memory traffic per warp
    machine: Machine

    @property
    def totals(self) -> dict[str, float]:
        """Cycles of each resource for one warp: the totals of table 3.4, the tightest being the largest."""
        totals: dict[str, float] = {}
        for row in self.rows:
            totals[row.resource] = totals.get(row.resource, 0.0) + row.cycles
        return totals

    @property
    def tightest(self) -> str:
        """The resource that bounds throughput (VV16 s3.6)."""
        totals = self.totals
        return max(totals, key=lambda resource: totals[resource])

    @property
    def throughput_bound(self) -> float:
        """Warps per cycle of one SM (VV16 s3.6)."""
        return 1 / self.totals[self.tightest]

    @property
    def latency_bound(self) -> float:
        """Warps per cycle of one SM: occupancy over warp latency (VV16 s3.5)."""
        return self.warps / self.latency

    @property
    def throughput(self) -> float:
        """The estimate, the smaller of both (VV16 s3.5), warps per cycle of one SM."""
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
        """Warps per SM at which the bounds meet: warp latency times warp throughput (VV16 s3.10)."""
        return self.latency * self.throughput_bound

    def bytes_per_second(self, warp_throughput: float | None = None) -> float:
        """Memory throughput of the whole GPU at `throughput`, or at another one (VV16 s3.8)."""
        rate = self.throughput if warp_throughput is None else warp_throughput
        return rate * self.moved * self.machine.sms * self.machine.clock_hz


def worksheet(
    machine: Machine, counts: Mapping[str, float], warps: float, *, latency: float | None = None, pairs: float = 0
) -> Sheet:
    """Fill in the worksheet for `counts` instructions per warp, by kind, and `warps` per SM.

    `latency` is that of a warp, in cycles; None: every instruction depends on the previous one.
    `pairs` counts dual-issued pairs of instructions (VV16 s3.6). Raises `ValueError` for an unknown kind, no
    instructions, a negative count, an occupancy above the machine's maximum, a latency that is not positive, or too
    many pairs.
    """
    used = {kind: count for kind, count in counts.items() if count}
    if not used or any(not 0 < count < inf for count in used.values()):
        raise ValueError(f"a mix needs some instructions, and of none fewer than 0, got {dict(counts)}")
    if not 0 < warps <= machine.warps:
        raise ValueError(f"an SM of {machine.name} holds 1 to {machine.warps} warps, got {warps:g}")
    total = sum(used.values())
    if not 0 <= pairs <= total / 2:
        raise ValueError(f"{total:g} instructions make at most {total / 2:g} pairs, got {pairs:g}")
    units = {kind: machine.unit(kind) for kind in used}
    if latency is None:
        latency = sum(count * units[kind].latency for kind, count in used.items())
    if not 0 < latency < inf:
        raise ValueError(f"the latency of a warp must be positive, got {latency:g} cycles")
    rows = [Row(units[kind].resource, kind, 1 / units[kind].throughput, count) for kind, count in used.items()]
    rows.sort(key=lambda row: row.resource)
    reissues = sum(count * (units[kind].slots - 1) for kind, count in used.items())
    issues = {"single issue": total - 2 * pairs, "dual issue": pairs, "reissue": reissues}
    rows += [Row(ISSUE, kind, 1 / machine.issue, n) for kind, n in issues.items() if n or kind == "single issue"]
    moved = sum(count * units[kind].bytes for kind, count in used.items())
    return Sheet(tuple(rows), warps, latency, moved, machine)

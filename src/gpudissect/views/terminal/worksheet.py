"""What a worksheet says of a mix at an occupancy, as text and as JSON (VV16 s3.8, tables 3.2 to 3.4)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from gpudissect.models.base import Loop, Machine
from gpudissect.models.volkov import Refined
from gpudissect.models.worksheet import Sheet, worksheet
from gpudissect.results.text import clean


@dataclass(frozen=True)
class Forecast:
    """A mix at an occupancy.

    Attributes:
        counts: instructions of a warp by kind.
        sheet: bounds, throughput in warps a cycle, the binding limit.
        refined: throughput in warps a cycle with latency under load (VV16 s6.5); None for a mix that is more than one
            access and additions, or without coefficients.

    """

    counts: Mapping[str, float]
    sheet: Sheet
    refined: float | None

    @property
    def instructions(self) -> float:
        """Of a warp."""
        return sum(self.counts.values())


def forecast(machine: Machine, counts: Mapping[str, float], warps: int) -> Forecast:
    """Fill in the worksheet. Raises `ValueError` for what `models.worksheet.worksheet` refuses."""
    return Forecast(dict(counts), worksheet(machine, counts, warps), _refined(machine, counts, warps))


def _refined(machine: Machine, counts: Mapping[str, float], warps: int) -> float | None:
    accesses = [kind for kind in counts if kind in machine.contention]
    others = [kind for kind in counts if kind not in machine.contention]
    if len(accesses) != 1 or len(others) > 1:
        return None
    arithmetic = others[0] if others else "fadd"
    loop = Loop(alpha=counts.get(arithmetic, 0.0) / counts[accesses[0]], arithmetic=arithmetic, access=accesses[0])
    rate = float(Refined().throughput(machine, loop, warps))
    return rate / sum(counts.values())


def as_text(found: Forecast) -> str:
    """The worksheet for people."""
    sheet, machine = found.sheet, found.sheet.machine
    mix = ", ".join(f"{count:g} {kind}" for kind, count in found.counts.items())
    rows = [f"{machine.name}: {mix}; {sheet.warps:g} warps an SM", "",
            f"{'resource':<14} {'instruction':<16} {'cycles each':>12} {'count':>8} {'cycles':>10}"]  # fmt: skip
    for row in sheet.rows:
        rows.append(f"{row.resource:<14} {row.kind:<16} {row.cycles_each:>12.4g} {row.count:>8g} {row.cycles:>10.4g}")
    rows += ["", f"bound by latency      {sheet.latency_bound:.4g} warps a cycle: {sheet.warps:g} warps of "
                 f"{sheet.latency:.4g} cycles each"]  # fmt: skip
    for resource, cycles in sorted(sheet.totals.items(), key=lambda item: -item[1]):
        rows.append(f"bound by {resource:<12} {1 / cycles:.4g} warps a cycle: {cycles:.4g} cycles of a warp")
    rows += ["", _said("throughput", found, sheet.throughput), f"limited by            {sheet.limit.value}",
             f"warps needed          {sheet.needed:.3g} of {machine.warps}"]  # fmt: skip
    if found.refined is not None:
        rows.append(_said("under load", found, found.refined))
    return "\n".join(clean(row) for row in rows) + "\n"


def _said(what: str, found: Forecast, warps: float) -> str:
    rate = warps * found.instructions
    moved = found.sheet.bytes_per_second(warps)
    return f"{what:<21} {rate:.4g} instructions a cycle of an SM" + (f", {moved / 1e9:.4g} GB/s" if moved else "")


def to_json(found: Forecast) -> str:
    """The same for programs."""
    sheet = found.sheet
    told = {
        "device": sheet.machine.name,
        "mix": dict(found.counts),
        "warps": sheet.warps,
        "latency_cycles": sheet.latency,
        "latency_bound": sheet.latency_bound,
        "throughput_bounds": {resource: 1 / cycles for resource, cycles in sheet.totals.items()},
        "throughput": sheet.throughput,
        "instructions_per_cycle": sheet.throughput * found.instructions,
        "bytes_per_second": sheet.bytes_per_second(),
        "limit": sheet.limit.value,
        "warps_needed": sheet.needed,
        "throughput_under_load": found.refined,
    }
    return json.dumps(told, indent=2) + "\n"

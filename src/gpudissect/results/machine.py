"""From a result file to the machine that models of latency hiding are given."""

from __future__ import annotations

from collections.abc import Mapping

from gpudissect.catalogue.capabilities import schedulers
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.models.base import Contention, Curve, Machine, Unit
from gpudissect.results.model import Result, Series
from gpudissect.units import WARP_SIZE
from gpudissect.vocabulary import HIDING, INSTRUCTIONS

KINDS = {
    "hiding": "ldg_streaming", "hiding_stride2": "ldg_stride2", "hiding_random": "ldg_random", "hiding_rsq": "rsq",
    "hiding_lds": "lds",
}  # fmt: skip
"""What models call the accesses of each element."""
CURVES = "throughput against warps and alpha"
LEAST, MOST = 1e-12, 1e18  # of any parameter: beyond, no GPU is, and products overflow
_SHARED = ("lds", "sts", "atoms")
_FUNCTIONS = ("rcp", "rsq", "sin", "ex2", "lg2")
_CORES = ("fadd", "fmul", "ffma")
_RESOURCES = {
    **dict.fromkeys(_SHARED, "shared memory"),
    **dict.fromkeys(_FUNCTIONS, "functions"),
    **dict.fromkeys(_CORES, "cores"),
}
"""Functional units that instructions share; of others each has its own."""


def machine_of(result: Result) -> Machine:
    """Parameters, as measured. Raises `UsageError` if the result has none of latency hiding, or impossible ones."""
    try:
        return _machine(result)
    except (KeyError, ValueError, ZeroDivisionError, OverflowError) as error:
        missing = f"no {' '.join(error.args[0])}" if isinstance(error, KeyError) else str(error)
        raise UsageError(f"this result holds parameters of latency hiding that make no sense: {missing}; measure "
                         "again with 'gpudissect hide -o FILE'") from None  # fmt: skip


def _machine(result: Result) -> Machine:
    values = {(each.element, each.attribute): float(each.value) for each in result.findings
              if each.status is Status.FOUND and isinstance(each.value, int | float)}  # fmt: skip
    elements = [each for each in HIDING if (each, "access_rate") in values and (each, "arithmetic_rate") in values]
    if not elements:
        raise UsageError("this result holds no parameters of latency hiding: make one with 'gpudissect hide -o FILE'")
    first = elements[0]
    clock = result.conditions.clock_hz or 1e9
    told = {"clock_hz": clock, "sm_count": result.device.sm_count}
    told |= {" ".join(name): value for name, value in values.items() if name[0] in HIDING}
    if impossible := [name for name, value in told.items() if not LEAST < value < MOST]:
        raise ValueError(f"{impossible[0]} is {told[impossible[0]]:g}")
    units = _instructions(values)
    units["fadd"] = Unit(resource="cores", latency=values[first, "arithmetic_latency"],
                         throughput=values[first, "arithmetic_rate"] / WARP_SIZE)  # fmt: skip
    contention = {}
    for element in elements:
        kind, moved = KINDS[element], values.get((element, "access_bytes"), 0.0)
        resource = "memory" if moved else _RESOURCES.get(kind, kind)
        units[kind] = Unit(resource=resource, latency=values[element, "access_latency"],
                           throughput=values[element, "access_rate"] / WARP_SIZE, bytes=moved)  # fmt: skip
        if moved and (element, "contention_base") in values:
            ceiling = values[element, "contention_ceiling"] / (moved * result.device.sm_count * clock)
            rise = values[element, "contention_rise"]
            contention[kind] = Contention(values[element, "contention_base"], ((rise, ceiling),))
    threads = result.device.facts.get("threads_per_sm")
    alone = {KINDS[each.element]: _curve(each, 0.0) for each in result.series
            if each.name == CURVES and each.element in KINDS}  # fmt: skip
    curves = {kind: curve for kind, curve in alone.items() if curve is not None}
    return Machine(
        name=result.device.name, sms=result.device.sm_count, clock_hz=clock, schedulers=schedulers_of(result),
        warps=int(threads) // WARP_SIZE if isinstance(threads, int) else _most(result), units=units,
        issue=max(values[each, "issue_rate"] for each in elements) / WARP_SIZE, contention=contention, curves=curves,
    )  # fmt: skip


def _instructions(values: Mapping[tuple[str, str], float]) -> dict[str, Unit]:
    """Instructions of a survey that was taken of everything. Those on matrices have no rate in instructions."""
    return {
        name: Unit(resource=_RESOURCES.get(name, name), latency=values[name, "latency"],
                   throughput=values[name, "rate"] / WARP_SIZE)
        for name in INSTRUCTIONS
        if not name.startswith("mma") and values.get((name, "latency"), 0) > 0 and values.get((name, "rate"), 0) > 0
    }  # fmt: skip


def schedulers_of(result: Result) -> int:
    """Warp schedulers of an SM, as documented for its compute capability."""
    return schedulers(result.device.facts)


def _most(result: Result) -> int:
    """The most warps of any mix."""
    columns = [each.columns["warps"] for each in result.series if each.name == CURVES and "warps" in each.columns]
    return max((int(warps) for column in columns for warps in column if isinstance(warps, int | float)), default=16)


def curve_of(series: Series, alpha: float) -> dict[int, float]:
    """Instructions a cycle of one SM by warps, the fastest with one chain each, at one alpha."""
    found: dict[int, float] = {}
    columns = series.columns
    for at, warps, chains, rate in zip(*(columns[each] for each in ("alpha", "warps", "chains", "rate")), strict=True):
        if at not in (alpha, f"{alpha:g}") or chains != 1 or not _positive(warps) or not _positive(rate):
            continue
        found[int(warps)] = max(found.get(int(warps), 0.0), float(rate))
    return dict(sorted(found.items()))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _curve(series: Series, alpha: float) -> Curve | None:
    found = curve_of(series, alpha)
    return Curve(tuple(map(float, found)), tuple(found.values())) if found else None

"""From a result file to the machine parameters of models of latency hiding."""

from gpudissect.catalogue.compute_capability import schedulers
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.models.base import Contention, Curve, Machine, Unit
from gpudissect.results.model import Result, Series
from gpudissect.units import WARP_SIZE
from gpudissect.vocabulary import HIDING, INSTRUCTIONS

KINDS = dict(zip(HIDING, ("ldg_streaming", "ldg_stride2", "ldg_random", "rsq", "lds"), strict=True))
"""Element of latency hiding to the kind of its accesses, as models name it."""
CURVES = "throughput against warps and alpha"
MIN_PARAMETER, MAX_PARAMETER = 1e-12, 1e18  # beyond these no GPU lies, and products overflow
_RESOURCES = {
    **dict.fromkeys(("lds", "sts", "atoms"), "shared memory"),
    **dict.fromkeys(("rcp", "rsq", "sin", "ex2", "lg2"), "functions"),
    **dict.fromkeys(("fadd", "fmul", "ffma"), "cores"),
}
"""Functional units that instructions share; every other instruction has its own."""


def machine_of(result: Result) -> Machine:
    """Measured parameters. Raises `UsageError` if the result has none of latency hiding, or impossible ones."""
    try:
        return _machine(result)
    except (KeyError, ValueError, ZeroDivisionError, OverflowError) as error:
        reason = f"no {' '.join(error.args[0])}" if isinstance(error, KeyError) else str(error)
        advice = "measure again with 'gpudissect hide -o FILE'"
        raise UsageError(f"invalid parameters of latency hiding in this result: {reason}; {advice}") from None


def _machine(result: Result) -> Machine:
    values = {
        (each.element, each.attribute): float(each.value)
        for each in result.findings
        if each.status is Status.FOUND and isinstance(each.value, int | float)
    }
    elements = [each for each in HIDING if (each, "access_rate") in values and (each, "arithmetic_rate") in values]
    if not elements:
        raise UsageError("no parameters of latency hiding in this result: measure with 'gpudissect hide -o FILE'")
    clock, sms = result.conditions.clock_hz or 1e9, result.device.sm_count
    parameters = {"clock_hz": clock, "sm_count": sms}
    parameters |= {" ".join(name): value for name, value in values.items() if name[0] in HIDING}
    for name, value in parameters.items():
        if not MIN_PARAMETER < value < MAX_PARAMETER:
            raise ValueError(f"{name} is {value:g}")
    units = {
        name: _unit(name, values[name, "latency"], values[name, "rate"])
        for name in INSTRUCTIONS  # the rate of matrix instructions is not one of instructions
        if not name.startswith("mma") and values.get((name, "latency"), 0) > 0 and values.get((name, "rate"), 0) > 0
    }
    first = elements[0]
    units["fadd"] = _unit("fadd", values[first, "arithmetic_latency"], values[first, "arithmetic_rate"])
    contention = {}
    for element in elements:
        kind, moved = KINDS[element], values.get((element, "access_bytes"), 0.0)
        units[kind] = _unit(kind, values[element, "access_latency"], values[element, "access_rate"], moved)
        if moved and (element, "contention_base") in values:
            ceiling = values[element, "contention_ceiling"] / (moved * sms * clock)
            rise = values[element, "contention_rise"]
            contention[kind] = Contention(values[element, "contention_base"], ((rise, ceiling),))
    curves = {}
    for series in result.series:
        if series.name == CURVES and series.element in KINDS and (found := curve_of(series, 0.0)):
            curves[KINDS[series.element]] = Curve(tuple(map(float, found)), tuple(found.values()))
    threads = result.device.facts.get("threads_per_sm")
    return Machine(
        name=result.device.name,
        sms=sms,
        clock_hz=clock,
        schedulers=schedulers(result.device.facts),
        warps=threads // WARP_SIZE if isinstance(threads, int) else _max_warps(result),
        units=units,
        issue=max(values[each, "issue_rate"] for each in elements) / WARP_SIZE,
        contention=contention,
        curves=curves,
    )


def _unit(kind: str, latency: float, rate: float, moved: float = 0.0) -> Unit:
    resource = "memory" if moved else _RESOURCES.get(kind, kind)
    return Unit(resource=resource, latency=latency, throughput=rate / WARP_SIZE, bytes=moved)


def _max_warps(result: Result) -> int:
    """Largest number of warps of any mix."""
    columns = [each.columns["warps"] for each in result.series if each.name == CURVES and "warps" in each.columns]
    return max((int(warps) for column in columns for warps in column if isinstance(warps, int | float)), default=16)


def curve_of(series: Series, alpha: float) -> dict[int, float]:
    """Instructions per cycle and SM by warps, the best with one chain each, at one alpha."""
    curve: dict[int, float] = {}
    rows = zip(*(series.columns[name] for name in ("alpha", "warps", "chains", "rate")), strict=True)
    for row_alpha, warps, chains, rate in rows:
        if row_alpha in (alpha, f"{alpha:g}") and chains == 1 and _is_positive(warps) and _is_positive(rate):
            curve[int(warps)] = max(curve.get(int(warps), 0.0), float(rate))
    return dict(sorted(curve.items()))


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0

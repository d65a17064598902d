"""Latency hiding in sentences and tables: how many warps this GPU needs, why, and how accurate models of it are."""

import math
import textwrap
from collections.abc import Iterator, Mapping

from gpudissect.catalogue.load import for_name, load, names
from gpudissect.device_info import Origin
from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.models.base import Loop, Machine, peak
from gpudissect.models.evaluation import warps_needed
from gpudissect.models.volkov import Basic
from gpudissect.results.folded import rounded
from gpudissect.results.machine import CURVES, KINDS, curve_of, machine_of
from gpudissect.results.model import Result, Series
from gpudissect.results.scope import WARPS_SHARE
from gpudissect.results.text import title_of
from gpudissect.units import cycles_to_ns

MAX_MODELS = 4  # in a summary, the best
ALPHAS = (0.0, 32.0, math.inf, 8.0, 128.0, 1.0, 64.0, 512.0)  # of the table, those first that a narrow one shows
MODEL_ALPHA = 32.0
MAX_TABLE_ROWS = 12
MAX_NEAR_RATIO = 0.75  # to the fastest load of one warp: faster loads were served by a nearer cache
CELL_WIDTH = 11
MODEL_HEAD = f"   model at alpha {MODEL_ALPHA:g}"
WIDE = 112  # characters from which on a model and its ratios share a line
_NOUNS = {
    "ldg_streaming": ("a load", "loads"),
    "ldg_stride2": ("a load of stride 2", "loads of stride 2"),
    "ldg_random": ("a load of random words", "loads of random words"),
    "rsq": ("a reciprocal root", "reciprocal roots"),
    "lds": ("a load from shared memory", "loads from shared memory"),
}


def is_answered(result: Result) -> bool:
    """Whether the result has what `lines` needs."""
    found = (each for each in result.findings if each.status is Status.FOUND)
    return any(each.element in KINDS and each.attribute == "access_rate" for each in found)


def lines(result: Result, width: int, *, everything: bool = False) -> Iterator[str]:
    """Sentences and tables of every kind of access, in lines of at most `width` characters where they can be broken.

    The best models are listed, or with `everything` all.

    Raises `UsageError` for a result without latency hiding, or with invalid columns.
    """
    machine, hits = machine_of(result), hit_latencies(result)
    try:
        for element, kind in KINDS.items():
            series = {each.name: each for each in result.series if each.element == element}
            if kind in machine.units and CURVES in series:
                yield ""
                for sentence in (*answer(machine, kind, series[CURVES]), *single_loads(series, hits)):
                    yield from textwrap.wrap(sentence, width)
                yield from throughput_table(series[CURVES], machine, kind, width)
                yield from model_errors(series, width, math.inf if everything else MAX_MODELS)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UsageError(f"invalid series of latency hiding in this result: {error}") from None


def answer(machine: Machine, kind: str, series: Series) -> Iterator[str]:
    """How many warps are needed, in sentences."""
    unit, add, (access, _) = machine.unit(kind), machine.unit("fadd"), _NOUNS[kind]
    alphas = sorted({float(alpha) for alpha in series.columns["alpha"] if alpha is not None})
    curves = {alpha: curve for alpha in alphas if (curve := curve_of(series, alpha))}
    peaks = {alpha: peak(machine, Loop(alpha=alpha, access=kind)) for alpha in curves}
    needed = {alpha: _min_warps(curve, machine.schedulers, peaks[alpha]) for alpha, curve in curves.items()}
    known = {alpha: warps for alpha, warps in needed.items() if warps is not None}
    goal = f"({WARPS_SHARE:.0%} of the peak)"
    if 0.0 in known:
        yield f"{_hide(known[0.0], ' per SM')} the latency of {access} without additions {goal}."
    elif 0.0 in needed:
        reached = f"{max(curves[0.0].values()) / peaks[0.0]:.0%} of the peak, not {WARPS_SHARE:.0%}"
        yield f"{max(curves[0.0])} warps per SM do not hide the latency of {access} without additions: {reached}."
    if too_few := [alpha for alpha in needed if alpha not in known and 0 < alpha < math.inf]:
        at = too_few[len(too_few) // 2]
        span = f"{at:g}" if len(too_few) == 1 else f"{too_few[0]:g} to {too_few[-1]:g}"
        share = f"{max(curves[at].values()) / peaks[at]:.0%} of the peak with {at:g}"
        few = f"even {max(curves[at])} warps are too few ({share})"
        yield f"With {span} additions per {access.partition(' ')[2]}, {few}: {_demand(machine, kind, at)}."
    elif known:
        at = max(known, key=lambda alpha: known[alpha])
        each = f"with {at:g} additions per {access.partition(' ')[2]}" if at < math.inf else "for additions alone"
        yield f"The most warps, {known[at]}, are needed {each}: {_demand(machine, kind, at)}."
    if math.inf in known:
        yield f"{_hide(known[math.inf])} the latency of additions alone {goal}."
    ns = cycles_to_ns(unit.latency, machine.clock_hz)
    bandwidth = rounded(float(machine.bytes_per_second(kind, unit.throughput)), "B/s")
    rate = f"{unit.throughput:.3g} per cycle and SM" + (f", {bandwidth}" if unit.bytes else "")
    latency = f"{rounded(unit.latency, 'cycles')} ({rounded(ns, 'ns')})"
    yield f"{access.capitalize()} takes {latency} unloaded; throughput is at most {rate}."
    yield f"An addition takes {add.latency:.3g} cycles; throughput is at most {add.throughput:.3g} per cycle and SM."
    if machine.schedulers > 1:
        yield f"Only warp counts divisible by the {machine.schedulers} schedulers were considered."


def _hide(warps: int, where: str = "") -> str:
    return f"{_count(warps)}{where} {'hides' if warps == 1 else 'hide'}"


def _count(warps: float) -> str:
    return "1 warp" if round(warps) == 1 else f"{warps:.0f} warps"


def _min_warps(curve: Mapping[int, float], schedulers: int, top: float) -> int | None:
    """The smallest warp count that reaches `WARPS_SHARE` of the peak, of counts that all schedulers share evenly."""
    even = {warps: rate for warps, rate in curve.items() if warps % schedulers == 0} or curve
    return next((warps for warps, rate in even.items() if rate >= WARPS_SHARE * top * (1 - 1e-9)), None)


def _demand(machine: Machine, kind: str, alpha: float) -> str:
    """How many warps must wait and compute at the peak, by Little's law (VV16 s4.6)."""
    loop = Loop(alpha=alpha, access=kind)
    top = peak(machine, loop)
    waiting = loop.access_share * top * machine.unit(kind).latency
    adding = loop.arithmetic_share * top * machine.unit("fadd").latency
    if not round(waiting):
        return f"by Little's law {_count(adding)} must compute"
    extra = "; more, as latency grows under load" if kind in machine.contention else ""
    return f"by Little's law {_count(waiting)} must wait for {_NOUNS[kind][1]} and {adding:.0f} compute{extra}"


def hit_latencies(result: Result) -> dict[str, float]:
    """Published hit latencies of the L1 and the L2 of this GPU, in cycles; those that the catalogue has."""
    device = result.device
    measured = Origin.MEASURED in (device.origin, device.recorded_origin)
    gpu = load(device.catalogue) if device.catalogue in names() else for_name(device.name) if measured else None
    known = gpu.published() if gpu is not None else ()
    latencies = {each.element: each.value for each in known if each.attribute == "hit_latency"}
    return {
        element: float(value) for element in ("l1", "l2") if isinstance(value := latencies.get(element), int | float)
    }


def single_loads(series: Mapping[str, Series], hits: Mapping[str, float]) -> Iterator[str]:
    """Loads served by a nearer cache, and loads too slow for the histogram.

    `hits`: hit latencies of caches in cycles. The cache with the closest one is named.
    """
    found = series.get("single latencies")
    if found is None or not found.columns.get("p0"):
        return
    column = {name: [float(each or 0) for each in values] for name, values in found.columns.items()}
    alone, loaded = column["p0"][0], min(column["p0"])
    if loaded < MAX_NEAR_RATIO * alone:
        warps = column["warps"][column["p0"].index(loaded)]
        fastest = f"the fastest took {loaded:.0f} cycles with {warps:.0f} warps and {alone:.0f} with one warp"
        cache = "a nearer cache"
        if hits:
            closest = min(hits, key=lambda element: abs(math.log(max(loaded, 1.0) / hits[element])))
            cache = f"the {title_of(closest, short=True)}, whose hits take {hits[closest]:.3g} cycles"
        yield f"Single loads: {fastest}, so some were served by {cache}."
    overflow = column.get("overflow_count", [])
    for warps, count, samples in zip(column["warps"], overflow, column["samples"], strict=False):
        if count:
            yield f"With {warps:.0f} warps {count / samples:.1%} of the loads took longer than the histogram covers."


def throughput_table(series: Series, machine: Machine, kind: str, width: int) -> Iterator[str]:
    """Throughput in percent of the peak, by warps (rows) and as many alphas (columns) as fit."""
    curves = {alpha: curve for alpha in ALPHAS if (curve := curve_of(series, alpha))}
    columns = max(1, (width - len("warps") - len(MODEL_HEAD)) // CELL_WIDTH)
    curves = dict(sorted(list(curves.items())[:columns]))
    loops = {alpha: Loop(alpha=alpha, access=kind) for alpha in (*curves, MODEL_ALPHA)}
    tops = {alpha: peak(machine, loop) for alpha, loop in loops.items()}
    counts = sorted(set.intersection(*(set(curve) for curve in curves.values())))
    step = max(1, -(-len(counts) // MAX_TABLE_ROWS))
    yield ""
    title = f"throughput of {kind} and fadd in percent of the peak; alpha: fadd per {kind}"
    yield from textwrap.wrap(title, width)
    yield "warps" + "".join(f"{f'alpha {alpha:g}':>{CELL_WIDTH}}" for alpha in curves) + MODEL_HEAD
    model = Basic()
    for warps in sorted({counts[0], *counts[::-1][::step]}):
        shares = "".join(f"{curve[warps] / tops[alpha]:>{CELL_WIDTH}.0%}" for alpha, curve in curves.items())
        predicted = float(model.throughput(machine, loops[MODEL_ALPHA], warps)) / tops[MODEL_ALPHA]
        yield f"{warps:>5}{shares}{predicted:>{len(MODEL_HEAD)}.0%}"
    needed = {alpha: warps_needed(model, machine, loops[alpha]) for alpha in curves}
    texts = ", ".join(f"{warps:.0f} at alpha {alpha:g}" for alpha, warps in needed.items() if warps is not None)
    yield from textwrap.wrap(f"warps needed for 100 % of the peak (Volkov's basic model): {texts}", width)


def model_errors(series: Mapping[str, Series], width: int, count: float = math.inf) -> Iterator[str]:
    """Worst ratios of the `count` best models, best model first."""
    found = series.get("worst estimate over measurement")
    if found is None or not found.columns.get("model"):
        return
    names = ("over", "over_alpha", "over_warps", "under", "under_alpha", "under_warps")
    ratios = [[float(each or 1) for each in row] for row in zip(*(found.columns[name] for name in names), strict=True)]
    rows = sorted(zip(ratios, found.columns["name"], strict=True), key=lambda row: max(row[0][0], 1 / row[0][3]))
    yield ""
    yield from textwrap.wrap("model error: worst predicted/measured ratios, alpha 1 to 512", width)
    for number, ((over, over_alpha, over_warps, under, under_alpha, under_warps), name) in enumerate(rows):
        if number >= count:
            yield f"and {len(rows) - number} models with larger errors"
            return
        high = f"{over:6.2f} at alpha {over_alpha:g}, {over_warps:g} warps"
        low = f"{under:5.2f} at alpha {under_alpha:g}, {under_warps:g} warps"
        yield from (f"{name!s:<55} {high};  {low}",) if width >= WIDE else (str(name), f"  {high};  {low}")

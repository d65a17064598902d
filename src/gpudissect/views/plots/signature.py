"""The figures that come first: memory mountain, bandwidth against footprint, roofline, SM map, TLBs, latency hiding."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from gpudissect.results.folded import folded, rounded
from gpudissect.results.model import Finding, Published, Result, Series
from gpudissect.results.summary import BANDWIDTH_SERIES
from gpudissect.results.text import title_of
from gpudissect.views.plots.element import figures_of_series, index_matrix, sm_map
from gpudissect.views.plots.figure import Column, Figure, Kind, is_finite, overlay
from gpudissect.vocabulary import TLBS

CURVES = "curves"  # element of the series through all levels
MOUNTAIN = (CURVES, "latency against footprint")  # columns footprint (B), latency (cycles)
MIN_POINTS = 3  # of a curve
SM_LINES = ("l2", "hit latency by sm and line")
TLB_SERIES = "latency against pages"
MAX_POINTS = 4000
FLOPS_PER_RATE = {"ffma": 2, "dfma": 2, "mma_f16": 2, "mma_tf32": 2, "mma_f64": 2}
"""Floating-point operations for each operation of a rate: multiply-adds."""
_CEILINGS = {"ffma": "FFMA", "dfma": "DFMA", "mma_f16": "mma.sync f16", "mma_tf32": "mma.sync tf32"}
_LEVELS = {"l1": "L1", "l2": "L2", "dram": "DRAM"}
LOW_INTENSITY, HIGH_INTENSITY = 1 / 16, 4096.0  # flop/B
Findings = Mapping[tuple[str, str], Finding]


def signature_figures(result: Result) -> Iterator[Figure]:
    """The figures that a result has data for, in order; each shows what no other does."""
    found = {(each.element, each.attribute): each for each in result.findings}
    series = {(each.element, each.name): each for each in result.series}
    if MOUNTAIN in series:
        yield from _mountain(series[MOUNTAIN], found)
    if (CURVES, BANDWIDTH_SERIES) in series:
        yield from _bandwidths(series[CURVES, BANDWIDTH_SERIES], result, found)
    yield from roofline(result, found)
    if SM_LINES in series:
        yield from figures_of_series(series[SM_LINES])
    yield from filter(None, [sm_map([each for each in result.findings if each.element == "l2"])])
    for element in ("l1", "l2"):
        figure = index_matrix([each for each in result.findings if each.element == element])
        if figure is not None and len(figure.columns["set bit"]) > len(set(figure.columns["set bit"])):  # a hash
            yield figure
    for element in TLBS:
        if (element, TLB_SERIES) in series:
            yield from _tlb(series[element, TLB_SERIES], found)


def roofline(result: Result, found: Findings) -> Iterator[Figure]:
    """Attainable rate against arithmetic intensity, from measured bandwidths and rates (Williams 2009)."""
    slopes = _bandwidths_found(result, found)
    tops = {name: FLOPS_PER_RATE[each] * _number(found, each, "gpu_rate") for each, name in _CEILINGS.items()}
    slopes, tops = ({name: value for name, value in each.items() if value} for each in (slopes, tops))
    if not slopes or not tops:
        return
    ceiling, steepest = max(tops.values()), max(slopes.values())
    groups: dict[str, tuple[Sequence[float], Sequence[float]]] = {}
    for name, slope in slopes.items():
        ridge = ceiling / slope
        groups[f"{name} {slope / 1e12:.3g} TB/s"] = ((LOW_INTENSITY, ridge), (LOW_INTENSITY * slope, ceiling))
    for name, top in tops.items():
        groups[f"{name} {top / 1e12:.3g} Tflop/s"] = ((top / steepest, HIGH_INTENSITY), (top, top))
    title, note = (
        "Roofline from measured rates",
        "flop: a multiply-add counts as two; measured on all SMs at once, but L1: one SM times SMs and clock",
    )
    axes = ("arithmetic intensity", "flop/B"), ("rate", "flop/s")
    yield overlay(title, *axes, groups, kind=Kind.CURVES, log_x=True, log_y=True, note=note)


def _mountain(series: Series, found: Findings) -> Iterator[Figure]:
    """Latency of a load against footprint, through all levels."""
    sizes, latencies = (series.columns.get(name, ())[:MAX_POINTS] for name in ("footprint", "latency"))
    groups = {"measured": _points(sizes, latencies)}
    points = [point for element in _LEVELS if (point := _published(found, element))]
    known = [point for point in points if point[0] <= max(groups["measured"][0], default=0)]
    if known:
        groups["published (capacity, hit latency)"] = ([x for x, _ in known], [y for _, y in known])
    if not groups["measured"][0]:
        return
    yield overlay(
        "Latency of a load against footprint",
        ("footprint", "B"),
        ("latency", "cycles"),
        groups,
        kinds={"published (capacity, hit latency)": Kind.DOTS},
        log_x=True,
        log_y=False,
        marks=_capacities(found, groups["measured"][0]),
        levels=_hits(found),
        evidence=series.evidence,
        note="whole laps with their start; vertical: capacities and reach of the TLBs; horizontal: hit latencies",
        shows=(("l1", "hit_latency"), ("l2", "hit_latency"), ("dram", "hit_latency")),
    )


def _bandwidths(series: Series, result: Result, found: Findings) -> Iterator[Figure]:
    """Bandwidth of all SMs together, each reading its own part of the footprint, through all levels and past the L1."""
    columns = {name: column[:MAX_POINTS] for name, column in series.columns.items()}
    sizes, names = columns.get("footprint", ()), {"bandwidth": "loads", "l2_bandwidth": "loads past the L1"}
    groups = {name: _points(sizes, columns[column]) for column, name in names.items() if column in columns}
    points = groups.get("loads", ([], []))
    if len(points[0]) < MIN_POINTS:
        return
    sms = result.device.sm_count
    peaks = {name: bandwidth for name, bandwidth in _bandwidths_found(result, found).items() if bandwidth}
    yield overlay(
        "Read bandwidth of all SMs against footprint",
        ("footprint", "B"),
        ("bandwidth", "B/s"),
        groups,
        log_x=True,
        log_y=False,
        marks=_within(points[0], [(sms * _number(found, "l1", "capacity"), "L1s"), *_l2_sizes(found)]),
        levels=[(rate, f"{name} {rounded(rate, 'B/s')}") for name, rate in peaks.items()],
        evidence=series.evidence,
        note="each SM reads its own part; vertical: capacities (L1s together); horizontal: findings",
        shows=tuple((element, "read_bandwidth") for element in ("l2", "dram")),
    )


def _bandwidths_found(result: Result, found: Findings) -> dict[str, float]:
    """Read bandwidth of each level in B/s, of all SMs together; 0 where it was not found."""
    clock = result.conditions.clock_hz or 0.0
    return {
        "L1": _number(found, "l1", "read_rate") * result.device.sm_count * clock,
        "L2": _number(found, "l2", "read_bandwidth"),
        "DRAM": _number(found, "dram", "read_bandwidth"),
    }


def _tlb(series: Series, found: Findings) -> Iterator[Figure]:
    """Curves of a TLB, with the entries that were found."""
    entries = _number(found, series.element, "entries")
    marks = [(entries, f"{folded(found[series.element, 'entries'])} entries")] if entries else []
    shows = tuple((series.element, each) for each in ("entries", "page_size", "reach", "miss_penalty"))
    for figure in figures_of_series(series):
        yield replace(figure, marks=marks, shows=shows)


def _capacities(found: Findings, sizes: Sequence[float]) -> list[tuple[float, str]]:
    """Capacities, and the reach of TLBs, within the range of the plot."""
    tlbs = [(_number(found, tlb, "reach"), title_of(tlb)) for tlb in TLBS]
    return _within(sizes, [(_number(found, "l1", "capacity"), "L1"), *_l2_sizes(found), *tlbs])


def _l2_sizes(found: Findings) -> list[tuple[float, str]]:
    partition, whole = (_number(found, "l2", name) for name in ("segment_size", "capacity"))
    return [(partition if partition < whole else 0.0, "L2 partition"), (whole, "L2")]


def _within(sizes: Sequence[float], marks: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    return [(value, name) for value, name in marks if min(sizes) < value < max(sizes)]


def _hits(found: Findings) -> list[tuple[float, str]]:
    names = {("l1", "hit_latency"): "L1", ("l2", "hit_latency"): "L2", ("l2", "far_latency"): "L2 far"}
    names[("dram", "hit_latency")] = "DRAM"
    values = [(_number(found, *key), f"{name} {folded(found[key])}") for key, name in names.items() if key in found]
    return [each for each in values if each[0]]


def _published(found: Findings, element: str) -> tuple[float, float] | None:
    """Published capacity and hit latency of a level; None unless both are."""
    both = [found.get((element, name)) for name in ("capacity", "hit_latency")]
    values = [_middle(each.published) for each in both if each is not None and each.published is not None]
    return (values[0], values[1]) if len(values) == 2 and all(values) else None


def _middle(known: Published) -> float:
    """The published value, or the middle of the published range; 0 without either."""
    if isinstance(known.value, int | float):
        return float(known.value)
    return (known.low + known.high) / 2 if known.low is not None and known.high is not None else 0.0


def _points(xs: Column, ys: Column) -> tuple[list[float], list[float]]:
    rows = [(x, y) for x, y in zip(xs, ys, strict=False) if is_finite(x) and is_finite(y) and x > 0]
    return [x for x, _ in rows], [y for _, y in rows]


def _number(found: Findings, element: str, attribute: str) -> float:
    """The value of a finding; 0 if there is none that can be plotted."""
    finding = found.get((element, attribute))
    value = finding.value if finding is not None else None
    return float(value) if isinstance(value, int | float) and is_finite(value) and value > 0 else 0.0

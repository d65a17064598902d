"""Figures of an explanation: time against occupancy, and the launch under the roofline."""

from collections.abc import Iterator

from gpudissect.explanation.curve import curve_of, note_on_curve
from gpudissect.explanation.result import Explanation
from gpudissect.explanation.sentences import resource
from gpudissect.units import TIME_UNITS, format_ns
from gpudissect.views.plots.figure import Column, Figure, Kind

ARITHMETIC = ("fma", "fp64", "tensor")
"""Resources whose work is arithmetic under a roofline."""
ROOF_REACH = 16.0  # how far the roof goes to either side of the launch or the ridge
MIN_HEIGHT = 0.05  # of the fastest predicted time, below which the roofline would make the axis logarithmic
MIN_SHARE = 1e-4  # of the predicted time, below which memory or arithmetic counts as unused


def figures_of(explanation: Explanation) -> Iterator[Figure]:
    """The figures that an explanation has data for."""
    if len(curve_of(explanation)) > 1:
        yield curve(explanation)
    yield from roofline(explanation)


def curve(explanation: Explanation) -> Figure:
    """Time against warps: predicted with its bracket, measured, by Volkov's model and by the roofline."""
    points = curve_of(explanation)
    scale, unit = next((each for each in TIME_UNITS if points[-1].predicted >= each[0]), TIME_UNITS[-1])
    columns: dict[str, Column] = {
        "warps per SM": tuple(point.warps_per_sm for point in points),
        "predicted": tuple(_number(point.predicted / scale) for point in points),
        "measured": tuple(None if point.measured is None else _number(point.measured / scale) for point in points),
        "Volkov": tuple(_number(point.volkov / scale) for point in points),
        "roofline": tuple(_number(point.roofline / scale) for point in points),
        "low": tuple(_number(point.low / scale) for point in points),
        "high": tuple(_number(point.high / scale) for point in points),
        "limited by": tuple(resource(point.limiter) for point in points),
    }
    highest = max(point.roofline for point in points)
    is_visible = highest >= MIN_HEIGHT * min(point.predicted for point in points)
    ys = ("predicted", "measured", "Volkov", *(["roofline"] if is_visible else []))
    return Figure(
        title="Time against occupancy",
        kind=Kind.CURVES,
        columns=columns,
        x="warps per SM",
        ys=ys,
        units=dict.fromkeys((*ys, "low", "high"), unit),
        kinds={"predicted": Kind.LINES, "measured": Kind.DOTS},
        marks=[(float(points[-1].warps_per_sm), "this launch")],
        y_title="time",
        band=("low", "high"),
        note="band: bracket of the prediction; Volkov: VV16 s3.3; roofline: "
        + ("memory or arithmetic alone" if is_visible else f"below the plot, {format_ns(highest)}")
        + f". {note_on_curve(explanation)}".rstrip(". "),
    )


def roofline(explanation: Explanation) -> Iterator[Figure]:
    """The launch under the roof, relative to the ridge; nothing for a launch without arithmetic or memory traffic.

    Intensity is the time of the arithmetic at its peak rate over that of the memory traffic at full bandwidth.
    """
    arithmetic = max(explanation.bounds.get(name, 0.0) for name in ARITHMETIC)
    memory = explanation.bounds.get("memory", 0.0)
    point = explanation.point
    if point.predicted <= 0 or min(arithmetic, memory) < MIN_SHARE * point.predicted:
        return
    intensity = arithmetic / memory
    ends = min(intensity, 1.0) / ROOF_REACH, max(intensity, 1.0) * ROOF_REACH
    measured = arithmetic / point.measured if point.measured else None
    roof = [(x, None, None, min(1.0, x)) for x in (ends[0], 1.0, ends[1])]
    rows = [(intensity, arithmetic / point.predicted, measured, None), *roof]
    names = ("intensity over the ridge", "predicted", "measured", "roof")
    columns = (tuple(None if each is None else _number(each) for each in column) for column in zip(*rows, strict=True))
    yield Figure(
        title="Roofline",
        kind=Kind.DOTS,
        columns=dict(zip(names, columns, strict=True)),
        x=names[0],
        ys=names[1:],
        kinds={"roof": Kind.CURVES},
        log_x=True,
        log_y=True,
        y_title="share of the arithmetic peak",
        note="left of 1 the roof is the bandwidth of device memory, right of it the peak rate of arithmetic",
    )


def _number(value: float) -> float:
    return float(f"{value:.5g}")

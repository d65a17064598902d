"""An explanation on a terminal: one screen; on request the worksheet, the curve, the machine code and the rest."""

import math
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gpudissect.explanation import sentences
from gpudissect.explanation.result import Explanation, Line, Point
from gpudissect.results.text import clean
from gpudissect.units import WARP_SIZE, format_ns
from gpudissect.views.terminal.layout import fitting_table, print_table

MAX_SCREEN_LINES = 30
LABEL_WIDTH = 17  # characters
MIN_CHART_ROWS, MAX_CHART_ROWS, BAR_WIDTH = 2, 6, 30
ROOM_OF_ADVICE = ((3, 8), (2, 8), (1, 8), (1, 4), (1, 1))
"""Advice on the screen and lines of each; the first that fits."""
MAX_FACT_LINES = 4
MAX_BOUNDS = 2
MAX_HOTTEST = 8
MAX_WAITS = 2  # addresses of producers of an instruction
WORKSHEET = ("resource", "cycles per instruction", "instructions per warp", "cycles per warp", "share of the time")
CURVE = ("warps", "blocks", "predicted", "bracket", "measured", "error", "Volkov", "roofline", "limited by")
CURVE_OPTIONAL = ("blocks", "limited by", "bracket")
CODE = (
    *("address", "executed", "unit", "issue cycles", "latency", "waits for", "stall", "contended"),
    *("sectors", "L1 hits", "L2 hits", "instruction", "source", "cost"),
)
CODE_OPTIONAL = ("cost", "L2 hits", "L1 hits", "sectors", "contended", "source", "latency", "issue cycles", "unit")
"""Columns in the order in which they are dropped."""


def print_explanation(out: Console, explanation: Explanation, *, everything: bool = False) -> None:
    """Print one screen of at most 30 lines at 80 columns; with `everything` also the tables behind it."""
    for label, text in screen(explanation, out.width, is_plain=not out.encoding.startswith("utf")):
        out.print(Text.assemble((label, "bold"), text), soft_wrap=True)
    if everything:
        _print_tables(out, explanation)
    elif out.is_terminal:
        out.print("--all prints worksheet, curve and annotated machine code", style="dim")


def screen(explanation: Explanation, width: int, *, is_plain: bool = False) -> list[tuple[str, str]]:
    """The lines of the first screen, each with a label; bars of ``#`` if `is_plain`.

    The last advice is left out where the screen has no room for it; text is cut only if there is no room for one.
    """
    curve = sentences.curve_of(explanation)
    min_rows = MIN_CHART_ROWS + 2 if len(curve) > 1 else 0
    lines: list[tuple[str, str]] = []
    left = 0
    for max_advice, max_lines in ROOM_OF_ADVICE:
        lines = [(sentences.kernel_of(explanation), f" on {sentences.gpu_of(explanation)}")]
        lines += [("", text) for text in textwrap.wrap(sentences.launch_of(explanation), width)[:2]]
        for label, text in sentences.answers_of(explanation, max_advice):
            count = max_lines if label.startswith(("Saves", "Advice")) else MAX_FACT_LINES
            lines += _labelled(f"{label:<{LABEL_WIDTH}}", text, width, count)
        bounds = [f"{format_ns(ns)} ({name})" for name, ns, _ in sentences.bounds_of(explanation)[:MAX_BOUNDS]]
        lines += _labelled(f"{'Lower bounds':<{LABEL_WIDTH}}", ", ".join(bounds) or "none", width, 1)
        left = MAX_SCREEN_LINES - 1 - len(lines)  # less a hint at the end
        if left >= min_rows:
            break
    if min_rows:
        note = textwrap.wrap(sentences.note_on_curve(explanation), width)
        note = note if left - len(note) >= min_rows else []
        chart = _chart(explanation, curve, min(MAX_CHART_ROWS, left - 2 - len(note)), "#" if is_plain else "█")
        lines += [("", ""), *chart, *(("", text) for text in note)]
    return lines


def _labelled(label: str, text: str, width: int, count: int) -> list[tuple[str, str]]:
    """At most `count` lines of text right of a label."""
    room = max(20, width - len(label))
    wrapped = textwrap.wrap(clean(text), room, max_lines=count, placeholder=" …")
    return [(label if n == 0 else " " * len(label), each) for n, each in enumerate(wrapped)]


def _chart(explanation: Explanation, curve: Sequence[Point], rows: int, bar: str) -> list[tuple[str, str]]:
    """Throughput against warps, relative to the best predicted one, in at most `rows` rows; the launch is the last."""
    best = min(point.predicted for point in curve)
    lines = [("warps  predicted   measured  throughput relative to the best", "")]
    last, count = len(curve) - 1, max(2, min(rows, len(curve)))
    for point in (curve[place] for place in sorted({round(n * last / (count - 1)) for n in range(count)})):
        length = round(BAR_WIDTH * best / point.predicted) if point.predicted else 0
        measured = "-" if point.measured is None else format_ns(point.measured)
        text = f"{point.warps_per_sm:>5}  {format_ns(point.predicted):>9}  {measured:>9}  {bar * max(1, length)}"
        lines.append(("", f"{text} <- this launch" if point is curve[-1] else text))
    return lines


def _print_tables(out: Console, explanation: Explanation) -> None:
    """Print worksheet, curve, machine code with the hottest instructions first, critical path, assumptions, notes."""
    _print_table(out, "Worksheet", WORKSHEET, worksheet_rows(explanation))
    model = "predicted by simulating the warps of an SM; Volkov's model and the roofline do not overlap latencies"
    _print_table(out, f"Time against occupancy: {model}", CURVE, curve_rows(explanation), CURVE_OPTIONAL)
    hottest = sentences.hottest(explanation, MAX_HOTTEST)
    _print_table(out, "Where a warp spends its time", CODE, code_rows(hottest), CODE_OPTIONAL)
    count = f"{len(explanation.lines)} instructions; *: on the longest dependence chain"
    count += "; sectors and hits are assumed" if sentences.assumed_of(explanation) else ""
    rows = code_rows(sentences.executed_lines(explanation))
    _print_table(out, f"Machine code: {count}", CODE, rows, CODE_OPTIONAL)
    _print_list(out, "Longest dependence chain", dependence_chain(explanation))
    loops = sorted(explanation.loops.items(), key=lambda item: -item[1])
    _print_list(out, "Loop-carried, cycles per iteration", [f"{cycles:.4g}  {name}" for name, cycles in loops])
    for title, found in (("Advice", explanation.advice), ("Also tried", explanation.rejected)):
        _print_list(out, title, [f"{sentences.saved_of(each)}  {each.text}: {each.evidence}" for each in found])
    _print_list(out, "Assumed, not measured", explanation.assumptions)
    _print_list(out, "Notes", explanation.notes)


def worksheet_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """A row of `WORKSHEET` for each resource (VV16 table 3.4); cycles are those of an SM."""
    warps = math.prod(explanation.grid) * -(-math.prod(explanation.block) // WARP_SIZE)
    rows = []
    for row in explanation.worksheet:
        cycles = row.cycles / (warps / explanation.sms) if explanation.sms else None
        per_instruction = cycles / row.instructions if cycles and row.instructions else None
        numbers = (per_instruction, row.instructions or None, cycles)
        rows.append((sentences.resource(row.unit), *map(sentences.number_of, numbers), f"{row.share:.0%}"))
    return rows


def curve_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """A row of `CURVE` for each occupancy; measured time and error are empty where it was not measured."""
    return [
        (
            f"{point.warps_per_sm}",
            f"{point.blocks_per_sm}",
            format_ns(point.predicted),
            f"{format_ns(point.low)} .. {format_ns(point.high)}",
            "" if point.measured is None else format_ns(point.measured),
            "" if point.error is None else f"{point.error:+.1%}",
            format_ns(point.volkov),
            format_ns(point.roofline),
            sentences.resource(point.limiter),
        )
        for point in sentences.curve_of(explanation)
    ]


def code_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """A row of `CODE` for each instruction."""
    return [
        (
            sentences.address_of(line.address) + ("*" if line.is_critical else ""),
            sentences.executions_of(line),
            clean(line.unit),
            f"{line.issue_cycles:.3g}",
            sentences.number_of(line.latency),
            _waits(line),
            sentences.share_of(line.stall),
            sentences.share_of(line.contended),
            f"{line.sectors:.3g}" if line.sectors else "",
            *sentences.hits_of(line),
            clean(line.text),
            sentences.source_of(line),
            clean(line.cost_source) if line.is_measured else f"assumed: {clean(line.cost_source)}",
        )
        for line in lines
    ]


def _waits(line: Line) -> str:
    """Addresses of the producers, and how many more there are."""
    more = len(line.waits_for) - MAX_WAITS
    shown = " ".join(map(sentences.address_of, line.waits_for[:MAX_WAITS]))
    return f"{shown} +{more}" if more > 0 else shown


def dependence_chain(explanation: Explanation) -> list[str]:
    """The longest chain of dependent instructions: its time and what it leaves out, and its instructions."""
    chain = [sentences.place_of(line) for line in explanation.lines if line.is_critical]
    return [f"{sentences.chain_of(explanation)}; {len(chain)} instructions", *chain]


def _print_table(
    out: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], optional: Sequence[str] = ()
) -> None:
    """Print a table under its title; nothing without rows."""
    if rows:
        out.print(Text(f"\n{title}", "bold"))
        cells = [dict(zip(columns, map(Text, row), strict=True)) for row in rows]
        print_table(out, fitting_table(out, columns, cells, optional))


def _print_list(out: Console, title: str, texts: Sequence[str]) -> None:
    if texts:
        out.print(Text(f"\n{title}", "bold"))
        for text in texts:
            out.print(Text(clean(text)))

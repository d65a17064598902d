"""An explanation on a terminal: one screen; on request the worksheet, the curve, the machine code and the rest."""

import math
import textwrap
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from gpudissect.explanation import listing, sentences
from gpudissect.explanation.curve import best_of, curve_of, has_different_l1, note_on_curve
from gpudissect.explanation.result import Explanation, Line, Point
from gpudissect.printable import clean
from gpudissect.units import WARP_SIZE, format_bytes, format_ns
from gpudissect.views.terminal.layout import fitting_table, print_table

MAX_SCREEN_LINES = 30
LABEL_WIDTH = 17  # characters
MIN_CHART_ROWS, MAX_CHART_ROWS = 3, 6
BAR_WIDTH, BAR_WIDTH_BESIDE_L1 = 30, 24
ROOM_OF_ADVICE = ((3, 3, 8), (3, 2, 8), (2, 2, 8), (3, 1, 8), (2, 1, 8), (1, 1, 8), (1, 1, 4), (1, 1, 1))
"""Advice on the screen, how many of it are not cut to one line, and lines of each; the first that fits."""
MAX_FACT_LINES = 4
MAX_BOUNDS = 2
MAX_HOTTEST = 8
MAX_WAITS = 2  # addresses of producers of an instruction
WORKSHEET = (
    "resource",
    "cycles per instruction",
    "instructions per warp",
    "cycles per warp",
    "share of predicted time",
)
CURVE = (
    *("warps", "blocks", "waves", "predicted", "bracket", "measured", "error", "L1", "Volkov", "roofline"),
    *("limited by", "best"),
)
CURVE_OPTIONAL = ("blocks", "limited by", "bracket", "waves", "L1")
SOURCE = ("source line", "issue slots", "stall", "pipe wait", "executed", "threads", "instructions")
MAX_SOURCE_ROWS = 30
CODE = (
    *("address", "executed", "threads", "unit", "issue cycles", "latency", "waits for", "stall", "pipe wait"),
    *("sectors", "L1 hits", "L2 hits", "instruction", "source", "cost"),
)
CODE_OPTIONAL = (
    "cost",
    "L2 hits",
    "L1 hits",
    "sectors",
    "threads",
    "pipe wait",
    "source",
    "latency",
    "issue cycles",
    "unit",
)
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

    Without room, the last advice is cut to one line or left out; the first is cut only if even it has no room.
    """
    curve = curve_of(explanation)
    min_rows = MIN_CHART_ROWS + 2 if len(curve) > 1 else 0
    lines: list[tuple[str, str]] = []
    left = 0
    for max_advice, max_whole, max_lines in ROOM_OF_ADVICE:
        lines = [(sentences.kernel_of(explanation), f" on {sentences.gpu_of(explanation)}")]
        lines += [("", text) for text in textwrap.wrap(sentences.launch_of(explanation), width)[:2]]
        whole = max_whole
        for label, text in sentences.answers_of(explanation, max_advice):
            count = MAX_FACT_LINES
            if label == "Note":
                count = 1
            if label.startswith(("Saves", "Advice")):
                count, whole = max_lines if whole else 1, max(0, whole - 1)
            lines += _labelled(f"{label:<{LABEL_WIDTH}}", text, width, count)
        bounds = [f"{format_ns(ns)} ({name})" for name, ns, _ in sentences.bounds_of(explanation)[:MAX_BOUNDS]]
        lines += _labelled(f"{'Lower bounds':<{LABEL_WIDTH}}", ", ".join(bounds) or "none", width, 1)
        left = MAX_SCREEN_LINES - 1 - len(lines)  # less a hint at the end
        if left >= min_rows:
            break
    if min_rows:
        note = textwrap.wrap(note_on_curve(explanation), width)
        note = note if left - len(note) >= min_rows else []
        chart = _chart(explanation, curve, min(MAX_CHART_ROWS, left - 2 - len(note)), "#" if is_plain else "█")
        lines += [("", ""), *chart, *(("", text) for text in note)]
    return lines


def _labelled(label: str, text: str, width: int, count: int) -> list[tuple[str, str]]:
    """At most `count` lines of text right of a label."""
    wrapped = textwrap.wrap(clean(text), max(20, width - len(label)), max_lines=count, placeholder=" …")
    return [(label if n == 0 else " " * len(label), each) for n, each in enumerate(wrapped)]


def _chart(explanation: Explanation, curve: Sequence[Point], rows: int, bar: str) -> list[tuple[str, str]]:
    """Throughput against warps, relative to the best predicted one, in at most `rows` rows; the launch is the last.

    The best row is always shown. The size of the L1 is a column if it differs.
    """
    has_l1, best = has_different_l1(explanation), best_of(explanation)
    fastest, width = min(point.predicted for point in curve), BAR_WIDTH_BESIDE_L1 if has_l1 else BAR_WIDTH
    lines = [(f"warps  predicted   measured  {'       L1  ' if has_l1 else ''}throughput relative to the best", "")]
    for point in _chosen(curve, rows, best):
        length = round(width * fastest / point.predicted) if point.predicted else 0
        measured = "-" if point.measured is None else format_ns(point.measured)
        text = f"{point.warps_per_sm:>5}  {format_ns(point.predicted):>9}  {measured:>9}  "
        text += f"{_l1_of(point):>9}  " if has_l1 else ""
        mark = " <- this launch" if point is curve[-1] else " <- best" if point == best else ""
        lines.append(("", f"{text}{bar * max(1, length)}{mark}"))
    return lines


def _chosen(curve: Sequence[Point], rows: int, best: Point | None) -> list[Point]:
    """At most `rows` points of a curve, evenly spread: the first and the last, and the best one."""
    last, count = len(curve) - 1, max(2, min(rows, len(curve)))
    places = sorted({round(n * last / (count - 1)) for n in range(count)})
    if best is not None and (place := list(curve).index(best)) not in places:
        nearest = min(range(1, len(places) - 1) or range(1), key=lambda n: abs(places[n] - place))
        places[nearest] = place
    return [curve[place] for place in places]


def _l1_of(point: Point) -> str:
    return "" if point.l1_bytes is None else format_bytes(point.l1_bytes)


def _print_tables(out: Console, explanation: Explanation) -> None:
    """Print worksheet, curve, machine code with the hottest instructions first, critical path, assumptions, notes."""
    _print_table(out, "Worksheet", WORKSHEET, worksheet_rows(explanation))
    model = "predicted: simulated SM; Volkov: the longer of its latency and throughput bounds; roofline: no latency"
    _print_table(out, f"Time against occupancy. {model}", CURVE, curve_rows(explanation), CURVE_OPTIONAL)
    hottest = listing.hottest(explanation, MAX_HOTTEST)
    _print_table(out, "Where a warp spends its time", CODE, code_rows(hottest), CODE_OPTIONAL)
    _print_source(out, explanation)
    count = f"{len(explanation.lines)} instructions; *: on the longest dependence chain; stall: waits for results or "
    count += "barriers; pipe wait: for a pipe or an issue slot"
    count += "; sectors and hits are assumed" if sentences.assumed_of(explanation) else ""
    rows = folded_code_rows(listing.executed_lines(explanation))
    _print_table(out, f"Machine code: {count}", CODE, rows, CODE_OPTIONAL)
    _print_list(out, "Longest dependence chain", dependence_chain(explanation))
    loops = sorted(((name, cycles) for name, cycles in explanation.loops.items() if cycles), key=lambda item: -item[1])
    _print_list(out, "Loop-carried, cycles per iteration", [f"{cycles:.4g}  {name}" for name, cycles in loops])
    for title, found in (("Advice", explanation.advice), ("Also tried", explanation.rejected)):
        texts = [f"{sentences.change_of(explanation, each)}{each.text}; {each.evidence}" for each in found]
        savings = [sentences.saved_of(each) for each in found]
        _print_list(out, title, [f"Saves {saved}  {text}" for saved, text in zip(savings, texts, strict=True)])
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
        rows.append((sentences.resource(row.unit), *map(listing.number_of, numbers), f"{row.share:.0%}"))
    return rows


def curve_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """A row of `CURVE` for each occupancy; measured time and error are empty where it was not measured."""
    blocks, sms, best = math.prod(explanation.grid), explanation.sms, best_of(explanation)
    return [
        (
            f"{point.warps_per_sm}",
            f"{point.blocks_per_sm}",
            f"{blocks / (sms * point.blocks_per_sm):.2f}" if sms and point.blocks_per_sm else "",
            format_ns(point.predicted),
            f"{format_ns(point.low)} to {format_ns(point.high)}",
            "" if point.measured is None else format_ns(point.measured),
            "" if point.error is None else f"{point.error:+.1%}",
            _l1_of(point),
            format_ns(point.volkov),
            format_ns(point.roofline) if point.roofline else "-",
            sentences.resource(point.limiter),
            "best" if point == best else "",
        )
        for point in curve_of(explanation)
    ]


def source_rows(explanation: Explanation) -> list[tuple[str, ...]]:
    """A row of `SOURCE` for each source line, those with most time first."""
    return [
        (
            row.place,
            listing.share_of(row.issued),
            listing.share_of(row.stall),
            listing.share_of(row.contended),
            listing.times_of(row.executed),
            listing.threads_of(row.threads),
            f"{row.instructions}",
        )
        for row in listing.source_rows(explanation)
    ]


def _print_source(out: Console, explanation: Explanation) -> None:
    rows = source_rows(explanation)
    more = f"; {MAX_SOURCE_ROWS} of {len(rows)}" if len(rows) > MAX_SOURCE_ROWS else ""
    title = (
        "Source lines by time: share of issue slots, shares of a warp's time; executions and active threads of a warp"
    )
    title += ", the former of the most executed instruction"
    _print_table(out, f"{title}{more}", SOURCE, rows[:MAX_SOURCE_ROWS])


def folded_code_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """The same as `code_rows`, with one row for a run of instructions that are hardly executed."""
    rows = list[tuple[str, ...]]()
    for group in listing.folded(lines):
        if len(group) == 1:
            rows += code_rows(group)
        else:
            cells = {"address": listing.address_of(group[0].address), "instruction": listing.fold_of(group)}
            rows.append(tuple(cells.get(name, "") for name in CODE))
    return rows


def code_rows(lines: Sequence[Line]) -> list[tuple[str, ...]]:
    """A row of `CODE` for each instruction."""
    return [
        (
            listing.address_of(line.address) + ("*" if line.is_critical else ""),
            listing.times_of(line.executed),
            listing.threads_of(line.active_threads),
            clean(line.unit),
            f"{line.issue_cycles:.3g}",
            listing.number_of(line.latency),
            _waits(line),
            listing.share_of(line.stall),
            listing.share_of(line.contended),
            f"{line.sectors:.3g}" if line.sectors else "",
            *listing.hits_of(line),
            clean(line.text),
            listing.source_of(line),
            clean(line.cost_source) if line.is_measured else f"assumed: {clean(line.cost_source)}",
        )
        for line in lines
    ]


def _waits(line: Line) -> str:
    """Addresses of the producers, and how many more there are."""
    more = len(line.waits_for) - MAX_WAITS
    shown = " ".join(map(listing.address_of, line.waits_for[:MAX_WAITS]))
    return f"{shown} +{more}" if more > 0 else shown


def dependence_chain(explanation: Explanation) -> list[str]:
    """The longest chain of dependent instructions: its time and what it leaves out, and its instructions."""
    chain = [listing.place_of(line) for line in explanation.lines if line.is_critical]
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

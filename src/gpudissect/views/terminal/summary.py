"""The summary of a result for a terminal or a pipe: what it says in one screen."""

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudissect.printable import clean, cut
from gpudissect.results.folded import folded, rounded
from gpudissect.results.model import Finding, Prediction
from gpudissect.results.summary import Level, Remark, Summary, Tlb
from gpudissect.results.text import percent, title_of
from gpudissect.views.terminal.layout import first_fitting, print_table

MAX_REMARKS = 2  # differences from published values, and as many uncertain attributes
LABEL_WIDTH = 15  # characters
_OPTIONAL = ("sets x ways", "agreement", "ns", "bandwidth", "line")  # columns in the order in which they are dropped


def print_summary(out: Console, summary: Summary, prediction: Prediction | None, *, details: bool = False) -> None:
    """Print levels, TLBs, warps needed, the prediction check, and what is uncertain or different.

    With `details` all differences are printed in full; what is uncertain stands elsewhere.
    """
    if summary.levels:
        layouts = ((gap, dropped) for dropped in range(len(_OPTIONAL) + 1) for gap in (2, 1))
        table = first_fitting(out, (_levels(out, summary, _OPTIONAL[:dropped], gap) for gap, dropped in layouts))
        print_table(out, table)
        if all(column.header != "bandwidth" for column in table.columns):
            _print_labelled(out, "Bandwidth", _bandwidths(summary))
    for level in summary.levels:
        _print_labelled(out, level.name, "; ".join(_more(level, summary)))
    for tlb in summary.tlbs:
        _print_labelled(out, tlb.name, _tlb_words(tlb))
    if summary.rates and not summary.warps:  # else the screen is full
        rates = ", ".join(f"{name} {rate}" for name, rate in summary.rates.items())
        _print_labelled(out, "Whole GPU", rates)
    if summary.warps:
        _print_labelled(out, "Warps per SM", summary.warps_needed)
    if prediction is not None:
        share = f"{percent(prediction.agreement)} of {prediction.accesses:,}"
        _print_labelled(out, "Prediction", f"{share} held-out random accesses predicted correctly")
    for reason in summary.instabilities:
        _print_labelled(out, "Not stable", f"{reason}; gpudissect check has the advice")
    if summary.is_of_card and (summary.levels or summary.tlbs):
        _print_labelled(out, "Valid for", "this card; another card of the same model can differ")
    _print_remarks(out, summary, details=details)


def _levels(out: Console, summary: Summary, dropped: Sequence[str], gap: int) -> Table:
    """One row per level. Verdicts are only named in full while every column is there."""
    rows = [_level_cells(level, brief=bool(dropped)) for level in summary.levels]
    heading = f"published ({clean(summary.reference)})" if summary.reference and not dropped else "published"
    headings = {"name": "", "latency": "latency (cycles)" if not dropped else "cycles", "agreement": heading}
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    names = [name for name in rows[0] if name not in dropped and (name == "name" or any(row[name] for row in rows))]
    for name in names:
        table.add_column(headings.get(name, name), overflow="fold")
    for row in rows:
        table.add_row(*(Text(row[name], _style(name, row[name])) for name in names))
    return table


def _style(column: str, text: str) -> str:
    if column == "agreement":
        return {"agrees": "green", "overlaps": "yellow"}.get(text, "bold red")
    return "bold" if column == "name" else ""


def _level_cells(level: Level, *, brief: bool) -> dict[str, str]:
    latencies = [(level.latency, " near" if level.far_latency else ""), (level.far_latency, " far")]
    found = [(each, place) for each, place in latencies if each is not None and each.status.has_value]
    agreement = level.agreement
    return {
        "name": level.name,
        "size": _text(level.size),
        "line": _text(level.line),
        "sets x ways": _organization(level),
        "latency": "\n".join(f"{folded(each, unit=False)}{place}" for each, place in found),
        "ns": "\n".join("" if each.value_ns is None else rounded(each.value_ns, "") for each, _ in found),
        "bandwidth": _bandwidth(level),
        "agreement": "differs" if brief and agreement not in ("", "agrees", "overlaps") else agreement,
    }


def _text(finding: Finding | None) -> str:
    return "" if finding is None else folded(finding)


def _organization(level: Level) -> str:
    sets, ways = _text(level.sets), _text(level.ways)
    return f"{sets} x {ways}" if sets and ways else ""


def _bandwidth(level: Level) -> str:
    """The bandwidth, with the footprint that it holds for where it depends on it."""
    if ends := level.bandwidth_ends:
        size, rate = ends[0]
        return f"{rounded(rate, 'B/s')} ({rounded(size, 'B')})"
    text = _text(level.bandwidth)
    return f"{text}/SM" if text.endswith("/cycle") else text


def _more(level: Level, summary: Summary) -> Iterator[str]:
    """What a level has besides its row: partitions, distances of SMs, bandwidth over more of it."""
    if size := _text(level.partition_size):
        yield f"partitions of {size}"
    if level.element == "l2" and summary.latency_by_sm:
        yield f"hit {summary.latency_by_sm}, depending on the SM"
    for footprint, rate in level.bandwidth_ends[1:]:
        yield f"{rounded(rate, 'B/s')} ({rounded(footprint, 'B')})"


def _bandwidths(summary: Summary) -> str:
    """The bandwidths of all levels as a text; empty without any."""
    texts = {title_of(level.element, short=True): _bandwidth(level) for level in summary.levels}
    return "; ".join(f"{name} {text}" for name, text in texts.items() if text)


def _tlb_words(tlb: Tlb) -> str:
    """``2048 entries x 32 MiB = 64 GiB, a miss adds 94 cycles; 24 TLBs, 4 or 6 SMs each``.

    Pages of the driver may be smaller.
    """
    named = (
        f"{text}{noun}" for each, noun in ((tlb.entries, " entries"), (tlb.page_size, "")) if (text := _text(each))
    )
    parts = " = ".join(filter(None, (" x ".join(named), _text(tlb.reach))))
    penalty = _text(tlb.miss_penalty)
    return "; ".join(filter(None, (parts + (f", a miss adds {penalty}" if penalty else ""), tlb.sharing)))


def _print_labelled(out: Console, label: str, text: str) -> None:
    """Print a line after a label, broken below its beginning on a terminal; nothing without text."""
    if not text:
        return
    lines = textwrap.wrap(clean(text), max(20, out.width - LABEL_WIDTH))
    out.print(Text.assemble((label.ljust(LABEL_WIDTH), "bold"), f"\n{' ' * LABEL_WIDTH}".join(lines)))


def _print_remarks(out: Console, summary: Summary, *, details: bool) -> None:
    """Print what differs and what is uncertain, a line each with its reason, and how many more there are."""
    ordered = sorted(summary.remarks, key=lambda each: each.attributes == ("replacement_policy",))  # sizes matter more
    kinds = [[each for each in ordered if each.is_difference is different] for different in (True, False)]
    shown = kinds[0] if details else [each for kind in kinds for each in kind[:MAX_REMARKS]]
    if not shown:
        return
    reference = f" (published values are those of {clean(summary.reference)})" if summary.reference else ""
    out.print(Text.assemble(("Different" if details else "Uncertain or different", "bold"), reference))
    rows = list(map(_remark_cells, shown))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row, remark in zip(rows, shown, strict=True):
        name, value, reason = (text.ljust(width) for text, width in zip(row, widths, strict=True))
        line = f"{name}  {value}  {reason.rstrip()}"
        if remark.is_difference and out.is_terminal and len(line) > out.width and not details:
            line = line.rpartition(" (")[0]  # without the source
        style = "red" if remark.is_difference else "yellow"
        out.print(Text(cut(line, out.width) if out.is_terminal and not details else line, style))
    if not details and (more := len(summary.remarks) - len(shown)) > 0:
        out.print(Text(f"and {more} more (--all)", "dim"))


def _remark_cells(remark: Remark) -> tuple[str, str, str]:
    more = len(remark.attributes) - 1
    name = f"{remark.element}.{remark.attributes[0]}" + (f" +{more}" if more else "")
    return clean(name), clean(remark.value), clean(remark.reason)

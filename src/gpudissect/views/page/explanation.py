"""An explanation as one page: answers with advice, bounds, curve and roofline, annotated machine code."""

from collections.abc import Container, Iterable, Iterator, Sequence

from gpudissect.device_info import Origin
from gpudissect.explanation import listing, sentences
from gpudissect.explanation.result import Explanation, Line
from gpudissect.printable import brief, cut
from gpudissect.units import format_ns
from gpudissect.views.page.figures import Budget, Plots
from gpudissect.views.page.markup import Child, Markup, document, scrolling, table, tag
from gpudissect.views.plots.explanation import figures_of
from gpudissect.views.terminal.explanation import (
    CODE,
    CURVE,
    SOURCE,
    WORKSHEET,
    code_rows,
    curve_rows,
    dependence_chain,
    source_rows,
    worksheet_rows,
)

MAX_CODE_BYTES, MAX_PLOT_BYTES, MAX_OTHER_BYTES = 300_000, 60_000, 60_000  # with style and script below 500 kB
MAX_ITEMS = 200  # of a list
MAX_SOURCE_LINES = 40
MAX_ADVICE = 3  # beside the limiter
MAX_TEXT_LENGTH, MAX_WAITS, MAX_HOTTEST = 200, 3, 5  # characters of an instruction; its producers; links
BAR_SCALE = 100
_CODE = (
    *("address", "instruction", "source", "stall", "pipe wait", "waits for", "executed", "unit", "issue cycles"),
    *("latency", "sectors", "L1 hits", "L2 hits", "cost"),
)
NOTE_ON_CODE = (
    "*: in the longest dependence chain; stall: share of a warp's time that it waits for a result or a barrier; "
    "pipe wait: that it waits for a pipe or an issue slot; issue cycles: of the unit, bank conflicts and uncoalesced "
    "accesses included; latency: cycles without load, of loads the mean over L1, L2 and device memory"
)

NOTE_ON_SOURCE = (
    "issue slots: share of all instructions issued; stall, pipe wait: shares of a warp's time, as below; executed: "
    "times by a warp, of the most executed instruction; threads: of a warp that execute it together, on average"
)


def explanation_page(explanation: Explanation) -> str:
    """The page: one HTML file below 500 kB that needs nothing else."""
    plots, rest = Plots(MAX_PLOT_BYTES), Budget(MAX_OTHER_BYTES)
    plotted = plots.draw(figures_of(explanation))
    parts = [part for part in _parts(explanation) if rest.take(part)]
    kernel, gpu = sentences.kernel_of(explanation), sentences.gpu_of(explanation)
    return document(
        f"{kernel} on {gpu}: explanation",
        tag("a", "To the machine code", class_="skip", href="#code"),
        tag("header", *_header(explanation)),
        tag(
            "main",
            tag(
                "div",
                tag("section", answers(explanation), _bounds(explanation)),
                tag("section", plotted, aria_label="Plots"),
                class_="first explained",
            ),
            _tried(explanation),
            _source(explanation),
            _code(explanation),
            *parts,
        ),
        tag("footer", tag("p", "Made by gpudissect. Times are predicted unless labeled measured.")),
    )


def _header(explanation: Explanation) -> Iterator[Child]:
    yield tag("h1", sentences.kernel_of(explanation))
    is_simulated = Origin.SIMULATED in (explanation.origin, explanation.recorded_origin)
    style = "simulated" if is_simulated or explanation.counts == "given" else "measured"
    yield tag("p", tag("strong", sentences.gpu_of(explanation), class_=f"origin {style}"), " ", class_="facts")
    yield tag("p", sentences.launch_of(explanation), class_="facts")


def answers(explanation: Explanation) -> Markup:
    """The answers of the screen, as a list of terms; what limits the kernel and the first advice stand out."""
    terms = sentences.answers_of(explanation, MAX_ADVICE)
    names = [name for name, _ in terms]
    first = names.index("Limited by"), names.index(sentences.advice_of(explanation)[0][0])
    main = ("main" if place in first else None for place in range(len(terms)))
    parts = [(tag("dt", name, class_=style), tag("dd", text)) for (name, text), style in zip(terms, main, strict=True)]
    return tag("dl", *(each for pair in parts for each in pair), class_="brief")


def _bounds(explanation: Explanation) -> Markup:
    """Nanoseconds that each resource needs at least, as bars relative to the predicted time."""
    rows = [(name, format_ns(ns), _bar(share), f"{share:.0%}") for name, ns, share in sentences.bounds_of(explanation)]
    grid = table("Lower bounds", ("resource", "at least", "", "of the predicted time"), rows[:MAX_ITEMS])
    return Markup(tag("h2", "Lower bounds") + grid)


def _tried(explanation: Explanation) -> Markup | None:
    """Changes that the answers do not show."""
    tried = [*explanation.advice[MAX_ADVICE:], *explanation.rejected]
    if not tried:
        return None
    rows = [
        (sentences.saved_of(each), f"{sentences.change_of(explanation, each)}{each.text}", each.evidence)
        for each in tried[:MAX_ITEMS]
    ]
    cut_rows = [[cut(text, MAX_TEXT_LENGTH) for text in row] for row in rows]
    grid = table("Other changes", ("predicted saving", "change", "evidence"), cut_rows)
    return tag("section", tag("h2", "Other changes"), grid)


def _parts(explanation: Explanation) -> Iterator[Markup]:
    yield _section("Worksheet", table("Worksheet", WORKSHEET, worksheet_rows(explanation)[:MAX_ITEMS]))
    yield _section("Time against occupancy", table("Curve", CURVE, curve_rows(explanation)[:MAX_ITEMS]))
    first, *chain = dependence_chain(explanation)
    yield _section("Longest dependence chain", tag("p", first), _list(chain))
    if explanation.loops:
        items = [f"{brief(name, MAX_TEXT_LENGTH)}: {cycles:.4g}" for name, cycles in explanation.loops.items()]
        yield _section("Loop-carried cycles per iteration", _list(items))
    for title, texts in (("Assumed, not measured", explanation.assumptions), ("Notes", explanation.notes)):
        if texts:
            yield _section(title, _list(texts))


def _section(title: str, *content: Markup) -> Markup:
    return tag("details", tag("summary", tag("h3", title)), *content, class_="group")


def _list(texts: Sequence[str]) -> Markup:
    shown = [tag("li", cut(text, MAX_TEXT_LENGTH)) for text in texts[:MAX_ITEMS]]
    more = len(texts) - len(shown)
    return tag("ul", *shown, tag("li", f"and {more} more") if more > 0 else None)


def _source(explanation: Explanation) -> Markup | None:
    """The source lines with most time; nothing without line information."""
    rows = source_rows(explanation)
    if not rows:
        return None
    grid = table(
        "Source lines", SOURCE, [(cut(name, MAX_TEXT_LENGTH), *rest) for name, *rest in rows[:MAX_SOURCE_LINES]]
    )
    more = f" The first {MAX_SOURCE_LINES} of {len(rows)}." if len(rows) > MAX_SOURCE_LINES else ""
    return tag("section", tag("h2", "Source lines"), tag("p", f"{NOTE_ON_SOURCE}.{more}", class_="note"), grid)


def _code(explanation: Explanation) -> Markup:
    """The machine code by address; of a long kernel the instructions at which most time is spent."""
    lines = listing.executed_lines(explanation)
    groups = {group[0].address: group for group in listing.folded(lines)}
    hidden = {line.address for group in groups.values() if len(group) > 1 for line in group}
    rows = {address: _row(group[0], hidden) if len(group) == 1 else _fold(group) for address, group in groups.items()}
    kept = _fitting([group[0] for group in groups.values()], rows)
    note = f"{NOTE_ON_CODE}{'; sectors and hits are assumed' if sentences.assumed_of(explanation) else ''}."
    if len(kept) < len(rows):
        count = sum(len(groups[address]) for address in kept)
        note += f" The {count} of {len(lines)} instructions at which warps spend most time."
    head = tag("tr", *(tag("th", name, scope="col") for name in _CODE))
    body = tag("tbody", *(row for address, row in rows.items() if address in kept))
    grid = scrolling("Machine code", tag("table", tag("thead", head), body, class_="sass"))
    links: list[Child] = []
    for line in listing.hottest(explanation, MAX_HOTTEST):
        cause = sentences.cause_of(explanation, line) if line.stall > line.contended else None
        links += [f"{line.stall + line.contended:.0%} ", _link(line.address, listing.place_of(line))]
        links += [" for ", _link(cause.address, listing.place_of(cause)), "; "] if cause else ["; "]
    hottest = tag("p", "A warp waits at: ", links[:-1]) if links else None
    return tag("section", tag("h2", "Machine code", id="code"), hottest, tag("p", note, class_="note"), grid)


def _fitting(lines: Iterable[Line], rows: dict[int, Markup]) -> set[int]:
    """Addresses of the rows that fit into the page, those with most time first."""
    budget, kept = Budget(MAX_CODE_BYTES), set[int]()
    for line in sorted(lines, key=lambda line: (-line.stall - line.contended, line.address)):
        if not budget.take(rows[line.address]):
            break
        kept.add(line.address)
    return kept


def _fold(lines: Sequence[Line]) -> Markup:
    """One row for instructions that are hardly executed."""
    address = tag("th", listing.address_of(lines[0].address), scope="row")
    return tag("tr", address, tag("td", listing.fold_of(lines), colspan=len(_CODE) - 1), id=f"i{lines[0].address:x}")


def _row(line: Line, hidden: Container[int]) -> Markup:
    """The row of an instruction; addresses that are `hidden` in other rows are no links."""
    waits: list[Child] = []
    for address in line.waits_for[:MAX_WAITS]:
        text = listing.address_of(address)
        waits += [text if address in hidden else _link(address, text), " "]
    if (more := len(line.waits_for) - MAX_WAITS) > 0:
        waits.append(f"+{more}")
    texts = {name: cut(text, MAX_TEXT_LENGTH) for name, text in zip(CODE, code_rows([line])[0], strict=True)}
    children: dict[str, Child] = {**texts, "waits for": waits, "instruction": tag("code", texts["instruction"])}
    if texts["stall"]:
        children["stall"] = (_bar(line.stall), f" {texts['stall']}")
    if not line.is_measured:
        children["cost"] = tag("em", texts["cost"])
    name, *cells = (children[each] for each in _CODE)
    return tag("tr", tag("th", name, scope="row"), *(tag("td", cell) for cell in cells), id=f"i{line.address:x}")


def _link(address: int, text: str) -> Markup:
    return tag("a", text, href=f"#i{address:x}")


def _bar(share: float) -> Markup:
    """A share as a bar; the number stands beside it."""
    rect = tag("rect", width=round(BAR_SCALE * min(max(share, 0.0), 1.0), 1), height=10)
    box = f"0 0 {BAR_SCALE} 10"
    return tag("svg", rect, class_="share", viewBox=box, preserveAspectRatio="none", aria_hidden="true")

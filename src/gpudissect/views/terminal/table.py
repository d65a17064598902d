"""The table of a result for a terminal, or for a pipe: the same lines, plain."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import IO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.results.model import Finding, Prediction, Result
from gpudissect.results.text import bracket, brief, clean, percent, provenance, published_words, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.views.terminal import instructions
from gpudissect.vocabulary import LIST_INDEX

ALL = 0.995  # of accesses: what is possible is not worth a word
WIDEST = 40  # characters of a value in the table; longer ones stand below it
PLAIN_WIDTH = 400  # a pipe has no edge: lines are kept whole, for grep and awk
MAX_RESTRICTION_LENGTH = 400  # characters
_COLUMNS = ("element", "attribute", "value", "ns", "bracket", "confidence", "published", "verdict", "why", "source")
_DISPENSABLE = (
    "source",
    "why",
    "ns",
    "published",
    "bracket",
    "confidence",
    "verdict",
)  # on a narrow terminal, in this order
_FACTS = (
    ("compute_capability", "compute capability", ""),
    ("clock_hz", "clock", "Hz"),
    ("l2_size", "L2", "B"),
    ("shared_per_sm", "shared memory an SM", "B"),
    ("memory_size", "memory", "B"),
)
_CAUTIONS = ("throttling", "other_processes")  # notes of the conditions that every reader must see
_VERDICT_STYLE = {
    Verdict.AGREES: "green", Verdict.FINER: "green", Verdict.OVERLAPS: "yellow", Verdict.AS_PRINTED: "yellow",
    Verdict.DIFFERS: "bold red",
}  # fmt: skip


def console(stream: IO[str]) -> Console:
    """A console for this stream; colours only on a terminal, and none with NO_COLOR."""
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def print_result(out: Console, result: Result, *, details: bool = False) -> None:
    """Print title, table, what has no value and why, what failed; with `details` also how each was found."""
    out.print(_title(result))
    if facts := _facts(result):
        out.print(Text(facts, "dim"))
    if only := restriction(result):
        out.print(Text(clean(only), "dim"))
    of_instructions = list(instructions.rows(result.findings)) if out.is_terminal else []  # a pipe: a line a finding
    findings = [each for each in result.findings if not (out.is_terminal and instructions.is_of_instruction(each))]
    if findings:
        print_table(out, _table(out, findings))
    if of_instructions:
        out.print(Text("\ninstructions", "bold"))
        print_table(out, _instructions(out, of_instructions))
    if result.comparisons:
        out.print(Text("\nolder methods on the same caches", "bold"))
        print_table(out, _comparisons(out, result))
    if read_by := _read_by(result):
        out.print(Text(read_by, "dim"))
    for note in _notes(result):
        out.print(note)
    if details:
        for finding in result.findings:
            _print_details(out, finding)


def _title(result: Result) -> Text:
    device = result.device
    origin = provenance(device.origin, device.recorded_origin)
    style = "bold green" if device.origin is Origin.MEASURED else "bold yellow"
    return Text.assemble((clean(device.name), "bold"), "  ", (origin, style), "  ", (clean(device.spec), "dim"))


def restriction(result: Result) -> str:
    """The elements that ``discover --only`` was limited to; empty without a limit."""
    if not result.options.elements or result.command == "hide":
        return ""
    return f"limited to (--only): {brief(', '.join(result.options.elements), MAX_RESTRICTION_LENGTH)}"


def _facts(result: Result) -> str:
    """What the driver (or a simulated GPU's file) says of the device, in a line, apart from what was found."""
    facts = result.device.facts
    parts = [f"{result.device.sm_count} SMs"]
    for name, what, unit in _FACTS:
        value = facts.get(name)
        if isinstance(value, int | float):
            parts.append(f"{what} {quantity(value, unit)}" if unit != "Hz" else f"{what} {value / 1e6:.7g} MHz")
        elif isinstance(value, str):
            parts.append(f"{what} {clean(value)}")
    simulated = Origin.SIMULATED in (result.device.origin, result.device.recorded_origin)
    return f"stated by {'its GPU file' if simulated else 'the driver'}: " + ", ".join(parts)


def print_table(out: Console, table: Table) -> None:
    """Print a table whose lines end where their text does."""
    with out.capture() as captured:
        out.print(table)
    for row in captured.get().splitlines():  # rich pads every line to the table's width
        out.file.write(row.rstrip() + "\n")


def _empty_table(out: Console, columns: Sequence[str], gap: int = 2) -> Table:
    table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, padding=(0, gap, 0, 0))
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _comparisons(out: Console, result: Result) -> Table:
    table = _empty_table(out, ("element", "attribute", "value", "method", "note"))
    for item in result.comparisons:
        value = "nothing" if item.value is None else quantity(item.value, clean(item.unit))
        texts = (item.element, item.attribute, value, item.method, item.note)
        table.add_row(*(Text(clean(text)) for text in texts))
    return table


def _instructions(out: Console, rows: Sequence[tuple[Text, ...]]) -> Table:
    """One row an instruction, without the columns that hold nothing, or for which there is no room."""
    kept = [n for n in range(len(instructions.COLUMNS)) if any(row[n].plain for row in rows)]
    while True:
        table = _empty_table(out, [instructions.COLUMNS[n] for n in kept])
        for row in rows:
            table.add_row(*(row[n] for n in kept))
        if len(kept) <= 2 or Measurement.get(out, out.options.update_width(PLAIN_WIDTH), table).maximum <= out.width:
            return table
        kept.pop()


def _table(out: Console, findings: Sequence[Finding]) -> Table:
    """The table with as many columns as fit, the dispensable ones going first."""
    columns = [name for name in _COLUMNS if any(_cells(finding)[name] for finding in findings)]
    for dropped in range(len(_DISPENSABLE) + 1):
        kept = [name for name in columns if name not in _DISPENSABLE[:dropped]]
        for gap in (2, 1, 0) if out.is_terminal else (2,):
            table = _table_of(out, findings, kept, gap)
            if Measurement.get(out, out.options.update_width(PLAIN_WIDTH), table).maximum <= out.width:
                return table
    return table


def _table_of(out: Console, findings: Sequence[Finding], columns: Sequence[str], gap: int) -> Table:
    plain = not out.is_terminal
    table = _empty_table(out, columns, gap)
    for _, group in groupby(findings, key=lambda finding: finding.element):
        for number, finding in enumerate(group):
            cells = _cells(finding)
            if number and not plain:
                cells["element"] = Text()  # people want it once, grep on every line
            table.add_row(*(cells[name] for name in columns))
        table.add_section()
    return table


def _cells(finding: Finding) -> dict[str, Text]:
    unit = clean(finding.unit)
    value = Text(_short(_said(finding)), "bold")
    if not finding.status.has_value:
        value = Text(finding.status.value, "yellow")
    cells = dict.fromkeys(_COLUMNS, Text()) | {
        "element": Text(clean(finding.element), "bold"),
        "attribute": Text(clean(finding.attribute)),
        "value": value,
        "ns": Text("" if finding.value_ns is None else f"{finding.value_ns:.4g}"),
        "bracket": Text(bracket(finding.low, finding.high, unit)),
        "confidence": Text("stated" if finding.status is Status.STATED else percent(finding.confidence)),
    }
    if (known := finding.published) is not None:
        unit = clean(known.unit)
        cells["published"] = Text(_short(published_words(known.value, known.low, known.high, unit)))
        cells["source"] = Text(clean(known.source))
        cells["verdict"] = Text(known.verdict.value, _VERDICT_STYLE.get(known.verdict, "dim"))
        if known.verdict in (Verdict.DIFFERS, Verdict.FINER, Verdict.OVERLAPS):
            cells["why"] = Text(clean(known.text))
    return cells


def _said(finding: Finding) -> str:
    return quantity(finding.value, clean(finding.unit), LIST_INDEX.get(finding.attribute, "values"))


def _short(text: str) -> str:
    """As much of a text as leaves room for the other columns."""
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 4]} ..."


def _notes(result: Result) -> list[Text]:
    unfound: dict[tuple[str, Status, str], list[str]] = {}  # one reason often speaks for several attributes
    for finding in result.findings:
        if not finding.status.has_value:
            unfound.setdefault((finding.element, finding.status, finding.reason), []).append(finding.attribute)
    told = [
        (element, ", ".join(attributes), f"{status.value}: {reason}")
        for (element, status, reason), attributes in unfound.items()
    ]
    lines = [Text(f"{clean(elements)} {clean(attributes)}: {clean(why)}", "dim")
             for elements, attributes, why in instructions.together(told)]  # fmt: skip
    whole = [(each, said) for each in result.findings if len(said := _said(each)) > WIDEST]
    lines[:0] = [Text(f"{clean(each.element)} {clean(each.attribute)}: {said}") for each, said in whole]
    if result.prediction is not None:
        lines.append(Text(_foretold(result.prediction), "bold"))
        lines += [Text(line, "dim") for line in _unforetold(result.prediction)]
    against = result.device.catalogue
    if against is not None and against not in result.device.spec and any(each.published for each in result.findings):
        lines.append(Text(f"held against what is published of the catalogue's {clean(against)}", "dim"))
    lines += [Text(f"{name} while measuring: {clean('; '.join(result.conditions.notes[name]))}", "bold yellow")
              for name in _CAUTIONS if result.conditions.notes.get(name)]  # fmt: skip
    lines += [Text(f"failed: {clean(item.experiment)}: {clean(item.reason)}", "bold red") for item in result.failures]
    if result.interrupted:
        lines.append(Text("interrupted: what was measured until then", "bold yellow"))
    return lines


def _read_by(result: Result) -> str:
    """Which version, and which code, read the traces."""
    version = clean(result.environment.get("gpudissect", ""))[:40]
    code = f"code {clean(result.code)[:40]}" if result.code else ""
    told = ", ".join(each for each in (version, code) if each)
    return f"read by gpudissect {told}" if told else ""


def _foretold(prediction: Prediction) -> str:
    """How much of what was not seen before came as foretold."""
    parts = []
    for each in prediction.elements:
        parts.append(f"{clean(each.element)} {each.agreement:.1%}{_of_possible(each.possible)}")
    for path in prediction.paths:
        parts.append(f"whole path {clean(path.path)} {path.agreement:.1%}{_of_possible(path.possible)}")
    share = f"{prediction.agreement:.2%} (95 %: {prediction.low:.2%} .. {prediction.high:.2%})"
    return f"foretold of {prediction.accesses} random accesses: {share}; {', '.join(parts)}"


def _of_possible(possible: float) -> str:
    return "" if possible > ALL else f" of {possible:.1%} possible"


def _unforetold(prediction: Prediction) -> list[str]:
    """What was assumed to foretell, and what could not be foretold."""
    lines = [f"assumed of path {clean(path.path)}: {clean('; '.join(path.assumed))}"
             for path in prediction.paths if path.assumed]  # fmt: skip
    return lines + [f"not foretold: {clean(name)}: {clean(why)}" for name, why in prediction.not_predicted.items()]


def _print_details(out: Console, finding: Finding) -> None:
    out.print(Text(f"\n{clean(finding.element)} {clean(finding.attribute)}", "bold"))
    evidence = ", ".join(name[:8] for name in finding.evidence[:6])
    more = f" and {len(finding.evidence) - 6} more" if len(finding.evidence) > 6 else ""
    rows = [
        ("status", finding.status.value),
        ("reason", finding.reason),
        ("method", finding.method),
        ("bracket", bracket(finding.low, finding.high, finding.unit)),
        ("evidence", f"{len(finding.evidence)} workloads: {evidence}{more}" if finding.evidence else ""),
        *(("caveat", caveat) for caveat in finding.caveats),
    ]
    if (known := finding.published) is not None:
        value = quantity(known.value, known.unit)
        rows.append(("published", f"{value} {known.source}; {known.verdict.value}: {known.text}"))
        rows.append(("printed", "" if known.printed is None else str(known.printed)))
        rows.append(("note", known.note))
    for label, text in rows:
        if text:
            out.print(Text(f"  {label:<10}{clean(text)}"))

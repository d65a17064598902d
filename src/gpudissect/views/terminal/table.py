"""The table of a result for a terminal; for a pipe the same rows as plain text."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from gpudissect.results.text import bracket, brief, clean, cut, percent, provenance, published_words, quantity
from gpudissect.results.verdict import Verdict
from gpudissect.views.terminal import instructions
from gpudissect.vocabulary import LIST_INDEX

MAX_VALUE_WIDTH = 40  # characters; longer values stand below the table
MAX_RESTRICTION_LENGTH = 400  # characters
PIPE_WIDTH = 400  # so that lines stay whole, for grep and awk
MIN_POSSIBLE_SHARE = 0.995  # of predictable accesses, from which on it is not mentioned
MAX_SHOWN_EVIDENCE = 6
_COLUMNS = ("element", "attribute", "value", "ns", "bracket", "confidence", "published", "verdict", "why", "source")
_OPTIONAL = ("source", "why", "ns", "published", "bracket", "confidence", "verdict")  # in the order they are dropped
_FACTS = (
    ("compute_capability", "compute capability", ""),
    ("clock_hz", "clock", "Hz"),
    ("l2_size", "L2", "B"),
    ("shared_per_sm", "shared memory per SM", "B"),
    ("memory_size", "memory", "B"),
)
_WARNINGS = ("throttling", "other_processes")  # notes of the conditions that are always shown
_VERDICT_STYLE = {
    Verdict.AGREES: "green",
    Verdict.FINER: "green",
    Verdict.OVERLAPS: "yellow",
    Verdict.AS_PRINTED: "yellow",
    Verdict.DIFFERS: "bold red",
}


def console(stream: IO[str]) -> Console:
    """A console for this stream; colours only on a terminal, and none with NO_COLOR."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def print_result(out: Console, result: Result, *, details: bool = False) -> None:
    """Print title, table, missing values with reasons, failures; with `details` also method and evidence."""
    out.print(_title(result))
    for text in (_facts(result), restriction(result)):
        if text:
            out.print(Text(clean(text), "dim"))
    separate = out.is_terminal  # a pipe gets one line per finding
    findings = [each for each in result.findings if not (separate and instructions.is_of_instruction(each))]
    if findings:
        print_table(out, _findings_table(out, findings))
    if separate and (rows := list(instructions.rows(result.findings))):
        out.print(Text("\ninstructions", "bold"))
        cells = [dict(zip(instructions.COLUMNS, row, strict=True)) for row in rows]
        print_table(out, _fitting_table(out, instructions.COLUMNS, cells, instructions.COLUMNS[:1:-1]))
    if result.comparisons:
        out.print(Text("\nolder methods on the same caches", "bold"))
        columns = ("element", "attribute", "value", "method", "note")
        cells = [
            {name: Text(clean(str(getattr(each, name)))) for name in columns}
            | {"value": Text(quantity(each.value, clean(each.unit)) or "nothing")}
            for each in result.comparisons
        ]
        print_table(out, _fitting_table(out, columns, cells))
    for note in _notes(result):
        out.print(note)
    if details:
        for finding in result.findings:
            _print_details(out, finding)


def print_table(out: Console, table: Table) -> None:
    """Print a table without trailing spaces."""
    with out.capture() as captured:
        out.print(table)
    for row in captured.get().splitlines():  # rich pads every line to the table's width
        out.file.write(row.rstrip() + "\n")


def restriction(result: Result) -> str:
    """The elements that ``discover --only`` was limited to; empty without a limit."""
    if not result.options.elements or result.command == "hide":
        return ""
    return f"limited to (--only): {brief(', '.join(result.options.elements), MAX_RESTRICTION_LENGTH)}"


def _title(result: Result) -> Text:
    device = result.device
    origin = provenance(device.origin, device.recorded_origin)
    style = "bold green" if device.origin is Origin.MEASURED else "bold yellow"
    return Text.assemble((clean(device.name), "bold"), "  ", (origin, style), "  ", (clean(device.spec), "dim"))


def _facts(result: Result) -> str:
    """What the driver, or the file of a simulated GPU, states of the device."""
    parts = [f"{result.device.sm_count} SMs"]
    for name, label, unit in _FACTS:
        value = result.device.facts.get(name)
        if isinstance(value, int | float):
            parts.append(f"{label} {f'{value / 1e6:.7g} MHz' if unit == 'Hz' else quantity(value, unit)}")
        elif isinstance(value, str):
            parts.append(f"{label} {value}")
    simulated = Origin.SIMULATED in (result.device.origin, result.device.recorded_origin)
    return f"stated by {'its GPU file' if simulated else 'the driver'}: {', '.join(parts)}"


def _findings_table(out: Console, findings: Sequence[Finding]) -> Table:
    """One row per finding, the element only in the first of its rows on a terminal."""
    rows, ends = [], set()
    for _, group in groupby(findings, key=lambda finding: finding.element):
        for number, finding in enumerate(group):
            repeated = {"element": Text()} if number and out.is_terminal else {}  # a pipe gets it on every line
            rows.append(_cells(finding) | repeated)
        ends.add(len(rows) - 1)
    return _fitting_table(out, _COLUMNS, rows, _OPTIONAL, (2, 1, 0) if out.is_terminal else (2,), ends)


def _fitting_table(
    out: Console,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Text]],
    optional: Sequence[str] = (),
    gaps: Sequence[int] = (2,),
    ends: Collection[int] = (),
) -> Table:
    """A table without empty columns and as many of the optional ones, dropped in their order, as fit."""
    filled = [name for name in columns if any(row[name] for row in rows)]

    def layout(dropped: int, gap: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, padding=(0, gap, 0, 0))
        names = [name for name in filled if name not in optional[:dropped]]
        for name in names:
            table.add_column(name, overflow="fold")
        for number, row in enumerate(rows):
            table.add_row(*(row[name] for name in names), end_section=number in ends)
        return table

    return first_fitting(out, (layout(dropped, gap) for dropped in range(len(optional) + 1) for gap in gaps))


def first_fitting(out: Console, tables: Iterable[Table]) -> Table:
    """The first table that fits into the console without broken lines, or else the last one."""
    for table in tables:
        if Measurement.get(out, out.options.update_width(PIPE_WIDTH), table).maximum <= out.width:
            break
    return table


def _cells(finding: Finding) -> dict[str, Text]:
    value = Text(cut(_value(finding), MAX_VALUE_WIDTH), "bold")
    if not finding.status.has_value:
        value = Text(finding.status.value, "yellow")
    cells = dict.fromkeys(_COLUMNS, Text()) | {
        "element": Text(clean(finding.element), "bold"),
        "attribute": Text(clean(finding.attribute)),
        "value": value,
        "ns": Text("" if finding.value_ns is None else f"{finding.value_ns:.4g}"),
        "bracket": Text(bracket(finding.low, finding.high, clean(finding.unit))),
        "confidence": Text("stated" if finding.status is Status.STATED else percent(finding.confidence)),
    }
    if (published := finding.published) is not None:
        text = published_words(published.value, published.low, published.high, clean(published.unit))
        cells["published"] = Text(cut(text, MAX_VALUE_WIDTH))
        cells["source"] = Text(clean(published.source))
        cells["verdict"] = Text(published.verdict.value, _VERDICT_STYLE.get(published.verdict, "dim"))
        if published.verdict in (Verdict.DIFFERS, Verdict.FINER, Verdict.OVERLAPS):
            cells["why"] = Text(clean(published.text))
    return cells


def _value(finding: Finding) -> str:
    return quantity(finding.value, clean(finding.unit), LIST_INDEX.get(finding.attribute, "values"))


def _notes(result: Result) -> Iterator[Text]:
    """Lines below the table: versions, long values, missing values, the prediction check, warnings."""
    version, code = brief(result.environment.get("gpudissect", ""), 40), brief(result.code, 40)
    if version or code:
        yield Text(f"analysed with gpudissect {version}" + (f" (analysis build {code})" if code else ""), "dim")
    for finding in result.findings:
        if len(text := _value(finding)) > MAX_VALUE_WIDTH:
            yield Text(f"{clean(finding.element)} {clean(finding.attribute)}: {text}")
    missing: dict[tuple[str, str], list[str]] = {}  # attributes that share a reason
    for finding in result.findings:
        if not finding.status.has_value:
            reason = f"{finding.status.value}: {finding.reason}"
            missing.setdefault((finding.element, reason), []).append(finding.attribute)
    lines = [(element, ", ".join(attributes), reason) for (element, reason), attributes in missing.items()]
    for elements, attributes, reason in instructions.merge_notes(lines):
        yield Text(clean(f"{elements} {attributes}: {reason}"), "dim")
    if result.prediction is not None:
        yield from _prediction_notes(result.prediction)
    catalogue = result.device.catalogue
    if catalogue and catalogue not in result.device.spec and any(each.published for each in result.findings):
        yield Text(f'"published" refers to the catalogue entry {clean(catalogue)}, not to this GPU', "dim")
    for name in _WARNINGS:
        if texts := result.conditions.notes.get(name):
            yield Text(f"{name} while measuring: {clean('; '.join(texts))}", "bold yellow")
    for failure in result.failures:
        yield Text(clean(f"failed: {failure.experiment}: {failure.reason}"), "bold red")
    if result.interrupted:
        yield Text("interrupted: only what was measured until then", "bold yellow")


def _prediction_notes(prediction: Prediction) -> Iterator[Text]:
    parts = [(each.element, each.agreement, each.possible) for each in prediction.elements]
    parts += [(f"path {each.path}", each.agreement, each.possible) for each in prediction.paths]
    shares = [
        f"{clean(name)} {agreement:.1%}" + ("" if possible > MIN_POSSIBLE_SHARE else f" of {possible:.1%} possible")
        for name, agreement, possible in parts
    ]
    total = f"{prediction.agreement:.2%} of {prediction.accesses:,} held-out accesses predicted correctly"
    interval = f"(95 %: {prediction.low:.2%} .. {prediction.high:.2%})"
    yield Text(f"prediction check: {total} {interval}; {', '.join(shares)}", "bold")
    for path in prediction.paths:
        if path.assumed:
            yield Text(clean(f"assumed for path {path.path}: {'; '.join(path.assumed)}"), "dim")
    for name, reason in prediction.not_predicted.items():
        yield Text(clean(f"not predicted: {name} ({reason})"), "dim")


def _print_details(out: Console, finding: Finding) -> None:
    """Print everything else that is known about a finding."""
    count, digests = len(finding.evidence), ", ".join(name[:8] for name in finding.evidence[:MAX_SHOWN_EVIDENCE])
    more = f" and {count - MAX_SHOWN_EVIDENCE} more" if count > MAX_SHOWN_EVIDENCE else ""
    rows = [
        ("status", finding.status.value),
        ("reason", finding.reason),
        ("method", finding.method),
        ("bracket", bracket(finding.low, finding.high, finding.unit)),
        ("evidence", f"{count} workloads: {digests}{more}" if count else ""),
        *(("caveat", caveat) for caveat in finding.caveats),
        ("experiment", finding.experiment),
    ]
    for each in finding.revised:
        rows.append(("revised", f"{each.experiment}: {quantity(each.value, finding.unit) or each.status.value}"))
    if (known := finding.published) is not None:
        value = quantity(known.value, known.unit)
        rows.append(("published", f"{value} {known.source}; {known.verdict.value}: {known.text}"))
        rows += [("printed", "" if known.printed is None else str(known.printed)), ("note", known.note)]
    out.print(Text(f"\n{clean(finding.element)} {clean(finding.attribute)}", "bold"))
    for label, text in rows:
        if text:
            out.print(Text(f"  {label:<12}{clean(text)}"))

"""A result for a terminal or a pipe: the summary, and on request every finding."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudissect.device_info import Origin
from gpudissect.estimate import Status
from gpudissect.printable import brief, clean, counted, cut
from gpudissect.results.folded import folded, folded_published, rounded
from gpudissect.results.model import Finding, Prediction, Result
from gpudissect.results.scope import scopes
from gpudissect.results.summary import CONFIDENT, summarize
from gpudissect.results.text import SPECTRUM, bracket, percent, provenance, quantity, words
from gpudissect.results.verdict import Verdict
from gpudissect.trace import OTHER_PROCESSES
from gpudissect.views.terminal import hiding, instructions
from gpudissect.views.terminal.layout import fitting_table, print_table
from gpudissect.views.terminal.summary import print_summary
from gpudissect.vocabulary import LIST_INDEX

MAX_VALUE_WIDTH = 40  # characters
MAX_NAME_LENGTH = 200  # of an element or attribute: a file of unknown origin may hold any text
MAX_RESTRICTION_LENGTH = 400  # characters
MAX_REASONS = 3  # for which attributes were skipped
WIDE_SHARE = 0.05  # width of a bracket over the value
MIN_POSSIBLE_SHARE = 0.995  # of predictable accesses, from which on it is not mentioned
LONG = "index_function"  # the attribute that only details show
_COLUMNS = ("element", "attribute", "value", "ns", "confidence", "published", "verdict", "why", "source")
_OPTIONAL = ("source", "why", "ns", "published", "confidence", "verdict")  # in the order they are dropped
_FACTS = (
    ("compute_capability", "compute capability", ""),
    ("clock_hz", "clock", "Hz"),
    ("memory_size", "memory", "B"),
    ("l2_size", "L2", "B"),
    ("shared_per_sm", "shared memory per SM", "B"),
)
_WARNINGS = ("throttling", OTHER_PROCESSES)  # notes of the conditions that are always shown
_VERDICT_STYLE = {
    Verdict.AGREES: "green",
    Verdict.FINER: "green",
    Verdict.OVERLAPS: "yellow",
    Verdict.AS_PRINTED: "yellow",
    Verdict.DIFFERS: "bold red",
}


def print_result(out: Console, result: Result, *, everything: bool = False, details: bool = False) -> None:
    """Print title and summary; on request every finding, and with `details` the method and evidence of each.

    A result limited to some elements shows every finding. A pipe that gets every finding gets one per line, no summary.
    """
    out.print(_title(out, result, everything=everything or details))
    everything = everything or details or bool(restriction(result))
    if text := restriction(result):
        out.print(Text(text, "dim"))
    if hiding.is_answered(result):
        for line in hiding.lines(result, out.width, everything=everything):
            out.print(Text(clean(line)), soft_wrap=True)
    if not everything or out.is_terminal:
        print_summary(out, summarize(result), None if everything else result.prediction, details=everything)
    if everything:
        _print_findings(out, result)
    for note in (*(_notes(result) if everything else ()), *_warnings(result), *_left_out(result)):
        out.print(note)
    if details:
        for finding in result.findings:
            _print_details(out, finding)


def _print_findings(out: Console, result: Result) -> None:
    """Print the tables of findings, of instructions and of older methods."""
    shown = [each for each in result.findings if each.status is not Status.SKIPPED and each.attribute != LONG]
    separate = out.is_terminal  # a pipe gets one line per finding
    findings = [each for each in shown if not (separate and instructions.is_of_instruction(each))]
    if findings:
        print_table(out, _findings_table(out, findings))
        if any(each.attribute in SPECTRUM for each in findings):
            legend = "; ".join(f"{name} {text}" for name, text in SPECTRUM.items())
            out.print(Text(f"latency spectrum: {legend}", "dim"))
    if separate and (rows := list(instructions.rows(shown, result.device.facts))):
        out.print(Text(f"\n{instructions.TITLE}", "bold"))
        cells = [dict(zip(instructions.COLUMNS, row, strict=True)) for row in rows]
        print_table(out, fitting_table(out, instructions.COLUMNS, cells, instructions.OPTIONAL))
    if result.comparisons:
        out.print(Text("\nolder methods on the same caches", "bold"))
        columns = ("element", "attribute", "value", "method", "note")
        cells = [
            {name: Text(clean(str(getattr(each, name)))) for name in columns}
            | {"value": Text(quantity(each.value, clean(each.unit)) or "nothing")}
            for each in result.comparisons
        ]
        print_table(out, fitting_table(out, columns, cells))


def restriction(result: Result) -> str:
    """The elements that ``discover --only`` was limited to; empty without a limit."""
    if not result.options.elements or result.command == "hide":
        return ""
    return f"limited to (--only): {brief(', '.join(result.options.elements), MAX_RESTRICTION_LENGTH)}"


def _title(out: Console, result: Result, *, everything: bool) -> Text:
    """Name, origin, specification and, as far as the line goes, what the driver states."""
    device = result.device
    origin = provenance(device.origin, device.recorded_origin)
    style = "bold green" if device.origin is Origin.MEASURED else "bold yellow"
    title = Text.assemble((brief(device.name, MAX_NAME_LENGTH), "bold"), "  ", (origin, style))
    title.append("  ").append(brief(device.spec, MAX_NAME_LENGTH), "dim")
    text, separator = "", "  "
    for fact in _facts(result):
        if not everything and len(title) + len(text) + len(separator) + len(fact) > out.width:
            break
        text, separator = text + separator + fact, ", "
    return title.append(text, "dim")


def _facts(result: Result) -> Iterator[str]:
    """What the driver, or the file of a simulated GPU, states of the device."""
    simulated = Origin.SIMULATED in (result.device.origin, result.device.recorded_origin)
    yield f"{'GPU file' if simulated else 'driver'}: {result.device.sm_count} SMs"
    for name, label, unit in _FACTS:
        value = result.device.facts.get(name)
        if isinstance(value, int | float):
            yield f"{label} {f'{value / 1e6:.5g} MHz' if unit == 'Hz' else rounded(value, unit)}"
        elif isinstance(value, str):
            yield brief(f"{label} {value}", MAX_NAME_LENGTH)


def _findings_table(out: Console, findings: Sequence[Finding]) -> Table:
    """One row per finding, the element only in the first of its rows on a terminal."""
    rows, ends = [], set()
    scope = {name: text for name, text in scopes(findings).items() if name[1] not in SPECTRUM}  # a note has those
    for _, group in groupby(findings, key=lambda finding: finding.element):
        for number, finding in enumerate(group):
            repeated = {"element": Text()} if number and out.is_terminal else {}  # a pipe gets it on every line
            rows.append(_cells(finding, scope.get((finding.element, finding.attribute), "")) | repeated)
        ends.add(len(rows) - 1)
    return fitting_table(out, _COLUMNS, rows, _OPTIONAL, (2, 1, 0) if out.is_terminal else (2,), ends)


def _cells(finding: Finding, scope: str) -> dict[str, Text]:
    confidence = finding.confidence
    unsure = confidence is not None and confidence < CONFIDENT
    cells = dict.fromkeys(_COLUMNS, Text()) | {
        "element": Text(brief(finding.element, MAX_NAME_LENGTH), "bold"),
        "attribute": Text(brief(finding.attribute, MAX_NAME_LENGTH)),
        "value": Text(clean(_value(finding) + (f" ({scope})" if scope else "")), _style(finding)),
        "ns": Text("" if finding.value_ns is None else rounded(finding.value_ns, "")),
        "confidence": Text("stated" if finding.status is Status.STATED else percent(confidence) if unsure else ""),
    }
    if (published := finding.published) is not None:
        cells["published"] = Text(cut(clean(folded_published(published)), MAX_VALUE_WIDTH))
        cells["source"] = Text(clean(published.source))
        cells["verdict"] = Text(published.verdict.value, _VERDICT_STYLE.get(published.verdict, "dim"))
        if published.verdict in (Verdict.DIFFERS, Verdict.FINER, Verdict.OVERLAPS):
            cells["why"] = Text(clean(published.text))
    return cells


def _style(finding: Finding) -> str:
    """Grey for what the driver states, yellow without a value or with a wide bracket, else bold."""
    if finding.status is Status.STATED:
        return "dim"
    value, low, high = finding.value, finding.low, finding.high
    if isinstance(value, int | float) and low is not None and high is not None:
        return "yellow" if high - low > WIDE_SHARE * abs(value) else "bold"
    return "bold" if finding.status.has_value else "yellow"


def _value(finding: Finding) -> str:
    """The value with its bracket, or why there is none with the bound that is known."""
    text = folded(finding)
    if isinstance(finding.value, tuple):
        text = cut(quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values")), MAX_VALUE_WIDTH)
    if finding.status.has_value:
        return text
    return finding.status.value + (f" ({text})" if text else "")


def _notes(result: Result) -> Iterator[Text]:
    """Lines below the table: versions, card and place, missing values, the prediction check."""
    version, code = brief(result.environment.get("gpudissect", ""), 40), brief(result.code, 40)
    if version or code:
        yield Text(f"analysed with gpudissect {version}" + (f" (analysis build {code})" if code else ""), "dim")
    if known := [f"{words(name)} {value}" for name, value in result.provenance if value is not None]:
        yield Text(clean(f"measured: {', '.join(known)}"), "dim")
    missing: dict[tuple[str, str], list[str]] = {}  # attributes that share a reason
    for finding in result.findings:
        if not finding.status.has_value and finding.status is not Status.SKIPPED:
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


def _warnings(result: Result) -> Iterator[Text]:
    for name in _WARNINGS:
        if texts := result.conditions.notes.get(name):
            yield Text(f"{name} while measuring: {clean('; '.join(texts))}", "bold yellow")
    for failure in result.failures:
        yield Text(clean(f"failed: {failure.experiment}: {failure.reason}"), "bold red")
    if result.interrupted:
        yield Text("interrupted: only what was measured until then", "bold yellow")


def _left_out(result: Result) -> Iterator[Text]:
    """How many attributes were not measured, and why."""
    reasons = Counter(each.reason for each in result.findings if each.status is Status.SKIPPED)
    for reason, count in reasons.most_common(MAX_REASONS):
        advice = "; run without --quick to measure them" if result.options.quick and "--quick" in reason else ""
        noun = "attribute" if count == 1 else "attributes"
        yield Text(clean(f"{count} {noun} skipped: {reason}{advice}"), "dim")


def _prediction_notes(prediction: Prediction) -> Iterator[Text]:
    parts = [(each.element, each.agreement, each.possible) for each in prediction.elements]
    parts += [(f"path {each.path}", each.agreement, each.possible) for each in prediction.paths]
    shares = [
        f"{clean(name)} {agreement:.1%}" + ("" if possible > MIN_POSSIBLE_SHARE else f" of {possible:.1%} possible")
        for name, agreement, possible in parts
    ]
    total = f"{percent(prediction.agreement)} of {prediction.accesses:,} held-out accesses predicted correctly"
    interval = f"(95 %: {prediction.low:.2%} .. {prediction.high:.2%})"
    yield Text(f"prediction check: {total} {interval}; {', '.join(shares)}", "bold")
    for path in prediction.paths:
        if path.assumed:
            yield Text(clean(f"assumed for path {path.path}: {'; '.join(path.assumed)}"), "dim")
    for name, reason in prediction.not_predicted.items():
        yield Text(clean(f"not predicted: {name} ({reason})"), "dim")


def _print_details(out: Console, finding: Finding) -> None:
    """Print everything else that is known about a finding."""
    count = len(finding.evidence)
    rows = [
        ("status", finding.status.value),
        ("value", quantity(finding.value, finding.unit, LIST_INDEX.get(finding.attribute, "values"))),
        ("bracket", bracket(finding.low, finding.high, finding.unit)),
        ("confidence", percent(finding.confidence)),
        ("reason", finding.reason),
        ("method", finding.method),
        ("evidence", counted(count, "workload") if count else ""),
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

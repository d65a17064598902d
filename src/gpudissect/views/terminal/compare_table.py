"""A comparison for a terminal or a pipe, and as JSON."""

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpudissect.printable import brief, clean, cut
from gpudissect.results.compare import Comparison, Outcome, Row, letter
from gpudissect.results.folded import DIGITS, folded
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import provenance, quantity
from gpudissect.views.terminal.layout import first_fitting, print_table
from gpudissect.vocabulary import LIST_INDEX

SCHEMA = "gpudissect-comparison/2"
MAX_VALUE_WIDTH = 36  # characters
MAX_NAME_LENGTH = 200  # of a device, from a file of unknown origin
MAX_DIGITS = 7  # significant ones of values that look alike in fewer
MAX_UUID = 14  # characters: enough to distinguish cards
_STYLE = {Outcome.DIFFERENT: "bold red", Outcome.AMBIGUOUS: "yellow", Outcome.SAME: "green"}


def names_of(results: Sequence[Result]) -> list[str]:
    """Names of the columns: A, B, ... with the GPU's name."""
    return [f"{letter(n)} {clean(each.device.name)[:24]}" for n, each in enumerate(results)]


def values_of(row: Row) -> list[str]:
    """The values of all results, in as many digits as show that they are not the same."""
    for digits in range(DIGITS, MAX_DIGITS + 1):
        texts = [value_of(each, digits) for each in row.findings]
        if len(set(texts)) > 1 or row.outcome not in (Outcome.DIFFERENT, Outcome.AMBIGUOUS):
            break
    return texts


def why_of(row: Row) -> str:
    """The reason of the outcome, with the spread over cards where there are several."""
    return f"{row.why}; {row.spread}" if row.spread else row.why


def value_of(finding: Finding | None, digits: int = DIGITS) -> str:
    """The value of one result, in a cell."""
    if finding is None:
        return ""
    text = clean(folded(finding, digits=digits))
    if isinstance(finding.value, tuple):
        text = quantity(finding.value, clean(finding.unit), LIST_INDEX.get(finding.attribute, "values"))
    if not finding.status.has_value:
        return finding.status.value + (f" ({text})" if text else "")
    return cut(text, MAX_VALUE_WIDTH)


def print_comparison(out: Console, comparison: Comparison, *, everything: bool) -> None:
    """Print the results, obstacles, the table, and the number of rows of each outcome.

    Without `everything` the table has only what differs or is ambiguous.
    """
    files = comparison.files or [""] * len(comparison.results)
    for name, result, file in zip(names_of(comparison.results), comparison.results, files, strict=True):
        device = result.device
        origin = provenance(device.origin, device.recorded_origin)
        path = "".join(f"  {clean(text)}" for text in (file, brief(result.provenance.gpu_uuid or "", MAX_UUID)) if text)
        out.print(Text.assemble((name, "bold"), f"  {origin}  ", (brief(device.spec, MAX_NAME_LENGTH), "dim"), path))
    for warning in comparison.warnings:
        out.print(Text(warning, "bold yellow"))
    shown = [row for row in comparison.rows if everything or row.outcome in (Outcome.DIFFERENT, Outcome.AMBIGUOUS)]
    shown.sort(key=lambda row: list(Outcome).index(row.outcome))
    if shown:
        names = names_of(comparison.results)
        letters = [letter(n) for n in range(len(names))]
        layouts = [(names, True), (letters, True), (letters, False)]  # names stand above, reasons may stand below
        tables = (_table(out, columns, shown, reasons=reasons) for columns, reasons in layouts)
        table = first_fitting(out, tables) if out.is_terminal else next(tables)
        print_table(out, table)
        if all(column.header != Text("why") for column in table.columns):
            for row in shown:
                out.print(Text(f"{clean(row.element)}.{clean(row.attribute)}: {clean(why_of(row))}", "dim"))
    counts = ", ".join(f"{count} {outcome.value}" for outcome, count in comparison.counts.items())
    without = f" ({count} of them found in no result)" if (count := comparison.count_without_value) else ""
    out.print(Text(counts + without, "bold"))


def to_json(comparison: Comparison) -> str:
    """The comparison for programs, schema ``gpudissect-comparison/2``."""
    results = [
        {
            "letter": letter(n),
            "name": each.device.name,
            "spec": each.device.spec,
            "origin": each.device.origin.value,
            "clock_hz": each.conditions.clock_hz,
            "code": each.code,
            "file": comparison.files[n] if comparison.files else None,
        }
        for n, each in enumerate(comparison.results)
    ]
    names = ("obstacles", "version_note", "counts")
    content = {"schema": SCHEMA, "results": results} | {name: getattr(comparison, name) for name in names}
    content["rows"] = [
        {name: getattr(row, name) for name in ("element", "attribute", "outcome", "why", "spread")}
        | {"values": [_plain(each) for each in row.findings]}
        for row in comparison.rows
    ]
    return json.dumps(content, indent=2) + "\n"


def _table(out: Console, names: Sequence[str], rows: Sequence[Row], *, reasons: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("element", "attribute", *names, "verdict", *(["why"] if reasons else [])):
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        table.add_row(
            Text(clean(row.element), "bold"),
            Text(clean(row.attribute)),
            *map(Text, values_of(row)),
            Text(row.outcome.value, _STYLE.get(row.outcome, "dim")),
            *([Text(clean(why_of(row)))] if reasons else []),
        )
    return table


def _plain(finding: Finding | None) -> dict[str, Any] | None:
    fields = {"status", "value", "unit", "low", "high", "confidence"}
    return None if finding is None else finding.model_dump(mode="json", include=fields)

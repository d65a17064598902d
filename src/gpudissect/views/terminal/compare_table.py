"""A comparison for a terminal or a pipe, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpudissect.results.compare import Comparison, Outcome, Row, letter
from gpudissect.results.model import Finding, Result
from gpudissect.results.text import bracket, clean, provenance, quantity
from gpudissect.views.terminal.table import print_table
from gpudissect.vocabulary import LIST_INDEX

SCHEMA = "gpudissect-comparison/2"
WIDEST = 36
WIDE = 400  # a table's own width is measured on paper that has room for it
_STYLE = {Outcome.DIFFERENT: "bold red", Outcome.AMBIGUOUS: "yellow", Outcome.SAME: "green"}


def names_of(results: Sequence[Result]) -> list[str]:
    """What each column is called: A, B, ... with the GPU's name."""
    return [f"{letter(n)} {clean(each.device.name)[:24]}" for n, each in enumerate(results)]


def print_comparison(out: Console, made: Comparison, *, everything: bool) -> None:
    """Print who is compared, what cannot be, the table, and how many there are of each kind.

    Without `everything` only what differs or is ambiguous stands in the table.
    """
    files = made.files or [""] * len(made.results)
    for name, result, file in zip(names_of(made.results), made.results, files, strict=True):
        device = result.device
        origin = provenance(device.origin, device.recorded_origin)
        read = f"  {clean(file)}" if file else ""
        out.print(Text.assemble((name, "bold"), f"  {origin}  ", (clean(device.spec), "dim"), read))
    for warning in made.warnings:
        out.print(Text(warning, "bold yellow"))
    shown = [row for row in made.rows if everything or row.outcome in (Outcome.DIFFERENT, Outcome.AMBIGUOUS)]
    if shown:
        print_table(out, _fitting(out, made, shown))
    out.print(Text(", ".join(f"{count} {kind.value}" for kind, count in made.counts.items()), "bold"))


def to_json(made: Comparison) -> str:
    """The comparison for programs, schema ``gpudissect-comparison/2``."""
    rows = [
        {"element": row.element, "attribute": row.attribute, "outcome": row.outcome.value, "why": row.why,
         "values": [_plain(each) for each in row.findings]}
        for row in made.rows
    ]  # fmt: skip
    results = [{"letter": letter(n), "name": each.device.name, "spec": each.device.spec,
                "origin": each.device.origin.value, "clock_hz": each.conditions.clock_hz, "code": each.code,
                "file": made.files[n] if made.files else None} for n, each in enumerate(made.results)]  # fmt: skip
    whole = {"schema": SCHEMA, "results": results, "obstacles": made.obstacles, "version_note": made.version_note,
             "counts": made.counts, "rows": rows}  # fmt: skip
    return json.dumps(whole, indent=2) + "\n"


def value_of(finding: Finding | None) -> str:
    """What one result has, in a cell."""
    if finding is None:
        return ""
    if not finding.status.has_value:
        open_end = bracket(finding.low, finding.high, finding.unit) if finding.unit else ""
        return finding.status.value + (f" ({open_end})" if open_end else "")
    text = quantity(finding.value, clean(finding.unit), LIST_INDEX.get(finding.attribute, "values"))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 4]} ..."


def _fitting(out: Console, made: Comparison, rows: Sequence[Row]) -> Table:
    """The table as wide as there is room: without names, which stand above it, then without reasons."""
    names = names_of(made.results)
    letters = [name.partition(" ")[0] for name in names]
    shapes = [(names, True), (letters, True), (letters, False)]
    for heads, reasons in shapes if out.is_terminal else shapes[:1]:
        table = _table(out, heads, rows, reasons=reasons)
        if Measurement.get(out, out.options.update_width(WIDE), table).maximum <= out.width:
            break
    return table


def _table(out: Console, heads: Sequence[str], rows: Sequence[Row], *, reasons: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("element", "attribute", *heads, "verdict", *(["why"] if reasons else [])):
        table.add_column(Text(name), overflow="fold")
    for row in rows:
        why = [Text(clean(row.why))] if reasons else []
        table.add_row(
            Text(clean(row.element), "bold"), Text(clean(row.attribute)),
            *(Text(value_of(each)) for each in row.findings),
            Text(row.outcome.value, _STYLE.get(row.outcome, "dim")), *why,
        )  # fmt: skip
    return table


def _plain(finding: Finding | None) -> dict[str, Any] | None:
    if finding is None:
        return None
    return {"status": finding.status.value, "value": finding.value, "unit": finding.unit, "low": finding.low,
            "high": finding.high, "confidence": finding.confidence}  # fmt: skip

"""``gpudissect show`` and ``gpudissect schema``: result files, read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Result files, as written by discover -o.")],
    details: Annotated[
        bool, typer.Option("--all", "-a", help="Also how each value was found: method, evidence, caveats.")
    ] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one result as a page instead of printing it.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, a list of several.")] = False,
) -> None:
    """Print result files as tables, or make a page of one.

    A page made while measuring or replaying (discover --html) also shows the traces behind each finding.
    """
    import sys

    from gpudissect.results.files import load
    from gpudissect.results.text import clean
    from gpudissect.views.terminal.hiding import is_answered, lines
    from gpudissect.views.terminal.table import console, print_result

    if html is not None:
        _write_page(files, html)
    if html is not None and not as_json:
        return
    if as_json:
        texts = [load(path).to_json().rstrip() for path in files]
        typer.echo(texts[0] if len(texts) == 1 else "[" + ",\n".join(texts) + "]")
        return
    out = console(sys.stdout)
    for number, result in enumerate([load(path) for path in files]):
        if number:
            out.print()
        print_result(out, result, details=details)
        if is_answered(result):
            for line in lines(result, out.width):
                typer.echo(clean(line))


def _write_page(files: list[Path], html: Path) -> None:
    from gpudissect.cli.say import note_line
    from gpudissect.errors import UsageError
    from gpudissect.results.files import check_apart, check_page, check_writable, load, write_text
    from gpudissect.views.page.write import page

    if len(files) > 1:
        raise UsageError(f"a page is of one result, got {len(files)}; compare --html sets several side by side")
    check_apart(html, files)
    check_writable(html)
    check_page(html)
    write_text(html, page(load(files[0])))
    note_line(f"wrote {html}")


def schema(
    as_json: Annotated[bool, typer.Option("--json", help="For all commands alike: it is JSON anyway.")] = False,
) -> None:
    """Print the JSON Schema of the result file."""
    import json

    from gpudissect.results.model import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))

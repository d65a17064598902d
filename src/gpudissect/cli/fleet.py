"""Commands on many GPUs: ``gpudissect fleet report``."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from gpudissect.cli.console import DONE, PARTIAL, print_json, print_note
from gpudissect.cli.results import write_file

MAX_LISTED = 20  # unreadable files
app = typer.Typer(help="Compare the cards of a fleet.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _fleet(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of result files, as written by discover -o.")],
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page with one row a card.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
    prometheus: Annotated[
        Path | None, Option(metavar="FILE", help="Write metrics for the text file collector of Prometheus.")
    ] = None,
) -> int:
    """Report which cards differ from their siblings, or from their own earlier runs.

    Only cards of one model, measured with the same settings, are compared; no reference values are needed. Exit codes:
    0 no card is out, 4 a card is out.
    """
    from gpudissect.fleet.metrics import metrics
    from gpudissect.fleet.readings import read_folder
    from gpudissect.fleet.report import report as report_on
    from gpudissect.fleet.sentences import sentence, summary
    from gpudissect.results.files import check_apart, check_names, check_writable

    check_names(prometheus, html)
    if prometheus is not None and html is not None:
        check_apart(prometheus, [html])
    for path in filter(None, (html, prometheus)):
        check_writable(path)
    runs, unreadable = read_folder(folder)
    for path in filter(None, (html, prometheus)):
        check_apart(path, [Path(run.file) for run in runs])
    found = report_on(runs, unreadable)
    for line in unreadable[:MAX_LISTED]:
        print_note(line)
    if len(unreadable) > MAX_LISTED:
        print_note(f"{len(unreadable) - MAX_LISTED} more files are no results")
    if prometheus is not None:
        write_file(prometheus, metrics(found, runs).encode())
    if html is not None:
        from gpudissect.views.page.fleet import fleet_page

        write_file(html, fleet_page(found).encode())
    if as_json:
        cards = [asdict(each) | {"out": each.is_out} for each in found.cards]
        content = {"schema": "gpudissect-fleet/1", "groups": [asdict(each) for each in found.groups], "cards": cards}
        print_json(json.dumps(content | {"runs": found.runs, "unreadable": found.unreadable}, indent=1))
    else:
        for line in (*summary(found), *map(sentence, found.out)):
            typer.echo(line)
    return PARTIAL if found.out else DONE

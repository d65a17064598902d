"""Commands on many GPUs: ``gpudissect fleet run`` and ``fleet report``."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gpudissect.cli.console import (
    DONE,
    INTERRUPTED,
    PARTIAL,
    print_interrupted,
    print_json,
    print_note,
    progress_on_stderr,
)
from gpudissect.cli.discover import ProfileName
from gpudissect.cli.results import write_file
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.fleet.history import History
    from gpudissect.fleet.report import CardReport

MAX_LISTED = 20  # unreadable files
MAX_CARDS = 100_000
app = typer.Typer(help="Measure and compare the cards of a fleet.", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def _fleet(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def run(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder for the results: a folder a run, a file a card.")],
    device: Annotated[
        str | None,
        Option("--device", "-d", metavar="DEV", help="Simulated GPU, such as sim:h200, instead of real ones."),
    ] = None,
    count: Annotated[int, Option(min=1, max=MAX_CARDS, help="Number of simulated cards, each with its own noise.")] = 1,
    spread: Annotated[
        float, Option(min=0, max=0.2, help="Relative standard deviation of the memory bandwidth of these cards.")
    ] = 0.0,
    fault: Annotated[
        list[str] | None,
        Option(metavar="CARD:OPTIONS", help="Fault of one of them, such as 17:dram=0.95 or 17:sms=131; repeatable."),
    ] = None,
    local: Annotated[bool, Option("--local", help="Run workers on this machine (the default).")] = False,
    workers: Annotated[
        int | None, Option(min=1, max=1024, help="Number of these workers (default: one a GPU, or a CPU core).")
    ] = None,
    scheduler: Annotated[str | None, Option(metavar="ADDRESS", help="Use the workers of this Dask scheduler.")] = None,
    cluster: Annotated[
        Path | None, Option(metavar="FILE", help="Start workers through a batch system that a TOML file describes.")
    ] = None,
    resume: Annotated[bool, Option("--resume", help="Measure the cards that the last run in DIR lacks.")] = False,
    quick: Annotated[bool, Option("--quick/--full", help="Measure each card for seconds: see discover.")] = False,
    only: Annotated[
        list[str] | None, Option(metavar="ELEMENT", help="Only this element, such as dram; repeatable.")
    ] = None,
    profile: Annotated[ProfileName | None, Option(help="What a check between jobs needs: see discover.")] = None,
    timeout: Annotated[float, Option(min=1, metavar="SECONDS", help="Give up a card after this time.")] = 600.0,
    as_json: Annotated[bool, Option("--json", help="Print a JSON list of the cards.")] = False,
) -> int:
    """Measure all GPUs of this machine or of a cluster, each in a process of its own.

    Results are stored as they come. A card that fails, hangs or loses its worker costs no other result. Exit codes: 0
    every card has a result, 4 some have none, 130 interrupted.
    """
    from gpudissect.fleet.run import FleetRequest, run_fleet
    from gpudissect.study import Request, check_elements

    if (local or workers is not None) + (scheduler is not None) + (cluster is not None) > 1:
        raise UsageError("workers come from --scheduler, from --cluster or from this machine (--local): name one")
    if device is None and (count > 1 or spread or fault):
        raise UsageError("--count, --spread and --fault are of simulated cards: name their model, such as -d sim:h200")
    if device is not None and not device.startswith("sim:"):
        raise UsageError(f"-d names a simulated GPU, not {device!r:.60}; without it, all real GPUs are measured")
    chosen = Request(elements=check_elements(only), quick=quick, profile=profile)
    options = ("--profile", profile.value) if profile else ("--quick",) * quick
    options += tuple(word for name in chosen.elements or () for word in ("--only", name))
    where, faults = (scheduler, cluster, workers), tuple(fault or ())
    request = FleetRequest(device, count, options, timeout, *where, spread, faults)
    with progress_on_stderr() as progress:
        ended = run_fleet(folder, request, resume, progress)
    for line in ended.problems[:MAX_LISTED]:
        print_note(line)
    if len(ended.problems) > MAX_LISTED:
        print_note(f"{len(ended.problems) - MAX_LISTED} more cards have problems")
    if as_json:
        print_json(json.dumps({"schema": "gpudissect-fleet-run/1"} | asdict(ended), indent=1, default=str))
    else:
        typer.echo(f"{ended.measured} of {ended.cards} cards measured, in {ended.folder}")
    if ended.measured < ended.cards:
        print_note(f"'gpudissect fleet run {folder} --resume' with the same options measures the others")
    if ended.interrupted:
        print_interrupted()
        return INTERRUPTED
    return PARTIAL if ended.problems or ended.measured < ended.cards else DONE


@app.command()
def report(
    folder: Annotated[Path, Argument(metavar="DIR", help="Folder of result files, as written by discover -o.")],
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML page with one row a card.")] = None,
    card: Annotated[
        str | None,
        Option(metavar="CARD", help="Show all runs of one card: the beginning of its UUID, or of 'host device'."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print the report as JSON.")] = False,
    prometheus: Annotated[
        Path | None, Option(metavar="FILE", help="Write metrics for the text file collector of Prometheus.")
    ] = None,
) -> int:
    """Report which cards differ from their siblings, or from their own earlier runs.

    Only cards of one model, measured with the same settings, are compared; no reference values are needed. With
    --card: its health values run by run, with the change against the median of the earlier runs. Exit codes: 0 no card
    is out, 4 a card is out; with --card, 4 if that card is out.
    """
    from gpudissect.fleet.fingerprint import identity
    from gpudissect.fleet.history import find_cards, histories
    from gpudissect.fleet.metrics import metrics
    from gpudissect.fleet.report import report as report_on
    from gpudissect.fleet.sentences import is_worth_a_sentence, sentence, summary
    from gpudissect.fleet.store import read_folder
    from gpudissect.results.files import check_apart, check_names, check_writable

    if card is not None and (html is not None or prometheus is not None):
        raise UsageError("--html and --prometheus cover all cards: leave out --card")
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
    if card is not None:
        chosen = find_cards(found, card)
        _print_histories(chosen, histories(found, runs, chosen), as_json)
        return PARTIAL if any(each.is_out for each in chosen) else DONE
    if prometheus is not None:
        write_file(prometheus, metrics(found, runs).encode())
    if html is not None:
        from gpudissect.views.page.fleet import fleet_page

        write_file(html, fleet_page(found, runs).encode())
    if as_json:
        cards = [asdict(each) | {"out": each.is_out, "fingerprint": identity(each.partitions)} for each in found.cards]
        content = {"schema": "gpudissect-fleet/1", "groups": [asdict(each) for each in found.groups], "cards": cards}
        print_json(json.dumps(content | {"runs": found.runs, "unreadable": found.unreadable}, indent=1))
    else:
        others = [each for each in found.cards if is_worth_a_sentence(each) and not each.is_out]
        for line in (*summary(found), *map(sentence, (*found.out, *others))):
            typer.echo(line)
    return PARTIAL if found.out else DONE


def _print_histories(cards: Sequence[CardReport], histories: Sequence[History], as_json: bool) -> None:
    """Print the history of a card for each group of settings with which it was measured."""
    from gpudissect.fleet.sentences import is_worth_a_sentence, sentence
    from gpudissect.views.terminal.fleet_history import print_history
    from gpudissect.views.terminal.layout import console

    if as_json:
        content = {
            "schema": "gpudissect-fleet-history/1",
            "histories": [
                asdict(each) | {"out": card.is_out, "deviations": [asdict(one) for one in card.deviations]}
                for card, each in zip(cards, histories, strict=True)
            ],
        }
        print_json(json.dumps(content, indent=1))
        return
    for card, each in zip(cards, histories, strict=True):
        print_history(console(sys.stdout), each)
        if is_worth_a_sentence(card):
            typer.echo(sentence(card))

"""``gpudissect discover``, ``hide`` and ``devices``: measure the memory hierarchy, or how many warps hide latency."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from gpudissect.cli import completion
from gpudissect.cli.console import finish, print_json, print_note, progress_on_stderr
from gpudissect.cli.options import (
    AllOption,
    CardOption,
    DetailsOption,
    DeviceOption,
    HostOption,
    HtmlOption,
    RecordOption,
    ResultOption,
    TracesOption,
)
from gpudissect.cli.results import print_results
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.results.links import LinkReport
    from gpudissect.study import Request

ALL_GPUS = "cuda:all"
ProfileName = StrEnum("ProfileName", "HEALTH")
Access = StrEnum("Access", "STREAMING STRIDE2 RANDOM RSQ LDS ALL")


def devices(as_json: Annotated[bool, Option("--json", help="Print a JSON list.")] = False) -> None:
    """List the devices, and why a GPU cannot be used.

    Real GPUs, simulated ones of the catalogue, and recordings in this folder.
    """
    from gpudissect.device.kinds import list_devices

    listings = list_devices()
    if as_json:
        import json
        from dataclasses import asdict

        print_json(json.dumps([asdict(item) for item in listings], indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    from gpudissect.printable import clean
    from gpudissect.views.terminal.layout import console, print_table

    table = Table("device", "GPU", "origin", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for item in listings:
        name = Text(clean(item.name))
        if item.why_not is not None:
            name.append(f"{' ' if item.name else ''}cannot be used: {clean(item.why_not)}", "yellow")
        table.add_row(Text(clean(item.spec)), name, Text(item.origin))
    print_table(console(sys.stdout), table)


def discover(
    device: DeviceOption = None,
    output: ResultOption = None,
    html: HtmlOption = None,
    card: CardOption = None,
    traces: TracesOption = None,
    record: RecordOption = None,
    only: Annotated[
        list[str] | None,
        Option(
            metavar="ELEMENT", autocompletion=completion.elements, help="Only this element, such as l1; repeatable."
        ),
    ] = None,
    quick: Annotated[
        bool | None,
        Option(
            "--quick/--full",
            help="Takes seconds: only sizes, lines, latencies, read bandwidth, warps for streaming loads.",
        ),
    ] = None,
    precision: Annotated[
        float | None,
        Option(
            metavar="PERCENT",
            help="Measure L2 and memory latencies and miss penalties from more SMs, until their brackets are at most "
            "PERCENT of the value wide or every SM was sampled.",
        ),
    ] = None,
    profile: Annotated[
        ProfileName | None,
        Option(help="health: a check between jobs, in seconds: bandwidths, latencies and rates."),
    ] = None,
    seed: Annotated[int | None, Option(min=0, max=2**32 - 1, help="Seed of every random choice (default 0).")] = None,
    compare_methods: Annotated[bool | None, Option("--compare-methods", help="Also run older methods.")] = None,
    method: Annotated[
        list[str] | None, Option(metavar="METHOD", help="Only this older method: saavedra, wong or mt22; repeatable.")
    ] = None,
    host: HostOption = True,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON, a list with cuda:all.")] = False,
    everything: AllOption = False,
    details: DetailsOption = False,
) -> int:
    """Measure the whole memory hierarchy of a GPU.

    With cuda:all, all GPUs are measured at once: FILE.json becomes FILE.cuda0.json, FILE.cuda1.json, ... and DIR gets a
    folder for each GPU. A full survey or a check of health then also measures the links between them: FILE.links.json.
    Ctrl-C keeps what was measured. Exit codes: 0 done, 4 done in part, 130 interrupted.
    """
    from gpudissect.study import Request, check_elements, check_methods

    request = Request(
        elements=check_elements(only),
        quick=quick,
        seed=seed,
        compare_methods=compare_methods,
        methods=check_methods(method),
        host=host,
        precision=precision,
        profile=profile,
    )
    everything = everything or bool(method)  # the readings of older methods are in no summary
    return run_and_finish(request, device, (output, html, traces), record, as_json, everything, details, card)


def run_and_finish(
    request: Request,
    device: str | None,
    outputs: tuple[Path | None, Path | None, Path | None],
    record: Path | None,
    as_json: bool,
    everything: bool = False,
    details: bool = False,
    card: Path | None = None,
) -> int:
    """Run a study on a device or on each GPU of cuda:all, print and write the results, return the exit code.

    `outputs`: files of the result, the HTML report and the traces; `card`: of the picture. Raises `UsageError` if one
    cannot be written.
    """
    from gpudissect.cli.every_gpu import Job, measure_pairs, surveyed_at_once
    from gpudissect.device.base import EVIDENCE_BYTES, MAX_KEPT_BYTES
    from gpudissect.device.kinds import choose
    from gpudissect.interrupts import PATIENCE_S, stop_requested, uninterrupted
    from gpudissect.study import check_outputs
    from gpudissect.views.terminal.layout import console
    from gpudissect.views.terminal.links import print_links

    check_outputs(*outputs, spec=device, record=record, card=card)
    choice = choose(device)
    if choice.note:
        print_note(choice.note)
    if request.hiding and len(choice.specs) > 1:
        raise UsageError(f"latency hiding is measured on one device; name one, such as {choice.specs[0]}")
    several = device == ALL_GPUS and not request.hiding
    kept_bytes = 0  # the table shows no single traces
    if any(path is not None for path in outputs[1:]):
        kept_bytes = MAX_KEPT_BYTES
    elif as_json or outputs[0] is not None or card is not None:
        kept_bytes = EVIDENCE_BYTES
    has_pairs = (
        several and request.has_links and len(choice.specs) > 1 and not (as_json and outputs[:2] == (None, None))
    )
    jobs = [
        Job(
            spec=spec,
            suffix=spec.replace(":", "") if several else "",
            request=request,
            record=record,
            outputs=(*outputs, card),
            kept_bytes=kept_bytes,
            measures_links=has_pairs,
        )
        for spec in choice.specs
    ]
    report: LinkReport | None = None
    with uninterrupted() as held, ExitStack() as stack:  # processes of surveys end once all is printed
        with progress_on_stderr() as progress:
            if several:
                surveys = stack.enter_context(surveyed_at_once(jobs, progress, held))
                outcomes = [each.outcome for each in surveys if each.outcome]
                results = [each for outcome in outcomes for each in outcome.results]
                errors = [each for outcome in outcomes for each in outcome.errors]
                if has_pairs and not stop_requested():
                    if request.profile and (errors or any(each.failures for each in results)):
                        print_note("links between GPUs are not measured: a GPU is in use, or a survey failed")
                    elif len(results) < 2:
                        count = f"{len(results)} of {len(jobs)}"
                        print_note(f"links between GPUs are not measured: too few GPUs have a result ({count})")
                    else:
                        report, more = measure_pairs(surveys, request, outputs[:2], progress)
                        errors += more
            else:
                result, errors = jobs[0].run(progress)
                results = [result]
        with uninterrupted(PATIENCE_S):
            print_results(results, as_json=as_json, as_list=several, everything=everything, details=details)
            if report is not None and not as_json:
                print_links(console(sys.stdout), report)
            if results and outputs[0] is None and record is None and not as_json:
                print_note("result not saved; add -o FILE.json to keep it")
        return finish(results, errors)


def hide(
    device: DeviceOption = None,
    access: Annotated[
        list[Access] | None, Option(help="Instruction between additions (default streaming); repeatable.")
    ] = None,
    quick: Annotated[bool | None, Option("--quick/--full", help="Takes seconds: fewer mixes.")] = None,
    output: ResultOption = None,
    html: HtmlOption = None,
    traces: TracesOption = None,
    record: RecordOption = None,
    host: HostOption = True,
    as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
    everything: AllOption = False,
    details: DetailsOption = False,
) -> int:
    """Measure how many warps hide latency.

    Throughput is measured against occupancy. Every warp runs a chain of loads with alpha additions between two of
    them. Ctrl-C keeps what was measured: the quick grid comes first. Exit codes: 0 done, 4 done in part, 130
    interrupted.
    """
    from gpudissect.study import Request, hiding_elements

    request = Request(hiding=True, elements=hiding_elements(access), quick=quick, host=host)
    return run_and_finish(request, device, (output, html, traces), record, as_json, everything, details)

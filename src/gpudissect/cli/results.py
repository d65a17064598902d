"""Commands on result files: ``gpudissect show``, ``check``, ``compare``, ``export``, ``predict`` and ``schema``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gpudissect.cli import completion
from gpudissect.cli.console import print_error, print_json, print_note
from gpudissect.cli.options import AllOption, CardOption, DetailsOption
from gpudissect.errors import GpudissectError, UsageError

if TYPE_CHECKING:
    from gpudissect.results.check import Concern, Group
    from gpudissect.results.links import LinksFile
    from gpudissect.results.model import Result

STABLE, UNSTABLE = 0, 4
MAX_FINDINGS_SHOWN = 6  # with a concern
MAX_UUID_LENGTH = 14  # characters: enough to distinguish cards


def show(
    files: Annotated[list[Path], Argument(metavar="FILE...", help="Result files, as written by discover -o.")],
    everything: AllOption = False,
    details: DetailsOption = False,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML report of one result instead.")] = None,
    card: CardOption = None,
    as_json: Annotated[bool, Option("--json", help="Print the results as JSON; several as a list.")] = False,
) -> None:
    """Print result files, or make an HTML report or a picture of one.

    A report made while measuring or replaying (discover --html) also shows the traces behind each finding.
    """
    from gpudissect.results.files import check_apart, check_card, check_writable, load

    if html is not None:
        if len(files) > 1:
            raise UsageError(f"--html takes one result, got {len(files)}; compare --html puts several side by side")
        _check_page(html, files)
    if card is not None:
        if len(files) > 1:
            raise UsageError(f"--card takes one result, got {len(files)}")
        check_apart(card, [*files, *filter(None, [html])])
        check_writable(card)
        check_card(card)
    if html is not None:
        from gpudissect.views.page.result import result_page

        write_file(html, result_page(load(files[0])).encode())
    if card is not None:
        from gpudissect.views.card import card_file

        write_file(card, card_file(load(files[0]), card.suffix))
    if (html is None and card is None) or as_json:
        results = [load(path) for path in files]
        print_results(results, as_json=as_json, as_list=len(files) > 1, everything=everything, details=details)


def print_results(
    results: Sequence[Result], *, as_json: bool, as_list: bool = False, everything: bool = False, details: bool = False
) -> None:
    """Print results on stdout, or as JSON, one result or a list."""
    from gpudissect.views.terminal.layout import console
    from gpudissect.views.terminal.table import print_result

    if as_json:
        texts = [result.to_json().rstrip() for result in results]
        print_json("[" + ",\n".join(texts) + "]" if as_list else "\n".join(texts))
        return
    out = console(sys.stdout)
    for number, result in enumerate(results):
        if number:
            out.print()
        print_result(out, result, everything=everything, details=details)
    in_short = any(not result.options.elements or result.command == "hide" for result in results)
    if out.is_terminal and in_short and not everything and not details:
        out.print("--all prints every value, --details also methods and caveats", style="dim")


def check(
    files: Annotated[
        list[Path], Argument(metavar="FILE...", help="Result files and files of links; several runs are compared.")
    ],
    as_json: Annotated[bool, Option("--json", help="Print the concerns as JSON.")] = False,
) -> int:
    """Report whether a result is stable; if not, why and what to do.

    Several results of one GPU, and several files of links (links -o) of the same GPUs, are also compared with one
    another. Exit codes: 0 stable, 4 not, 2 if a file cannot be read; the others are checked.
    """
    from gpudissect.results.check import check_files, is_stable

    readable, unreadable = _load_readable(files)
    names = [name for name, _ in readable]
    found, groups = check_files([each for _, each in readable], names)
    stable = is_stable(found)
    code = UsageError.exit_code if unreadable else STABLE if stable else UNSTABLE
    if not names:
        return code
    if as_json:
        listed = [
            {"weight": item.weight.value, "what": item.what, "advice": item.advice, "about": item.about}
            | {"files": [names[n] for n in item.of]}
            for item in found
        ]
        runs = [
            {"gpu": each.gpu, "gpu_uuid": each.uuid, "command": each.command, "settings": each.settings}
            | {"files": [names[n] for n in each.of]}
            for each in groups
        ]
        content = {"schema": "gpudissect-check/1", "stable": stable, "files": names, "concerns": listed}
        _print_json(content | {"groups": runs, "unreadable": unreadable})
    else:
        _print_concerns(found, stable, names, groups)
    return code


def _load_readable(files: Sequence[Path]) -> tuple[list[tuple[str, Result | LinksFile]], list[str]]:
    """What is read, with the names of the files; and the names of unreadable ones, each with a line on stderr."""
    from gpudissect.results.files import file_identity, load_result_or_links

    results: list[tuple[str, Result | LinksFile]] = []
    unreadable, named = list[str](), set[object]()
    for path in files:
        if (identity := file_identity(path)) in named:
            print_note(f"{path} is named twice: it is one run, not two that agree")
        named.add(identity)
        try:
            results.append((str(path), load_result_or_links(path)))
        except GpudissectError as error:
            print_error(str(error))
            unreadable.append(str(path))
    return results, unreadable


def _print_concerns(concerns: Sequence[Concern], stable: bool, names: Sequence[str], groups: Sequence[Group]) -> None:
    from rich.text import Text

    from gpudissect.printable import brief, clean
    from gpudissect.results.check import Weight
    from gpudissect.views.terminal.layout import console

    out = console(sys.stdout)
    out.print(Text("stable", "bold green") if stable else Text("not stable", "bold red"))
    for group in groups if len(names) > 1 else ():
        card = brief(group.uuid, MAX_UUID_LENGTH) if group.uuid else "no GPU UUID"
        about = ", ".join(filter(None, (group.gpu, card, group.command, group.settings)))
        out.print(Text(clean(f"{about}: {', '.join(names[n] for n in group.of)}")), style="dim")
    given: set[str] = set()
    for concern in concerns:
        style = "bold red" if concern.weight is Weight.UNSTABLE else "yellow"
        files = f" ({clean(', '.join(names[n] for n in concern.of))})" if 0 < len(concern.of) < len(names) else ""
        more = len(concern.about) - MAX_FINDINGS_SHOWN
        about = ", ".join(concern.about[:MAX_FINDINGS_SHOWN]) + (f" and {more} more" if more > 0 else "")
        what = f"{files}: {clean(concern.what)}" + (f": {clean(about)}" if about else "")
        out.print(Text.assemble((concern.weight.value, style), what))
        if concern.advice not in given:  # once
            out.print(Text(f"    {clean(concern.advice)}", "dim"))
            given.add(concern.advice)


def compare(
    files: Annotated[list[Path], Argument(metavar="FILE FILE...", help="Two or more result files.")],
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML report instead.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the comparison as JSON.")] = False,
    everything: Annotated[
        bool, Option("--all", "-a", help="Also list values that are the same or not comparable.")
    ] = False,
) -> None:
    """List what differs between results, each with the reason.

    With --all also what is the same. Values that depend on conditions which were not the same (carve-out, clocks)
    are not compared.
    """
    from gpudissect.results.compare import compare as compare_results
    from gpudissect.results.files import load
    from gpudissect.views.terminal.compare_table import print_comparison, to_json
    from gpudissect.views.terminal.layout import console

    if html is not None:
        _check_page(html, files)
    comparison = compare_results([load(path) for path in files], [str(path) for path in files])
    if html is not None:
        from gpudissect.views.page.comparison import comparison_page

        write_file(html, comparison_page(comparison).encode())
    if as_json:
        print_json(to_json(comparison))
    elif html is None:
        print_comparison(console(sys.stdout), comparison, everything=everything)


def _check_page(html: Path, inputs: Sequence[Path]) -> None:
    from gpudissect.results.files import check_apart, check_names, check_writable

    check_apart(html, inputs)
    check_writable(html)
    check_names(None, html)


def write_file(path: Path, content: bytes) -> None:
    """Write an output, and a line on stderr."""
    from gpudissect.results.files import write_bytes

    write_bytes(path, content)
    print_note(f"wrote {path}")


def export(
    file: Annotated[Path, Argument(metavar="FILE", help="A result file, as written by discover -o.")],
    format_name: Annotated[
        str,
        Option(
            "--format",
            "-f",
            metavar="FORMAT",
            autocompletion=completion.formats,
            help="gpu, mt4g, hwloc, accelsim, csv, series, parquet or series-parquet.",
        ),
    ],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write a file instead of printing.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print a JSON object with the text or the file written.")] = False,
) -> None:
    """Write a result in another format.

    gpu: a GPU file, which is a device: discover -d sim:FILE.toml measures the simulated GPU. mt4g: MT4G's JSON, for
    sys-sage and GPUscout. hwloc: XML for lstopo. accelsim: a fragment of a gpgpusim.config. csv, parquet: the findings;
    series, series-parquet: the measured series, one number a line. Single accesses: discover --traces FILE, also of a
    recording.
    """
    from base64 import b64encode

    from gpudissect import exports
    from gpudissect.results.files import check_apart, check_names, check_writable, load, write_bytes

    if output is not None:
        is_gpu_file = format_name == "gpu" and output.suffix == ".toml"
        check_names(None if is_gpu_file else output, None)
        check_apart(output, [file])
        check_writable(output)
    content = exports.export(load(file), format_name)
    if output is not None:
        write_bytes(output, content.encode() if isinstance(content, str) else content)
        shown = {"file": str(output)}
    else:
        shown = {"text": content} if isinstance(content, str) else {"base64": b64encode(content).decode()}
    if as_json:
        _print_json({"schema": "gpudissect-export/1", "format": format_name} | shown)
    elif output is None:
        typer.echo(content, nl=False)


def schema(as_json: Annotated[bool, Option("--json", help="No effect: the schema is always JSON.")] = False) -> None:
    """Print the JSON Schema of the result file."""
    from gpudissect.results.model import json_schema

    _print_json(json_schema())


def _print_json(content: object) -> None:
    import json

    print_json(json.dumps(content, indent=2))


def predict(
    file: Annotated[Path, Argument(metavar="FILE", help="A result of 'gpudissect hide -o FILE'.")],
    warps: Annotated[int | None, Option(help="Warps per SM; required.")] = None,
    run: Annotated[
        str | None,
        Option(
            metavar="MIX",
            autocompletion=completion.known_instructions,
            help="Instructions of a warp per iteration, such as ldg_streaming:1,fadd:32.",
        ),
    ] = None,
    alpha: Annotated[float | None, Option(metavar="A", help="Instead of --run: number of fadd per access.")] = None,
    access: Annotated[
        str, Option(metavar="KIND", autocompletion=completion.known_accesses, help="The access of --alpha, as in hide.")
    ] = "ldg_streaming",
    as_json: Annotated[bool, Option("--json", help="Print the prediction as JSON.")] = False,
) -> None:
    """Predict the throughput of an instruction mix and what limits it.

    The instructions depend on one another. The worksheet of VV16 tables 3.2 to 3.4: bounds by latency, by
    functional units, by memory, and by issue.
    """
    from gpudissect.results.files import load
    from gpudissect.results.predict import predict as predict_mix
    from gpudissect.views.terminal.worksheet import to_json, to_text

    prediction = predict_mix(load(file), warps, run, alpha, access)
    if as_json:
        print_json(to_json(prediction))
    else:
        typer.echo(to_text(prediction), nl=False)

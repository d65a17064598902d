"""``gpudissect explain``: what limits a kernel on a measured GPU, from its machine code and a profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from gpudissect.cli.console import DONE, PARTIAL, print_error, print_note
from gpudissect.cli.options import ResultOption

if TYPE_CHECKING:
    from gpudissect.explanation.gate import Gate
    from gpudissect.explanation.result import Explanation


def explain(
    file: Annotated[Path, Argument(metavar="FILE", help="A .cubin, .ptx or .cu file, or a profile (.json).")],
    kernel: Annotated[str | None, Option(metavar="NAME", help="The kernel, if the file has several.")] = None,
    profile: Annotated[
        Path | None, Option(metavar="FILE", help="Its profile: how often its instructions ran on a GPU.")
    ] = None,
    machine: Annotated[
        list[Path] | None,
        Option(metavar="RESULT", help="A result of 'discover' of the GPU, and of 'hide' too if there is one."),
    ] = None,
    against: Annotated[
        list[Path] | None, Option(metavar="RESULT", help="Results of another GPU, to compare the predicted times.")
    ] = None,
    output: ResultOption = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML report.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the explanation as JSON.")] = False,
    gate: Annotated[
        str | None,
        Option(metavar="CONDITION", help="Exit with code 4 if it is false: 'spills == 0 and warps_for_90 <= 48'."),
    ] = None,
    everything: Annotated[
        bool, Option("--all", "-a", help="Also print worksheet, curve, annotated machine code and assumptions.")
    ] = False,
) -> int:
    """Predict the time of a kernel and what limits it.

    The prediction follows from machine code, the profile, and the latencies and rates in the results. Names in a
    condition: spills, registers, shared, blocks, warps, warps_for_90, occupancy, time, measured, error, critical_path,
    roofline, limiter.
    """
    from gpudissect.explanation.gate import parse_gate
    from gpudissect.explanation.inputs import explain_file
    from gpudissect.results.files import check_apart, check_page, check_writable, load, write_text
    from gpudissect.views.terminal.explanation import print_explanation
    from gpudissect.views.terminal.layout import console

    condition = None if gate is None else parse_gate(gate)
    inputs = [file, *filter(None, [profile]), *(machine or ()), *(against or ())]
    for path in filter(None, (output, html)):
        check_apart(path, inputs)
        check_writable(path)
    if html is not None:
        check_page(html)
    results, others = ([load(path) for path in paths or ()] for paths in (machine, against))
    found = explain_file(file, results, kernel=kernel, profile=profile, against=others)
    if as_json:
        typer.echo(found.to_json())
    else:
        print_explanation(console(sys.stdout), found, everything=everything)
    if output is not None:
        write_text(output, found.to_json() + "\n")
    if html is not None:
        from gpudissect.views.page.explanation import explanation_page

        write_text(html, explanation_page(found))
    for path in filter(None, (output, html)):
        print_note(f"wrote {path}")
    return DONE if condition is None else _check(condition, found)


def _check(condition: Gate, found: Explanation) -> int:
    """Print whether the condition holds, with its values; the exit code."""
    holds = condition.holds(found)
    text = f"'{condition.text}': {condition.values(found)}"
    (print_note if holds else print_error)(f"{'true' if holds else 'false'}: {text}")
    return DONE if holds else PARTIAL

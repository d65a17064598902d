"""``gpudissect explain``: what limits a kernel on a measured GPU, from its machine code and a launch on it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from gpudissect.cli import completion
from gpudissect.cli.console import (
    DONE,
    INTERRUPTED,
    PARTIAL,
    closed_output_discarded,
    print_error,
    print_json,
    print_note,
    progress_on_stderr,
    stopped_at_once,
)
from gpudissect.cli.options import ResultOption
from gpudissect.errors import GpudissectError, UsageError

if TYPE_CHECKING:
    from gpudissect.explanation.gate import Gate
    from gpudissect.explanation.on_gpu import RunOutcome
    from gpudissect.explanation.result import Explanation


def explain(
    file: Annotated[
        Path,
        Argument(metavar="FILE", help="CUDA C++ (.cu), PTX (.ptx), a profile (.json), or any file with device code."),
    ],
    kernel: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Kernel to explain; required if FILE has several: 'ns::scale<float>', or the mangled name.",
        ),
    ] = None,
    grid: Annotated[
        str | None, Option(metavar="X[,Y[,Z]]", help="Grid size; FILE is run on the GPU, unless --trips is given.")
    ] = None,
    block: Annotated[str | None, Option(metavar="X[,Y[,Z]]", help="Block size.")] = None,
    shared: Annotated[
        str | None, Option(metavar="BYTES", help="Dynamic shared memory per block, such as 48KiB.")
    ] = None,
    arg: Annotated[
        list[str] | None,
        Option(
            metavar="SPEC",
            help="Kernel argument, in the order of the parameters: n:i32=1024, x:f32[1024]=random, "
            "i:u32[64]=permutation, out:f64[8]; a structure: v:f32x3=1:2:3.",
        ),
    ] = None,
    device: Annotated[
        str | None,
        Option(
            "--device",
            "-d",
            metavar="DEV",
            autocompletion=completion.devices,
            help="GPU that runs the kernel (cuda:0).",
        ),
    ] = None,
    trips: Annotated[
        list[str] | None,
        Option(
            metavar="LOOP=N",
            help="Predict without running. Iterations of a loop per entry, such as k.cu:12=1024; 'none' if the kernel "
            "has no loops; repeatable.",
        ),
    ] = None,
    limit: Annotated[float | None, Option(metavar="SECONDS", help="Time limit of each launch (default 60).")] = None,
    compile_option: Annotated[
        list[str] | None,
        Option(metavar="OPTION", help="Compiler option for a .cu file, such as -DN=4 or -Iinclude; repeatable."),
    ] = None,
    machine: Annotated[
        list[Path] | None,
        Option(
            metavar="RESULT",
            help="'discover' result of the GPU to predict for; also a 'hide' result of that GPU; repeatable.",
        ),
    ] = None,
    profile: Annotated[
        Path | None, Option(metavar="FILE.json", help="Write the profile (with --grid) or read it (without).")
    ] = None,
    against: Annotated[
        list[Path] | None, Option(metavar="RESULT", help="Also predict the time on the GPU of this result.")
    ] = None,
    output: ResultOption = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Write an HTML report.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print the explanation as JSON.")] = False,
    gate: Annotated[
        str | None,
        Option(
            metavar="CONDITION", help="Condition, such as 'spills == 0 and occupancy >= 50%'; exit code 4 if false."
        ),
    ] = None,
    everything: Annotated[
        bool,
        Option(
            "--all",
            "-a",
            help="Also print the worksheet, time against occupancy, annotated machine code and assumptions.",
        ),
    ] = False,
) -> int:
    """Predict the time of a kernel and what limits it.

    With --grid and --block the kernel runs on the GPU: instrumented copies count executions and sample addresses, and
    the unmodified kernel is timed at every occupancy. Without a GPU, give the --profile of an earlier run, or
    --trips for every loop; execution counts are then given, not measured.

    gpudissect explain k.cu --grid 4096 --block 256 --arg x:f32[1048576]=random --arg n:i32=1048576 --machine r.json

    Names in a condition: spills, shared (bytes, or with a unit); registers, blocks, warps, warps_for_90; occupancy,
    error (absolute), roofline (percent: 50 is 50%); time, measured, critical_path (with a unit: 12us); limiter.

    Exit codes: 0 success, 2 usage error, 3 the kernel failed or exceeded --limit, 4 partial result or false condition,
    130 interrupted.
    """
    from gpudissect.explanation.gate import NEEDS_TIME, parse_gate
    from gpudissect.explanation.inputs import check_launch, explain_file, explain_recorded, explain_trips
    from gpudissect.explanation.trips import parse_trips
    from gpudissect.interrupts import uninterrupted
    from gpudissect.results.files import check_apart, check_names, check_writable, load

    condition = None if gate is None else parse_gate(gate)
    if device is not None:
        from gpudissect.explanation.on_gpu import gpu_number

        gpu_number(device)
    of_launch: dict[str, object] = {"grid": grid, "block": block, "shared": shared, "arg": arg or None}
    of_launch |= {"device": device, "limit": limit, "trips": trips or None, "profile": profile}
    options, run = tuple(compile_option or ()), None
    if check_launch(file, of_launch, "--"):
        assert grid is not None and block is not None
        from gpudissect.explanation.on_gpu import check_saved, record_on_gpu, run_of

        run = run_of(grid, block, 0 if shared is None else shared, arg or (), device, limit, options)
    needs_time = condition is not None and condition.needs_time
    if trips and needs_time:
        raise UsageError(f"the condition {NEEDS_TIME}")
    saved = profile if run is not None else None
    inputs = [file, *filter(None, [None if saved else profile]), *(machine or ()), *(against or ())]
    if run is not None:
        check_saved(saved, inputs)
    for path in filter(None, (output, html)):
        check_apart(path, inputs)
        check_writable(path)
    check_names(output, html)
    results, others = ([load(path) for path in paths or ()] for paths in (machine, against))
    if run is None or trips:
        with stopped_at_once("nothing was written: run the command again"):
            if run is None:
                found = explain_file(
                    file,
                    results,
                    kernel=kernel,
                    profile=profile,
                    options=options,
                    against=others,
                    needs_time=needs_time,
                )
            else:
                turns = parse_trips(trips or ())
                found = explain_trips(file, run.launch, turns, results, kernel=kernel, options=options, against=others)
        return _show(found, output, html, as_json, everything, condition)
    is_shown = any((results, others, output, html, as_json, condition, everything)) or saved is None
    with progress_on_stderr() as progress:
        outcome = record_on_gpu(file, kernel, run, results if is_shown else None, progress)
    with uninterrupted():
        errors = _save(outcome, saved)
    code = DONE
    if outcome.is_explainable and not outcome.is_interrupted and is_shown:
        assert outcome.profile is not None
        try:
            with stopped_at_once(f"the profile is in {saved}" if saved else "nothing was written"):
                found = explain_recorded(outcome.profile, results, others)
            code = _show(found, output, html, as_json, everything, condition)
        except GpudissectError as error:
            errors.append(error)
    elif not is_shown and not errors:
        print_note(f"'gpudissect explain {saved} --machine RESULT' explains it")
    return _finish(outcome, errors, saved) or code


def _save(outcome: RunOutcome, path: Path | None) -> list[GpudissectError]:
    """Write what was recorded, beside a file with data if it is not complete; the errors of the run and of writing."""
    errors = list(filter(None, [outcome.error]))
    if path is not None and outcome.profile is not None:
        from gpudissect.explanation.on_gpu import save_profile
        from gpudissect.results.files import holds_data, partial_path

        is_partial = outcome.is_interrupted or outcome.error is not None
        path = partial_path(path) if is_partial and holds_data(path) else path
        try:
            save_profile(path, outcome.profile)
            print_note(f"wrote {path}")
        except UsageError as error:
            errors.append(error)
    return errors


def _finish(outcome: RunOutcome, errors: list[GpudissectError], path: Path | None) -> int:
    """Print what did not work; the exit code."""
    for note in outcome.notes:
        print_note(f"note: {note}")
    for error in errors:
        print_error(str(error))
    if outcome.is_interrupted:
        kept = outcome.profile is not None and path is not None and not errors
        print_note(f"interrupted; {'what was measured is kept' if kept else 'nothing is kept'}")
        return INTERRUPTED
    return max((error.exit_code for error in errors), default=DONE)


def _show(
    found: Explanation, output: Path | None, html: Path | None, as_json: bool, everything: bool, condition: Gate | None
) -> int:
    """Write and print an explanation; the exit code, also if stdout is closed."""
    from gpudissect.explanation.gate import text_of
    from gpudissect.results.files import write_text
    from gpudissect.views.terminal.explanation import print_explanation
    from gpudissect.views.terminal.layout import console

    errors, written = list[UsageError](), list[Path]()
    try:
        found = found if condition is None else found.model_copy(update={"gate": condition.evaluate(found)})
    except UsageError as error:  # output is written and printed all the same
        errors.append(error)
    files: list[tuple[Path | None, Callable[[Explanation], str]]]
    files = [(output, lambda each: f"{each.to_json()}\n"), (html, _page)]
    for path, text_of_file in files:
        if path is not None:
            try:
                write_text(path, text_of_file(found))
                written.append(path)
            except UsageError as error:
                errors.append(error)
    with closed_output_discarded():
        if as_json:
            print_json(found.to_json())
        else:
            print_explanation(console(sys.stdout), found, everything=everything)
    for path in written:
        print_note(f"wrote {path}")
    if errors:
        raise errors[0]
    if found.gate is None:
        return DONE
    print_note(text_of(found.gate))
    return DONE if found.gate.is_true else PARTIAL


def _page(found: Explanation) -> str:
    from gpudissect.views.page.explanation import explanation_page

    return explanation_page(found)

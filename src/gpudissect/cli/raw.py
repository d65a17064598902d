"""One workload on one device: run it, record it if requested, print its raw trace."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import typer

from gpudissect.cli.console import print_note
from gpudissect.errors import UsageError

if TYPE_CHECKING:
    from gpudissect.device_info import DeviceInfo
    from gpudissect.workload import Path, Workload


def run_and_print(
    device: str | None,
    make: Callable[[DeviceInfo], Workload],
    *,
    output: FilePath | None,
    record: FilePath | None,
    as_json: bool,
    seed: int = 0,
) -> None:
    """Make a workload for the device, run it and write its raw trace to `output` or stdout, as the commands describe.

    What `make` raises comes before anything is run or recorded. Raises `UsageError` for several devices or an output
    that cannot be written or is an input, and `UnsupportedWorkload` for a workload that the device cannot run.
    """
    from gpudissect.device.kinds import choose, open_device
    from gpudissect.device.recording.device import Recorder
    from gpudissect.results.files import check_apart_from_run, check_ending, check_writable, write_bytes
    from gpudissect.views.traces import FORMATS, RunTrace, to_json, to_table

    if output is not None:
        check_ending(output, "of a trace", FORMATS)
        check_apart_from_run(output, device, record)
        check_writable(output)
    choice = choose(device)
    if choice.note:
        print_note(choice.note)
    if len(choice.specs) > 1:
        raise UsageError(f"one workload runs on one device; name one, such as {choice.specs[0]}")
    with ExitStack() as stack:
        opened = stack.enter_context(open_device(choice.specs[0], seed=seed))
        workload = make(opened.info)
        if record is not None:
            opened = stack.enter_context(Recorder(opened, record))
        trace = RunTrace.of(workload, opened.run([workload])[0], opened.info)
    if output is None:
        typer.echo(to_json(trace) if as_json else to_table(trace), nl=False)
        print_note(trace.summary())
        return
    content = FORMATS[output.suffix](trace)
    write_bytes(output, content.encode() if isinstance(content, str) else content)
    typer.echo(to_json(trace) if as_json else trace.summary(), nl=not as_json)


def check_span(info: DeviceInfo, path: Path, span: int, workload: str) -> None:
    """Raise `UsageError` if a footprint of `span` bytes exceeds what this path of the device reaches."""
    from gpudissect.units import format_bytes

    if span > (limit := info.limit(path)):
        raise UsageError(
            f"a {workload} on path {path.value} of {info.name} spans at most {format_bytes(limit)}, "
            f"got {format_bytes(span)}"
        )

"""``gpudissect export``: a result file in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result file, as written by discover -o.")],
    wanted: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="gpu: a GPU file, to simulate what was measured."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write a result in another format.

    A GPU file is a device: discover -d sim:FILE.toml takes the simulated GPU apart.
    """
    from gpudissect.report import export as formats
    from gpudissect.report.files import check_apart, check_writable, load, write_text

    if output is not None:
        check_apart(output, [file])
        check_writable(output)
    text = formats.export(load(file), wanted)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_text(output, text)

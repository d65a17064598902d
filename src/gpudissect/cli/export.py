"""``gpudissect export``: a result file in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result file, as written by discover -o.")],
    wanted: Annotated[
        str,
        typer.Option("--format", "-f", metavar="FORMAT", help="gpu, mt4g, hwloc, accelsim, csv, series or parquet."),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
) -> None:
    """Write a result in another format.

    gpu: a GPU file, which is a device: discover -d sim:FILE.toml takes the simulated GPU apart. mt4g: MT4G's JSON, for
    sys-sage and GPUscout. hwloc: XML for lstopo. accelsim: a fragment of a gpgpusim.config. csv, parquet: the findings;
    series: what was seen, one number a line.
    """
    from gpudissect.report import export as formats
    from gpudissect.report.files import check_apart, check_writable, load, write_bytes

    if output is not None:
        check_apart(output, [file])
        check_writable(output)
    content = formats.export(load(file), wanted)
    if output is None:
        typer.echo(content, nl=False)
    else:
        write_bytes(output, content.encode() if isinstance(content, str) else content)

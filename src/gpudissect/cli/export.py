"""``gpudissect export``: a result file in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpudissect.cli import complete


def export(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A result file, as written by discover -o.")],
    wanted: Annotated[
        str,
        typer.Option(
            "--format",
            "-f",
            metavar="FORMAT",
            autocompletion=complete.formats,
            help="gpu, mt4g, hwloc, accelsim, csv, series, parquet or series-parquet.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here instead of printing it.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object: the format, and its text or the file written.")
    ] = False,
) -> None:
    """Write a result in another format.

    gpu: a GPU file, which is a device: discover -d sim:FILE.toml takes the simulated GPU apart. mt4g: MT4G's JSON, for
    sys-sage and GPUscout. hwloc: XML for lstopo. accelsim: a fragment of a gpgpusim.config. csv, parquet: the findings;
    series, series-parquet: what was seen, one number a line. Single accesses: discover --traces FILE, of a recording,
    too.
    """
    from gpudissect import exports as formats
    from gpudissect.results.files import check_apart, check_writable, load, write_bytes

    if output is not None:
        check_apart(output, [file])
        check_writable(output)
    content = formats.export(load(file), wanted)
    if output is not None:
        write_bytes(output, content.encode() if isinstance(content, str) else content)
    if as_json:
        typer.echo(_described(wanted, content, output))
    elif output is None:
        typer.echo(content, nl=False)


def _described(wanted: str, content: str | bytes, output: Path | None) -> str:
    """What was exported, schema ``gpudissect-export/1``; what is no text in base64."""
    import base64
    import json

    said = {"schema": "gpudissect-export/1", "format": wanted}
    if output is not None:
        said["file"] = str(output)
    elif isinstance(content, str):
        said["text"] = content
    else:
        said["base64"] = base64.b64encode(content).decode()
    return json.dumps(said, indent=2)

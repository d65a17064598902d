"""``gpudissect show`` and ``gpudissect schema``: result files, read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def show(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Result files, as written by discover -o.")],
    details: Annotated[
        bool, typer.Option("--all", "-a", help="Also how each value was found: method, evidence, caveats.")
    ] = False,
) -> None:
    """Print result files as tables."""
    import sys

    from gpudissect.report.files import load
    from gpudissect.report.table import console, print_result

    out = console(sys.stdout)
    for number, result in enumerate([load(path) for path in files]):
        if number:
            out.print()
        print_result(out, result, details=details)


def schema() -> None:
    """Print the JSON Schema of the result file."""
    import json

    from gpudissect.report.result import json_schema

    typer.echo(json.dumps(json_schema(), indent=2))

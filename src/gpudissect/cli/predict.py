"""``gpudissect predict``: the throughput of a mix at an occupancy, from a result file, without a GPU."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from gpudissect.cli import completion


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
    typer.echo(to_json(prediction) if as_json else to_text(prediction), nl=False)

"""``gpudissect check``: can these results be relied on?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudissect.results.check import Concern

STABLE, UNSTABLE = 0, 4
SHOWN = 6  # findings named with a concern


def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Result files; several runs of one GPU tell more.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found wanting as JSON.")] = False,
) -> int:
    """Say whether a result is stable, why not, and what to do.

    Several results of one GPU are also held against one another. Exit codes: 0 stable, 4 not.
    """
    from gpudissect.results.check import concerns, is_stable
    from gpudissect.results.files import load

    names = [str(path) for path in files]
    found = concerns([load(path) for path in files], names)
    stable = is_stable(found)
    if as_json:
        import json

        each = [{"weight": c.weight.value, "what": c.what, "advice": c.advice, "about": c.about,
                 "files": [names[n] for n in c.of]} for c in found]  # fmt: skip
        said = {"schema": "gpudissect-check/1", "stable": stable, "files": names, "concerns": each}
        typer.echo(json.dumps(said, indent=2))
    else:
        _say(found, stable, names)
    return STABLE if stable else UNSTABLE


def _say(found: Sequence[Concern], stable: bool, names: Sequence[str]) -> None:
    import sys

    from rich.text import Text

    from gpudissect.results.check import Weight
    from gpudissect.results.text import clean
    from gpudissect.views.terminal.table import console

    out = console(sys.stdout)
    out.print(Text("stable", "bold green") if stable else Text("not stable", "bold red"))
    for each in found:
        style = "bold red" if each.weight is Weight.UNSTABLE else "yellow"
        whose = f" ({clean(', '.join(names[n] for n in each.of))})" if len(names) > 1 else ""
        about = ", ".join(each.about[:SHOWN]) + (
            f" and {len(each.about) - SHOWN} more" if len(each.about) > SHOWN else ""
        )
        out.print(Text.assemble((each.weight.value, style), f"{whose}: {clean(each.what)}"))
        if about:
            out.print(Text(f"    of {clean(about)}", "dim"))
        out.print(Text(f"    {clean(each.advice)}", "dim"))

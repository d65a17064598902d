"""``gpudissect devices``: what can be taken apart."""

from __future__ import annotations

from typing import Annotated

import typer


def devices(as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False) -> None:
    """List real, simulated and recorded devices, and why a real one cannot be used."""
    import sys

    from gpudissect.device.find import list_devices

    listings = list_devices()
    if as_json:
        import json
        from dataclasses import asdict

        typer.echo(json.dumps([asdict(item) for item in listings], indent=2))
        return
    from rich.table import Table
    from rich.text import Text

    from gpudissect.results.text import clean
    from gpudissect.views.terminal.table import console, print_table

    table = Table("device", "GPU", "origin", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for item in listings:
        name = Text(clean(item.name))
        if item.why_not is not None:
            name.append(f"{' ' if item.name else ''}cannot be used: {clean(item.why_not)}", "yellow")
        table.add_row(Text(clean(item.spec)), name, Text(item.origin))
    print_table(console(sys.stdout), table)

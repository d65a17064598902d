"""``gpudissect compare``: results against one another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def compare(
    files: Annotated[list[Path], typer.Argument(metavar="FILE FILE...", help="Two result files or more.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write them side by side as a page instead.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Also what is the same, or not comparable.")] = False,
) -> None:
    """Say what is the same in several results, what differs, and what nobody can tell, each with the reason.

    Values that depend on conditions which were not the same (carve-out, clocks) are not compared.
    """
    import sys

    from gpudissect.cli.say import note_line
    from gpudissect.results import compare as comparing
    from gpudissect.results.files import check_apart, check_page, check_writable, load, write_text
    from gpudissect.views.terminal.compare_table import print_comparison, to_json
    from gpudissect.views.terminal.table import console

    if html is not None:
        check_apart(html, files)
        check_writable(html)
        check_page(html)
    made = comparing.compare([load(path) for path in files], [str(path) for path in files])
    if html is not None:
        from gpudissect.views.page.beside import side_by_side

        write_text(html, side_by_side(made))
        note_line(f"wrote {html}")
    if as_json:
        typer.echo(to_json(made), nl=False)
    elif html is None:
        print_comparison(console(sys.stdout), made, everything=everything)

"""Tables that fit into a terminal; for a pipe, lines that stay whole."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import IO

from rich import box
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 400  # so that lines stay whole, for grep and awk


def console(stream: IO[str]) -> Console:
    """A console for this stream; colours only on a terminal, and none with NO_COLOR."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False, soft_wrap=False)


def print_table(out: Console, table: Table) -> None:
    """Print a table without trailing spaces."""
    with out.capture() as captured:
        out.print(table)
    for row in captured.get().splitlines():  # rich pads every line to the table's width
        out.file.write(row.rstrip() + "\n")


def fitting_table(
    out: Console,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, Text]],
    optional: Sequence[str] = (),
    gaps: Sequence[int] = (2,),
    ends: Collection[int] = (),
) -> Table:
    """A table without empty columns and as many of the optional ones, dropped in their order, as fit."""
    filled = [name for name in columns if any(row[name] for row in rows)]

    def layout(dropped: int, gap: int) -> Table:
        table = Table(box=box.SIMPLE_HEAD if out.is_terminal else None, pad_edge=False, padding=(0, gap, 0, 0))
        names = [name for name in filled if name not in optional[:dropped]]
        for name in names:
            table.add_column(name, overflow="fold")
        for number, row in enumerate(rows):
            table.add_row(*(row[name] for name in names), end_section=number in ends)
        return table

    return first_fitting(out, (layout(dropped, gap) for dropped in range(len(optional) + 1) for gap in gaps))


def first_fitting(out: Console, tables: Iterable[Table]) -> Table:
    """The first table that fits into the console without broken lines, or else the last one."""
    for table in tables:
        if Measurement.get(out, out.options.update_width(PIPE_WIDTH), table).maximum <= out.width:
            break
    return table

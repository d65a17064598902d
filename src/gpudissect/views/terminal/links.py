"""Links of GPUs in a terminal: a matrix for each attribute."""

from rich.console import Console
from rich.text import Text

from gpudissect.results.links import LEGEND, ROWS, LinkReport
from gpudissect.views.terminal.layout import fitting_table, print_table


def print_links(out: Console, report: LinkReport) -> None:
    """Print the matrices, notes on them, and why values are missing."""
    if report.matrices:
        out.file.write(f"{LEGEND}\n")
    for attribute, shown in report.matrices.items():
        rows = [
            {ROWS: Text(source)}
            | {target: Text(f"{found[0] / shown.unit:.4g}" if found else "-") for target, found in row.items()}
            for source, row in report.matrix(attribute).items()
        ]
        out.file.write(f"{shown.title}\n")
        print_table(out, fitting_table(out, [ROWS, *report.targets], rows))
    for line in (*report.notes, *report.reasons):
        out.file.write(f"{line}\n")

"""The history of a card for a terminal or a pipe: one row for each run."""

from rich.console import Console
from rich.text import Text

from gpudissect.fleet.history import History, HistoryRun, HistoryValue
from gpudissect.fleet.sentences import remarks_on, time_text
from gpudissect.printable import clean, counted
from gpudissect.results.compare import Key
from gpudissect.results.folded import rounded
from gpudissect.results.text import title_of, words
from gpudissect.views.terminal.layout import fitting_table, print_table

TIME, FILE = "run (UTC)", "file"
MAX_COLUMNS = 10  # health values, on the widest terminal


def print_history(out: Console, history: History) -> None:
    """Print a row for each run, with as many health values as fit, then what drifts or changed in each run."""
    out.print(Text(clean(f"{history.label} ({history.card}): {', '.join(history.group)}"), "bold"))
    names = {key: clean(f"{title_of(key[0], short=True)} {words(key[1])}") for key in history.keys[:MAX_COLUMNS]}
    rows = [_row(run, names) for run in history.runs]
    table = fitting_table(out, [TIME, *names.values(), FILE], rows, [FILE, *reversed(list(names.values()))])
    print_table(out, table)
    shown = {column.header for column in table.columns}
    if hidden := len(history.keys) - sum(name in shown for name in names.values()):
        out.print(Text(f"{counted(hidden, 'more value')} with --json", "dim"))
    for run in history.runs:
        if remarks := remarks_on(run):
            out.print(Text(clean(f"{time_text(run.time)}: {'; '.join(remarks)}")), soft_wrap=True)


def _row(run: HistoryRun, names: dict[Key, str]) -> dict[str, Text]:
    values = {value.key: value for value in run.values}
    cells = {name: _cell(values[key]) if key in values else Text() for key, name in names.items()}
    return {TIME: Text(time_text(run.time)), **cells, FILE: Text(clean(run.file))}


def _cell(value: HistoryValue) -> Text:
    text = rounded(value.value, value.unit)
    if value.relative is not None:
        text += f" {value.relative:+.1%}"
    return Text(f"{text} drift", "bold red") if value.is_drift else Text(text)

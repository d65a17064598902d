"""Cards with several runs on a page: how their health values change over time."""

from collections import defaultdict
from collections.abc import Sequence

from gpudissect.fleet.history import History, HistoryRun, HistoryValue, histories
from gpudissect.fleet.readings import Run, seconds_of
from gpudissect.fleet.report import CardReport, FleetReport
from gpudissect.fleet.sentences import is_slower, remarks_on, time_text
from gpudissect.printable import counted
from gpudissect.results.compare import Key
from gpudissect.results.folded import rounded
from gpudissect.results.text import title_of, words
from gpudissect.views.page.markup import Markup, table, tag
from gpudissect.views.plots.sparkline import Point, sparkline

MAX_HISTORIES = 100  # cards
MAX_PLOTS = 40  # of a card
DATE_LENGTH = 10  # characters of a time: its date
MAX_OPEN = 3  # cards that are unfolded at first
NOTE = (
    "Dots: values of one run; vertical lines: their brackets; dashed: median of the earlier runs, with which the "
    "percentage compares the last run; red: a drift, which neither chance nor the bracket explains. Each plot has its "
    "own scale, at least 4 % high."
)


def history_sections(report: FleetReport, runs: Sequence[Run]) -> list[Markup]:
    """A section for each card that has several runs, those whose last run drifts first."""
    cards = [card for card in report.cards if len(card.files) > 1]
    if not cards:
        return []
    cards.sort(key=lambda card: not card.drifts)  # the order of the report otherwise
    shown = cards[:MAX_HISTORIES]
    pairs = zip(shown, histories(report, runs, shown), strict=True)
    parts = [_section(card, each, number < MAX_OPEN) for number, (card, each) in enumerate(pairs)]
    if (more := len(cards) - MAX_HISTORIES) > 0:
        parts.append(tag("p", f"and {counted(more, 'more card')}; 'gpudissect fleet report DIR --card CARD' shows one"))
    return [tag("h2", "History"), tag("p", NOTE, class_="note"), *parts]


def _section(card: CardReport, found: History, may_be_open: bool) -> Markup:
    last = found.runs[-1]
    state: list[Markup | str] = [tag("strong", f"drift of {counted(len(card.drifts), 'value')}")] if card.drifts else []
    state += [", ".join(f"{each.name} changed" for each in last.changes)] if last.changes else []
    dates = " to ".join(dict.fromkeys(time_text(run.time)[:DATE_LENGTH] for run in (found.runs[0], last)))
    text = f" {counted(len(found.runs), 'run')}, {dates}: "
    described = state[:1] + ["; ", *state[1:]] * (len(state) > 1) or "no drift, no fact changed"
    head = tag("summary", tag("h3", found.label), tag("span", text, class_="facts"), described, title=found.card)
    places, by_key = _places([run.time for run in found.runs]), defaultdict[Key, list[tuple[float, HistoryValue]]](list)
    for place, run in zip(places, found.runs, strict=True):
        for value in run.values:
            by_key[value.key].append((place, value))
    ends = places[0], places[-1]
    plots = [plot for key in found.keys[:MAX_PLOTS] if (plot := _plot(key, by_key[key], ends))]
    grid = tag("div", *plots, class_="history")
    rows = ((time_text(run.time), run.file, _remarks(run)) for run in reversed(found.runs))
    listed = table(f"Runs of {found.label}", ("run (UTC)", "file", "what drifts or changed"), rows)
    settings = tag("p", ", ".join(found.group), class_="facts")
    return tag("details", head, settings, grid, listed, class_="group", open=may_be_open and bool(card.drifts))


def _remarks(run: HistoryRun) -> Markup | str:
    remarks = remarks_on(run)
    return tag("ul", *(tag("li", text) for text in remarks), class_="remarks") if remarks else "–"


def _plot(key: Key, found: Sequence[tuple[float, HistoryValue]], ends: tuple[float, float]) -> Markup | None:
    """A plot with the name of its value above, and the last value with its change below."""
    unit = found[-1][1].unit if found else ""
    found = [(place, value) for place, value in found if value.unit == unit]
    if not found:
        return None
    last = found[-1][1]
    numbers = [value.value for _, value in found]
    name, text = f"{title_of(key[0])}: {words(key[1])}", rounded(last.value, unit)
    change = "" if last.relative is None else f"{last.relative:+.1%}"
    extremes = f"{rounded(min(numbers), unit)} to {rounded(max(numbers), unit)}"
    spoken = (
        f"{name}: {counted(len(found), 'run')}, {extremes}; last {text} {change}{', drift' if last.is_drift else ''}"
    )
    points = [Point(place, value.value, value.low, value.high, value.is_drift) for place, value in found]
    drawing = sparkline(points, *ends, spoken)
    kind = "drifting" if last.is_drift else None
    slow = f" {'slow' if is_slower(last.relative or 0, unit) else 'fast'}: drift" if last.is_drift else ""
    caption = tag("span", text, " ", change, slow, class_=kind)
    return tag("div", tag("span", name, class_="facts"), drawing, caption)


def _places(times: Sequence[str]) -> list[float]:
    """Seconds since the first run, or numbers of the runs where a time is not known."""
    seconds = [each for time in times if (each := seconds_of(time)) is not None]
    if len(seconds) == len(times) and max(seconds) > min(seconds):
        return [each - min(seconds) for each in seconds]
    return [float(number) for number in range(len(times))]

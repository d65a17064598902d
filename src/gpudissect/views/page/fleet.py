"""A fleet on one page: which cards are out, a heat map with one row a card, fingerprints and histories."""

from collections.abc import Iterator, Sequence

from gpudissect.fleet.readings import Run
from gpudissect.fleet.report import CardReport, Deviation, FleetReport
from gpudissect.fleet.sentences import has_other_fingerprint, is_slow, name_of, sentence, summary
from gpudissect.results.folded import rounded
from gpudissect.results.text import title_of, words
from gpudissect.views.page.fingerprint import fingerprints
from gpudissect.views.page.fleet_history import history_sections
from gpudissect.views.page.markup import Markup, document, table, tag

MAX_CARDS = 2000  # of a group
STEPS = (0.01, 0.02, 0.05, 0.1)  # relative deviations from which a colour is one step darker
_COLOPHON = (
    "Made by gpudissect. Each value is the last one of its card, with its deviation from the median of the siblings. A "
    "card is out if neither chance nor the bracket of a value explains the deviation."
)


def fleet_page(report: FleetReport, runs: Sequence[Run]) -> str:
    """The page of a report on these runs: one HTML file that needs nothing else."""
    out = [tag("li", sentence(card)) for card in report.out]
    changed = [card for card in report.cards if has_other_fingerprint(card) and not card.is_out]
    repaired = [tag("h2", "Cards that changed"), tag("ul", *(tag("li", sentence(card)) for card in changed))]
    unreadable = [tag("h2", "Files that are no results"), tag("ul", *(tag("li", line) for line in report.unreadable))]
    return document(
        f"Fleet: {len(report.out)} of {len(report.cards)} cards out",
        tag("header", tag("h1", "Fleet"), *(tag("p", line, class_="facts") for line in summary(report))),
        tag(
            "main",
            tag("h2", "Cards that are out"),
            tag("ul", *out) if out else tag("p", "None."),
            *(repaired if changed else ()),
            *_groups(report),
            *history_sections(report, runs),
            *(unreadable if report.unreadable else ()),
        ),
        tag("footer", tag("p", _COLOPHON)),
    )


def _groups(report: FleetReport) -> Iterator[Markup]:
    for number, group in enumerate(report.groups):
        cards = [card for card in report.cards if card.group == number]
        out = {(each.element, each.attribute) for card in cards if card.is_out for each in card.deviations}
        keys = list(dict.fromkeys((each.element, each.attribute) for card in cards for each in card.health))
        keys.sort(key=lambda key: key not in out)
        yield tag("h2", ", ".join(group.name))
        head = ("card", "", *(f"{title_of(element)}: {words(attribute)}" for element, attribute in keys))
        yield table(group.name[0], head, (_row(card, keys) for card in cards[:MAX_CARDS]))
        if len(cards) > MAX_CARDS:
            yield tag("p", f"and {len(cards) - MAX_CARDS} more cards")
        yield fingerprints(group.name[0], cards[:MAX_CARDS])


def _row(card: CardReport, keys: list[tuple[str, str]]) -> list[Markup | str]:
    by_key = {(each.element, each.attribute): each for each in card.health}
    cells = [_cell(by_key[key]) if key in by_key else "" for key in keys]
    place = tag("span", card.label, class_="place", title=name_of(card))
    return [place, tag("strong", "out") if card.is_out else "", *cells]


def _cell(found: Deviation) -> Markup:
    return heat(f"{rounded(found.value, found.unit)} {found.relative:+.1%}", found.relative, is_slow(found))


def heat(text: str, deviation: float, is_slow: bool, title: str | None = None) -> Markup:
    """A cell of a heat map, darker for larger relative deviations."""
    step = sum(abs(deviation) >= each for each in STEPS)
    kind = f"heat {'slow' if is_slow else 'fast'}-{step}" if step else "heat"
    return tag("span", text, class_=kind, title=title)

"""Which L2 partition is near each SM, one strip a card."""

from collections.abc import Sequence
from itertools import groupby

from gpudissect.fleet.fingerprint import LETTERS, identity
from gpudissect.fleet.report import CardReport
from gpudissect.fleet.sentences import has_other_fingerprint, name_of
from gpudissect.views.page.markup import Markup, join, table, tag

CELL_WIDTH, CELL_HEIGHT = 4, 14  # pixels; of an SM
NOTE = (
    "One cell for each SM, in the order of their numbers. The partition near SM 0 is called a. The id names the map: "
    "another id under one UUID is a change only if more than 5 % of the SMs differ."
)


def fingerprints(model: str, cards: Sequence[CardReport]) -> Markup:
    """A table of the cards with a map; empty if none has one."""
    known = [card for card in cards if card.partitions]
    if not known:
        return Markup("")
    letters = sorted({letter for card in known for letter in set(card.partitions)})
    keys = [tag("span", _swatch(letter), f"near partition {letter}", class_="key") for letter in letters]
    rows = [_row(card) for card in known]
    head = ("card", "id", "L2 partition near each SM", "")
    grid = table(f"{model}: L2 partition near each SM", head, rows)
    return join(
        [
            tag("h3", "L2 partition near each SM"),
            tag("p", *keys, class_="legend"),
            grid,
            tag("p", NOTE, class_="note"),
        ]
    )


def strip(partitions: str) -> Markup:
    """One cell for each SM in the colour of its partition, with the map as text."""
    runs, first = list[str](), 0
    paths = dict.fromkeys(sorted(set(partitions)), "")
    for letter, cells in groupby(partitions):
        count = len(list(cells))
        last = first + count - 1
        runs.append(f"{first}-{last} {letter}" if count > 1 else f"{first} {letter}")
        paths[letter] += f"M{CELL_WIDTH * first} 0h{CELL_WIDTH * count}v{CELL_HEIGHT}h{-CELL_WIDTH * count}z"
        first += count
    counts = ", ".join(f"{partitions.count(letter)} near {letter}" for letter in paths)
    text = f"{len(partitions)} SMs, {counts}: SM {', '.join(runs)}"
    marks = [tag("path", class_=_style(letter), d=Markup(path)) for letter, path in paths.items()]
    width = CELL_WIDTH * len(partitions)
    box = f"0 0 {width} {CELL_HEIGHT}"
    size = {"width": width, "height": CELL_HEIGHT}
    return tag("svg", tag("title", text), *marks, class_="strip", viewBox=box, role="img", aria_label=text, **size)


def _row(card: CardReport) -> list[Markup | str]:
    place = tag("span", card.label, class_="place", title=name_of(card))
    changed = tag("strong", "changed") if has_other_fingerprint(card) else ""
    return [place, tag("code", identity(card.partitions)), strip(card.partitions), changed]


def _swatch(letter: str) -> Markup:
    square = tag("path", class_=_style(letter), d=Markup("M4 0h12v12h-12z"))
    return tag("svg", square, viewBox="0 0 24 12", aria_hidden="true")


def _style(letter: str) -> str:
    return f"bar s{LETTERS.index(letter)}"

"""What is reported of a card that is out, in a sentence."""

from gpudissect.fleet.report import HARDWARE, CardReport, Deviation, FleetReport
from gpudissect.printable import clean, counted
from gpudissect.results.folded import rounded, rounded_range
from gpudissect.results.text import title_of, words

MAX_DEVIATIONS = 3  # named of a card


def name_of(card: CardReport) -> str:
    """Where the card is, and its UUID if it has one."""
    return f"{card.label} ({card.card})" if card.card not in card.files else f"{card.label} ({card.files[-1]})"


def sentence(card: CardReport) -> str:
    """Why a card is out, and what may explain it: its clocks and settings, if they differ, or that they do not."""
    hardware = [each for each in card.differences if each.name in HARDWARE]
    parts = [f"{each.name} {each.value}, siblings {each.others}" for each in hardware]
    for found, others in ((card.deviations, "siblings"), (card.drifts, "earlier runs")):
        parts += [_deviation(each, others) for each in found[:MAX_DEVIATIONS]]
        if (more := len(found) - MAX_DEVIATIONS) > 0:
            parts.append(f"{counted(more, 'more value')}")
    explaining = [each for each in card.differences if each.name not in HARDWARE]
    parts += [f"{each.name} {each.value}, of most siblings {each.others}" for each in explaining]
    if (hardware or card.deviations) and card.usual_settings:
        parts.append("clocks and settings as most siblings")
    if card.drifts:
        parts += [f"{each.name} {each.value}, in the run before {each.others}" for each in card.changes]
    return clean(f"{name_of(card)}: {'; '.join(parts)}")


def is_slow(found: Deviation) -> bool:
    """Whether a value is worse than usual: more cycles, or less of anything else."""
    return (found.relative > 0) == (found.unit == "cycles")


def _deviation(found: Deviation, others: str) -> str:
    value, siblings = rounded(found.value, found.unit), rounded_range(found.low, found.high, found.unit)
    how = f"{abs(found.relative):.0%} {'slow' if is_slow(found) else 'fast'}"
    return f"{title_of(found.element)}, {words(found.attribute)} {value}, {others} {siblings}: {how}"


def summary(report: FleetReport) -> list[str]:
    """One line for each group: model, settings, cards, values compared, and how many are out."""
    lines = []
    for number, group in enumerate(report.groups):
        out = sum(each.group == number for each in report.out)
        text = f"{', '.join(group.name)}: {counted(group.cards, 'card')}, {counted(group.values, 'value')} each"
        if group.cards == 1:
            text += "; no sibling to compare it with"
        elif group.cards == 2 and out:
            text += "; the two differ, but two cards do not show which one is out"
        else:
            text += f"; {out} out"
        lines.append(clean(text))
    return lines

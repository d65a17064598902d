"""What is reported of a card, in a sentence: why it is out, or what changed."""

from datetime import UTC, datetime

from gpudissect.fleet.history import HistoryRun
from gpudissect.fleet.readings import LATENCY_UNITS
from gpudissect.fleet.report import FINGERPRINT, CardReport, Deviation, Difference, FleetReport
from gpudissect.printable import brief, clean, counted
from gpudissect.results.folded import rounded, rounded_range
from gpudissect.results.text import title_of, words

MAX_DEVIATIONS = 3  # named of a card
MAX_PROBLEM_LENGTH = 100  # characters
MAX_TIME_LENGTH = 32  # characters of a time that is none
MEANING = "the GPU may have been replaced, or MIG or a mask enables other SMs"  # of another fingerprint


def name_of(card: CardReport) -> str:
    """Where the card is, and its UUID if it has one."""
    return f"{card.label} ({card.card})" if card.card not in card.files else f"{card.label} ({card.files[-1]})"


def sentence(card: CardReport) -> str:
    """Why a card is out, and what may explain it: its clocks and settings, if they differ, or that they do not."""
    hardware = [each for each in card.differences if each.is_of_hardware]
    parts = [f"{each.name} {each.value}, siblings {each.others}" for each in hardware]
    for found, others in ((card.deviations, "siblings"), (card.drifts, "earlier runs")):
        parts += [_deviation(each, others) for each in found[:MAX_DEVIATIONS]]
        if (more := len(found) - MAX_DEVIATIONS) > 0:
            parts.append(f"{counted(more, 'more value')}")
    explaining = [each for each in card.differences if not each.is_of_hardware]
    parts += [f"{each.name} {each.value}, of most siblings {each.others}" for each in explaining]
    if (hardware or card.deviations) and card.usual_settings:
        parts.append("clocks and settings as most siblings")
    parts += [_change(each) for each in card.changes if card.drifts or each.name == FINGERPRINT]
    parts += [f"incomplete ({brief(card.problem, MAX_PROBLEM_LENGTH)})"] if card.problem else []
    return clean(f"{name_of(card)}: {'; '.join(parts)}")


def has_other_fingerprint(card: CardReport) -> bool:
    """Whether the map of L2 partitions differs from that of the earlier runs."""
    return any(each.name == FINGERPRINT for each in card.changes)


def is_worth_a_sentence(card: CardReport) -> bool:
    """Whether a card is out, has another fingerprint, or lacks values."""
    return card.is_out or bool(card.problem) or has_other_fingerprint(card)


def remarks_on(run: HistoryRun) -> list[str]:
    """Values that drift in a run, and facts that changed since the run before."""
    drifting = [_deviation(each, "earlier runs") for each in run.drifts[:MAX_DEVIATIONS]]
    if (more := len(run.drifts) - MAX_DEVIATIONS) > 0:
        drifting.append(counted(more, "more value"))
    return [*drifting, *map(_change, run.changes)]


def time_text(time: str) -> str:
    """Date and minute of an ISO 8601 time in UTC; the text itself if it is none."""
    try:
        parsed = datetime.fromisoformat(time)
        return f"{parsed.astimezone(UTC) if parsed.tzinfo else parsed:%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError):
        return brief(time, MAX_TIME_LENGTH) or "time unknown"


def is_slow(found: Deviation) -> bool:
    """Whether a value is worse than usual."""
    return is_slower(found.relative, found.unit)


def is_slower(relative: float, unit: str) -> bool:
    """Whether a deviation is for the worse: a higher latency, or less of anything else."""
    return (relative > 0) == (unit in LATENCY_UNITS)


def _change(each: Difference) -> str:
    text = f"{each.name} {each.value}, previously {each.others}"
    return f"{text}: {MEANING}" if each.name == FINGERPRINT else text


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

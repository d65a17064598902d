"""The history of one card: its health values, facts and fingerprint, run by run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gpudissect.errors import UsageError
from gpudissect.fleet.fingerprint import identity
from gpudissect.fleet.infer_outliers import Prior
from gpudissect.fleet.readings import Run
from gpudissect.fleet.report import (
    CardReport,
    Deviation,
    Difference,
    FleetReport,
    changes,
    drifts,
    is_health,
)
from gpudissect.fleet.run_spread import MAX_EARLIER_RUNS, run_priors
from gpudissect.printable import brief, quoted
from gpudissect.results.compare import Key

MAX_NAME_LENGTH = 60  # characters of a card in a message
MAX_NAMED_CARDS = 4
MAX_SHOWN_RUNS = 100  # the last ones
PLACE = "place"  # name of a difference: host and device
TESTS = 2  # a card with several runs is compared with its siblings and with its earlier runs


@dataclass(frozen=True, slots=True)
class HistoryValue:
    """A health value of one run.

    Attributes:
        element, attribute, unit: which value.
        value, low, high: the value and the ends of its bracket, in `unit`.
        relative: deviation from the median of the earlier runs, as a share of it; None without an earlier run.
        is_drift: whether neither chance nor brackets explain the deviation.

    """

    element: str
    attribute: str
    unit: str
    value: float
    low: float
    high: float
    relative: float | None
    is_drift: bool

    @property
    def key(self) -> Key:
        """Element and attribute."""
        return self.element, self.attribute


@dataclass(frozen=True)
class HistoryRun:
    """One run of a card, compared with the runs before it.

    Attributes:
        time: start of the measurement, ISO 8601; empty if not known.
        file: its path.
        values: health values that the run has.
        drifts: values of any kind that deviate from those of the earlier runs.
        changes: facts, place and fingerprint that differ from those of the run before.
        fingerprint: id of the map of L2 partitions; empty if not measured.

    """

    time: str
    file: str
    values: tuple[HistoryValue, ...]
    drifts: tuple[Deviation, ...]
    changes: tuple[Difference, ...]
    fingerprint: str


@dataclass(frozen=True)
class History:
    """The runs of one card with one group of settings, the earliest first."""

    card: str
    label: str
    group: tuple[str, ...]
    runs: tuple[HistoryRun, ...]

    @property
    def keys(self) -> list[Key]:
        """Health values of any run: those that drift in the last run, those that ever did, then bandwidths."""
        found = list(dict.fromkeys(value.key for run in self.runs for value in run.values))
        last = {value.key for value in self.runs[-1].values if value.is_drift}
        ever = {value.key for run in self.runs for value in run.values if value.is_drift}
        return sorted(found, key=lambda key: (key not in last, key not in ever, not key[1].endswith("bandwidth")))


def histories(report: FleetReport, runs: Sequence[Run], cards: Sequence[CardReport]) -> list[History]:
    """The last 100 runs of some cards of a report on `runs`, each compared with up to 100 runs before it."""
    by_file = {(run.file, run.card): run for run in runs}
    known = {(card.group, card.card): [by_file[file, card.card] for file in card.files] for card in report.cards}
    priors = {
        group: run_priors(each for (other, _), each in known.items() if other == group)
        for group in {card.group for card in cards}
    }
    return [_history(card, known[card.group, card.card], priors[card.group]) for card in cards]


def _history(card: CardReport, runs: Sequence[Run], priors: Mapping[Key, Prior]) -> History:
    shown = range(max(0, len(runs) - MAX_SHOWN_RUNS), len(runs))
    rows = (_row(runs[max(0, number - MAX_EARLIER_RUNS) : number + 1], priors) for number in shown)
    return History(card.card, card.label, runs[-1].group, tuple(rows))


def find_cards(report: FleetReport, name: str) -> tuple[CardReport, ...]:
    """The card with this UUID or label, or this beginning of one: once for each group in which it was measured.

    Raises `UsageError` if there is no such card, or more than one.
    """
    exact = [card for card in report.cards if name in (card.card, card.label)]
    found = exact or [card for card in report.cards if card.card.startswith(name) or card.label.startswith(name)]
    shown = quoted(name, MAX_NAME_LENGTH)
    if not found:
        known = "; ".join(_names(report.cards))
        raise UsageError(f"no card {shown}: name one by its UUID or as 'host device'; there are {known}")
    if len({card.card for card in found}) > 1:
        raise UsageError(f"several cards match {shown}: {'; '.join(_names(found))}; give more of the UUID")
    return tuple(found)


def _names(cards: Sequence[CardReport]) -> list[str]:
    names = list(dict.fromkeys(f"{brief(each.label, 40)} ({brief(each.card, MAX_NAME_LENGTH)})" for each in cards))
    more = len(names) - MAX_NAMED_CARDS
    return names[:MAX_NAMED_CARDS] + ([f"and {more} more"] if more > 0 else [])


def _row(runs: Sequence[Run], priors: Mapping[Key, Prior]) -> HistoryRun:
    """The last of several runs, compared with those before it."""
    last = runs[-1]
    drifting = tuple(sorted(drifts(runs, last, priors, TESTS), key=lambda each: each.chance))
    drifting_keys = {(each.element, each.attribute) for each in drifting}
    values = tuple(_value(key, runs, key in drifting_keys) for key in last.readings if is_health(key))
    changed = changes(runs)
    if len(runs) > 1 and runs[-2].label != last.label:
        changed += (Difference(PLACE, last.label, runs[-2].label),)
    return HistoryRun(last.time, last.file, values, drifting, changed, identity(last.partitions))


def _value(key: Key, runs: Sequence[Run], is_drift: bool) -> HistoryValue:
    latest = runs[-1].readings[key]
    earlier = [each.value for run in runs[:-1] if (each := run.readings.get(key)) and each.unit == latest.unit]
    relative = latest.value / median(earlier) - 1 if earlier else None
    ends = latest.value - latest.error, latest.value + latest.error
    return HistoryValue(*key, latest.unit, latest.value, *ends, relative, is_drift)

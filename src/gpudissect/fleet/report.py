"""The report on a fleet: each card against its siblings, and its last run against its earlier ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gpudissect.fleet.infer_outliers import deviations
from gpudissect.fleet.readings import Key, Reading, Run

HARDWARE = ("SMs", "memory size", "L2 size", "memory bus bits")
"""Facts in which all cards of a model are equal: a card with another value is out."""
MIN_CARDS_FOR_A_MAJORITY = 3
HEALTH = ("read_bandwidth", "write_bandwidth", "copy_bandwidth", "gpu_rate")
HEALTH_LATENCIES = ("l2", "dram")
HEALTH_SHARE = 0.8  # of the false alarms; the other values share the rest
MIN_HEALTH_DEVIATION, MIN_DEVIATION = 0.02, 0.05  # relative; smaller deviations are reported of no card
SIBLINGS_SHOWN = (5.0, 95.0)  # percentiles of their range
MIN_CARDS_FOR_PERCENTILES = 20


@dataclass(frozen=True)
class Deviation:
    """A value that chance and brackets do not explain.

    Attributes:
        element, attribute, unit: which value.
        value: of this card, in the last run.
        low, high: range of the siblings, or of the earlier runs of this card.
        relative: deviation from their median, as a share of it.
        chance: probability that a healthy card deviates as much in this value.

    """

    element: str
    attribute: str
    unit: str
    value: float
    low: float
    high: float
    relative: float
    chance: float


@dataclass(frozen=True)
class Difference:
    """A fact that differs from that of most siblings."""

    name: str
    value: str
    siblings: str


@dataclass(frozen=True)
class CardReport:
    """One card: how it deviates from its siblings and from its earlier runs, the least probable deviation first."""

    card: str
    label: str
    group: int  # index into `FleetReport.groups`
    files: tuple[str, ...]  # the earliest first
    deviations: tuple[Deviation, ...]
    drifts: tuple[Deviation, ...]
    differences: tuple[Difference, ...]

    @property
    def is_out(self) -> bool:
        """Whether a value or the hardware differs."""
        return bool(self.deviations or self.drifts) or any(each.name in HARDWARE for each in self.differences)


@dataclass(frozen=True)
class Group:
    """Cards of one model, measured in one way."""

    name: tuple[str, ...]  # model, origin, command and settings
    cards: int
    values: int  # compared of each card


@dataclass(frozen=True)
class FleetReport:
    """All cards of a folder: those that are out first."""

    groups: tuple[Group, ...]
    cards: tuple[CardReport, ...]
    runs: int
    unreadable: tuple[str, ...]  # a line for each file that is no result

    @property
    def out(self) -> tuple[CardReport, ...]:
        """The cards that are out."""
        return tuple(each for each in self.cards if each.is_out)


def report(runs: Sequence[Run], unreadable: Sequence[str] = ()) -> FleetReport:
    """Compare the cards of each group. A card without siblings and earlier runs is listed, and never out."""
    by_group: dict[tuple[str, ...], dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_group[run.group][run.card].append(run)
    groups, cards = list[Group](), list[CardReport]()
    for number, (name, by_card) in enumerate(sorted(by_group.items())):
        histories = [sorted(each, key=lambda run: (run.time, run.file)) for each in by_card.values()]
        last = [each[-1] for each in histories]
        keys = _shared(last)
        groups.append(Group(name, len(last), len(keys)))
        found, differences = _among_siblings(last, keys), _differences(last)
        for history, deviating, different in zip(histories, found, differences, strict=True):
            files = tuple(run.file for run in history)
            one = history[-1]
            drifts = _sorted(_drifts(history))
            cards.append(CardReport(one.card, one.label, number, files, _sorted(deviating), drifts, tuple(different)))
    cards.sort(key=lambda card: (not card.is_out, _least_chance(card), card.label, card.card))
    return FleetReport(tuple(groups), tuple(cards), len(runs), tuple(unreadable))


def _least_chance(card: CardReport) -> float:
    return min((each.chance for each in (*card.deviations, *card.drifts)), default=0.0)


def _sorted(found: Iterable[Deviation]) -> tuple[Deviation, ...]:
    return tuple(sorted(found, key=lambda each: (each.chance, -abs(each.relative))))


def _shared(runs: Sequence[Run]) -> list[Key]:
    """Values that at least half of the cards have, at least two."""
    counts = Counter(key for run in runs for key in run.readings)
    return [key for key, count in counts.items() if count >= max(2, len(runs) / 2)]


def _is_health(key: Key) -> bool:
    """Whether a value is one that operators look at: bandwidths, rates of the whole GPU, and latencies of memory."""
    element, attribute = key
    return attribute in HEALTH or (element in HEALTH_LATENCIES and attribute.endswith("latency"))


def _among_siblings(runs: Sequence[Run], keys: Sequence[Key]) -> list[list[Deviation]]:
    """The deviations of each run from all others."""
    found: list[list[Deviation]] = [[] for _ in runs]
    for key in keys:
        having = [number for number, run in enumerate(runs) if key in run.readings]
        for place, deviation in _deviating(key, [runs[number].readings[key] for number in having], keys):
            found[having[place]].append(deviation)
    return found


def _drifts(history: Sequence[Run]) -> Iterator[Deviation]:
    """Deviations of the last run of a card from its earlier ones."""
    keys = [key for key in history[-1].readings if any(key in run.readings for run in history[:-1])]
    for key in keys:
        readings = [run.readings[key] for run in history if key in run.readings]
        for place, deviation in _deviating(key, readings, keys):
            if place == len(readings) - 1:
                yield deviation


def _deviating(key: Key, readings: Sequence[Reading], keys: Sequence[Key]) -> Iterator[tuple[int, Deviation]]:
    """Those of some readings of one of the values `keys` that are out, with their positions."""
    alike = sum(_is_health(each) is _is_health(key) for each in keys)
    share, least = (HEALTH_SHARE, MIN_HEALTH_DEVIATION) if _is_health(key) else (1 - HEALTH_SHARE, MIN_DEVIATION)
    values, errors = (np.array([getattr(each, name) for each in readings]) for name in ("value", "error"))
    found = deviations(values, errors)
    for place in np.flatnonzero(found.is_out(alike / share, least)).tolist():
        low, high = _range(np.delete(values, place))
        relative, chance = float(found.relative[place]), float(found.chance[place])
        yield place, Deviation(*key, readings[place].unit, float(values[place]), low, high, relative, chance)


def _range(values: np.ndarray) -> tuple[float, float]:
    ends = SIBLINGS_SHOWN if values.size >= MIN_CARDS_FOR_PERCENTILES else (0.0, 100.0)
    low, high = np.percentile(values, ends)
    return float(low), float(high)


def _differences(runs: Sequence[Run]) -> list[list[Difference]]:
    """Facts of each run that differ from those of most."""
    found: list[list[Difference]] = [[] for _ in runs]
    if len(runs) < MIN_CARDS_FOR_A_MAJORITY:
        return found
    for name in dict.fromkeys(name for run in runs for name in run.facts):
        values = [run.facts.get(name, "none") for run in runs]
        usual, count = Counter(values).most_common(1)[0]
        if 2 * count > len(runs):
            for number, value in enumerate(values):
                if value != usual:
                    found[number].append(Difference(name, value, usual))
    return found

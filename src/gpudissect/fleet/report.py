"""The report on a fleet: each card against its siblings, and its last run against its earlier ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from statistics import median

import numpy as np

from gpudissect.fleet.fingerprint import has_changed, identity
from gpudissect.fleet.infer_outliers import (
    MIN_EXACT_CARDS,
    PRIOR_CARDS,
    PRIOR_LATENCY_SPREAD,
    PRIOR_SPREAD,
    Prior,
    deviations,
)
from gpudissect.fleet.readings import LATENCY_UNITS, Reading, Run, seconds_of
from gpudissect.fleet.run_spread import DEFAULT, MAX_EARLIER_RUNS, of_card, run_priors
from gpudissect.results.compare import MAX_CLOCK_RATIO, Key

HARDWARE = ("SMs", "memory size", "l2 size", "memory bus bits", "PCIe lanes", "NVLinks")
"""Facts in which all cards of a model are equal: a card with another value is out."""
SETTINGS = ("SM clock", "SM clock setting", "memory clock", "power limit", "driver")
"""Facts that may explain a deviation."""
MAX_RATIO = {"SM clock": MAX_CLOCK_RATIO, "memory size": 1.01}  # of numbers that count as equal
MIN_CARDS_FOR_A_MAJORITY = 3
NO_FACT = "none"
FINGERPRINT = "fingerprint of L2 partitions"  # name of a difference
MAX_COPIES = 8  # runs before one with which it is compared: copies of a file have its time
HEALTH = ("read_bandwidth", "write_bandwidth", "copy_bandwidth", "link_latency", "gpu_rate")
HEALTH_LATENCIES = ("l2", "dram")
HEALTH_SHARE = 0.8  # of the false alarms; the other values share the rest
MIN_HEALTH_DEVIATION, MIN_DEVIATION = 0.02, 0.05  # relative; smaller deviations are reported of no card
SIBLINGS_SHOWN = (5.0, 95.0)  # percentiles of their range
MIN_CARDS_FOR_PERCENTILES = 20
ROUNDING = 1e-6  # relative


@dataclass(frozen=True, slots=True)
class Deviation:
    """A value of a card against others.

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
    """A fact that differs from that of most siblings, or from that of the run before."""

    name: str
    value: str
    others: str

    @property
    def is_of_hardware(self) -> bool:
        """Whether it is a fact of `HARDWARE` that both state: older results lack some."""
        return self.name in HARDWARE and NO_FACT not in (self.value, self.others)


@dataclass(frozen=True)
class CardReport:
    """One card: how it deviates from its siblings and from its earlier runs.

    Attributes:
        card: its UUID, or the file if it has none.
        label: host and device.
        group: index into `FleetReport.groups`.
        files: its runs, the earliest first.
        deviations, drifts: values that neither chance nor brackets explain, the least probable first.
        differences: facts that differ from those of most siblings.
        changes: facts that differ from those of the run before.
        usual_settings: whether there are enough siblings to know the usual settings, and this card has them.
        health: the values that operators look at, whether they deviate or not.
        partitions: the last known map of `fingerprint.letters_of`; empty if there is none.
        problem: why values of the last run are missing; empty if it is complete.

    """

    card: str
    label: str
    group: int
    files: tuple[str, ...]
    deviations: tuple[Deviation, ...]
    drifts: tuple[Deviation, ...]
    differences: tuple[Difference, ...]
    changes: tuple[Difference, ...]
    usual_settings: bool
    health: tuple[Deviation, ...]
    partitions: str = ""
    problem: str = ""

    @property
    def is_out(self) -> bool:
        """Whether a value or the hardware differs."""
        return bool(self.deviations or self.drifts) or any(each.is_of_hardware for each in self.differences)


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
        histories = [_without_copies(sorted(each, key=_order_of)) for each in by_card.values()]
        last = [_latest(each) for each in histories]
        tests = 2 if any(len(each) > 1 for each in histories) else 1  # also against earlier runs
        keys = _shared(last)
        groups.append(Group(name, len(last), len(keys)))
        compared, usual, priors = _among_siblings(last, keys, tests), _usual(last), run_priors(histories)
        for history, one, values in zip(histories, last, compared, strict=True):
            files = tuple(run.file for run in history)
            different = _differences(one.facts, usual)
            has_usual = all(name in usual for name in SETTINGS if name in one.facts) and not any(
                each.name in SETTINGS for each in different
            )
            deviating = _sorted(each for each, is_out in values if is_out)
            health = tuple(each for each, _ in values if is_health((each.element, each.attribute)))
            drifting = _sorted(drifts(history, one, priors, tests))
            rest = (different, changes(history), bool(usual) and has_usual, health, one.partitions, one.problem)
            cards.append(CardReport(one.card, one.label, number, files, deviating, drifting, *rest))
    cards.sort(key=lambda card: (not card.is_out, _least_chance(card), card.label, card.card))
    return FleetReport(tuple(groups), tuple(cards), len(runs), tuple(unreadable))


def _order_of(run: Run) -> tuple[float, str]:
    """Runs without a known time come first: none of them hides the last one."""
    seconds = seconds_of(run.time)
    return (-inf if seconds is None else seconds), run.file


def _without_copies(history: Sequence[Run]) -> list[Run]:
    """Runs in their order, those once of which there are several files."""
    found = list[Run]()
    for run in history:
        if not any(run.time == each.time and run.readings == each.readings for each in found[-MAX_COPIES:]):
            found.append(run)
    return found


def _latest(history: Sequence[Run]) -> Run:
    """The last run, with values that only earlier ones have: a partial run hides nothing."""
    readings = {key: value for run in history for key, value in run.readings.items()}
    return replace(history[-1], readings=readings, partitions=last_partitions(history))


def last_partitions(history: Sequence[Run]) -> str:
    """The map of the last run that has one; empty if none has."""
    return next((run.partitions for run in reversed(history) if run.partitions), "")


def _least_chance(card: CardReport) -> float:
    return min((each.chance for each in (*card.deviations, *card.drifts)), default=0.0)


def _sorted(found: Iterable[Deviation]) -> tuple[Deviation, ...]:
    return tuple(sorted(found, key=lambda each: (each.chance, -abs(each.relative))))


def _shared(runs: Sequence[Run]) -> list[Key]:
    """Values that at least half of the cards have, at least two."""
    counts = Counter[Key]()
    for keys, count in Counter(tuple(run.readings) for run in runs).items():
        counts.update(dict.fromkeys(keys, count))
    return [key for key, count in counts.items() if count >= max(2, len(runs) / 2)]


def is_health(key: Key) -> bool:
    """Whether a value is one that operators look at: bandwidths, rates of all SMs, latencies of memory and of links."""
    element, attribute = key
    return attribute in HEALTH or (element in HEALTH_LATENCIES and attribute.endswith("latency"))


def _among_siblings(runs: Sequence[Run], keys: Sequence[Key], tests: int) -> list[list[tuple[Deviation, bool]]]:
    """Each value of each run against all others, and whether it is out: health values, and those that are out."""
    compared: list[list[tuple[Deviation, bool]]] = [[] for _ in runs]
    for key in keys:
        having = [(n, reading) for n, run in enumerate(runs) if (reading := run.readings.get(key)) is not None]
        unit = Counter(reading.unit for _, reading in having).most_common(1)[0][0]
        having = [(n, reading) for n, reading in having if reading.unit == unit]
        if len(having) > 1:
            prior = Prior(PRIOR_LATENCY_SPREAD if unit in LATENCY_UNITS else PRIOR_SPREAD, PRIOR_CARDS)
            for place, deviation, is_out in _compared(key, [reading for _, reading in having], keys, prior, tests):
                compared[having[place][0]].append((deviation, is_out))
    return compared


def drifts(history: Sequence[Run], last: Run, priors: Mapping[Key, Prior], tests: int) -> Iterator[Deviation]:
    """Deviations of the last reading of each value of a card from its earlier ones, in the same unit.

    `priors`: see `run_priors`.
    """
    if len(history) < 2:
        return
    history = history[-1 - MAX_EARLIER_RUNS :]
    series = {
        key: [reading for run in history if (reading := run.readings.get(key)) and reading.unit == latest.unit]
        for key, latest in last.readings.items()
    }
    keys = [key for key, readings in series.items() if len(readings) > 1]
    for key in keys:
        if _may_drift(series[key], _least_deviation(key)):
            prior = of_card([each.value for each in series[key][:-1]], priors.get(key, DEFAULT))
            compared = _compared(key, series[key], keys, prior, tests)
            yield from (each for place, each, is_out in compared if is_out and place == len(series[key]) - 1)


def _may_drift(readings: Sequence[Reading], least: float) -> bool:
    """Whether the last reading is at least so far from the median of the others: a quick test before the exact one."""
    if len(readings) >= MIN_EXACT_CARDS:
        return True
    centre = median(each.value for each in readings[:-1])
    return abs(readings[-1].value - centre) >= (1 - ROUNDING) * least * centre


def _least_deviation(key: Key) -> float:
    return MIN_HEALTH_DEVIATION if is_health(key) else MIN_DEVIATION


def _compared(
    key: Key, readings: Sequence[Reading], keys: Sequence[Key], prior: Prior, tests: int
) -> Iterator[tuple[int, Deviation, bool]]:
    """Readings of one of the values `keys`, each against the others: place, deviation, and whether it is out.

    Each card has so many `tests` of each value. Of a value that is no health value only readings that are out.
    """
    for_health = is_health(key)
    alike = sum(is_health(each) is for_health for each in keys)
    share = HEALTH_SHARE if for_health else 1 - HEALTH_SHARE
    values, errors = np.array([each.value for each in readings]), np.array([each.error for each in readings])
    unit, usual = readings[0].unit, _range(values)
    found = deviations(values, errors, prior)
    is_out = found.is_out(tests * alike / share, _least_deviation(key))
    for place in range(values.size) if for_health else np.flatnonzero(is_out).tolist():
        low, high = _range(np.delete(values, place)) if is_out[place] else usual
        numbers = (float(each[place]) for each in (found.relative, found.chance))
        yield place, Deviation(*key, unit, readings[place].value, low, high, *numbers), bool(is_out[place])


def _range(values: np.ndarray) -> tuple[float, float]:
    ends = SIBLINGS_SHOWN if values.size >= MIN_CARDS_FOR_PERCENTILES else (0.0, 100.0)
    low, high = np.percentile(values, ends)
    return float(low), float(high)


def _usual(runs: Sequence[Run]) -> dict[str, str]:
    """Facts as most runs have them; those without a majority are left out."""
    if len(runs) < MIN_CARDS_FOR_A_MAJORITY:
        return {}
    found = dict[str, str]()
    for name in dict.fromkeys(name for run in runs for name in run.facts):
        counts = Counter(run.facts.get(name, NO_FACT) for run in runs)
        supporters = {value: sum(n for other, n in counts.items() if _same(name, value, other)) for value in counts}
        value = max(counts, key=lambda each: (supporters[each], counts[each]))
        if 2 * supporters[value] > len(runs):
            found[name] = value
    return found


def changes(history: Sequence[Run]) -> tuple[Difference, ...]:
    """Facts of the last run that differ from those of the run before, and its fingerprint from the last one known."""
    if len(history) < 2:
        return ()
    before, last = history[-2], history[-1]
    found = _differences(last.facts, dict.fromkeys(last.facts, NO_FACT) | dict(before.facts))
    known = last_partitions(history[:-1])
    if has_changed(known, last.partitions):
        found += (Difference(FINGERPRINT, identity(last.partitions), identity(known)),)
    return found


def _differences(facts: Mapping[str, str], others: Mapping[str, str]) -> tuple[Difference, ...]:
    """Facts that differ from the same ones of others."""
    pairs = ((name, facts.get(name, NO_FACT), value) for name, value in others.items())
    return tuple(Difference(*each) for each in pairs if not _same(*each))


def _same(name: str, value: str, other: str) -> bool:
    """Whether two texts of a fact are equal, or numbers that count as equal."""
    if value == other or name not in MAX_RATIO:
        return value == other
    try:
        low, high = sorted(float(text.split()[0]) for text in (value, other))
    except (ValueError, IndexError):
        return False
    return 0 < high <= MAX_RATIO[name] * low

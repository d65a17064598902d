"""How much a value of one card varies from run to run: its own earlier runs show it, and those of its siblings."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from gpudissect.fleet.infer_outliers import MAD_EFFICIENCY, MAD_OF_NORMAL, PRIOR_CARDS, Prior
from gpudissect.fleet.readings import Run
from gpudissect.results.compare import Key

PRIOR_RUN_SPREAD = 0.006
"""Relative standard deviation between runs of one card. Over 19 runs of three H100s and three H200s, within an hour on
each card, the median of 22 health values is 0.33 %, the 90th percentile 0.58 %."""
DEFAULT = Prior(PRIOR_RUN_SPREAD, PRIOR_CARDS)
MAX_EARLIER_RUNS = 100  # with which a run is compared, the last ones: a card may have thousands
MAX_POOLED_CARDS, MAX_POOLED_WEIGHT = 200, 15.0  # the latter in cards
MIN_CHANGES = 5  # from one run to the next, that show a spread: among fewer, a step would count for much
OF_CHANGES = MAD_OF_NORMAL / 2**0.5  # standard deviation of values, from the median of their changes


def run_priors(histories: Iterable[Sequence[Run]]) -> Mapping[Key, Prior]:
    """The spread of each value from run to run over all cards, where it changed `MIN_CHANGES` times or more.

    `histories`: the runs of each card, the earliest first; up to `MAX_POOLED_CARDS` are read, and no last run. The
    spread is at least the prior one: some values rarely vary, but then by a lot.
    """
    changes = defaultdict[Key, list[float]](list)
    known = sorted((each for each in histories if len(each) > 2), key=lambda each: each[-1].card)
    for history in known[:MAX_POOLED_CARDS]:
        earlier = history[-1 - MAX_EARLIER_RUNS : -1]
        for key, latest in earlier[-1].readings.items():
            found = [each.value for run in earlier if (each := run.readings.get(key)) and each.unit == latest.unit]
            changes[key] += _changes(found)
    return {
        key: Prior(
            max(PRIOR_RUN_SPREAD, _spread(each)), min(PRIOR_CARDS + MAD_EFFICIENCY * len(each), MAX_POOLED_WEIGHT)
        )
        for key, each in changes.items()
        if len(each) >= MIN_CHANGES
    }


def of_card(earlier: Sequence[float], pooled: Prior) -> Prior:
    """The spread of a value of one card: that of its earlier runs where it is wider than the pooled one."""
    changes = _changes(earlier)
    return replace(pooled, spread=max(pooled.spread, _spread(changes))) if len(changes) >= MIN_CHANGES else pooled


def _changes(values: Sequence[float]) -> list[float]:
    return [abs(later / before - 1) for before, later in pairwise(values)]


def _spread(changes: Sequence[float]) -> float:
    return median(changes) * OF_CHANGES

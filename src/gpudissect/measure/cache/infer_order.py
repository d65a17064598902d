"""Victims in a fixed order, from hits and misses of one set that starts cold (MC16 s4.5, fig 11: 2 3 2 1 2 4).

As in `infer_policy`, one line more than fits is accessed, so exactly one line is absent and each miss shows the victim
of the one before. An order and the place at which a run begins predict every access: misreading changes nothing in the
cache. So orders are compared by the likelihood of all accesses; an order of n ways costs the nats of n free choices.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_policy import (
    HIT,
    MIN_LEAD_NATS,
    MISS,
    UNKNOWN,
    Observation,
    Outcomes,
    first_replacement,
    infer_victims,
    log_likelihood,
    predict_policy,
    random_log_likelihood,
)
from gpudissect.simulation.cache.check import MAX_ORDER_LENGTH
from gpudissect.simulation.cache.geometry import Policy, PolicyKind
from gpudissect.trace import Array

MIN_PERIODS = 2  # that the longest run must show
BEAM = 24  # hypotheses that are followed
MAX_LAG_NATS = 40.0  # of a hypothesis that is followed, behind the best
MIN_AGREEMENT = 0.75  # of victims with those a period before; orders that fail it are not tried
MIN_COMPARED_VICTIMS = 16
MAX_TRIED_PERIODS = 4
BASE_RUNS = 3  # from which an order is taken where the runs begin at different places
MAX_VICTIMS = 4 * MAX_ORDER_LENGTH  # of a run that are decoded


@dataclass(frozen=True)
class OrderFit:
    """An order of victims that explains some runs."""

    order: tuple[int, ...]  # one period; ways numbered from 1 as they are filled
    starts: tuple[int, ...]  # place in the order of the first victim of each run
    lead: float  # nats over the best other explanation, the cost of the order deducted
    periods: float  # that the longest run shows

    @property
    def restarts(self) -> bool:
        """Whether every run begins with the first way of the order."""
        return not any(self.starts)

    @property
    def repeats(self) -> bool:
        """Whether the order was observed to repeat within a run."""
        return self.periods >= MIN_PERIODS

    def policy(self, ways: int) -> Policy:
        """The policy of sets of `ways` ways.

        An order with an unknown start is written from where it is smallest. All ways in turn are FIFO, from any start,
        once each was replaced.
        """
        rotations = ((*self.order[start:], *self.order[:start]) for start in range(len(self.order)))
        order = self.order if self.restarts else min(rotations)
        if order == tuple(range(1, ways + 1)):
            return Policy(PolicyKind.FIFO)
        return Policy(PolicyKind.ORDER, order=order)


def predict_order(order: Sequence[int], ways: int, lines: Array, start: int = 0) -> Outcomes:
    """Outcomes of accesses to a cold set whose first victim is that at place `start` of the order."""
    return predict_policy(Policy(PolicyKind.ORDER, order=(*order[start:], *order[:start])), ways, lines)


def find_start(order: Sequence[int], ways: int, observed: Observation, misread: float) -> int:
    """The likeliest place in the order of the first victim of a run; the first of equals."""
    run = _Run.of(observed, ways, misread)
    return int(np.argmax([run.score(order, start) for start in range(len(order))]))


def fit_order(runs: Sequence[Observation], ways: int, misread: float, rival: float) -> OrderFit | None:
    """The order that explains the runs, if it is `MIN_LEAD_NATS` likelier than `rival` and than weighted random choice.

    Args:
        runs: of one set, each from cold.
        ways: of the set.
        misread: probability that an access is misread.
        rival: log-likelihood (nats) of the runs under the best other policy.
    """
    if ways < 2 or not all(first_replacement(run, ways) < run.lines.size for run in runs):
        return None
    prepared = [_Run.of(run, ways, misread) for run in runs]
    fit = _with_restarts(prepared, ways, rival)
    if fit is None or not fit.repeats or _has_other_starts(prepared, fit.order):
        other = _without_restarts(prepared, runs, ways, misread, rival)
        fit = max(filter(None, (fit, other)), key=lambda each: each.lead, default=None)
    if fit is None:
        return None
    draw = sum(random_log_likelihood(run, ways, misread) for run in runs) + _gain_of_weights(prepared, fit, ways)
    lead = min(fit.lead, fit.lead + rival - draw) if len(fit.order) > 1 else fit.lead
    return OrderFit(fit.order, fit.starts, lead, fit.periods) if lead >= MIN_LEAD_NATS else None


def _gain_of_weights(runs: Sequence[_Run], fit: OrderFit, ways: int) -> float:
    """Nats that random choice gains if the ways have the weights of the order."""
    shares = np.bincount(np.array(fit.order) - 1, minlength=ways) / len(fit.order)
    entropy = -float(np.sum(shares[shares > 0] * np.log(shares[shares > 0])))
    victims = sum(run.victims(fit.order, start) for run, start in zip(runs, fit.starts, strict=True))
    return victims * (log(ways) - entropy)


class _Run(NamedTuple):
    """A run with what is looked up often."""

    lines: list[int]
    start: int  # position of the first replacement
    hits: NDArray[np.float64]  # log-likelihood of hits only before each position
    misses: list[float]  # log-likelihood of a miss at each position
    accesses: list[list[int]]  # positions of those to each line, and the end of the run
    fill: float  # log-likelihood of the accesses before the first replacement
    ways: int

    @classmethod
    def of(cls, observed: Observation, ways: int, misread: float) -> _Run:
        """Of an observation."""
        lines, outcomes, count = observed.lines.tolist(), observed.outcomes, observed.lines.size
        start = first_replacement(observed, ways)
        right, wrong = log(1 - misread), log(misread)
        known = outcomes != UNKNOWN
        hits = np.where(known, np.where(outcomes == HIT, right, wrong), 0.0)
        of_miss = {HIT: wrong, MISS: right, UNKNOWN: 0.0}
        misses = [of_miss[outcome] for outcome in outcomes.tolist()]
        accesses = [[*np.flatnonzero(observed.lines == line).tolist(), count] for line in range(ways + 1)]
        new = np.isin(np.arange(start), np.unique(observed.lines[:start], return_index=True)[1])
        fill = log_likelihood(np.where(new, MISS, HIT).astype(np.int8), outcomes[:start], misread)
        sums = np.concatenate([[0.0], np.cumsum(hits)])
        return cls(lines, start, sums, misses, accesses, fill, ways)

    def advance(self, position: int, victim: int) -> tuple[int, float]:
        """Position of the next miss, on the victim of that at `position`, and the log-likelihood up to it."""
        accesses = self.accesses[victim]
        following = accesses[bisect_left(accesses, position + 1)]
        score = float(self.hits[following] - self.hits[position + 1])
        return following, score + (self.misses[following] if following < len(self.lines) else 0.0)

    def _walk(self, order: Sequence[int], start: int) -> tuple[int, float]:
        position, score = self.start, self.fill + self.misses[self.start]
        place, contents, count = start, list(range(self.ways)), 0
        while position < len(self.lines):
            way = order[place] - 1
            victim, contents[way] = contents[way], self.lines[position]
            position, gained = self.advance(position, victim)
            score += gained
            place = (place + 1) % len(order)
            count += 1
        return count, score

    def score(self, order: Sequence[int], start: int) -> float:
        """Log-likelihood of the run."""
        return self._walk(order, start)[1] if self.start < len(self.lines) else self.fill

    def victims(self, order: Sequence[int], start: int) -> int:
        """Number of replacements."""
        return self._walk(order, start)[0]


def _decode(runs: Sequence[_Run], ways: int, period: int, floor: float) -> tuple[int, ...] | None:
    """The likeliest victims of runs that all begin at the same place, with this period, by a beam search.

    None if every hypothesis falls below `floor` (nats). The victims of a run end with `period`. All hypotheses of a
    step are computed at once: `scores` (beam,), `orders` (beam, victims so far), and for each run `positions` (beam,),
    of the last miss, and `contents` (beam, ways), the lines of the ways.
    """
    scores = np.array([sum(run.fill + run.misses[run.start] for run in runs)], dtype=np.float64)
    orders = np.zeros((1, 0), dtype=np.int64)
    positions = [np.array([run.start]) for run in runs]
    contents = [np.arange(ways)[None] for _ in runs]
    steps = [_Steps.of(run) for run in runs]
    for count in range(MAX_VICTIMS):
        ended = all(position[0] == each.end for position, each in zip(positions, steps, strict=True))
        if ended or (count >= period and scores.size == 1):
            break
        free = np.broadcast_to(np.arange(ways), (scores.size, ways))
        choices = orders[:, [count % period]] if count >= period else free
        grown, following = scores[:, None], []
        for each, position, content in zip(steps, positions, contents, strict=True):
            next_misses, gained = each.advance(position, np.take_along_axis(content, choices, axis=1))
            following.append(next_misses.ravel())
            grown = grown + gained
        flat = grown.ravel()
        kept = np.flatnonzero(flat >= max(floor, flat.max() - MAX_LAG_NATS))
        kept = kept[np.argsort(-flat[kept], kind="stable")][:BEAM]
        if not kept.size:
            return None
        parents, victims = kept // choices.shape[1], choices.ravel()[kept]
        scores, orders = flat[kept], np.column_stack([orders[parents], victims])
        for run, each in enumerate(steps):
            contents[run] = contents[run][parents]
            contents[run][np.arange(kept.size), victims] = each.lines[positions[run][parents]]
            positions[run] = following[run][kept]
    return tuple((orders[0] + 1).tolist())


class _Steps(NamedTuple):
    """A run as arrays, with one more position: its end, where nothing more is gained."""

    lines: Array
    hits: NDArray[np.float64]
    misses: NDArray[np.float64]
    next_access: Array  # from a position on, to each line
    end: int

    @classmethod
    def of(cls, run: _Run) -> _Steps:
        """Of a run."""
        end, positions = len(run.lines), np.arange(len(run.lines) + 1)
        following = [np.array(each)[np.searchsorted(each, positions)] for each in run.accesses]
        next_access = np.stack(following, axis=1)
        return cls(np.array([*run.lines, 0]), run.hits, np.array([*run.misses, 0.0]), next_access, end)

    def advance(self, positions: Array, victims: Array) -> tuple[Array, NDArray[np.float64]]:
        """As `_Run.advance`, for positions (n,) and victims (n, m)."""
        after = np.minimum(positions + 1, self.end)[:, None]
        following = self.next_access[after, victims]
        return following, self.hits[following] - self.hits[after] + self.misses[following]


def _agreeing_periods(victims: Sequence[int]) -> list[int]:
    """The periods after which victims repeat best: the first victims, for one wrong victim may renumber the ways."""
    ways, agreeing = np.array(victims), []
    for period in range(1, min(MAX_ORDER_LENGTH, ways.size // MIN_PERIODS) + 1):
        first = ways[: max(MIN_PERIODS * period, MIN_COMPARED_VICTIMS)]
        share = float(np.mean(first[period:] == first[:-period]))
        if share >= MIN_AGREEMENT:
            agreeing.append((-share, period))
    return [period for _, period in sorted(agreeing)[:MAX_TRIED_PERIODS]]


def _with_restarts(runs: Sequence[_Run], ways: int, rival: float) -> OrderFit | None:
    """The order if every run begins with its first way.

    The victims that all runs have in common are decoded first, without a period. They show which periods to try.
    """
    floor = rival + MIN_LEAD_NATS + log(ways)
    common = _decode(runs, ways, MAX_VICTIMS, floor)
    if common is None:
        return None
    length = len(common)
    orders = [common]
    for period in _agreeing_periods(common):
        found = _decode(runs, ways, period, floor)
        orders += [found[:period]] if found is not None else []
    leads = [sum(run.score(order, 0) for run in runs) - len(order) * log(ways) - rival for order in orders]
    lead, order = max(zip(leads, orders, strict=True))
    return OrderFit(order, (0,) * len(runs), lead, length / len(order)) if lead >= MIN_LEAD_NATS else None


def _has_other_starts(runs: Sequence[_Run], order: Sequence[int]) -> bool:
    """Whether some run is far likelier if it begins at another place of the order."""
    return any(
        max(run.score(order, start) for start in range(len(order))) - run.score(order, 0) > MIN_LEAD_NATS
        for run in runs
    )


def _without_restarts(
    runs: Sequence[_Run], observed: Sequence[Observation], ways: int, misread: float, rival: float
) -> OrderFit | None:
    """The order if runs begin anywhere in it: that of a single run, aligned to the others."""
    best: OrderFit | None = None
    found_victims = infer_victims(observed[:BASE_RUNS], ways, misread)
    for base, victims in zip(runs[:BASE_RUNS], (each.ways.tolist() for each in found_victims), strict=True):
        for period in _agreeing_periods(victims):
            found = _decode([base], ways, period, -np.inf)
            if found is None or len(found) < period:
                continue
            order = found[:period]
            scores = np.array([[run.score(order, start) for start in range(period)] for run in runs])
            lead = float(scores.max(axis=1).sum()) - (period * log(ways) + (len(runs) - 1) * log(period)) - rival
            if lead >= MIN_LEAD_NATS and (best is None or lead > best.lead):
                best = OrderFit(order, tuple(scores.argmax(axis=1).tolist()), lead, len(victims) / period)
    return best

"""The compiled bounds of `counts`: what follows from single equations."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from gpudissect.simulation.cache.compiled import F64, I64, compiled, inlined

RELATIVE, ROUNDING, _STEP = 1e-9, 0.5, 1e-6  # counts are integers
_MAX_COUNT = 1e12  # larger upper bounds follow from sums of bounds, and creep
_MAX_STEPS = 20_000  # bounds that creep towards each other are left


class Equations(NamedTuple):
    """Equations, with room for more. The terms of an equation are consecutive.

    `low`, `high` (unknowns,): bounds. `starts` (rows + 1,): first term of an equation. `results` (rows,). `unknowns`,
    `factors` (terms,). The others are of `propagate`: `queue`, `queued` (rows,): what waits; `first` (unknowns + 1,)
    and `rows` (terms,): the equations of each unknown.
    """

    low: F64
    high: F64
    first: I64
    starts: I64
    results: F64
    queue: I64
    queued: I64
    unknowns: I64
    factors: F64
    rows: I64


def no_equations(size: int) -> Equations:
    """So many unknowns without an upper bound."""
    starts, queue, queued, unknowns, rows = (np.zeros(length, np.int64) for length in (1, 0, 0, 0, 0))
    bounds, first = (np.zeros(size), np.full(size, np.inf)), np.zeros(size + 1, np.int64)
    return Equations(*bounds, first, starts, np.zeros(0), queue, queued, unknowns, np.zeros(0), rows)


def _with_room(sums: Equations, names: Iterable[str], more: int) -> Equations:
    return sums._replace(**{name: np.pad(getattr(sums, name), (0, more)) for name in names})


def append(sums: Equations, number: int, terms: Mapping[int, float], result: float) -> Equations:
    """With equation `number`, which follows all others; in place if there is room."""
    start, end = sums.starts[number], sums.starts[number] + len(terms)
    if number == sums.results.size:
        sums = _with_room(sums, ("starts", "results", "queue", "queued"), number + 64)
    if end > sums.rows.size:
        sums = _with_room(sums, ("unknowns", "factors", "rows"), end)
    sums.results[number], sums.starts[number + 1] = result, end
    sums.unknowns[start:end], sums.factors[start:end] = list(terms), list(terms.values())
    return sums


@inlined
def _list_rows(sums: Equations, count: int) -> None:
    """List the equations of each unknown, in their order."""
    sums.first[:] = 0
    for term in range(sums.starts[count]):
        sums.first[sums.unknowns[term]] += 1
    for unknown in range(1, sums.first.size):
        sums.first[unknown] += sums.first[unknown - 1]
    for number in range(count - 1, -1, -1):
        for term in range(sums.starts[number], sums.starts[number + 1]):
            unknown = sums.unknowns[term]
            sums.first[unknown] -= 1
            sums.rows[sums.first[unknown]] = number


@inlined
def _tightened(sums: Equations, number: int, waiting: int, place: int) -> int:
    """Tighten the bounds of an equation's unknowns and queue theirs; returns how many wait, -1 for a contradiction.

    `place`: of the first one that waits in the ring `sums.queue`.
    """
    least = most = 0.0  # sums of the finite minima and maxima of the terms
    no_least = no_most = 0  # terms without a minimum, and without a maximum
    result, terms = sums.results[number], range(sums.starts[number], sums.starts[number + 1])
    for term in terms:
        factor = sums.factors[term]
        low, high = factor * sums.low[sums.unknowns[term]], factor * sums.high[sums.unknowns[term]]
        if high == math.inf:
            no_most, least = no_most + 1, least + low
        elif high == -math.inf:
            no_least, most = no_least + 1, most + low
        elif factor > 0:
            least, most = least + low, most + high
        else:
            least, most = least + high, most + low
    if no_least > 1 and no_most > 1:
        return waiting
    for term in terms:
        unknown, factor = sums.unknowns[term], sums.factors[term]
        low, high = sums.low[unknown], sums.high[unknown]
        at_low, at_high = (factor * low, factor * high) if factor > 0 else (factor * high, factor * low)
        has_least, has_most = at_low > -math.inf, at_high < math.inf
        rest_low = -math.inf if no_least > (not has_least) else least - at_low if has_least else least
        rest_high = math.inf if no_most > (not has_most) else most - at_high if has_most else most
        new_low, new_high = (result - rest_high) / factor, (result - rest_low) / factor
        if new_low > new_high:
            new_low, new_high = new_high, new_low
        new_low, new_high = new_low if new_low > low else low, new_high if new_high < high else high
        if new_low > new_high:
            if new_low - new_high > 2 * (ROUNDING + RELATIVE * abs(new_high)):
                return -1
            new_low = new_high = max(0.0, (new_low + new_high) / 2)
        rises = new_low > low + _STEP and new_low > low + RELATIVE * new_low
        falls = new_high < _MAX_COUNT and new_high + _STEP < high and new_high + RELATIVE * new_high < high
        if not (rises or falls):
            continue
        sums.low[unknown], sums.high[unknown] = new_low, new_high
        for other in range(sums.first[unknown], sums.first[unknown + 1]):
            row = sums.rows[other]
            if not sums.queued[row]:
                sums.queue[(place + waiting) % sums.queue.size] = row
                sums.queued[row], waiting = 1, waiting + 1
        after_low, after_high = factor * new_low, factor * new_high
        if factor < 0:
            after_low, after_high = after_high, after_low
        if has_least:
            least = least - at_low + after_low
        elif after_low > -math.inf:
            no_least, least = no_least - 1, least + after_low
        if has_most:
            most = most - at_high + after_high
        elif after_high < math.inf:
            no_most, most = no_most - 1, most + after_high
    return waiting


@compiled
def propagate(sums: Equations, count: int, numbers: I64) -> int:
    """Follow the bounds from some of the first `count` equations until none changes; 1, or 0 for a contradiction."""
    _list_rows(sums, count)
    waiting, place, steps = numbers.size, 0, 0
    sums.queued[:] = 0
    for position in range(waiting):
        sums.queue[position] = numbers[position]
        sums.queued[numbers[position]] = 1
    while waiting > 0 and steps < _MAX_STEPS:
        number = sums.queue[place]
        sums.queued[number] = 0
        place, waiting = (place + 1) % sums.queue.size, waiting - 1
        steps += sums.starts[number + 1] - sums.starts[number]
        waiting = _tightened(sums, number, waiting, place)
    return 1 if waiting >= 0 else 0

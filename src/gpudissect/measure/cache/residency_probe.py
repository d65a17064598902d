"""Whether lines stay resident together, measured with more laps until the answer is certain.

Lines fit if and only if no set gets more of them than it has ways, whatever the replacement policy: an invalid way is
filled first, and of one line too many at least one misses in every lap. So nothing here depends on policies, on index
functions or on equal sets. Group testing for eviction sets: Vila et al. 2019, "Theory and practice of finding eviction
sets", section 5.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.cache.infer_level import Level
from gpudissect.measure.cache.infer_policy import MISS, Outcomes, classify
from gpudissect.measure.cache.infer_residency import Control, Fit, decide_by_line, decide_each, verdicts
from gpudissect.measure.cache.infer_structure import LinesBySet
from gpudissect.measure.plan import Ask, Bench
from gpudissect.trace import OTHER_PROCESSES, Array, Trace
from gpudissect.workload import Chase, Explicit, Order, Timing

WARMUP_LAPS = MIN_LAPS = 2
DISTURBED_WARMUP_LAPS = 32  # where other processes use the GPU: until their lines are evicted
DISTURBED_TRIES, TRY_REPETITION = 2, 100_000  # more, of what overflows there: a line of theirs may stay
MIN_ACCESSES = 2048  # short chains get more laps, up to this many accesses
MAX_MISREAD_SHARE = 0.1  # of the control's accesses; with more, the control itself does not fit
MAX_ROUNDS = 8  # in each the laps double; then a chain counts as undecided
LONG_CHAIN_LINES = range(1024, (1 << 17) + 1)  # of a chain whose misses are counted by line ...
COUNT_ROUNDS_LONG = 2  # ... after this many rounds
LINE_LAPS, LINE_ROUNDS = 16, 5
CONTROL_REPETITION = 1000
FIRST_GROUPS = 64
MIN_MANY_LINES, CONFLICT_LAPS = 4096, 128  # of a chain whose misses show the conflict
MIN_MISSING_SHARE = 0.02  # of the laps: a line that is only misread misses in fewer
DISTANCES = (1, 2, 3, 4, 5, 7, 8, 16, 32)  # in lines: multiples of the number of sets, where there are few
RANDOM_GROUPS, MAX_RANDOM_LINES = 256, 1 << 20  # of as many lines as a cache of one set has ways; lines in all
WAYS_LAPS, MAX_WAYS_STEPS, MAX_RECORDS = 4, 64, 1 << 22


class ResidencyTest:
    """Tests whether chains stay resident in a level, compared with a control that grows along.

    The control is a chain that certainly fits: it gives the rate of misread hits. At first each chain gets at least
    `min_accesses`. `miss_shares` are the chains tested and the share of their accesses that missed. After
    `max_accesses` in all, more laps do not help: what is undecided stays so.

    Where other processes use the GPU, their lines may take room, but never make any: what does not fit is tested again.
    """

    def __init__(
        self, level: Level, control: Order, min_accesses: int = MIN_ACCESSES, max_accesses: float = math.inf
    ) -> None:
        self.level, self.min_accesses, self.max_accesses = level, min_accesses, max_accesses
        self.accesses, self.is_disturbed = 0, False
        self.evidence: tuple[str, ...] = ()
        self.miss_shares: list[tuple[Order, float]] = []
        self.set_control(control)

    def set_control(self, order: Order) -> None:
        """Replace the control."""
        self._control_order, self.control = order, Control(0, 0)

    def decide(self, orders: Sequence[Order]) -> Ask[list[Fit]]:
        """Fit of each chain; all are undecided if the control does not fit."""
        fits = yield from self._decide(orders, 0)
        for attempt in self.more_tries():
            again = [i for i, fit in enumerate(fits) if fit is Fit.OVERFLOWS]
            for i, fit in zip(again, (yield from self._decide([orders[i] for i in again], attempt)), strict=True):
                fits[i] = Fit.FITS if fit is Fit.FITS else fits[i]
        return fits

    def more_tries(self) -> range:
        """Numbers of the further tries at what overflows: none unless other processes use the GPU."""
        return range(1, 1 + DISTURBED_TRIES * self.is_disturbed)

    def _decide(self, orders: Sequence[Order], attempt: int) -> Ask[list[Fit]]:
        fits = yield from self._decide_by_count(orders, attempt * TRY_REPETITION)
        long = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED and orders[i].count in LONG_CHAIN_LINES]
        if long and not self._control_misses:
            by_line = yield from self._decide_by_line([orders[i] for i in long], attempt * TRY_REPETITION)
            for i, fit in zip(long, by_line, strict=True):
                fits[i] = fit
        return fits

    def _decide_by_count(self, orders: Sequence[Order], repetition: int) -> Ask[list[Fit]]:
        """Fit of each chain by counts of misses; long ones get few rounds, for their lines are decided sooner."""
        counts: dict[int, Array] = {}
        fits = [Fit.UNDECIDED] * len(orders)
        for number in range(MAX_ROUNDS):
            pending = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            if number >= COUNT_ROUNDS_LONG:
                pending = [i for i in pending if orders[i].count not in LONG_CHAIN_LINES]
            if not pending or self.accesses > self.max_accesses:
                break
            laps = [max(MIN_LAPS, self.min_accesses // orders[i].count) << number for i in pending]
            chases = [self.chase(orders[i], repetition + number, count) for i, count in zip(pending, laps, strict=True)]
            # The first round needs only some control; from the second on it grows along.
            longest = max(chase.order.count * chase.laps for chase in chases)
            controls = self._control_chases(longest if number else MIN_ACCESSES, self.control.accesses)
            traces, was_disturbed = (yield [*chases, *controls]), self.is_disturbed
            self._record(traces, traces[len(chases) :])
            if self._control_misses:
                break
            if self.is_disturbed and not was_disturbed:  # with too few laps of warm-up
                continue
            for i, trace in zip(pending, traces, strict=False):
                counts[i] = np.vstack([counts[i], trace.counts]) if i in counts else trace.counts
            for counted_laps in {len(counts[i]) for i in pending}:
                alike = [i for i in pending if len(counts[i]) == counted_laps]
                verdicts = decide_each(np.stack([counts[i] for i in alike], axis=1), self.control)
                for i, verdict in zip(alike, verdicts, strict=True):
                    fits[i] = verdict
        for i, total in counts.items():
            known = total[:, :2].sum()
            self.miss_shares += [(orders[i], float(total[:, 1].sum() / known))] if known else []
        return fits

    def _decide_by_line(self, orders: Sequence[Order], repetition: int = 0) -> Ask[list[Fit]]:
        """Fit of each long chain by which of its lines miss."""
        misses: list[Array] = [np.zeros(order.count, dtype=np.int64) for order in orders]
        fits = [Fit.UNDECIDED] * len(orders)
        for number in range(LINE_ROUNDS):
            pending = [i for i, fit in enumerate(fits) if fit is Fit.UNDECIDED]
            if not pending or self.accesses > self.max_accesses:
                break
            total_laps = (LINE_LAPS << (number + 1)) - LINE_LAPS
            parts = max(-(-(LINE_LAPS << number) // (MAX_RECORDS // orders[i].count)) for i in pending)
            for part in range(parts):  # of the laps, as many as a trace can hold
                laps = (LINE_LAPS << number) * (part + 1) // parts - (LINE_LAPS << number) * part // parts
                chases = [self.chase(orders[i], repetition + number + LINE_ROUNDS * part, laps) for i in pending]
                traces = yield [replace(chase, timing=Timing.EACH, bounds=None) for chase in chases]
                self._record(traces, ())
                for i, trace in zip(pending, traces, strict=True):
                    assert self.level.bounds is not None  # or nothing could have been counted
                    missed = classify(trace.cycles, self.level.bounds) == MISS
                    misses[i] += missed.reshape(-1, orders[i].count).sum(axis=0)
            for i in pending:
                fits[i] = decide_by_line(misses[i], total_laps)
        return fits

    @property
    def warmup(self) -> int:
        """Laps before those that are counted."""
        return DISTURBED_WARMUP_LAPS if self.is_disturbed else WARMUP_LAPS

    @property
    def _control_misses(self) -> bool:
        return self.control.misses > MAX_MISREAD_SHARE * self.control.accesses

    def run_with_control(self, chases: Sequence[Chase]) -> Ask[list[Trace]]:
        """The traces of chases, for each of which the control has grown to at least as many accesses."""
        traces: list[Trace] = []
        for first, after in _slices([chase.order.count * chase.laps for chase in chases], MAX_RECORDS):
            batch, controls, grown = chases[first:after], list[Chase](), self.control.accesses
            for chase in batch:
                for control in self._control_chases(chase.order.count * chase.laps, grown):
                    controls.append(control)
                    grown += control.order.count * control.laps
            found = yield [*controls, *batch]
            self._record(found[: len(controls)], found[: len(controls)])
            traces += found[len(controls) :]
        return traces

    def _record(self, traces: Sequence[Trace], controls: Sequence[Trace]) -> None:
        self.evidence = (*self.evidence, *(trace.workload for trace in traces))
        self.is_disturbed |= any(OTHER_PROCESSES in trace.context.notes for trace in traces)
        self.accesses += sum(
            trace.cycles.size if "cycles" in trace.arrays else int(trace.counts.sum()) for trace in traces
        )
        for trace in controls:
            misses, accesses = int(trace.counts[:, 1].sum()), int(trace.counts.sum())
            self.control = Control(self.control.misses + misses, self.control.accesses + accesses)

    def chase(self, order: Order, repetition: int, laps: int) -> Chase:
        """The chase that counts the misses of a chain in `laps` laps."""
        return Chase(
            path=self.level.path,
            order=order,
            timing=Timing.COUNT,
            bounds=self.level.bounds,
            warmup=self.warmup,
            laps=laps,
            alone=self.level.alone,
            repetition=repetition,
        )

    def _control_chases(self, accesses: int, known: int) -> list[Chase]:
        """A chase over the control, if `known` accesses to it are fewer than that."""
        missing = accesses - known
        laps = max(MIN_LAPS, -(-missing // self._control_order.count))
        return [self.chase(self._control_order, CONTROL_REPETITION + known, laps)] if missing > 0 else []


def _slices(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Consecutive parts, as (first, after), whose sizes add up to `most` at most, or of one."""
    first = total = 0
    for number, size in enumerate(sizes):
        if number > first and total + size > most:
            yield first, number
            first, total = number, 0
        total += size
    if sizes:
        yield first, len(sizes)


class Inconclusive(Exception):
    """A group test gave no clear answer."""


class ConflictTests:
    """Residency tests on lines, given by number; they raise `Inconclusive` without a clear answer."""

    def __init__(self, test: ResidencyTest, line: int, bench: Bench) -> None:
        self.test, self.line, self.bench, self._generators = test, line, bench, 0

    def fit(self, groups: Sequence[Array]) -> Ask[list[bool]]:
        """Whether each of these groups of lines fits."""
        fits = yield from self.test.decide([self.chain(lines) for lines in groups])
        if Fit.UNDECIDED in fits:
            unclear = fits.count(Fit.UNDECIDED)
            raise Inconclusive(f"of {len(fits)} groups of lines {unclear} neither clearly fit nor miss")
        return [fit is Fit.FITS for fit in fits]

    def chain(self, lines: Array) -> Explicit:
        """The lines, all different, in random order, a new one each time."""
        return Explicit.of_distinct(self.rng("ring").permutation(lines) * self.line)

    def rng(self, purpose: str) -> np.random.Generator:
        """A random generator, a new one each time."""
        self._generators += 1
        return self.bench.rng(purpose, self.test.level.element, self._generators)

    def is_one_set(self, ways: int, span: int) -> Ask[bool]:
        """Whether any `ways` lines below `span` fit: all but one of many random groups, and lines at some distances.

        Tags of several sets with room for less data look like one set until one of them gets too many.
        """
        rng, count = self.rng("one set"), min(RANDOM_GROUPS, MAX_RANDOM_LINES // ways)
        distances = [each for each in DISTANCES if each * ways <= span]
        groups = [np.arange(ways) * each for each in distances]
        groups += [rng.choice(span, size=ways, replace=False) for _ in range(count)]
        fits = yield from self.fit(groups)
        return all(fits[: len(distances)]) and fits.count(False) <= 1

    def _conflicting(self, lines: Array) -> Ask[Array]:
        """Of many `lines` those that miss again and again, if they do not fit by themselves; else all."""
        if not MIN_MANY_LINES <= lines.size < LONG_CHAIN_LINES.stop:
            return lines
        order, bounds = self.chain(lines), self.test.level.bounds
        assert bounds is not None  # or nothing could have been counted
        chase = self.test.chase(order, 0, laps := min(CONFLICT_LAPS, MAX_RECORDS // order.count))
        (trace,) = yield [replace(chase, timing=Timing.EACH, bounds=None)]
        missed = (classify(trace.cycles, bounds) == MISS).reshape(-1, order.count).sum(axis=0)
        again = order.offsets()[missed > MIN_MISSING_SHARE * laps] // self.line
        show_nothing = again.size < 2 or again.size > lines.size // 4 or (yield from self.fit([again]))[0]
        return lines if show_nothing else again

    def minimal_conflict(self, lines: Array) -> Ask[Array]:
        """The lines of the one set that gets one line too many; sorted. `lines` must overflow one set by one line.

        One group after another is left out: what fits without a group needs it.
        """
        groups, lines = FIRST_GROUPS, (yield from self._conflicting(lines))
        while True:
            if lines.size < 2:
                raise Inconclusive("even a single line does not fit")
            parts = np.array_split(self.rng("groups").permutation(lines), min(groups, lines.size))
            without = [np.concatenate([*parts[:i], *parts[i + 1 :]]) for i in range(len(parts))]
            fits = iter((yield from self.fit([rest for rest in without if rest.size])))
            needed = [part for part, rest in zip(parts, without, strict=True) if rest.size == 0 or next(fits)]
            if not needed:
                raise Inconclusive(f"{lines.size} lines do not fit without any of {len(parts)} groups of them")
            if all(part.size == 1 for part in parts) and len(needed) == len(parts):
                return np.sort(lines)
            lines = np.concatenate(needed)
            if len(needed) > groups // 2:
                groups *= 2


def ways_of_sets(lines: LinesBySet, guess: int, max_lines: int, tests: ConflictTests) -> Ask[tuple[int, ...] | None]:
    """Ways of every set; None if some set has no such number.

    Starts with `guess` lines in each set; a set that overflows gets one less, one that does not gets one more. About
    `max_lines` lines are tested at a time: a cache may have tags for more lines than it has data for.
    """
    sizes = lines.sizes
    fitting, overflowing = np.zeros(sizes.size, np.int64), np.full(sizes.size, np.iinfo(np.int64).max)
    tried = np.full(sizes.size, guess, dtype=np.int64)
    for _ in range(MAX_WAYS_STEPS):
        pending = overflowing - fitting > 1
        if not pending.any():
            return tuple(fitting.tolist())
        if (tried[pending] > sizes[pending]).any() or sizes.min() <= guess:
            return None
        by_portion = yield from fits_by_set(lines, [*portions(np.where(pending, tried, 0), max_lines)], tests)
        fits = np.all(by_portion, axis=0)
        fitting = np.where(pending & fits, tried, fitting)
        overflowing = np.where(pending & ~fits, tried, overflowing)
        tried = np.where(fits, tried + 1, tried - 1)
    return None


def portions(quotas: Array, max_lines: int) -> Iterator[Array]:
    """The quotas of some sets at a time, others 0: at most `max_lines` lines in a portion, or one set."""
    sets = np.flatnonzero(quotas)
    count = max(1, -(-int(quotas.sum()) // max(max_lines, 1)))
    for first in range(min(count, sets.size)):
        portion = np.zeros_like(quotas)
        portion[sets[first::count]] = quotas[sets[first::count]]
        yield portion


def fits_by_set(lines: LinesBySet, quotas: Sequence[Array], tests: ConflictTests) -> Ask[list[NDArray[np.bool_]]]:
    """For each of some quotas, whether each set holds as many random lines as that (0: not tested, True)."""
    fits = yield from _fits_by_set(lines, quotas, tests)
    for _ in tests.test.more_tries():
        again = [i for i, fit in enumerate(fits) if not fit.all()]
        tried = yield from _fits_by_set(lines, [np.where(fits[i], 0, quotas[i]) for i in again], tests)
        for i, fit in zip(again, tried, strict=True):
            fits[i] = fits[i] | fit
    return fits


def _fits_by_set(lines: LinesBySet, quotas: Sequence[Array], tests: ConflictTests) -> Ask[list[NDArray[np.bool_]]]:
    test, level = tests.test, tests.test.level
    assert level.bounds is not None
    tried = [_Quota(each) for each in quotas]
    number = 0
    while pending := [each for each in tried if each.pending.any()]:
        laps = WAYS_LAPS << number
        samples = (lines.sample(np.where(each.pending, each.quota, 0), tests.rng("ways")) for each in pending)
        orders = [tests.chain(sample) for sample in samples]
        if number == MAX_ROUNDS or max(order.count for order in orders) * laps > MAX_RECORDS:
            unclear = sum(int(each.pending.sum()) for each in pending)
            sets = sum(each.quota.size for each in tried)
            raise Inconclusive(f"of {sets} sets {unclear} neither clearly fit nor overflow")
        number += 1
        chase = partial(Chase, path=level.path, timing=Timing.EACH, warmup=test.warmup, alone=level.alone, laps=laps)
        traces = yield from test.run_with_control([chase(order=order) for order in orders])
        for each, order, trace in zip(pending, orders, traces, strict=True):
            outcomes = classify(trace.cycles, level.bounds).reshape(laps, order.count)
            each.decide(outcomes, lines.set_of[order.offsets() // tests.line], test.control)
    return [each.fits for each in tried]


class _Quota:
    """What is known of the sets that are tested with some number of lines each; arrays of shape (sets,)."""

    def __init__(self, quota: Array) -> None:
        self.quota = quota
        self.fits, self.pending = np.ones(quota.size, dtype=bool), quota > 0
        self._counts = np.empty((0, quota.size, 3), dtype=np.int64)  # of hits, misses and unknown accesses in a lap

    def decide(self, outcomes: Outcomes, sets: Array, control: Control) -> None:
        """Take in a trace: `outcomes`, shape (laps, n), of accesses to `sets`, shape (n,)."""
        is_first = not self._counts.size
        self._counts = np.concatenate([self._counts, _count_by_set(outcomes, sets, self.quota.size)])
        tested = np.flatnonzero(self.pending)
        counts = self._counts[:, tested]
        slow = np.all(counts[:, :, 2] > 0, axis=0)  # in every lap: a miss that takes longer, say one of a TLB too
        fits, overflows = verdicts(counts, control)
        self.fits[tested[fits | overflows]] = (fits & ~slow)[fits | overflows]
        self.pending[tested] = ~(fits | overflows) | (fits & slow & is_first)


def _count_by_set(outcomes: Outcomes, sets: Array, count: int) -> Array:
    """Hits, misses and unknown accesses, shape (laps, sets, 3), of outcomes of shape (laps, n)."""
    laps = len(outcomes)
    places = (np.arange(laps)[:, None] * count + sets[None, :]) * 3 + outcomes
    return np.bincount(places.ravel(), minlength=laps * count * 3).reshape(laps, count, 3)

"""Sets, ways and index function of a cache, without assuming equal sets, a plain index, or a policy.

As random lines are added, one set overflows first. Group tests find its lines. Without one of them, the others fill it
exactly, so any other line can be tested for membership. Where the members lie gives the kind of index; the ways of
every set follow from random lines sampled by that index. If these do not fit exactly as predicted, the index is wrong.
"""

from dataclasses import replace
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.capacity_from_sets import capacity_from_sets
from gpudissect.measure.cache.infer_residency import MAX_SIZES_PER_BATCH, narrowed, probe_sizes
from gpudissect.measure.cache.infer_structure import (
    LinesBySet,
    Structure,
    index_from_rows,
    null_space,
    period,
    rows_from,
)
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import absent, for_each_cache, level_of, levels_of
from gpudissect.measure.cache.plan_line import MAX_LINE_DOUBLINGS, lines_of
from gpudissect.measure.cache.residency_probe import (
    MIN_MANY_LINES,
    ConflictTests,
    Inconclusive,
    ResidencyTest,
    fits_by_set,
    portions,
    ways_of_sets,
)
from gpudissect.measure.infer_confidence import DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, Key, Known, Outcome, Plan, found, without
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import canonical, lowest_bit, matrix, set_numbers
from gpudissect.trace import Array
from gpudissect.units import format_bytes

ATTRIBUTES = ("sets", "ways", "index_function")
MAX_LINES = 1 << 17  # of a cache; with more, group tests take too long
MIN_INDEX_SPAN = 32 << 20  # bytes over which the index is tested: the reach of the smallest first TLB so far
CHECKS = 12  # of a candidate, each on other lines
MIN_ACCESSES = 256  # of small chains at first: there are thousands of them
ACCESSES_PER_LINE, MIN_MAX_ACCESSES = 10_000, 1 << 26
"""Accesses of all tests of a cache, at most. Random GPUs took up to 5,500 for each line, without other users."""
MAX_LONG_SIZES = 2  # in a batch; of long chains few: an access to each line costs more than a batch
LINES_PER_SET = 4  # of a block, about
MIN_BLOCK_LINES, MAX_BLOCK_BITS = 512, 14  # a smaller block may hold no line of a set, or no whole period
MIN_PERIOD_MEMBERS = 3  # lines of a set in a block; with fewer its period may be longer than the block
PARTS = 64  # into which a group that overflows is split
WHOLE_SHARE = 0.75  # of the lines that fit: a larger conflict is of the whole cache, not of one set
CROWDED_GROUPS = 64
ATTEMPTS = 2  # with other lines: a group test may go wrong by chance, which the check detects
SECTOR_COUNTS = tuple(2 << i for i in range(MAX_LINE_DOUBLINGS))  # of a line
METHOD = "lines of one set by group tests, those of other sets by the index function; checked on random lines"


def structure_of(element: str) -> Key[Structure | None]:
    """Sets, ways and index function of a cache; None if they were not found."""
    return Key(f"sets.{element}", (Structure, NoneType))


def sets_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Sets, ways and index function of `element`; knowledge: its `Structure`, or None.

    Revises its capacity where sets are unequal or unevenly used: then lines in one piece conflict before all is full.
    """
    level = level_of(element, known)
    if level is None:
        return absent(element, known, *ATTRIBUTES)
    lines, size = known[lines_of(element)], known[capacity_of(element)]
    if lines is None or size is None or level.bounds is None or level.far_partition is not None:
        reason = "its capacity is only known as a range, so its sets cannot be tested"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    if level.fetch.ahead is not None and level.fetch.ahead >= lines.line:
        reason = "a miss also fetches the next lines, which compete with those under test"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    count = size // lines.line
    span = min(bench.info.limit(level.path), max(MIN_INDEX_SPAN, 1 << (4 * size - 1).bit_length())) // lines.line
    if count > MAX_LINES:
        reason = f"{count} lines are too many for group tests (up to {MAX_LINES})"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    if span < 2 * count:
        reason = f"the path reaches no further than {format_bytes(span * lines.line)}: no lines to compete with"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    for attempt in range(ATTEMPTS):
        attempt_bench = replace(bench, seed=bench.seed + attempt)
        control = footprint(max(1, count // 2) * lines.line, lines.line, attempt_bench.seed_for("control", element))
        test = ResidencyTest(level, control, MIN_ACCESSES, max(ACCESSES_PER_LINE * count, MIN_MAX_ACCESSES))
        structure = yield from _Finder(ConflictTests(test, lines.line, attempt_bench), count, span).structure()
        if isinstance(structure, Structure):
            estimates = _estimates(element, structure, count)
            # With near and far lines, what fits may be one partition of the cache.
            if sum(structure.ways) != count and level.home_partition is None:
                capacity, structure = yield from capacity_from_sets(structure, count, lines, test, attempt_bench)
                return Outcome((*estimates, capacity), structure)
            return Outcome(estimates, structure)
    fields = {"method": METHOD, "evidence": test.evidence}
    return Outcome(without(Status.AMBIGUOUS, element, str(structure), *ATTRIBUTES, **fields))


class _Finder:
    """Finds the structure of a cache that holds `count` lines in one piece, among the first `span` lines of memory."""

    def __init__(self, tests: ConflictTests, count: int, span: int) -> None:
        self.tests, self.count, self.bits = tests, count, span.bit_length() - 1
        self._unclear: Inconclusive | None = None  # of the last candidate whose check gave no clear answer

    def structure(self) -> Ask[Structure | str]:
        """The structure, or why there is none."""
        try:
            members = yield from self._conflict()
            spare, exact = int(members[0]), members[1:]
            block, size = yield from self._set_in_block(exact, spare)
            if structure := (yield from self._first_confirmed(exact, spare, block, size)):
                return structure
            if block.size < MIN_PERIOD_MEMBERS:
                wide, wide_size = yield from self._set_in_wide_block(exact, spare)
                if structure := (yield from self._first_confirmed(exact, spare, wide, wide_size)):
                    return structure
            if self._unclear is not None:
                raise self._unclear
        except Inconclusive as inconclusive:
            return str(inconclusive)
        some = ", ".join(map(str, block[:6].tolist())) + (", ..." if block.size > 6 else "")
        holds = f"a set of {exact.size} ways holds lines {some} of the first {size}"
        return f"{holds}: that is neither a linear index nor a remainder"

    def _conflict(self) -> Ask[Array]:
        """A minimal group of lines that overflows: one set or, if none is found, the whole cache."""
        scattered = yield from self._overflowing_lines()
        members = yield from self.tests.minimal_conflict((yield from self._shortest_overflow(scattered)))
        if members.size > WHOLE_SHARE * self.count:
            # Perhaps there are more tags than room. Of groups as large as the room, some have too many of one set.
            rng = self.tests.rng("crowded")
            groups = [rng.permutation(1 << self.bits)[: self.count] for _ in range(CROWDED_GROUPS)]
            fits = yield from self.tests.fit(groups)
            if not all(fits):
                shortest = yield from self._shortest_overflow(groups[fits.index(False)])
                return (yield from self.tests.minimal_conflict(shortest))
        return members

    def _first_confirmed(self, exact: Array, spare: int, members: Array, size: int) -> Ask[Structure | None]:
        """The structure with the first index function that is confirmed; an unclear check refutes no other one."""
        for index, sets in (yield from self._candidates(exact, spare, members, size)):
            try:
                if structure := (yield from self._confirmed(index, sets, exact.size)):
                    return structure
            except Inconclusive as unclear:
                self._unclear = unclear
        return None

    def _confirmed(self, index: Index, sets: int, guess: int) -> Ask[Structure | None]:
        """The structure with this index, if its sets hold what it predicts. `guess`: ways of one set."""
        earlier, line = len(self.tests.test.evidence), self.tests.line  # what led to a candidate is left out
        set_of = set_numbers(index, line, sets, np.arange(1 << self.bits) * line)
        lines = LinesBySet(set_of, sets, self.tests.rng("deck"))
        ways = yield from ways_of_sets(lines, guess, self.count // 2, self.tests)
        if ways is None or not (yield from self._check(lines, ways)):
            return None
        return Structure(line, index, ways, 1 << self.bits, self.tests.test.evidence[earlier:])

    def _set_in_wide_block(self, exact: Array, spare: int) -> Ask[tuple[Array, int]]:
        """As `_set_in_block`, among more lines, where sets are many.

        Adjacent lines, if fewer than the sets, lie in different ones, so many are tested at once. Groups that overflow
        are then split.
        """
        sets = self.count // exact.size
        size = 1 << min(self.bits, (LINES_PER_SET * sets - 1).bit_length())
        groups, length = [np.setdiff1d(np.arange(size), [*exact, spare])], size
        while length > 1:
            length = min(max(1, sets // LINES_PER_SET), -(-length // PARTS))
            groups = [part for group in groups for part in np.array_split(group, -(-group.size // length))]
            fits = yield from self.tests.fit([np.append(exact, group) for group in groups])
            groups = [group for group, fit in zip(groups, fits, strict=True) if not fit]
        known = np.array([*exact, spare], dtype=np.int64)
        return np.unique(np.concatenate([*groups, known[known < size]])), size

    def _overflowing_lines(self) -> Ask[Array]:
        """Scattered lines that do not fit: twice as many as fit in one piece, or more if that is a small part."""
        scattered = self.tests.rng("scattered").permutation(1 << self.bits)
        for doublings in range(1, self.bits):
            lines = scattered[: self.count << doublings]
            if not (yield from self.tests.fit([lines]))[0]:
                return lines
        raise Inconclusive("all scattered lines fit")

    def _shortest_overflow(self, lines: Array) -> Ask[Array]:
        """The shortest prefix of `lines` that does not fit."""
        low, high = 0, lines.size
        count = MAX_LONG_SIZES if lines.size >= MIN_MANY_LINES else MAX_SIZES_PER_BATCH
        while sizes := probe_sizes(low, high, 1, count):
            fits = yield from self.tests.fit([lines[:size] for size in sizes])
            low, high = narrowed(low, high, dict(zip(sizes, fits, strict=True)))
        return lines[:high]

    def _set_in_block(self, exact: Array, spare: int) -> Ask[tuple[Array, int]]:
        """All lines of the set that `exact` just fill among the first lines of memory, and the number of those."""
        wanted = max(LINES_PER_SET * self.count // exact.size, MIN_BLOCK_LINES)
        size = 1 << min(self.bits, MAX_BLOCK_BITS, (wanted - 1).bit_length())
        others = np.setdiff1d(np.arange(size), [*exact, spare])
        # No set overflows by lines that are no more than its ways, so many can be tested at once.
        group_size = max(1, min(exact.size, self.count // exact.size // 4))
        groups = np.array_split(others, -(-others.size // group_size))
        fits = yield from self.tests.fit([np.append(exact, group) for group in groups])
        if group_size > 1:
            others = np.concatenate([others[:0], *(group for group, fit in zip(groups, fits, strict=True) if not fit)])
            fits = yield from self.tests.fit([np.append(exact, other) for other in others])
        known = np.array([*exact, spare], dtype=np.int64)
        return np.sort(np.concatenate([others[~np.array(fits, dtype=bool)], known[known < size]])), size

    def _candidates(self, exact: Array, spare: int, members: Array, size: int) -> Ask[list[tuple[Index, int]]]:
        """Index functions under which `members` are the lines of one set below `size`, and the number of sets."""
        indices: list[tuple[Index, int]] = []
        if members.size == 0:
            return []
        rows = yield from self._linear_rows(exact, spare, members, size)
        if rows is not None:
            indices.append((index_from_rows(rows, self.tests.line), 1 << len(rows)))
        repeats = period(members, size)
        if repeats is not None:
            distance, run = repeats
            indices.append((Index(IndexKind.MODULO, granule=run * self.tests.line), distance // run))
        return indices

    def _linear_rows(self, exact: Array, spare: int, members: Array, size: int) -> Ask[tuple[int, ...] | None]:
        """Rows over line numbers: from the lines of the one set, and for each higher bit from the line it equals."""
        null = null_space(members, size)
        if null is None:
            return None
        vectors = {vector.bit_length() - 1: vector for vector in null}
        low = size.bit_length() - 1
        rows, groups = rows_from(null, low), []
        for bit in range(low, self.bits):
            for place in range(len(rows)):
                for value in (0, 1):
                    flipped = _one_line_per_set(rows, place, value) ^ (1 << bit) ^ int(members[0])
                    groups.append(_with_spare(exact, flipped, spare))
        fits = iter((yield from self.tests.fit(groups)))
        for bit in range(low, self.bits):
            equal = 0
            for row in rows:
                misses_at_0, misses_at_1 = not next(fits), not next(fits)
                if misses_at_0 == misses_at_1:
                    return None
                equal |= lowest_bit(row) if misses_at_1 else 0
            vectors[bit] = (1 << bit) | equal
        return rows_from(vectors.values(), self.bits)

    def _check(self, lines: LinesBySet, ways: tuple[int, ...]) -> Ask[bool]:
        """Whether the sets hold as many random lines as they have ways, and no more, in every repetition.

        If two sets were taken for one, the outcome differs between repetitions. If one was taken for two, a full set
        conflicts with a line of the other: that is tested too.
        """
        rng, full = self.tests.rng("check"), np.array(ways)
        sets = rng.permutation(full.size)[:CHECKS]
        one_full = [lines.sample(np.where(np.arange(full.size) == one, full, 1), rng) for one in sets]
        if not all((yield from self.tests.fit(one_full))):
            return False
        for count in (1, CHECKS - 1):  # most wrong structures fail the first
            quotas = [each for _ in range(count) for each in self._quotas(full, rng.permutation(full.size))]
            fits = yield from fits_by_set(lines, quotas, self.tests)
            for each, fit in zip(quotas, fits, strict=True):
                is_over = np.any(each > full)
                if np.any(fit[each > 0] == is_over):
                    return False
        return full.size > 1 or (yield from self.tests.is_one_set(ways[0], 1 << self.bits))

    def _quotas(self, ways: Array, order: Array) -> list[Array]:
        """As many lines as each set has ways, then one more, a portion of the sets at a time, in this order of sets."""
        quotas: list[Array] = []
        for extra in (0, 1):
            for portion in portions(ways[order] + extra, self.count // 2):
                quotas.append(np.zeros_like(ways))
                quotas[-1][order] = portion
        return quotas


def _one_line_per_set(rows: tuple[int, ...], place: int, value: int) -> Array:
    """One line for each set whose number has `value` at bit `place`: sums of the rows' lowest bits."""
    lines = np.zeros(1, dtype=np.int64)
    for i, row in enumerate(rows):
        pivot = lowest_bit(row)
        lines = lines ^ pivot * value if i == place else np.concatenate([lines, lines ^ pivot])
    return lines


def _with_spare(exact: Array, others: Array, spare: int) -> Array:
    """Lines of a full set and others; a line that is in the set already is replaced by `spare`, another one of it."""
    lines = np.append(exact, np.where(np.isin(others, exact), spare, others))
    return lines[np.sort(np.unique(lines, return_index=True)[1])]


def _estimates(element: str, structure: Structure, count: int) -> tuple[Estimate, ...]:
    total, unequal = sum(structure.ways), len(set(structure.ways)) > 1
    fit = f"{'only ' * (count < total)}{count} consecutive lines fit"
    conflict = () if total == count else (f"sets x ways are {total} lines, but {fit}",)
    in_all, sectors = (f"{total} lines in all",) * unequal, _sector_caveat(structure)
    tested_bits = f"address bits below {(structure.lines * structure.line).bit_length() - 1} were tested"

    def estimate(attribute: str, value: Value, *caveats: str) -> Estimate:
        number = value if isinstance(value, int | float) else None
        caveats += conflict
        confidence = EXACT if total >= count else DOUBTFUL  # lines in one piece that fit need a way each
        return found(element, attribute, value, number, number, confidence, METHOD, structure.evidence, caveats)

    return (
        estimate("sets", len(structure.ways), *sectors),
        estimate("ways", structure.ways if unequal else structure.ways[0], *in_all, *sectors),
        estimate("index_function", canonical(structure.index, structure.line, len(structure.ways)), tested_bits),
    )


def _sector_caveat(structure: Structure) -> tuple[str, ...]:
    """What distinguishes lines from sectors of larger ones, where adjacent lines share a set: MC16 figures 4 and 7."""
    index, line, ways = structure.index, structure.line, max(structure.ways)
    rows = () if index.kind is IndexKind.MODULO else matrix(index)
    larger = index.granule or min(map(lowest_bit, rows), default=line)
    if larger // line not in SECTOR_COUNTS or ways * line % larger:
        return ()
    fit = ways * line // larger
    return (f"not {fit} ways of {larger} B lines in sectors of {line} B: {ways} random addresses fit in a set",)


EXPERIMENTS = for_each_cache(
    structure_of, sets_plan, levels_of, lines_of, capacity_of, emits=ATTRIBUTES, revises="capacity"
)

"""Sets, ways and index function of a cache, without assuming equal sets, a plain index, or a policy.

Of lines scattered at random one set is the first to get too many. Group tests find which lines those are; with one of
them left out they fill the set, so any other line can be asked whether it belongs to it. Where its lines lie tells what
kind of index it is; the ways of every set follow from lines drawn at random by that index. If lines so drawn do not
fit exactly as foretold, the index was not it.
"""

from __future__ import annotations

from functools import partial
from types import NoneType

import numpy as np

from gpudissect.estimate import Estimate, Status, Value
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.conflict_groups import Conflicts, Lines, Unclear
from gpudissect.measure.cache.infer_first_miss import probe_sizes
from gpudissect.measure.cache.infer_index_function import as_index, null_space, period, rows_from
from gpudissect.measure.cache.infer_residency import SLACK
from gpudissect.measure.cache.infer_structure import Deck, Structure
from gpudissect.measure.cache.plan_capacity import capacity_of
from gpudissect.measure.cache.plan_levels import levels_of
from gpudissect.measure.cache.plan_line import Lines as LineSize
from gpudissect.measure.cache.plan_line import lines_of, recounted
from gpudissect.measure.cache.residency_test import Fitting
from gpudissect.measure.cache.ways import of_each_set, portions, ways_of
from gpudissect.measure.infer_confidence import BRACKETED, EXACT
from gpudissect.measure.plan import Ask, Bench, Experiment, Key, Known, Outcome, Plan, without
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import canonical, set_numbers
from gpudissect.units import format_bytes
from gpudissect.vocabulary import CACHES

ATTRIBUTES = ("sets", "ways", "index_function")
MOST_LINES = 1 << 17  # beyond, group tests take too long
REACH = 32 << 20  # bytes over which the index is looked at: what the first TLB of every GPU so far translates
CHECKS = 12  # times that lines are drawn anew to see whether the sets hold what they should and no more
ACCESSES = 256  # of small rings at first: there are thousands of them
MANY = 15  # sizes tried at once
BLOCK_SETS = 4  # lines of each set that a block is to have, about
LEAST_BLOCK, MOST_BLOCK = 512, 14  # lines; log2 of lines. In too small a block a set has no line, or no period
TRIES = 2  # with other lines: a group test may go wrong by chance, and is then found out
CAPACITY_METHOD = "ways of all sets, cross-checked by occupancy"
METHOD = "lines of one set by group tests, the others by where those lie; checked on lines drawn at random"


def structure_of(element: str) -> Key[Structure | None]:
    """Sets, ways and index function of a cache; None if they were not found."""
    return Key(f"sets.{element}", (Structure, NoneType))


def sets_plan(element: str, bench: Bench, known: Known) -> Plan:
    """Sets, ways and index function of `element`; knowledge: its `Structure`, or None."""
    levels = known[levels_of(element)]
    level = levels.level(element)
    if level is None:
        absence = levels.absent[element]
        return Outcome(without(absence.status, element, absence.reason, *ATTRIBUTES))
    lines = known[lines_of(element)]
    capacity = known[capacity_of(element)]
    if lines is None or capacity is None or level.bounds is None or level.parts is not None:
        return Outcome(without(Status.NOT_FOUND, element, "its size is not known to the line", *ATTRIBUTES))
    count, reach = capacity // lines.line, _reach(capacity, bench.info.limit(level.path)) // lines.line
    if count > MOST_LINES:
        reason = f"{count} lines are too many for group tests (up to {MOST_LINES})"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    if reach < 2 * count:
        reason = f"the path reaches no further than {format_bytes(reach * lines.line)}: no lines to compete with"
        return Outcome(without(Status.NOT_FOUND, element, reason, *ATTRIBUTES))
    structure: Structure | str = ""
    for turn in range(TRIES):
        fresh = Bench(bench.info, bench.seed + turn)
        control = footprint(max(1, count // 2) * lines.line, lines.line, fresh.seed_for("control", element))
        fitting = Fitting(level, control, ACCESSES)
        finder = _Finder(Conflicts(fitting, lines.line, fresh), count, reach)
        try:
            structure = yield from finder.structure()
        except Unclear as unclear:
            structure = str(unclear)
        if isinstance(structure, Structure):
            found, whole = _found(element, structure, count), sum(structure.ways)
            if whole != count and lines.held is not None and level.homes is None:  # else it may be a part of the cache
                again = yield from recounted(level, lines.line, whole, fresh)
                found = (*found, *_whole(element, structure, count, again))
            return Outcome(found, structure)
    return Outcome(_unclear(element, str(structure), fitting.evidence))


def _reach(capacity: int, limit: int) -> int:
    """Bytes over which to look at the index."""
    return min(limit, max(REACH, 1 << (4 * capacity - 1).bit_length()))


class _Finder:
    """Looks for the structure of a cache that holds `count` lines in one piece, among the first `reach` of memory."""

    def __init__(self, conflicts: Conflicts, count: int, reach: int) -> None:
        self.conflicts, self.count = conflicts, count
        self.bits = reach.bit_length() - 1

    def structure(self) -> Ask[Structure | str]:
        """The structure, or why there is none."""
        scattered = yield from self._too_many()
        crowded = yield from self._first_that_misses(scattered)
        members = yield from self.conflicts.minimal(crowded)
        block = yield from self._block(members[1:], int(members[0]))
        fitting = self.conflicts.fitting
        for index, sets in (yield from self._candidates(members[1:], int(members[0]), *block)):
            before = len(fitting.evidence)  # what led to a candidate is left out: that it holds is what counts
            labels = set_numbers(index, self.conflicts.line, sets, np.arange(1 << self.bits) * self.conflicts.line)
            deck = Deck(labels, sets, self.conflicts.rng("deck"))
            ways = yield from ways_of(deck, members.size - 1, self.count // 2, self.conflicts)
            if ways is not None and (yield from self._holds(deck, ways)):
                return Structure(self.conflicts.line, index, ways, 1 << self.bits, fitting.evidence[before:])
        return (
            f"a set of {members.size - 1} ways holds lines {_some(block[0])} of the first {block[1]}: "
            "that is neither a linear index nor a remainder"
        )

    def _too_many(self) -> Ask[Lines]:
        """Scattered lines that do not fit: twice as many as fit in one piece, or more if that is a small part."""
        scattered = self.conflicts.rng("scattered").permutation(1 << self.bits)
        for doubled in range(1, self.bits):
            lines = scattered[: self.count << doubled]
            if not (yield from self.conflicts.fit([lines]))[0]:
                return lines
        raise Unclear("as many scattered lines as there are fit")

    def _first_that_misses(self, lines: Lines) -> Ask[Lines]:
        """The shortest beginning of `lines` that does not fit."""
        low, high = 0, lines.size
        while sizes := probe_sizes(low, high, 1, MANY):
            fits = yield from self.conflicts.fit([lines[:size] for size in sizes])
            high = min([high, *(size for size, fit in zip(sizes, fits, strict=True) if not fit)])
            low = max([low, *(size for size, fit in zip(sizes, fits, strict=True) if fit and size < high)])
        return lines[:high]

    def _block(self, exact: Lines, member: int) -> Ask[tuple[Lines, int]]:
        """All lines of one set among the first so many, and how many those are.

        `exact` just fill the set, `member` is one more of it.
        """
        wanted = max(BLOCK_SETS * self.count // exact.size, LEAST_BLOCK)
        size = 1 << min(self.bits, MOST_BLOCK, (wanted - 1).bit_length())
        others = np.setdiff1d(np.arange(size), [*exact, member])
        # No set overflows by lines that are no more than its ways, so many can be asked about at once.
        together = max(1, min(exact.size, self.count // exact.size // 4))
        groups = np.array_split(others, -(-others.size // together))
        fits = yield from self.conflicts.fit([np.append(exact, group) for group in groups])
        if together > 1:
            others = np.concatenate([others[:0], *(group for group, fit in zip(groups, fits, strict=True) if not fit)])
            fits = yield from self.conflicts.fit([np.append(exact, other) for other in others])
        known = np.array([*exact, member], dtype=np.int64)
        return np.sort(np.concatenate([others[~np.array(fits, dtype=bool)], known[known < size]])), size

    def _candidates(self, exact: Lines, spare: int, members: Lines, size: int) -> Ask[list[tuple[Index, int]]]:
        """Index functions under which `members` are the lines of one set below `size`, and the number of sets."""
        line, found = self.conflicts.line, []
        if members.size == 0:
            return []
        rows = yield from self._linear(exact, spare, members, size)
        if rows is not None:
            found.append((as_index(rows, line), 1 << len(rows)))
        repeats = period(members, size)
        if repeats is not None:
            distance, together = repeats
            found.append((Index(IndexKind.MODULO, granule=together * line), distance // together))
        return found

    def _linear(self, exact: Lines, spare: int, members: Lines, size: int) -> Ask[tuple[int, ...] | None]:
        """Rows over line numbers: from the lines of the one set, and for each higher bit from the line it equals.

        A line that would be asked about and is one of `exact` stands for itself: `spare`, one more of the set, goes in.
        """
        null = null_space(members, size)
        if null is None:
            return None
        known = {vector.bit_length() - 1: vector for vector in null}
        low = size.bit_length() - 1
        rows, asked = rows_from(null, low), []
        for bit in range(low, self.bits):
            for place in range(len(rows)):
                for value in (0, 1):
                    flipped = _ones_of_each(rows, place, value) ^ (1 << bit) ^ int(members[0])
                    asked.append(np.concatenate([exact, np.where(np.isin(flipped, exact), spare, flipped)]))
        told = iter((yield from self.conflicts.fit(asked)))
        for bit in range(low, self.bits):
            alike = 0
            for row in rows:
                without, with_it = not next(told), not next(told)
                if without == with_it:
                    return None
                alike |= _lowest(row) if with_it else 0
            known[bit] = (1 << bit) | alike
        return rows_from(known.values(), self.bits)

    def _holds(self, deck: Deck, ways: tuple[int, ...]) -> Ask[bool]:
        """Whether the sets are what they look like, on lines drawn anew time after time.

        As many lines as a set has ways must fit, and one more in it must not, whichever lines they are: of two sets
        taken for one, chance decides. And a full set must have no quarrel with a line of any other: of one set taken
        for two, it has.
        """
        rng, full = self.conflicts.rng("check"), np.array(ways)
        ones = np.ones_like(full)
        some = rng.permutation(full.size)[:CHECKS]
        beside = [deck.draw(np.where(np.arange(full.size) == one, full, ones), rng) for one in some]
        if not all((yield from self.conflicts.fit(beside))):
            return False
        for _ in range(CHECKS):
            order = rng.permutation(full.size)  # so that other sets share a portion
            for more in (0, 1):
                for portion in portions(full[order] + more, self.count // 2):
                    quotas = np.zeros_like(full)
                    quotas[order] = portion
                    fits = yield from of_each_set(deck, quotas, self.conflicts)
                    if np.any(fits[quotas > 0] == bool(more)):
                        return False
        return True


def _ones_of_each(rows: tuple[int, ...], place: int, value: int) -> Lines:
    """One line for each set whose number has `value` at bit `place`: sums of the rows' lowest bits."""
    lines = np.zeros(1, dtype=np.int64)
    for i, row in enumerate(rows):
        pivot = _lowest(row)
        lines = lines ^ pivot * value if i == place else np.concatenate([lines, lines ^ pivot])
    return lines


def _lowest(row: int) -> int:
    return row & -row


def _some(members: Lines) -> str:
    words = [str(each) for each in members[:6].tolist()]
    return ", ".join(words) + (", ..." if members.size > len(words) else "")


def _found(element: str, structure: Structure, count: int) -> tuple[Estimate, ...]:
    ways = structure.ways
    several: Value = ways if len(set(ways)) > 1 else ways[0]
    of_ways = f"{sum(ways)} lines in all" if len(set(ways)) > 1 else ""
    agreed = sum(ways) == count
    missing = () if agreed else (f"{sum(ways)} lines, while {count} in one piece is what fits",)
    range_seen = f"address bits below {(structure.lines * structure.line).bit_length() - 1} were looked at"
    text = canonical(structure.index, structure.line, len(ways))

    def found(attribute: str, value: Value, *caveats: str) -> Estimate:
        number = value if isinstance(value, int | float) else None
        return Estimate(
            element=element, attribute=attribute, status=Status.FOUND, value=value, low=number, high=number,
            confidence=EXACT, method=METHOD, evidence=structure.evidence,
            caveats=tuple(each for each in (*caveats, *missing) if each),
        )  # fmt: skip

    return (
        found("sets", len(ways)),
        found("ways", several, of_ways),
        found("index_function", text, range_seen),
    )


def _whole(element: str, structure: Structure, count: int, lines: LineSize) -> tuple[Estimate, ...]:
    """The capacity anew, where sets are unequal or unevenly used: then lines in one piece conflict before all is full.

    Or there are tags for more lines than there is room: then no more are held at any one time than in one piece. But a
    cache that protects what was asked for twice may also seem to hold too few: so that is never sure.
    """
    whole, held = sum(structure.ways), lines.held
    if held is None:
        return ()
    as_whole, as_piece = (abs(held.elements - lines) <= 3 * held.error + SLACK * lines for lines in (whole, count))
    sure = as_whole and not as_piece
    size = (count if as_piece else whole) * structure.line
    piece = format_bytes(count * structure.line)
    caveats = [f"{piece} in one piece are the most that fit: some sets are full before others"]
    if not sure:
        caveats = [
            f"{piece} are what fits in one piece, the ways of all sets {format_bytes(whole * structure.line)}, and "
            f"{held.elements:.0f} lines, which seem to be held at any one time, decide for neither"
        ]
    low, high = (whole, whole) if sure else sorted((count, whole))
    return (
        Estimate(element=element, attribute="capacity", status=Status.FOUND, value=size, low=low * structure.line,
                 high=high * structure.line, confidence=EXACT if sure else BRACKETED, method=CAPACITY_METHOD,
                 evidence=(*structure.evidence, *lines.evidence), caveats=tuple(caveats)),
    )  # fmt: skip


def _unclear(element: str, reason: str, evidence: tuple[str, ...]) -> tuple[Estimate, ...]:
    return tuple(
        Estimate(element=element, attribute=each, status=Status.AMBIGUOUS, reason=reason, method=METHOD,
                 evidence=evidence)
        for each in ATTRIBUTES
    )  # fmt: skip


EXPERIMENTS = tuple(
    Experiment(
        key=structure_of(element),
        element=element,
        plan=partial(sets_plan, element),
        emits=ATTRIBUTES,
        revises=(f"{element}.capacity",),  # where sets x ways x line contradict it
        needs=(levels_of(element), lines_of(element), capacity_of(element)),
    )
    for element in CACHES
)

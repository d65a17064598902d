"""Capacity of a cache with known sets.

If it has more tags than data, or unequal sets, contiguous lines conflict before all sets are full.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gpudissect.estimate import Estimate
from gpudissect.measure.access_patterns import footprint
from gpudissect.measure.cache.infer_policy import HIT, UNKNOWN, classify
from gpudissect.measure.cache.infer_residency import SIZE_TOLERANCE, Fit, excess_fit, narrowed, probe_sizes
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_line import Lines, recount_lines
from gpudissect.measure.cache.residency_probe import ResidencyTest
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, StopEarly, found
from gpudissect.simulation.cache.geometry import Room
from gpudissect.units import format_bytes
from gpudissect.workload import Explicit, Order, Timing

CAPACITY_METHOD = "ways of all sets, cross-checked by residency"
ALL_WAYS_METHOD = "ways of all sets, whose lines stay resident together"
ROOM_METHOD = "largest number of lines that stay resident together, no set over its ways"
PIECE_SIZES, PIECE_ACCESSES = 4, 1 << 17  # contiguous sizes up to the largest that fits, tested again; accesses to each
ROOM_ACCESSES = (PIECE_ACCESSES, 1 << 20, 1 << 22)  # the same, more until all are decided
MIN_FIRST_USES, MIN_MANY_HITS, MAX_FEW_HITS = 64, 0.9, 0.7  # lines that may be missing; share that hits


def capacity_from_sets(
    structure: Structure, count: int, lines: Lines, test: ResidencyTest, bench: Bench
) -> Ask[tuple[Estimate, Structure]]:
    """The capacity if sets x ways differs from `count`, the contiguous lines that fit; the structure with its room."""
    if lines.resident is not None:
        lines = yield from recount_lines(test.level, lines.line, sum(structure.ways), bench)
    capacity = _by_residency(test.level.element, structure, count, lines)
    try:
        if lines.resident is not None:
            capacity = yield from _test_all_ways(capacity, structure, count, test, bench)
        if capacity.low != capacity.high:
            capacity = yield from _test_piece(capacity, count, lines.line, test, bench)
        if lines.resident is not None and capacity.low != capacity.high and not test.is_disturbed:
            return (yield from _test_room(capacity, structure, test, bench))
    except StopEarly:  # a recording without these chains
        pass
    return capacity, structure


def _by_residency(element: str, structure: Structure, count: int, lines: Lines) -> Estimate:
    """The capacity from the ways of all sets, or a range to `count` contiguous lines.

    If the cache has more tags than data, only as many lines are resident as fit contiguously. A cache that protects
    lines accessed twice can look the same, so this case is never certain.
    """
    ways, resident = sum(structure.ways), lines.resident
    if resident is None:  # nor is the line size known: ways count the unit used in its place
        size = count * structure.line
        caveat = f"{ways} lines fit if they are spread over all sets, {count} consecutive ones"
        return found(element, "capacity", size, size, size, DOUBTFUL, CAPACITY_METHOD, structure.evidence, (caveat,))
    matches_ways, matches_piece = (
        abs(resident.elements - total) <= 3 * resident.error + SIZE_TOLERANCE * total for total in (ways, count)
    )
    certain = matches_ways and not matches_piece
    piece, whole = format_bytes(count * structure.line), format_bytes(ways * structure.line)
    caveat = f"a contiguous buffer fits up to {piece}: some sets are full before others"
    if not certain:
        caveat = (
            f"a contiguous buffer fits up to {piece}, sets x ways are {whole}; about {resident.elements:.0f} resident "
            "lines do not distinguish the two"
        )
    low, high = (ways, ways) if certain else sorted((count, ways))
    value, low, high = (total * structure.line for total in (count if matches_piece else ways, low, high))
    confidence, evidence = EXACT if certain else BRACKETED, (*structure.evidence, *lines.evidence)
    return found(element, "capacity", value, low, high, confidence, CAPACITY_METHOD, evidence, (caveat,))


def _test_all_ways(
    capacity: Estimate, structure: Structure, count: int, test: ResidencyTest, bench: Bench
) -> Ask[Estimate]:
    """The capacity, certain if one line for every way of every set stays resident: then no tag lacks room for data.

    If not, it is a range from `count`, the contiguous lines that fit: there may be more tags than data.
    """
    rng, line = bench.rng("all ways", capacity.element), structure.line
    order = Explicit(rng.permutation(structure.sample(structure.ways, rng)) * line)
    (fit,) = yield from test.decide([order])
    size, piece, evidence = order.count * line, count * line, (*structure.evidence, *test.evidence[-1:])
    if fit is Fit.FITS and capacity.low != capacity.high:
        caveats = ("a contiguous buffer of that size does not fit: some sets are full before others",)
        return found(capacity.element, "capacity", size, size, size, EXACT, ALL_WAYS_METHOD, evidence, caveats)
    if fit is Fit.OVERFLOWS and capacity.low == size > piece:
        caveats = (f"sets x ways are {format_bytes(size)}, but that many lines do not fit when accessed repeatedly",)
        fields = (CAPACITY_METHOD, evidence, caveats)
        return found(capacity.element, "capacity", piece, piece, size, BRACKETED, *fields)
    return capacity


def _test_piece(capacity: Estimate, count: int, line: int, test: ResidencyTest, bench: Bench) -> Ask[Estimate]:
    """The capacity, revised if `count` contiguous lines miss in some laps: then there is less room for data than tags.

    A full set misses in every lap. If lines take more room when they are used again, a line may evict another that was
    already accessed in this lap: then only every other lap has misses.
    """
    sizes = [max(1, count - i) for i in range(PIECE_SIZES)]
    orders = [footprint(size * line, line, bench.seed_for("piece", capacity.element, size)) for size in sizes]
    control = footprint(max(1, count // 2) * line, line, bench.seed_for("control piece", capacity.element))
    laps, fits, evidence = yield from _fits_in_all_laps(orders, control, PIECE_ACCESSES, test)
    if fits[0] is Fit.FITS:
        return capacity
    if fits[0] is Fit.UNDECIDED:
        return replace(capacity, confidence=CONFLICTED)
    low = max((size for size, fit in zip(sizes, fits, strict=True) if fit is Fit.FITS), default=0)
    caveats = (*capacity.caveats, f"some of {laps} laps over {format_bytes(count * line)} have misses")
    revised = replace(capacity, caveats=caveats, evidence=(*capacity.evidence, *evidence))
    if not low:
        return replace(revised, confidence=DOUBTFUL)
    return replace(revised, value=low * line if capacity.value == count * line else capacity.value, low=low * line)


def _fits_in_all_laps(
    orders: Sequence[Order], control: Order, accesses: int, test: ResidencyTest
) -> Ask[tuple[int, list[Fit], tuple[str, ...]]]:
    """Laps, whether each of these chains of about equal length misses in none of them, and the evidence."""
    laps = accesses // orders[0].count + 1
    traces = yield [test.chase(order, 0, laps) for order in (*orders, control)]
    *misses, misread = (int(trace.counts[:, 1].sum()) for trace in traces)
    expected = misread * orders[0].count / control.count  # scaled from the lines of the control
    fits = [excess_fit(each - expected, expected, laps) for each in misses]
    return laps, fits, tuple(trace.workload for trace in traces)


def _test_room(
    capacity: Estimate, structure: Structure, test: ResidencyTest, bench: Bench
) -> Ask[tuple[Estimate, Structure]]:
    """The capacity, exact to the line: the largest number of lines that stay resident, no set over its ways.

    If a line used once takes half the room of a line used twice, one more line may miss in some laps only.
    """
    rng, line = bench.rng("room", capacity.element), structure.line
    lines, earlier = rng.permutation(structure.sample(structure.ways, rng)) * line, len(test.evidence)
    low, high = int(capacity.low or 0) // line, lines.size + 1
    while sizes := probe_sizes(low, high, 1):
        fits = dict(zip(sizes, (yield from test.decide([Explicit(lines[:size]) for size in sizes])), strict=True))
        if Fit.UNDECIDED in fits.values():
            return capacity, structure
        low, high = narrowed(low, high, {size: fit is Fit.FITS for size, fit in fits.items()})
    sizes = [max(1, low - i) for i in range(PIECE_SIZES)]
    orders = [Explicit(lines[:size]) for size in sizes]
    control = Explicit(lines[: max(1, low // 2)])
    for accesses in ROOM_ACCESSES:
        _, in_all_laps, evidence = yield from _fits_in_all_laps(orders, control, accesses, test)
        if Fit.UNDECIDED not in in_all_laps:
            break
    if Fit.FITS not in in_all_laps or in_all_laps[0] is Fit.UNDECIDED:
        return capacity, structure
    room = sizes[in_all_laps.index(Fit.FITS)]
    size, caveats = room * line, (f"sets x ways are {format_bytes(lines.size * line)}",) if room < lines.size else ()
    halves, chases = yield from holds_more_used_once(structure, room, test, bench)
    evidence = (*structure.evidence, *test.evidence[earlier:], *evidence, *chases)
    is_certain = room == low or bool(halves)  # no other reason is known for misses in some laps only
    if not is_certain:
        caveats = (f"with more than {format_bytes(size)}, some lines miss in some laps", *caveats)
    resident, confidence = (room, EXACT) if is_certain else (low, CONFLICTED)
    value = resident * line
    estimate = found(capacity.element, "capacity", value, size, value, confidence, ROOM_METHOD, evidence, caveats)
    return estimate, structure if halves is None else replace(structure, room=Room(resident, halves))


def holds_more_used_once(
    structure: Structure, room: int, test: ResidencyTest, bench: Bench
) -> Ask[tuple[bool | None, tuple[str, ...]]]:
    """Whether more than `room` lines are resident if each was used once, None if unclear; and the evidence.

    More lines than that are visited in turn. If not all of them were resident, those visited first are missing.
    """
    count, bounds = min(sum(structure.ways), 3 * room // 2), test.level.bounds
    first = (count - room) // 2
    assert bounds is not None  # or nothing could have been counted
    if first < 1:
        return None, ()
    rng, repeats = bench.rng("used once", test.level.element), -(-MIN_FIRST_USES // first)
    sampled = [rng.permutation(structure.sample(structure.ways, rng))[:count] for _ in range(repeats)]
    chases = [test.chase(Explicit(lines * structure.line), 0, 1) for lines in sampled]
    traces = yield [replace(each, timing=Timing.EACH, bounds=None, warmup=1) for each in chases]
    outcomes = np.concatenate([classify(trace.cycles[:first], bounds) for trace in traces])
    known = outcomes[outcomes != UNKNOWN]
    hits = np.count_nonzero(known == HIT) / max(1, known.size)
    is_unclear = MAX_FEW_HITS < hits < MIN_MANY_HITS
    return None if is_unclear else hits >= MIN_MANY_HITS, tuple(trace.workload for trace in traces)

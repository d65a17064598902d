"""Capacity of a cache with known sets.

If it has more tags than data, or unequal sets, contiguous lines conflict before all sets are full.
"""

from collections.abc import Sequence
from dataclasses import replace

from gpudissect.estimate import Estimate
from gpudissect.measure.cache.infer_residency import SIZE_TOLERANCE, Fit, excess_fit, narrowed, probe_sizes
from gpudissect.measure.cache.infer_structure import Structure
from gpudissect.measure.cache.plan_line import Lines, recount_lines
from gpudissect.measure.cache.residency_probe import ResidencyTest
from gpudissect.measure.infer_confidence import BRACKETED, CONFLICTED, DOUBTFUL, EXACT
from gpudissect.measure.plan import Ask, Bench, found
from gpudissect.simulation.cache.geometry import Room
from gpudissect.units import format_bytes
from gpudissect.workload import Explicit, Order

CAPACITY_METHOD = "ways of all sets, cross-checked by residency"
FITS = "a contiguous buffer fits up to {}: some sets are full before others"
ROOM_METHOD = "largest number of lines that stay resident together, no set over its ways"
RESIDENT_ERRORS = 3  # standard errors of the number of resident lines
PIECE_SIZES, PIECE_ACCESSES = 4, 1 << 17  # contiguous sizes up to the largest that fits, tested again; accesses to each
ROOM_ACCESSES = (PIECE_ACCESSES, 1 << 20, 1 << 22)  # the same, more until all are decided


def capacity_from_sets(
    structure: Structure, count: int, lines: Lines, test: ResidencyTest, bench: Bench
) -> Ask[tuple[Estimate, Structure]]:
    """The capacity if sets x ways differs from `count`, the contiguous lines that fit; the structure with its room."""
    if lines.resident is not None:
        lines = yield from recount_lines(test.level, lines.line, sum(structure.ways), bench)
    capacity = _by_residency(test.level.element, structure, count, lines)
    if lines.resident is None:
        return capacity, structure
    guaranteed = int(lines.resident.elements - RESIDENT_ERRORS * lines.resident.error)
    if not test.is_disturbed and 0 < guaranteed < sum(structure.ways):
        structure = replace(structure, guaranteed_lines=guaranteed)
    if test.is_disturbed:  # the last lines may miss in too few laps
        least = max(1, min(count, sum(structure.ways)) - PIECE_SIZES + 1)
        return replace(capacity, low=least * structure.line), structure
    return (yield from _test_room(capacity, structure, count, test, bench))


def _by_residency(element: str, structure: Structure, count: int, lines: Lines) -> Estimate:
    """The capacity from the ways of all sets, or a range to `count` contiguous lines.

    If the cache has more tags than data, only as many lines are resident as fit contiguously. A cache that protects
    lines accessed twice can look the same, and the number of resident lines is known to 3 % only.
    """
    ways, resident = sum(structure.ways), lines.resident
    if resident is None:  # nor is the line size known: ways count the unit used in its place
        size = count * structure.line
        caveat = f"{ways} lines fit if they are spread over all sets, {count} consecutive ones"
        return found(element, "capacity", size, size, size, DOUBTFUL, CAPACITY_METHOD, structure.evidence, (caveat,))
    matches_piece = abs(resident.elements - count) <= RESIDENT_ERRORS * resident.error + SIZE_TOLERANCE * count
    piece, whole = format_bytes(count * structure.line), format_bytes(ways * structure.line)
    held = f"about {resident.elements:.0f} lines are resident at a time"
    caveat = f"a contiguous buffer fits up to {piece}, sets x ways are {whole}; {held}"
    totals = (count if matches_piece else ways, *sorted((count, ways)))
    value, low, high = (total * structure.line for total in totals)
    confidence, evidence = BRACKETED if count <= ways else CONFLICTED, (*structure.evidence, *lines.evidence)
    return found(element, "capacity", value, low, high, confidence, CAPACITY_METHOD, evidence, (caveat,))


def _fits_in_all_laps(
    orders: Sequence[Order], control: Order, accesses: int, test: ResidencyTest
) -> Ask[tuple[list[Fit], tuple[str, ...]]]:
    """Whether each of these chains of about equal length misses in none of them, and the evidence."""
    laps = accesses // orders[0].count + 1
    traces = yield [test.chase(order, 0, laps) for order in (*orders, control)]
    *misses, misread = (int(trace.counts[:, 1].sum()) for trace in traces)
    expected = misread * orders[0].count / control.count  # scaled from the lines of the control
    fits = [excess_fit(each - expected, expected, laps) for each in misses]
    return fits, tuple(trace.workload for trace in traces)


def _test_room(
    capacity: Estimate, structure: Structure, count: int, test: ResidencyTest, bench: Bench
) -> Ask[tuple[Estimate, Structure]]:
    """The capacity, exact to the line: the largest number of lines that stay resident, no set over its ways.

    `count` contiguous lines fit. A full set misses in every lap. With one line more than fit, some laps may not miss.
    """
    rng, line = bench.rng("room", capacity.element), structure.line
    lines, earlier = rng.permutation(structure.sample(structure.ways, rng)) * line, len(test.evidence)
    low, high = min(count, lines.size), lines.size + 1
    while sizes := probe_sizes(low, high, 1):
        fits = dict(zip(sizes, (yield from test.decide([Explicit(lines[:size]) for size in sizes])), strict=True))
        if Fit.UNDECIDED in fits.values():
            return capacity, structure
        low, high = narrowed(low, high, {size: fit is Fit.FITS for size, fit in fits.items()})
    sizes = [max(1, low - i) for i in range(PIECE_SIZES)]
    *orders, control = (Explicit(lines[:size]) for size in (*sizes, max(1, low // 2)))
    for accesses in ROOM_ACCESSES:
        in_all_laps, evidence = yield from _fits_in_all_laps(orders, control, accesses, test)
        if Fit.UNDECIDED not in in_all_laps:
            break
    if Fit.FITS not in in_all_laps or in_all_laps[0] is Fit.UNDECIDED:
        return replace(capacity, confidence=min(capacity.confidence or 0.0, CONFLICTED)), structure
    room = sizes[in_all_laps.index(Fit.FITS)]
    size, caveats = room * line, (f"sets x ways are {format_bytes(lines.size * line)}",) if room < lines.size else ()
    if count < room:
        caveats = (FITS.format(format_bytes(count * line)), *caveats)
    evidence = (*structure.evidence, *test.evidence[earlier:], *evidence)
    if room == lines.size:  # every tag has room for its data
        fields = (EXACT if count <= room else CONFLICTED, ROOM_METHOD, evidence, caveats)
        return found(capacity.element, "capacity", size, size, size, *fields), replace(structure, guaranteed_lines=None)
    is_certain = room == low
    if not is_certain:
        caveats = (f"with more than {format_bytes(size)}, some lines miss in some laps", *caveats)
    resident, confidence = (room, EXACT) if is_certain else (low, CONFLICTED)
    value = resident * line
    estimate = found(capacity.element, "capacity", value, size, value, confidence, ROOM_METHOD, evidence, caveats)
    return estimate, replace(structure, room=Room(resident), guaranteed_lines=resident)

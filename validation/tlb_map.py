"""Check what `docs/tlb.md` says of the TLBs of an H200, on recorded runs: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/tlb-map-h200.npz` from the files that `tlb_map_probe.py` wrote, one for each
GPU. Names of arrays begin with the number of the GPU. The excess of a load is its latency less that of a repeated load
of the same line, in cycles.

- `names`: of the traces of random loads, in their order.
- `pages_N`, shape (2, pages): addresses of the pages of trace N, and the number of address bits within each.
- `excess_N`: excess of each load of trace N (it may be negative); `order_of` has their order.
- `entries_B`, for pages of 2^B bytes: rows of B, a distance in bytes, and three median excesses of a load at this
  distance from one that missed all TLBs: directly after it, after the L1 TLB was flushed, and from an SM with another
  L2 TLB.
- `sharing`, shape (SMs, SMs): excess of a load by the second SM, after the first one loaded the page.
- `misses_of_13`: loads of each SM that miss in the L2 TLB, after SM 0 loaded 13 pages of a set until none missed.
"""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l2_map import hash_numbers
from l2_rules import Flags, Numbers
from tlb_rules import (
    BIG,
    FIRST_ENTRIES,
    FIRST_PAGES,
    PAGES,
    SECOND_LABELS,
    SECOND_SETS,
    THIRD_SETS,
    WAYS,
    Loads,
    find_misses,
    first_misses,
    misses_beside,
    second_misses,
    second_sets,
    third_misses,
    third_sets,
    walk_reads,
)

from gpudissect.simulation.cache.geometry import PolicyKind

DATA = Path(__file__).parents[1] / "docs" / "results" / "tlb-map-h200.npz"

LRU, FIFO = PolicyKind.LRU, PolicyKind.FIFO
WIDE = "2 MiB: 8 sets of the L3 TLB with 16 pages"  # at addresses that differ in all bits
LEVELS = ("first", "second", "third", "walk")
SECOND_MISS, READS = 72, (250, 640, 1005, 1400)
"""Excess, in cycles, from which a load counts as a miss of the L2 TLB, or as one with a page walk that reads one to
four entries from memory: the bounds lie between the modes of the distribution."""
FIRST_MISS = 5  # cycles more than the median of hits of the same line: half of what a miss costs
MIN_COMPARED = 1000  # loads
MAX_WRONG = {"first": 0.02, "second": 3e-4, "third": 2e-3, "walk": 3e-3}
MAX_WRONG_OF_GPU = {"first": 0.005, "second": 5e-5, "third": 2e-4, "walk": 1e-3}
"""Share of the predictions of one trace, and of all traces of a GPU."""
LAUNCH, STARTING = 20_000, 200  # loads of a kernel, and those excluded at its start: its own reads evict entries
MIN_TRACES = {"first": 20, "second": 35, "third": 20, "walk": 12}  # that test each
MAX_FIRST_ENTRIES = 64  # of traces that test the L1 TLB; with more, hits are too rare
MIN_OTHER_WRONG = 0.003  # of each hypothesis in `wrong_of_others`
SMALL_WALKS = "16384 entries", "random addresses"  # traces of small pages with page walks
MIN_WALKS, MIN_WALK_CACHE = 20, 10  # walks of a kind that are printed; cycles of a page walk cache
MIN_GAP = 20  # cycles between SMs that are near to the L3 TLB and the others
GROUPS, GROUP_SIZES = {23, 24}, {2, 4, 6}  # of SMs with a common L2 TLB
MODE_BYTES, MAX_MODE_SHARE = 512 << 20, 0.5
"""Addresses that share a table of page table entries, and the share of the standard deviation of walks within them."""


def order_of(trace: int, loads: int, pages: int) -> Numbers:
    """The page of each load of a trace."""
    hashes = hash_numbers(np.arange(loads, dtype=np.uint64) + np.uint64(trace << 40))
    return (hashes * np.uint64(pages) >> np.uint64(32)).astype(np.int64)


def traces_of(arrays: Mapping[str, Any]) -> dict[str, Loads]:
    """The traces of a GPU by their names.

    Excluded from comparison: the first half of the loads, those at the start of a kernel, the first load of each entry.
    """
    found = {}
    for trace, name in enumerate(arrays["names"].tolist()):
        excess = arrays[f"excess_{trace}"].astype(np.int64)
        address, bits = arrays[f"pages_{trace}"][:, order_of(trace, excess.size, arrays[f"pages_{trace}"].shape[1])]
        compared = (np.arange(excess.size) >= excess.size // 2) & (np.arange(excess.size) % LAUNCH >= STARTING)
        loads = Loads(address, bits, excess, compared)
        compared[np.unique(loads.keys(FIRST_PAGES), return_index=True)[1]] = False
        found[name] = loads
    return found


def wrong_of(loads: Loads) -> Iterator[tuple[str, int, int]]:
    """Wrong and all predictions for each TLB, and for the reads of page walks of pages of one size.

    In runs with two sizes, what a kernel reads at its start changes the page walk caches for thousands of loads.
    """
    missed = first_misses(loads)
    if np.unique(loads.keys(FIRST_PAGES)).size <= MAX_FIRST_ENTRIES:
        yield "first", *count_wrong(missed, is_slow(loads, missed), loads)
    loads = loads[missed]
    missed = second_misses(loads)
    yield "second", *count_wrong(missed, loads.excess >= SECOND_MISS, loads)
    loads = loads[missed]
    missed = third_misses(loads)
    reads = np.zeros(missed.size, np.int64)
    reads[missed] = walk_reads(loads[missed])
    yield "third", *count_wrong(reads > 0, reads_seen(loads) > 0, loads)
    if np.unique(loads.bits).size > 1:
        return
    loads, reads = loads[reads > 0], reads[reads > 0]
    yield "walk", *count_wrong(reads, reads_seen(loads), loads)


def wrong_of_others(traces: Mapping[str, Loads]) -> Iterator[tuple[str, float]]:
    """Share of wrong predictions of refuted hypotheses."""
    few = traces["2 MiB: 16 MiB apart"]
    for entries in (FIRST_ENTRIES - 1, FIRST_ENTRIES + 1):
        missed = first_misses(few, entries)
        yield f"first: {entries} entries", share_wrong(missed, is_slow(few, missed), few)
    yield from wrong_of_second(traces)
    yield from wrong_of_third(traces)
    for name, caches, trace in (
        ("FIFO of 32 MiB", {25: FIFO, 33: FIFO, 40: FIFO}, "4 KiB: 16384 entries"),
        ("LRU of 8 GiB", {25: LRU, 33: LRU, 40: FIFO}, "2 MiB: 16384 areas"),
        ("LRU of 1 TiB", {25: LRU, 33: FIFO, 40: LRU}, WIDE),
        ("2 TiB instead of 1 TiB", {25: LRU, 33: FIFO, 41: FIFO}, WIDE),
        ("none of 32 MiB", {33: FIFO, 40: FIFO}, "2 MiB: 2 sets of the L3 TLB with 12 pages"),
    ):
        walks = after_third(traces[trace])
        reads = walk_reads(walks, caches) + (25 not in caches)
        yield f"walk cache: {name}", share_wrong(reads, reads_seen(walks), walks)


def wrong_of_second(traces: Mapping[str, Loads]) -> Iterator[tuple[str, float]]:
    """The same of the L2 TLB."""
    loads = after_first(traces["2 MiB: ordinary memory, part"])
    number, sets, seen = loads.numbers(), second_sets(loads), loads.excess >= SECOND_MISS
    modulo = find_misses(number, number % SECOND_SETS, SECOND_SETS, WAYS)
    yield "second: modulo", share_wrong(modulo, seen, loads)
    yield "second: FIFO", share_wrong(find_misses(number, sets, SECOND_SETS, WAYS, FIFO), seen, loads)
    loads = after_first(traces["2 MiB: halves of 4096 areas"])
    halves = misses_beside(loads.keys(FIRST_PAGES), second_sets(loads), SECOND_SETS)
    yield "second: entries of 16 MiB", share_wrong(halves, loads.excess >= SECOND_MISS, loads)
    loads = after_first(traces["2 MiB: 1 sets of 20 pages"])
    alone = find_misses(loads.keys(), second_sets(loads), SECOND_SETS, WAYS)
    yield "second: no miss cache", share_wrong(alone, loads.excess >= SECOND_MISS, loads)
    loads = after_first(traces["2 MiB: 4 sets of 10 pages"])
    reloaded = misses_beside(loads.keys(), second_sets(loads), SECOND_SETS, reloads=True)
    yield "second: a hit in the miss cache reloads", share_wrong(reloaded, loads.excess >= SECOND_MISS, loads)
    loads = after_first(traces["mixed with 64 KiB: 1500"])
    same = np.where(loads.bits == BIG, second_sets(loads) ^ SECOND_LABELS[BIG][1], second_sets(loads))
    missed = misses_beside(loads.keys(), same, SECOND_SETS)
    yield "second: same sets for 64 KiB", share_wrong(missed, loads.excess >= SECOND_MISS, loads)


def wrong_of_third(traces: Mapping[str, Loads]) -> Iterator[tuple[str, float]]:
    """The same of the L3 TLB. The walk caches are not simulated; in these traces, they hardly ever hit."""
    count = 2 * THIRD_SETS
    loads = after_second(traces["2 MiB: halves of 12288 areas"])
    halves = find_misses(loads.keys(FIRST_PAGES), third_sets(loads), count, WAYS)
    yield "third: entries of 16 MiB", share_wrong(halves, reads_seen(loads) > 0, loads)
    loads = after_second(traces["2 MiB: 16384 areas"])
    number, seen = loads.numbers(), reads_seen(loads) > 0
    yield "third: modulo", share_wrong(find_misses(number, number % count, count, WAYS), seen, loads)
    first_in = find_misses(number, third_sets(loads), count, WAYS, FIFO)
    yield "third: FIFO", share_wrong(first_in, seen, loads)
    loads = after_first(traces["2 MiB: 16384 areas"])
    missed = second_misses(loads)
    seen = reads_seen(loads[missed]) > 0
    yield "third: sees all loads", share_wrong(third_misses(loads)[missed], seen, loads[missed])
    loads = after_second(traces["4 KiB: 16384 entries"])
    sets = loads.numbers() % 2 * THIRD_SETS + third_sets(loads) % THIRD_SETS
    lowest = find_misses(loads.keys(), sets, count, WAYS)
    yield "third: one bit selects the half of 4 KiB", share_wrong(lowest, reads_seen(loads) > 0, loads)
    loads = after_second(traces["2 MiB: 2 sets of the L3 TLB with 12 pages"])
    alone = find_misses(loads.keys(), third_sets(loads), count, WAYS)
    yield "third: no miss cache", share_wrong(alone, reads_seen(loads) > 0, loads)


def after_first(loads: Loads) -> Loads:
    """The loads that miss the L1 TLB."""
    return loads[first_misses(loads)]


def after_second(loads: Loads) -> Loads:
    """The loads that miss the first and the L2 TLB."""
    loads = after_first(loads)
    return loads[second_misses(loads)]


def after_third(loads: Loads) -> Loads:
    """The loads that miss all TLBs."""
    loads = after_second(loads)
    return loads[third_misses(loads)]


def reads_seen(loads: Loads) -> Numbers:
    """How many entries of page tables each load seems to have read from memory."""
    return np.digitize(loads.excess, READS)


def is_slow(loads: Loads, missed: Flags) -> Flags:
    """Which loads take longer than the median hit of the same line."""
    _, number = np.unique(loads.address, return_inverse=True)
    hits = [np.median(loads.excess[(number == each) & ~missed]) for each in range(number.max() + 1)]
    slow: Flags = loads.excess - np.array(hits)[number] > FIRST_MISS
    return slow


def count_wrong(predicted: Numbers | Flags, observed: Numbers | Flags, loads: Loads) -> tuple[int, int]:
    """Wrong and all predictions among the compared ones."""
    return int(np.sum((predicted != observed) & loads.compared)), int(loads.compared.sum())


def share_wrong(predicted: Numbers | Flags, observed: Numbers | Flags, loads: Loads) -> float:
    """Share of wrong predictions among the compared ones."""
    wrong, compared = count_wrong(predicted, observed, loads)
    return wrong / compared


def groups_of(sharing: Numbers) -> list[tuple[int, ...]]:
    """SMs with a common L2 TLB."""
    return sorted({tuple(np.flatnonzero(row < SECOND_MISS // 2).tolist()) for row in sharing})


def pack(files: list[Path]) -> None:
    """Write `DATA` from what `tlb_map_probe.py` measured."""
    recorded_map.save(DATA, recorded_map.joined(files))


def check(data: Mapping[str, Any]) -> bool:
    """Print what the recorded runs show; whether that is what the page says."""
    holds, totals = [], Counter[tuple[str, str]]()
    for gpu in sorted({name.partition("_")[0] for name in data}):
        print(f"GPU {gpu}")
        arrays = {name.partition("_")[2]: data[name] for name in data if name.startswith(f"{gpu}_")}
        traces = traces_of(arrays)
        counts = Counter[tuple[str, str]]()
        for name, loads in traces.items():
            for level, wrong, compared in wrong_of(loads):
                if compared >= MIN_COMPARED:
                    print(f"{name}, {level}: {wrong} of {compared} wrong")
                    holds.append(wrong <= MAX_WRONG[level] * compared)
                    counts += Counter({(level, "wrong"): wrong, (level, "compared"): compared, (level, "traces"): 1})
        for level, most in MAX_WRONG_OF_GPU.items():
            holds.append(counts[level, "wrong"] <= most * counts[level, "compared"])
            holds.append(counts[level, "traces"] >= MIN_TRACES[level])
        totals += counts
        others = dict(wrong_of_others(traces))
        for hypothesis, share in others.items():
            print(f"{hypothesis}: {share:.2%} wrong")
        holds += [share >= MIN_OTHER_WRONG for share in others.values()]
        holds.append(check_modes(traces))
        holds += [check_entries(arrays[f"entries_{bits}"].astype(np.int64)) for bits in SECOND_LABELS]
        holds.append(check_sharing(arrays["sharing"].astype(np.int64), arrays["misses_of_13"].astype(np.int64)))
    for level in LEVELS:
        print(f"{level}: {totals[level, 'wrong']} of {totals[level, 'compared']} wrong")
    return all(holds)


def check_modes(traces: Mapping[str, Loads]) -> bool:
    """Print how long page walks take; whether those of 2 MiB pages differ less among addresses that share a table.

    And whether a hit in the 32 MiB walk cache, which needs no read, takes longer than one in the L3 TLB.
    """
    for name in ("2 MiB: 16384 areas", WIDE, *(f"{size} KiB: {each}" for size in (64, 4) for each in SMALL_WALKS)):
        walks = after_third(traces[name])
        for reads in np.unique(seen := reads_seen(walks)[walks.compared]):
            excess = walks.excess[walks.compared][seen == reads]
            if excess.size >= MIN_WALKS:
                print(f"{name}: page walks with {reads} reads: {np.quantile(excess, (0.01, 0.5, 0.99))} cycles")
    walks = after_third(traces["2 MiB: 16384 areas"])
    walks = walks[reads_seen(walks) == 1]
    tables = walks.address // MODE_BYTES
    within = np.sqrt(np.mean([np.var(walks.excess[tables == table]) for table in np.unique(tables)]))
    print(f"standard deviation of page walks: {np.std(walks.excess):.1f} cycles, {within:.1f} within 512 MiB")
    loads = after_second(traces["2 MiB: 2 sets of the L3 TLB with 16 pages"])
    missed = third_misses(loads)
    hits, unread = (np.median(loads.excess[some & (reads_seen(loads) == 0)]) for some in (~missed, missed))
    print(f"hits in the L3 TLB: {hits} cycles, in the 32 MiB walk cache {unread}")
    return bool(within < MAX_MODE_SHARE * np.std(walks.excess) and unread - hits >= MIN_WALK_CACHE)


def check_entries(rows: Numbers) -> bool:
    """Print what loads at a distance take; whether the L1 TLB's entries have 8 pages and those of the others 16."""
    bits, distance, at_once, later, other = rows.T
    print(f"2^{bits[0]} bytes: at once {at_once.tolist()}, later {later.tolist()}, by another SM {other.tolist()}")
    half, whole = 1 << bits + FIRST_PAGES, 1 << bits + PAGES
    return bool(
        (at_once[distance < half].max(initial=0) + 4 < at_once[distance >= half]).all()
        and (later[distance < whole] < SECOND_MISS).all()
        and (other[distance < whole] < READS[0]).all()
        and (np.minimum(later, other)[distance >= whole] >= READS[0]).all()
    )


def check_sharing(sharing: Numbers, misses_of_13: Numbers) -> bool:
    """Print which SMs share a L2 TLB, and what hits in the third take from each; whether as the page says."""
    groups = groups_of(sharing)
    print(f"SMs with a common L2 TLB: {groups}")
    group_of = {sm: number for number, group in enumerate(groups) for sm in group}
    number = np.array([group_of[sm] for sm in range(len(sharing))])
    apart = number[:, None] != number
    by_sm = np.array([np.median(column[other]) for column, other in zip(sharing.T, apart.T, strict=True)])
    near = np.sort(by_sm)
    step = int(np.argmax(np.diff(near))) + 1
    print(f"hits in the L3 TLB, medians by SM: {near[:step].min()} to {near[step - 1]}, {near[step]} to {near[-1]}")
    print(f"misses of 13 pages after a loop of SM 0: none on SMs {np.flatnonzero(misses_of_13 == 0).tolist()}")
    return (
        sorted(sm for group in groups for sm in group) == [*range(len(sharing))]
        and len(groups) in GROUPS
        and {len(group) for group in groups} <= GROUP_SIZES
        and all(group_of[sm] == group_of[sm ^ 1] for sm in group_of)
        and bool(sharing[apart].min() >= SECOND_MISS > 2 * sharing[~apart].max())
        and bool(near[step] - near[step - 1] >= MIN_GAP)
        and (*np.flatnonzero(misses_of_13 == 0).tolist(),) == groups[0]
    )


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

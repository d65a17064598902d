"""Check what `docs/tlb.md` says of the TLBs of an H200, on recorded runs: ``--check`` for CI.

``--pack FOLDER ...`` writes `docs/results/tlb-map-h200.npz` from what `tlb_map.cu` measured, a folder for each GPU.
Names of arrays begin with the number of the GPU. The excess of a load is its latency less that of a repeated load of
the same line, in cycles.

- `traces`: rows of number, pages, bytes from one page to the next, loads; `regions`: number of a trace and the address
  of one of its regions.
- `loops`: rows of number, sets, pages of each set, loads, address of the first page.
- `trace_N`: excess of each load of a trace or a loop.
- `sharing`, shape (SMs, SMs): excess of a load of a page by the second SM, after the first one loaded it.
- `sms`: rows of SM, excess of its load of a page that SM 0 loaded, misses after a loop of SM 0.
- `pieces`: rows of a 2 MiB part of a page, excess of its load after the first part was loaded: later, and at once.
"""

import sys
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l2_map import hash_numbers
from l2_rules import Flags, Numbers
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

DATA = Path(__file__).parents[1] / "docs" / "results" / "tlb-map-h200.npz"

FIRST_ENTRIES, FIRST_SHIFT = 16, 24  # pages of 16 MiB
RECENT_ENTRIES = 16
SECOND_SETS, THIRD_SETS, WAYS, SHIFT = 256, 512, 8, 25  # pages of 32 MiB; sets of each half of the third TLB
DIRECTORY_ENTRIES, DIRECTORY_SHIFT = 16, 33  # 8 GiB
SECOND_MISS, THIRD_MISS, DIRECTORY_MISS = 72, 250, 680
"""Excess, in cycles, from which a load counts as a TLB miss: the bounds lie between the modes of the distribution."""
FIRST_MISS = 5  # cycles more than the median of hits of the same line: half of what a miss costs
LOOP_STEP, LOOP_START = 37, 100  # sets of a loop: the first one, and how far apart they are
PAGES = 16384  # from which the pages of a loop are taken
HALVES, FAR_HALVES, FAR = 8, 9, 7  # traces: halves of 4,096 and 12,288 pages, and 16,384 pages
ONE_SET = (1, 20)  # the loop whose pages are in one set
MIN_COMPARED = 1000  # loads
MAX_WRONG = {"first": 0.015, "second": 2e-4, "third": 2e-4, "directory": 1e-3}
LAUNCH, STARTING = 20_000, 200  # loads of a kernel, and those at its start: what it reads itself displaces entries
MIN_TRACES = {"first": 5, "second": 14, "third": 3, "directory": 3}  # that test each
MAX_FIRST_PAGES = 64  # of traces that test the first TLB; it would hit too seldom with more
MIN_OTHER_WRONG = 0.005  # of each hypothesis in `wrong_of_others`
MIN_GAP = 20  # cycles between SMs that are near to the third TLB and the others
GROUPS, GROUP_SIZES = 24, {4, 6}  # of SMs with a common second TLB
MODE_BYTES, MAX_MODE_SHARE = 512 << 20, 0.5
"""Addresses that share a table of page table entries, and the share of the standard deviation of walks within them."""


def order(trace: int, loads: int, pages: int) -> Numbers:
    """The pages of a trace, as in `tlb_map.cu`."""
    hashes = hash_numbers(np.arange(loads, dtype=np.uint64) + np.uint64(trace << 40))
    return (hashes * np.uint64(pages) >> np.uint64(32)).astype(np.int64)


def addresses_of(row: Numbers, regions: Numbers) -> Numbers:
    """Virtual addresses of the pages of a trace."""
    trace, pages, stride, loads = row.tolist()
    starts = regions[regions[:, 0] == trace, 1]
    region, number = np.divmod(order(trace, loads, pages), pages // starts.size)
    addresses: Numbers = starts[region] + number * stride
    return addresses


def loop_addresses(row: Numbers) -> Numbers:
    """The same of a loop."""
    trace, sets, each, loads, base = row.tolist()
    pages = base + (np.arange(PAGES) << SHIFT)
    by_set = [pages[second_set(pages) == (LOOP_START + LOOP_STEP * i) % SECOND_SETS][:each] for i in range(sets)]
    return np.concatenate(by_set)[order(trace, loads, sets * each)]


def second_set(address: Numbers) -> Numbers:
    """Set of the second TLB: the XOR of address bits 25 to 32, 33 to 40 and 41 to 48."""
    page = address >> SHIFT
    return (page ^ page >> 8 ^ page >> 16) % SECOND_SETS


def third_set(address: Numbers) -> Numbers:
    """Set of the third TLB: bit 25 is the half, the XOR of bits 26 to 34, 35 to 43 and 44 to 52 the set in it."""
    page = address >> SHIFT
    return page % 2 * THIRD_SETS + (page >> 1 ^ page >> 10 ^ page >> 19) % THIRD_SETS


def find_misses(pages: Numbers, sets: Numbers, count: int, ways: int, policy: PolicyKind = PolicyKind.LRU) -> Flags:
    """Which accesses miss in a cache of `count` sets."""
    distinct, number = np.unique(pages, return_inverse=True)
    model = Cache((ways,) * count, 1, 1, Index(IndexKind.MODULO), Policy(policy))
    tags = np.zeros(distinct.size, np.int64)
    tags[number] = sets
    return CacheModel(model).access_many(np.arange(distinct.size)[number] * count + tags[number]).astype(np.bool_)


def second_misses(pages: Numbers, sets: Numbers) -> Flags:
    """Which accesses miss in the second TLB and in the miss cache beside it, which holds the last pages that missed.

    Both are searched; each that has the page makes it its most recent one.
    """
    ways = [OrderedDict[int, None]() for _ in range(SECOND_SETS)]
    recent = OrderedDict[int, None]()
    missed = np.zeros(pages.size, np.bool_)
    for i, (page, number) in enumerate(zip(pages.tolist(), sets.tolist(), strict=True)):
        places = ((ways[number], WAYS), (recent, RECENT_ENTRIES))
        missed[i] = not any(page in place for place, _ in places)
        if missed[i]:
            for place, entries in places:
                if len(place) == entries:
                    place.popitem(last=False)
                place[page] = None
        for place, _ in places:
            if page in place:
                place.move_to_end(page)
    return missed


def directory_misses(areas: Numbers) -> Flags:
    """Which walks do not find their directory entries among the last ones that were read, first in, first out."""
    held = deque[int](maxlen=DIRECTORY_ENTRIES)
    missed = np.zeros(areas.size, np.bool_)
    for i, area in enumerate(areas.tolist()):
        missed[i] = area not in held
        if missed[i]:
            held.append(area)
    return missed


def wrong_of(address: Numbers, excess: Numbers) -> Iterator[tuple[str, int, int]]:
    """Wrong and all predictions for each TLB. First loads of a page are not compared."""
    compared = is_compared(address)
    first = first_misses(address, FIRST_ENTRIES)
    if np.unique(address >> FIRST_SHIFT).size <= MAX_FIRST_PAGES:
        yield "first", *count_wrong(first, is_slow(address, excess, first), compared)
    address, excess, compared = address[first], excess[first], compared[first]
    second = second_misses(address >> SHIFT, second_set(address))
    yield "second", *count_wrong(second, excess >= SECOND_MISS, compared)
    address, excess, compared = address[second], excess[second], compared[second]
    third = third_misses(address)
    yield "third", *count_wrong(third, excess >= THIRD_MISS, compared)
    address, excess, compared = address[third], excess[third], compared[third]
    yield "directory", *count_wrong(directory_misses(address >> DIRECTORY_SHIFT), excess >= DIRECTORY_MISS, compared)


def wrong_of_others(traces: Mapping[int, tuple[Numbers, Numbers]], loop: tuple[Numbers, Numbers]) -> dict[str, float]:
    """Share of wrong predictions of refuted hypotheses; `traces` by number, `loop` is of one set."""
    fifo, shares = PolicyKind.FIFO, {}
    address, excess = traces[0]
    for entries in (FIRST_ENTRIES - 1, FIRST_ENTRIES + 1):
        other = first_misses(address, entries)
        shares[f"first: {entries} entries"] = share_wrong(other, is_slow(address, excess, other), address)
    address, excess = passed(*traces[2], first_misses(traces[2][0], FIRST_ENTRIES))
    page, sets, seen = address >> SHIFT, second_set(address), excess >= SECOND_MISS
    shares["second: modulo"] = share_wrong(find_misses(page, page % SECOND_SETS, SECOND_SETS, WAYS), seen, address)
    shares["second: FIFO"] = share_wrong(find_misses(page, sets, SECOND_SETS, WAYS, fifo), seen, address)
    address, excess = passed(*traces[HALVES], first_misses(traces[HALVES][0], FIRST_ENTRIES))
    halves = second_misses(address >> FIRST_SHIFT, second_set(address))
    shares["second: entries of 16 MiB"] = share_wrong(halves, excess >= SECOND_MISS, address)
    address, excess = passed(*loop, first_misses(loop[0], FIRST_ENTRIES))
    page, sets, seen = address >> SHIFT, second_set(address), excess >= SECOND_MISS
    shares["second: no buffer"] = share_wrong(find_misses(page, sets, SECOND_SETS, WAYS), seen, address)
    address, excess = to_third(*traces[FAR_HALVES])
    halves = find_misses(address >> FIRST_SHIFT, third_set(address), 2 * THIRD_SETS, WAYS)
    shares["third: entries of 16 MiB"] = share_wrong(halves, excess >= THIRD_MISS, address)
    address, excess = to_third(*traces[FAR])
    page, seen = address >> SHIFT, excess >= THIRD_MISS
    modulo = find_misses(page, page % (2 * THIRD_SETS), 2 * THIRD_SETS, WAYS)
    shares["third: modulo"] = share_wrong(modulo, seen, address)
    first_in = find_misses(page, third_set(address), 2 * THIRD_SETS, WAYS, fifo)
    shares["third: FIFO"] = share_wrong(first_in, seen, address)
    address, excess = passed(*traces[FAR], first_misses(traces[FAR][0], FIRST_ENTRIES))
    second = second_misses(address >> SHIFT, second_set(address))
    shares["third: sees all loads"] = share_wrong(
        third_misses(address)[second], excess[second] >= THIRD_MISS, address[second]
    )
    address, excess = to_third(*traces[FAR])
    address, excess = passed(address, excess, third_misses(address))
    area = address >> DIRECTORY_SHIFT
    lru = find_misses(area, np.zeros_like(area), 1, DIRECTORY_ENTRIES)
    shares["directory: LRU"] = share_wrong(lru, excess >= DIRECTORY_MISS, address)
    return shares


def to_third(address: Numbers, excess: Numbers) -> tuple[Numbers, Numbers]:
    """The loads that miss the first and the second TLB."""
    address, excess = passed(address, excess, first_misses(address, FIRST_ENTRIES))
    return passed(address, excess, second_misses(address >> SHIFT, second_set(address)))


def passed(address: Numbers, excess: Numbers, missed: Flags) -> tuple[Numbers, Numbers]:
    """The loads that missed."""
    return address[missed], excess[missed]


def is_compared(address: Numbers) -> Flags:
    """All but the first half of the loads, those at the start of a kernel, and the first load of each page."""
    return is_warm(address) & (np.arange(address.size) % LAUNCH >= STARTING)


def is_warm(address: Numbers) -> Flags:
    """The second half of loads, without the first load of each page."""
    warm = np.arange(address.size) >= address.size // 2
    warm[np.unique(address >> FIRST_SHIFT, return_index=True)[1]] = False
    return warm


def share_wrong(predicted: Flags, observed: Flags, address: Numbers) -> float:
    """Share of wrong predictions, caches warm."""
    wrong, loads = count_wrong(predicted, observed, is_warm(address))
    return wrong / loads


def third_misses(address: Numbers) -> Flags:
    """Which loads miss in the third TLB, of those that reach it."""
    return find_misses(address >> SHIFT, third_set(address), 2 * THIRD_SETS, WAYS)


def first_misses(address: Numbers, entries: int) -> Flags:
    """Which loads miss in the first TLB."""
    return find_misses(address >> FIRST_SHIFT, np.zeros_like(address), 1, entries)


def is_slow(address: Numbers, excess: Numbers, missed: Flags) -> Flags:
    """Which loads take longer than hits of the same line, the median of which removes the noise of one latency."""
    _, number = np.unique(address, return_inverse=True)
    hits = [np.median(excess[(number == each) & ~missed]) for each in range(number.max() + 1)]
    slow: Flags = excess - np.array(hits)[number] > FIRST_MISS
    return slow


def count_wrong(predicted: Flags, observed: Flags, compared: Flags) -> tuple[int, int]:
    """Wrong and all predictions among the compared ones."""
    return int(np.sum((predicted != observed) & compared)), int(compared.sum())


def groups_of(sharing: Numbers) -> list[tuple[int, ...]]:
    """SMs with a common second TLB."""
    return sorted({tuple(np.flatnonzero(row < SECOND_MISS // 2).tolist()) for row in sharing})


def pack(folders: list[Path]) -> None:
    """Write `DATA` from what `tlb_map.cu` measured."""
    arrays: dict[str, NDArray[Any]] = {}
    for gpu, folder in enumerate(folders):
        traces = [[*map(int, line.split())] for line in (folder / "traces.txt").read_text().splitlines()]
        arrays[f"{gpu}_traces"] = np.array([row[:4] for row in traces])
        arrays[f"{gpu}_regions"] = np.array([(row[0], start) for row in traces for start in row[4:]])
        arrays[f"{gpu}_loops"] = np.loadtxt(folder / "loops.txt", np.int64)
        for row in (*arrays[f"{gpu}_traces"], *arrays[f"{gpu}_loops"]):
            arrays[f"{gpu}_trace_{row[0]}"] = np.fromfile(folder / f"trace_{row[0]}.u16", np.uint16)
        sharing = np.fromfile(folder / "sharing.u8", np.uint8)
        arrays[f"{gpu}_sharing"] = sharing.reshape(int(np.sqrt(sharing.size)), -1)
        for name in [each for each in ("sms", "pieces") if (folder / f"{each}.csv").exists()]:
            arrays[f"{gpu}_{name}"] = np.loadtxt(folder / f"{name}.csv", np.int64, delimiter=",", skiprows=1)
    recorded_map.save(DATA, arrays)


def check(data: Mapping[str, NDArray[np.integer[Any]]]) -> bool:
    """Print what the recorded runs show; whether that is what the page says."""
    holds, totals = [], dict.fromkeys(MAX_WRONG, (0, 0))
    for gpu, of in recorded_map.by_gpu(data).items():
        print(f"GPU {gpu}")
        traces = {int(row[0]): (addresses_of(row, of["regions"]), of[f"trace_{row[0]}"]) for row in of["traces"]}
        loops = {(*row[1:3].tolist(),): (loop_addresses(row), of[f"trace_{row[0]}"]) for row in of["loops"]}
        tested = Counter[str]()
        for address, excess in (*traces.values(), *loops.values()):
            pages = np.unique(address >> FIRST_SHIFT).size
            for name, wrong, loads in wrong_of(address, excess):
                if loads >= MIN_COMPARED:
                    print(f"{pages} pages, {name}: {wrong} of {loads} wrong")
                    holds.append(wrong <= MAX_WRONG[name] * loads)
                    totals[name] = totals[name][0] + wrong, totals[name][1] + loads
                    tested[name] += 1
        holds += [tested[name] >= count for name, count in MIN_TRACES.items()]
        if FAR_HALVES in traces and "pieces" in of:
            others = wrong_of_others(traces, loops[ONE_SET])
            for hypothesis, share in others.items():
                print(f"{hypothesis}: {share:.2%} wrong")
            holds += [share >= MIN_OTHER_WRONG for share in others.values()]
            holds.append(check_modes(*traces[FAR]))
            holds.append(check_pieces(of["pieces"]))
        holds.append(check_sharing(of["sharing"], of["sms"]))
    print(f"wrong and all predictions: {totals}")
    return all(holds)


def check_modes(address: Numbers, excess: Numbers) -> bool:
    """Print how much page walks differ in all, and among addresses that share a table; whether the latter is less."""
    address, excess = to_third(address, excess)
    hits, slower = (excess >= THIRD_MISS) & (excess < DIRECTORY_MISS), excess >= DIRECTORY_MISS
    for kind, some in (("hit", hits), ("miss", slower)):
        print(f"page walks with a directory {kind}: {np.quantile(excess[some], (0.01, 0.99))} cycles")
    excess, tables = excess[hits], address[hits] // MODE_BYTES
    within = np.sqrt(np.mean([np.var(excess[tables == table]) for table in np.unique(tables)]))
    print(f"standard deviation of page walks: {np.std(excess):.1f} cycles, {within:.1f} within 512 MiB")
    return bool(within < MAX_MODE_SHARE * np.std(excess))


def check_pieces(pieces: Numbers) -> bool:
    """Print what loads of other parts of a page take; whether the second TLB has all and the first TLB half of them."""
    later, at_once = pieces[:, 1], pieces[:, 2]
    print(f"parts of a page: excess later {later.tolist()}, at once {at_once.tolist()}")
    return bool(later.max() < SECOND_MISS and at_once[:8].max() + 4 < at_once[8:].min())


def check_sharing(sharing: Numbers, sms: Numbers) -> bool:
    """Print which SMs share a second TLB, and what hits in the third take from each; whether as the page says."""
    groups = groups_of(sharing)
    print(f"SMs with a common second TLB: {groups}")
    group_of = {sm: number for number, group in enumerate(groups) for sm in group}
    number = np.array([group_of[sm] for sm in range(len(sharing))])
    apart = number[:, None] != number
    by_sm = np.array([np.median(column[other]) for column, other in zip(sharing.T, apart.T, strict=True)])
    near = np.sort(by_sm)
    step = int(np.argmax(np.diff(near))) + 1
    print(f"hits in the third TLB, medians by SM: {near[:step].min()} to {near[step - 1]}, {near[step]} to {near[-1]}")
    print(f"misses of 13 pages after a loop of SM 0: none on SMs {np.flatnonzero(sms[:, 2] == 0).tolist()}")
    return (
        sorted(sm for group in groups for sm in group) == [*range(len(sharing))]
        and len(groups) == GROUPS
        and {len(group) for group in groups} <= GROUP_SIZES
        and all(group_of[sm] == group_of[sm ^ 1] for sm in group_of)
        and bool(sharing[apart].min() >= SECOND_MISS > 2 * sharing[~apart].max())
        and bool(near[step] - near[step - 1] >= MIN_GAP)
        and (*np.flatnonzero(sms[:, 2] == 0).tolist(),) == groups[0]
    )


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

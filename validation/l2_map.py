"""Check what `docs/l2.md` says of the L2 of an H200, on recorded runs: ``--check`` for CI.

``--pack FOLDER ...`` writes `docs/results/l2-map-h200.npz` from what `l2_map.cu` measured, a folder for each GPU. Lines
have 128 B and are numbered from the start of an allocation of nearly all memory. Names of arrays begin with the number
of the GPU:

- `start`: physical address of the allocation, the one of `STARTS` with which the lines of the sets agree.
- `pages`, shape (lines,): random lines, 16 of each page; `hits`, shape (SMs, lines): least latency of a hit, less 150
  cycles.
- `sets`: for each set the number of its lines, then lines that evict each other.
- `orders`, `cycles`, shape (2, 24, accesses): sequences in the first sets. Position of the line in the set, plus 64 if
  it was loaded with evict-first; latency of the load in units of four cycles. Twelve sequences have no hints.
- `random`, shape (accesses / 4,): random accesses of one thread to 48 MiB, two bits each: 0 near, 1 the other
  partition, 2 memory.
- `copies`: rows of home, bytes of a block, lines that were loaded, and how many of 3000 of them hit near.
"""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l2_partitions import Priority, Set
from l2_rules import (
    CHANNEL,
    LINE,
    SETS,
    SLICES,
    WAYS,
    Flags,
    Numbers,
    near_sets,
    numbers_of,
    place,
)
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.models import CacheModel

DATA = Path(__file__).parents[1] / "docs" / "results" / "l2-map-h200.npz"

STARTS = range(0, 8 << 30, 2 << 20)  # where the allocation may start in physical memory
RANDOM = (1000, 393_216)  # first line and number of lines of `random`
PAGE_LINES = 16  # of each page in `hits`
LISTED, PROBES = 120_000, 3000  # lines of a list of `copies`, and how many of them are probed
MAX_APART, MIN_KEPT = 0.94, 0.99  # shares of them that stay near
KEPT_LINES, KEPT_SETS = 8192, 2  # lines of `hits`, and sets whose sequences are kept
SEQUENCE, HINTED = 4096, 12  # accesses of a sequence; the first sequence with hints
WARM = 700_000  # accesses until the contents of most sets are known
NEAR_CYCLES, HOME_CYCLES = 385, 500  # a hit in the near partition, or in that of the home, takes at most so many
MIN_PREDICTED_ALONE = 0.995  # share of random accesses
MIN_PREDICTED = 0.996, 0.9966  # with occupied ways, learnt from one GPU, and from several
ACCESSES_PER_STORE, STORE_BYTES = 16, 4  # random accesses whose results one store holds
RESULTS_OFFSET = 32 << 30  # bytes from the start of the allocation to these results
OCCUPIED = range(2)  # ways of a set that something else may occupy
MIN_ERRORS_REMOVED = 1.5  # by an occupied way


def start_of(sets: Numbers) -> int:
    """The start of the allocation with which the lines of the first two sets have one place each."""
    some = [*split_sets(sets)][:2]
    agreeing = [sum(np.unique(near_sets(lines + start // LINE, 0)[1]).size for lines in some) for start in STARTS]
    return STARTS[int(np.argmin(agreeing))]


def levels(lines: Numbers, near: int) -> NDArray[np.int8]:
    """Where loads of lines hit, from empty caches: 0 near, 1 in the partition of the home, 2 nowhere."""
    far, sets, home_sets = near_sets(lines, near)
    missed = simulate(lines, sets)
    passed = np.flatnonzero(far & (missed == 1))
    found = 2 * missed
    found[passed] = 1 + simulate(lines[passed], home_sets[passed])
    return found


def simulate(lines: Numbers, sets: Numbers, ways: int = WAYS) -> NDArray[np.int8]:
    """Which accesses miss in the sets of one partition."""
    distinct, number = np.unique(lines, return_inverse=True)
    set_of = np.empty(distinct.size, np.int64)
    set_of[number] = sets
    order = np.argsort(set_of, kind="stable")
    tags = np.empty(distinct.size, np.int64)  # numbers of the lines of a set
    tags[order] = np.arange(distinct.size) - np.searchsorted(set_of[order], set_of[order])
    model = Cache((ways,) * SLICES * SETS, LINE, LINE, Index(IndexKind.MODULO), Policy(PolicyKind.LRU))
    return CacheModel(model).access_many((tags[number] * SLICES * SETS + sets) * LINE)


def split_sets(sets: Numbers) -> Iterator[Numbers]:
    """Lines of each set."""
    while sets.size:
        yield sets[1 : 1 + sets[0]]
        sets = sets[1 + sets[0] :]


def in_physical_memory(sets: Numbers, start: int) -> Numbers:
    """The same sets, of lines that are numbered from physical address 0."""
    return np.concatenate([[lines.size, *(lines + start // LINE)] for lines in split_sets(sets)])


def check_slices(lines: Numbers, hits: NDArray[np.float64]) -> bool:
    """Print how well the map predicts the latencies of lines; whether as the page says.

    A class is the slice, the home and address bit 8, which changes the latency within some slices. Half of the pages
    give the latency of each class from each SM. For the lines of a page of the other half, the map is compared with
    127 others, in which the home or some of the low bits of the number of a line are inverted. At random, one page of
    128 would prefer the map.
    """
    bit_8 = lines * LINE >> 8 & 1
    home, _, _ = place(lines)
    numbers = numbers_of(lines)
    first = np.arange(lines.size) // PAGE_LINES % 2 == 0
    own = (numbers % SLICES * 2 + home) * 2 + bit_8
    means = np.array([np.median(hits[:, first & (own == each)], axis=1) for each in range(4 * SLICES)])
    distances = np.array([np.minimum(np.abs(line - means), 8).mean(axis=1) for line in hits.T])
    inverted, other_home = np.arange(1 << len(CHANNEL))[:, None, None], np.arange(2)[:, None]
    classes = ((numbers ^ inverted) % SLICES * 2 + (home ^ other_home)) * 2 + bit_8
    fits = distances[np.arange(lines.size), classes].reshape(-1, lines.size // PAGE_LINES, PAGE_LINES).mean(axis=-1)
    best = fits[:, 1::2].argmin(axis=0)
    print(f"pages whose latencies fit the map better than 127 others: {np.sum(best == 0)} of {best.size}")
    return bool(np.all(best == 0))


def check_sets(sets: Numbers, near: int) -> tuple[int, int]:
    """Sets whose lines have one place in the partition near to SM 0, and all sets."""
    places = [np.unique(near_sets(lines, near)[1]).size for lines in split_sets(sets)]
    return places.count(1), len(places)


def near_home(sets: Numbers, cycles: Numbers, orders: Numbers) -> int:
    """The home of the lines that are near to SM 0: they come from memory, not from the other partition."""
    slow: tuple[list[float], list[float]] = ([], [])
    for lines, times, order in zip(split_sets(sets), cycles, orders, strict=False):
        home, missed = place(lines)[0][order & 63], times > NEAR_CYCLES
        for each in (0, 1):
            slow[each].append(float(np.quantile(times[missed & (home == each)], 0.1)))
    return int(np.median(slow[1]) > np.median(slow[0]))


def is_compared(order: Numbers) -> Flags:
    """All but the first sequence, in which earlier kernels decide what hits, and the first use of each line."""
    compared = np.arange(order.size) >= SEQUENCE
    compared[np.unique(order & 63, return_index=True)[1]] = False
    return compared


def check_sequences(sets: Numbers, cycles: Numbers, orders: Numbers, near: int) -> tuple[int, int]:
    """Wrong and all accesses of the sequences without hints."""
    wrong = accesses = 0
    for lines, times, order in zip(split_sets(sets), cycles[:, :HINTED], orders[:, :HINTED], strict=False):
        observed = np.digitize(times.ravel(), (NEAR_CYCLES, HOME_CYCLES), right=True)
        compared = is_compared(order.ravel())
        wrong += int(np.sum((levels(lines[order.ravel()], near) != observed)[compared]))
        accesses += int(compared.sum())
    return wrong, accesses


def check_hinted(cycles: Numbers, orders: Numbers) -> tuple[int, int]:
    """Wrong and all accesses of the sequences with hints."""
    wrong = accesses = 0
    for times, order in zip(cycles[:, HINTED:], orders[:, HINTED:], strict=True):
        compared = is_compared(order.ravel())
        wrong += int(np.sum((evict_first_hits(order.ravel()) != (times.ravel() <= NEAR_CYCLES))[compared]))
        accesses += int(compared.sum())
    return wrong, accesses


def evict_first_hits(order: Numbers) -> Flags:
    """Which loads of a set hit; a quarter of them have the hint evict-first."""
    lines = Set()
    priorities = np.where(order >= 64, Priority.FIRST, Priority.NORMAL)
    return np.array([lines.load(*each) for each in zip((order & 63).tolist(), map(Priority, priorities), strict=True)])


def hash_numbers(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """32-bit hashes, as in `l2_map.cu`."""
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(factor)
    return ((numbers ^ (numbers >> np.uint64(33))) >> np.uint64(20)) & np.uint64(0xFFFFFFFF)


def random_lines(accesses: int, start: int) -> Numbers:
    """The lines of the random accesses, as in `l2_map.cu`."""
    first, count = RANDOM[0] + start // LINE, RANDOM[1]
    steps = np.arange(accesses, dtype=np.uint64)
    one, other = (
        (hash_numbers(steps + np.uint64(seed << 40)) * np.uint64(count) >> np.uint64(32)).astype(np.int64)
        for seed in (1, 1001)
    )
    return first + np.where(steps % 2 == 1, np.minimum(one, other), one)


def random_run(packed: NDArray[np.uint8], near: int, start: int) -> tuple[Numbers, Flags]:
    """Sets of the random accesses after `WARM` of them; which are mispredicted if no way is occupied, or one.

    Shapes (accesses,) and (2, accesses). The results that the probe stores take ways, too, also those with a far home.
    """
    observed = (packed[:, None] >> np.arange(0, 8, 2) & 3).ravel()
    stores = np.arange(ACCESSES_PER_STORE - 1, observed.size, ACCESSES_PER_STORE)
    results = (RESULTS_OFFSET + start) // LINE + np.arange(stores.size) * STORE_BYTES // LINE
    lines = np.insert(random_lines(observed.size, start), stores + 1, results)
    is_load = np.insert(np.ones(observed.size, bool), stores + 1, False)
    sets = near_sets(lines, near)[1]
    missed = np.array([simulate(lines, sets, WAYS - occupied)[is_load][WARM:] for occupied in OCCUPIED])
    return sets[is_load][WARM:], (missed == 1) != (observed[WARM:] != 0)


def occupied_sets(runs: list[tuple[Numbers, Flags]]) -> Flags:
    """Sets in which something else seems to occupy a way, by the errors of all runs."""
    errors = np.zeros((len(OCCUPIED), SLICES * SETS))
    for sets, wrong in runs:
        errors += [np.bincount(sets, each, SLICES * SETS) for each in wrong]
    return np.asarray(errors[0] - errors[1] > MIN_ERRORS_REMOVED)


def check_random(runs: list[tuple[Numbers, Flags]], starts: list[int]) -> bool:
    """Print the share of random accesses predicted correctly (hit or miss near); whether it is as the page says.

    Sets with an occupied way are learnt from GPUs on which the accesses were to other lines.
    """
    holds = []
    for number, (sets, wrong) in enumerate(runs):
        others = [run for run, start in zip(runs, starts, strict=True) if start != starts[number]]
        occupied = occupied_sets(others)
        shuffled = np.random.default_rng(0).permutation(occupied)
        shares = [1 - wrong[each[sets].astype(int), np.arange(sets.size)].mean() for each in (occupied, shuffled)]
        alone, source = 1 - wrong[0].mean(), f"learnt from {len(others)} of the others"
        print(f"random accesses of GPU {number} predicted: {alone:.2%}; with one way less", end=" ")
        print(f"in {occupied.sum()} sets: {shares[0]:.2%} ({source}); in as many sets at random: {shares[1]:.2%}")
        least = MIN_PREDICTED[len(others) > 1]
        holds += [alone >= MIN_PREDICTED_ALONE, shares[0] >= least, shares[1] < alone]
    return all(holds)


def check_copies(rows: Numbers, near: int) -> bool:
    """Print which lines of a list of 120,000 are still near; whether only those far and apart have lost copies."""
    shares = {(home, block): kept / PROBES for home, block, lines, kept in rows.tolist() if lines == LISTED}
    apart, blocks = shares[1 - near, LINE], shares[1 - near, 1024]
    own = shares[near, LINE]
    print(f"lines that stay near: home near {own:.3f}, far and apart {apart:.3f}, far in blocks {blocks:.3f}")
    return bool(apart < MAX_APART < MIN_KEPT < min(own, blocks))


def pack(folders: list[Path]) -> None:
    """Write `DATA` from what `l2_map.cu` measured; a folder may have a part of the files."""
    arrays: dict[str, NDArray[Any]] = {}
    for number, folder in enumerate(folders):
        if (folder / "hits.u8").exists():
            pages = np.fromfile(folder / "pages.u32", np.uint32)
            arrays[f"{number}_pages"] = pages[:KEPT_LINES]
            hits = np.fromfile(folder / "hits.u8", np.uint8).reshape(-1, pages.size)
            arrays[f"{number}_hits"] = hits[:, :KEPT_LINES]
        if (folder / "sets.u32").exists():
            arrays[f"{number}_sets"] = np.fromfile(folder / "sets.u32", np.uint32)
            arrays[f"{number}_start"] = np.array(start_of(arrays[f"{number}_sets"].astype(np.int64)))
            shape = (-1, 2 * HINTED, SEQUENCE)
            arrays[f"{number}_orders"] = np.fromfile(folder / "orders.u8", np.uint8).reshape(shape)[:KEPT_SETS]
            cycles = np.fromfile(folder / "cycles.u16", np.uint16).reshape(shape)[:KEPT_SETS]
            arrays[f"{number}_cycles"] = np.minimum(cycles // 4, 255).astype(np.uint8)
            arrays[f"{number}_random"] = np.fromfile(folder / "random.u32", np.uint8)
            arrays[f"{number}_copies"] = np.loadtxt(folder / "copies.csv", np.int64, delimiter=",", skiprows=1)
    recorded_map.save(DATA, arrays)


def check(data: Mapping[str, NDArray[np.integer[Any]]]) -> bool:
    """Print what the recorded runs show; whether that is what the page says."""
    holds, runs, starts = list[bool](), list[tuple[Numbers, Flags]](), list[int]()
    for gpu in sorted({name.partition("_")[0] for name in data}):
        start = int(data[f"{gpu}_start"])
        print(f"GPU {gpu}: the allocation starts at {start >> 20} MiB")
        if f"{gpu}_hits" in data:
            lines = data[f"{gpu}_pages"].astype(np.int64) + start // LINE
            holds.append(check_slices(lines, data[f"{gpu}_hits"].astype(np.float64)))
        if f"{gpu}_sets" in data:
            sets, orders, cycles = (data[f"{gpu}_{name}"].astype(np.int64) for name in ("sets", "orders", "cycles"))
            holds.append(start_of(sets) == start)
            sets = in_physical_memory(sets, start)
            cycles *= 4
            near = near_home(sets, cycles, orders)
            same, total = check_sets(sets, near)
            print(f"sets whose lines have the same slice and set: {same} of {total}")
            counts = [check_sequences(sets, cycles, orders, near), check_hinted(cycles, orders)]
            for what, (wrong, accesses) in zip(
                ("single sets", "single sets, some with evict-first"), counts, strict=True
            ):
                print(f"accesses to {what}: {wrong} of {accesses} wrong")
            starts.append(start)
            runs.append(random_run(data[f"{gpu}_random"].astype(np.uint8), near, start))
            if f"{gpu}_copies" in data:
                holds.append(check_copies(data[f"{gpu}_copies"].astype(np.int64), near))
            holds += [same == total, not any(wrong for wrong, _ in counts)]
    return all([*holds, check_random(runs, starts)])


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

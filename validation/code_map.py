"""Check what `docs/code.md` says of the instruction caches of an H200, on recorded runs: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/code-map-h200.npz` from what `code_map_probe.py` measured on each GPU. Names of
arrays begin with the number of the GPU. A *visit* is a call of a line of 128 bytes, or a load from constant memory.

- `NAME_pool`, `NAME_order`, `NAME_cycles`: addresses (of constants: offsets), and of each visit the number of its
  address and its cycles. `padN`: with N lines more in the loop that makes the visits.
- `neighbours`, shape (distances, repetitions): cycles of a line -8 to 16 lines behind one that was visited before.
- `laps_S`, shape (2 to 24 lines, visits): cycles of the last laps over lines S lines apart.
- `warps`, shape (warps, repetitions): cycles of a visit by warp 0 after one by another warp of the SM.
- `sharing`: rows of SM, another SM that visited 8 lines before, how many of them hit in the SM, and in any cache.
"""

import argparse
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from l2_map import Flags, Numbers
from numpy.typing import NDArray
from tlb_map import find_misses

from gpudissect.simulation.cache.geometry import PolicyKind

DATA = Path(__file__).parents[1] / "docs" / "results" / "code-map-h200.npz"

LINE_SHIFT, UNIT_SHIFT = 7, 8  # lines of 128 bytes in the first and second cache, of 256 in the third
SECOND_SETS, SECOND_WAYS = 64, 4
THIRD_SETS, THIRD_WAYS = 64, 8
CONSTANT_BYTES = 65536
FIRST_HIT, SECOND_HIT, THIRD_HIT = 140, 175, 300  # cycles of a visit, fewer than
CONSTANT_FIRST_HIT, CONSTANT_HIT = 100, 250  # the same of a load from constant memory
FIRST_ENTRIES = 39  # lines of the first cache that the loop of the probe leaves
FETCHED = 3  # lines that a visit brings into the first cache
LAUNCH, STARTING, WARM = 20_000, 200, 2_000  # visits of a kernel; those not compared at its start, and at the first
TRACES = ("near", "third", "second", "wide", "far", "mixed", "pad8")
FIRST_TRACES = ("pad0", "pad8", "pad16", "pad24")
MAX_WRONG, MAX_FIRST_WRONG, MIN_OTHER_WRONG = 2e-3, 0.01, 0.02
MAX_OWN_SHARE = 0.01  # of wrong predictions in a set, more where the code of the probe is in it
DISTANCES = range(-8, 17)
FULL_LAPS = {16: (13, 20), 64: (16, 18)}
"""By stride: lines of laps that hit, and of others that always miss: in the second cache, then in the third."""
WARP_STEP = 5  # cycles that a hit in the second cache takes longer, at least
ALL_LINES = 8  # of a row of `sharing`
GROUPS, GROUP_SIZES = 8, range(12, 20, 2)  # of SMs with a common third cache


def reached(visits: Numbers, cycles: Numbers) -> tuple[Flags, Flags, Flags, Flags]:
    """Visits that reach the second cache and those that miss in it; the same of the third."""
    constant = visits < CONSTANT_BYTES
    second = ~constant & (cycles >= FIRST_HIT)
    missed = second & (cycles >= SECOND_HIT)
    third = missed | (constant & (cycles >= CONSTANT_FIRST_HIT))
    return second, missed, third, third & (cycles >= np.where(constant, CONSTANT_HIT, THIRD_HIT))


def is_compared(count: int) -> Flags:
    """All but those at the start of the trace and of each kernel."""
    number = np.arange(count)
    return (number >= WARM) & (number % LAUNCH >= STARTING)


def predicted(visits: Numbers, cycles: Numbers, policy: PolicyKind) -> Iterator[tuple[str, Numbers, Flags, Flags]]:
    """Of the second and third cache: name, sets of the visits that reach it, which miss, and which should."""
    second, missed_second, third, missed_third = reached(visits, cycles)
    for name, some, missed, shift, count, ways in (
        ("second", second, missed_second, LINE_SHIFT, SECOND_SETS, SECOND_WAYS),
        ("third", third, missed_third, UNIT_SHIFT, THIRD_SETS, THIRD_WAYS),
    ):
        tags = visits[some] >> shift
        compared = is_compared(visits.size)[some]
        misses = find_misses(tags, tags % count, count, ways, policy)
        yield name, (tags % count)[compared], missed[some][compared], misses[compared]


def own_set(sets: Numbers, wrong: Flags) -> int | None:
    """The set with most wrong predictions, if they are many: the code of the probe takes one of its ways."""
    shares = np.bincount(sets, wrong) / np.maximum(1, np.bincount(sets))
    worst = int(np.argmax(shares))
    return worst if shares[worst] > MAX_OWN_SHARE else None


def first_misses(lines: Numbers, pad: int) -> Flags:
    """Which visits miss in the first cache: first in, first out, with the lines of the loop."""
    held, present = deque[int](), set[int]()
    missed = np.zeros(lines.size, np.bool_)
    loop = [-1 - each for each in range(pad)]
    for i, line in enumerate(lines.tolist()):
        missed[i] = line not in present
        for each in (*range(line, line + FETCHED), *loop):
            if each not in present:
                if len(held) == FIRST_ENTRIES:
                    present.discard(held.popleft())
                held.append(each)
                present.add(each)
    return missed


def check_sets(gpu: Mapping[str, Numbers], totals: dict[str, list[int]]) -> bool:
    """Print wrong predictions of the second and third cache; whether there are few, and more of other policies."""
    holds, other_wrong = [], dict.fromkeys([("second", PolicyKind.FIFO), ("third", PolicyKind.LRU)], 0.0)
    other_wrong |= dict.fromkeys([("second", PolicyKind.LRU), ("third", PolicyKind.FIFO)], 0.0)
    for trace in TRACES:
        visits, cycles = gpu[f"{trace}_pool"][gpu[f"{trace}_order"]], gpu[f"{trace}_cycles"]
        own = dict[str, int | None]()
        for name, sets, missed, misses in predicted(visits, cycles, PolicyKind.PLRU):
            own[name] = own_set(sets, missed != misses)
            some = sets != own[name]
            wrong, count = int(np.sum((missed != misses)[some])), int(some.sum())
            inside = f"; {np.mean((missed != misses)[~some]):.1%} in set {own[name]}" if own[name] is not None else ""
            print(f"{trace}, {name}: {wrong} of {count} wrong{inside}")
            holds.append(wrong <= MAX_WRONG * count)
            totals[name] = [sum(each) for each in zip(totals[name], (wrong, count), strict=True)]
        if None not in own.values():
            holds.append(own["second"] // 2 == own["third"])  # type: ignore[operator]
        for policy in (PolicyKind.LRU, PolicyKind.FIFO):
            for name, _, missed, misses in predicted(visits, cycles, policy):
                other_wrong[name, policy] = max(other_wrong[name, policy], float(np.mean(missed != misses)))
    for (name, policy), share in other_wrong.items():
        print(f"{name}, {policy}: up to {share:.1%} wrong")
    return all(holds) and min(other_wrong.values()) >= MIN_OTHER_WRONG


def check_first(gpu: Mapping[str, Numbers]) -> bool:
    """Print wrong predictions of the first cache, and those of LRU; whether the former are few."""
    holds = []
    for trace in FIRST_TRACES:
        visits, missed = gpu[f"{trace}_pool"][gpu[f"{trace}_order"]], gpu[f"{trace}_cycles"] >= FIRST_HIT
        compared, lines = is_compared(visits.size), visits >> LINE_SHIFT
        misses = first_misses(lines, int(trace.removeprefix("pad")))
        wrong, count = int(np.sum((misses != missed)[compared])), int(compared.sum())
        recent = [
            float(np.mean((find_misses(lines, np.zeros_like(lines), 1, ways) != missed)[compared]))
            for ways in range(1, FIRST_ENTRIES // FETCHED + 3)
        ]
        print(f"{trace}, first: {wrong} of {count} wrong; least recently used: {min(recent):.1%}")
        holds.append(wrong <= min(MAX_FIRST_WRONG, min(recent)) * count)
    return all(holds)


def check_fetching(gpu: Mapping[str, Numbers]) -> bool:
    """Print where lines near a visited one are, and which laps hit; whether as the page says."""
    where = np.digitize(gpu["neighbours"], (FIRST_HIT, SECOND_HIT, THIRD_HIT))
    shares = {
        distance: np.bincount(row, minlength=4) / row.size for distance, row in zip(DISTANCES, where, strict=True)
    }
    for distance, share in shares.items():
        print(f"line {distance:+d}: first {share[0]:.0%}, second {share[1]:.0%}, third {share[2]:.0%}")
    laps = {stride: gpu[f"laps_{stride}"] for stride in FULL_LAPS}
    misses = {
        stride: [float(np.mean(row[row > 0] >= (SECOND_HIT if stride == 16 else THIRD_HIT))) for row in rows]
        for stride, rows in laps.items()
    }
    for stride, each in misses.items():
        print(f"laps of stride {stride}: {[round(share, 2) for share in each]} miss")
    in_third = [distance for distance, share in shares.items() if share[3] < 0.5]
    return (
        in_third[0] in (-1, 0)
        and in_third[-1] in (7, 8)
        and all(
            misses[stride][fits - 2] == 0 and misses[stride][full - 2] == 1
            for stride, (fits, full) in FULL_LAPS.items()
        )
    )


def check_sharing(gpu: Mapping[str, Numbers]) -> bool:
    """Print what warps and SMs share; whether as the page says."""
    by_warp = np.median(gpu["warps"], axis=1)
    print(f"after a visit by warp 0 to 4: {by_warp.tolist()} cycles")
    rows = gpu["sharing"]
    twins, own = rows[rows[:, 0] ^ 1 == rows[:, 1]], rows[rows[:, 0] == rows[:, 1]]
    others = rows[rows[:, 0] >> 1 != rows[:, 1] >> 1]
    groups = [{sm} for sm in range(rows[-1, 0] + 1)]
    for sm, other, _, _ in rows[rows[:, 3] == ALL_LINES].tolist():
        first, second = (next(group for group in groups if each in group) for each in (sm, other))
        if first is not second:
            groups.remove(second)
            first |= second
    print(f"SMs with a common third cache: {[sorted(group) for group in groups]}")
    return bool(
        by_warp[0] == by_warp[4]
        and by_warp[1:4].min() >= by_warp[0] + WARP_STEP
        and (own[:, 2] == ALL_LINES).all()
        and (twins[:, 2] == ALL_LINES).all()
        and (others[:, 2] == 0).all()
        and set(np.unique(others[:, 3]).tolist()) == {0, ALL_LINES}
        and len(groups) == GROUPS
        and all(len(group) in GROUP_SIZES for group in groups)
    )


def pack(files: list[Path]) -> None:
    """Write `DATA` from what `code_map_probe.py` measured."""
    arrays: dict[str, NDArray[Any]] = {}
    for gpu, path in enumerate(files):
        with np.load(path, allow_pickle=False) as data:
            for name in data:
                small = data[name].astype(np.uint16) if data[name].max() < 1 << 16 else data[name]
                arrays[f"{gpu}_{name}"] = small
    with DATA.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # numpy's stub takes them for its own options


def check(data: Mapping[str, NDArray[np.integer[Any]]]) -> bool:
    """Print what the recorded runs show; whether that is what the page says."""
    holds, totals = [], {"second": [0, 0], "third": [0, 0]}
    for gpu in sorted({name.partition("_")[0] for name in data}):
        print(f"GPU {gpu}")
        of = {name.partition("_")[2]: data[name].astype(np.int64) for name in data if name.startswith(f"{gpu}_")}
        holds += [check_sets(of, totals), check_first(of), check_fetching(of), check_sharing(of)]
    print(f"wrong and all predictions: {totals}")
    return all(holds)


def main() -> int:
    """Print what was found; with ``--check``, exit status 1 if it is not what the page says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pack", nargs="+", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
    with np.load(DATA, allow_pickle=False) as data:
        holds = check(data)
    return int(options.check and not holds)


if __name__ == "__main__":
    sys.exit(main())

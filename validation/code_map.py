"""Check the claims of `docs/code.md` on recorded runs: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/code-map-h200.npz` from what `code_map_probe.py` measured on each GPU. Names of
arrays begin with the number of the GPU. A *visit* is a call of a line of 128 bytes, or a load from constant memory.

- `NAME_pool`, `NAME_order`, `NAME_cycles`: addresses (of constants: offsets), and of each visit the number of its
  address and its cycles. `padN`: with N additional lines in the loop that makes the visits. `rival2_N`, `rival3_N`:
  the first 4 or 8 lines, as many N lines behind others of their sets, and lines of other sets.
- `starts`, `neighbours`, shape (distances, repetitions): number of a line that was visited, and cycles of the line -8
  to 16 lines behind it afterwards. The first of three GPUs has no `starts` and no `rival2_N`, `rival3_N`.
- `laps_S`, shape (2 to 24 lines, visits): cycles of the last laps over lines S lines apart.
- `warps`, shape (warps, repetitions): cycles of a visit by warp 0 after one by another warp of the SM.
- `sharing`: rows of SM, another SM that visited 8 lines before, how many of them hit in the first or second cache, and
  in any.
"""

import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l2_rules import Flags, Numbers
from numpy.typing import NDArray
from tlb_rules import find_misses

from gpudissect.simulation.cache.geometry import PolicyKind

DATA = Path(__file__).parents[1] / "docs" / "results" / "code-map-h200.npz"

LINE_SHIFT, UNIT_SHIFT = 7, 8  # lines of 128 bytes in the first and second cache, of 256 in the third
SECOND_SETS, SECOND_WAYS = 64, 4
THIRD_SETS, THIRD_WAYS = 64, 8
CONSTANT_BYTES = 65536
FIRST_MISS, SECOND_MISS, THIRD_MISS = 140, 175, 300  # cycles of a visit that misses in each cache, at least
CONSTANT_FIRST_MISS, CONSTANT_MISS = 100, 250  # the same of a load from constant memory
FIRST_ENTRIES = 39  # lines of the first cache that the loop of the probe leaves
FETCHED = 3  # lines that a visit is assumed to bring into the first cache
LAUNCH_VISITS, STARTING_VISITS, WARM_VISITS = 20_000, 1_000, 2_000
"""Visits of a kernel, and at the start of a kernel and of a trace those that are not compared."""
TRACES = ("near", "third", "second", "wide", "far", "mixed", "pad8", "pad16", "pad24")
FIRST_TRACES = ("near", "pad0", "pad8", "pad16", "pad24")
MAX_WRONG, MAX_FIRST_WRONG, MIN_OTHER_WRONG = 2e-3, 0.01, 0.02
MAX_SET_WRONG = 5e-3  # of a set in the first kernel; the loop of the probe is in sets with more
DISTANCES = range(-8, 17)
LAPS = {16: {16: 0.0, 17: 5 / 17, 18: 10 / 18, 19: 15 / 19, 20: 1.0}, 64: {16: 0.0, 17: 9 / 17, 18: 1.0}}
"""Shares of visits that miss, by lines of a lap: of stride 16 in the second cache, of stride 64 in the third."""
MAX_LAP_ERROR = 0.02
UNIT_LINES, STARTING_RIVALS = 8, 500  # distances of rivals; visits that are not compared
MIN_RIVAL_MISSES, MAX_OTHER_MISSES = 0.3, 0.03
WARP_STEP = 5  # cycles that a hit in the second cache takes longer, at least
ALL_LINES = 8  # of a row of `sharing`
GROUPS, GROUP_SIZES = 8, range(12, 20, 2)  # of SMs with a common third cache


@dataclass(frozen=True)
class Predicted:
    """Visits that reach a cache: their numbers, their sets, whether they miss, and whether they should."""

    visits: Numbers
    sets: Numbers
    missed: Flags
    misses: Flags

    @property
    def wrong(self) -> Flags:
        """Whether the prediction is wrong."""
        wrong: Flags = self.missed != self.misses
        return wrong

    @property
    def probe_sets(self) -> Numbers:
        """Sets with many wrong predictions in the first kernel: the loop of the probe uses them, too."""
        first = (self.visits >= WARM_VISITS) & (self.visits < LAUNCH_VISITS)
        count = int(self.sets.max()) + 1
        wrong, all_of_set = (np.bincount(self.sets[some], minlength=count) for some in (first & self.wrong, first))
        sets: Numbers = np.flatnonzero(wrong > MAX_SET_WRONG * np.maximum(1, all_of_set))
        return sets

    @property
    def compared(self) -> Flags:
        """Visits of later kernels, but for their starts."""
        compared: Flags = (self.visits >= LAUNCH_VISITS) & (self.visits % LAUNCH_VISITS >= STARTING_VISITS)
        return compared


def predict(visits: Numbers, cycles: Numbers, policy: PolicyKind, *, all_reach: bool = False) -> dict[str, Predicted]:
    """Predictions of the second and third cache, each of which sees the misses of the one before, or all visits."""
    constant = visits < CONSTANT_BYTES
    in_second, in_third = ~constant & (cycles >= FIRST_MISS), np.where(constant, CONSTANT_FIRST_MISS, SECOND_MISS)
    reach = {"second": in_second, "third": cycles >= in_third}
    missed = {"second": cycles >= SECOND_MISS, "third": cycles >= np.where(constant, CONSTANT_MISS, THIRD_MISS)}
    any_visit = {"second": ~constant, "third": np.ones_like(constant)}
    found = {}
    for name, shift, count, ways in (
        ("second", LINE_SHIFT, SECOND_SETS, SECOND_WAYS),
        ("third", UNIT_SHIFT, THIRD_SETS, THIRD_WAYS),
    ):
        seen = np.flatnonzero((any_visit if all_reach else reach)[name])
        tags = visits[seen] >> shift
        misses, reached = find_misses(tags, tags % count, count, ways, policy), reach[name][seen]
        numbers = seen[reached]
        found[name] = Predicted(numbers, (tags % count)[reached], missed[name][numbers], misses[reached])
    return found


def first_misses(lines: Numbers, pad: int) -> Flags:
    """Which visits miss in the first cache: first in, first out, with the lines of the loop."""
    queue, present = deque[int](), set[int]()
    missed = np.zeros(lines.size, np.bool_)
    loop = [-1 - each for each in range(pad)]
    for i, line in enumerate(lines.tolist()):
        missed[i] = line not in present
        for each in (*range(line, line + FETCHED), *loop):
            if each not in present:
                if len(queue) == FIRST_ENTRIES:
                    present.discard(queue.popleft())
                queue.append(each)
                present.add(each)
    return missed


def check_sets(gpu: Mapping[str, Numbers], totals: dict[str, Numbers]) -> bool:
    """Print wrong predictions of the second and third cache, and of other hypotheses; return whether claims hold."""
    holds, others = [], dict[str, float]()
    for trace in TRACES:
        run = gpu[f"{trace}_pool"][gpu[f"{trace}_order"]], gpu[f"{trace}_cycles"]
        alternatives = {f"{each}": predict(*run, each) for each in (PolicyKind.LRU, PolicyKind.FIFO)}
        alternatives["sees all visits"] = predict(*run, PolicyKind.PLRU, all_reach=True)
        for name, each in predict(*run, PolicyKind.PLRU).items():
            inside = np.isin(each.sets, each.probe_sets)
            some, rest = each.compared & ~inside, each.compared & inside
            numbers = [int(np.sum(flags)) for flags in (each.wrong & some, some, each.wrong & rest, rest)]
            totals[name] += numbers
            print(
                f"{trace}, {name}: {numbers[0]} of {numbers[1]} wrong, of which {np.sum(each.missed & some)} miss; "
                f"{numbers[2]} of {numbers[3]} in sets {each.probe_sets.tolist()}, where the probe is"
            )
            holds.append(numbers[0] <= MAX_WRONG * numbers[1])
            for hypothesis, found in alternatives.items():
                share = float(np.mean(found[name].wrong[some])) if some.any() else 0.0
                others[f"{name}: {hypothesis}"] = max(others.get(f"{name}: {hypothesis}", 0.0), share)
    for hypothesis, share in others.items():
        print(f"{hypothesis}: up to {share:.1%} wrong")
    return all(holds) and min(others.values()) >= MIN_OTHER_WRONG


def check_first(gpu: Mapping[str, Numbers]) -> bool:
    """Print wrong predictions of the first cache, and those of LRU; return whether the former are few."""
    holds, sums = [], np.zeros(3, np.int64)
    for trace in FIRST_TRACES:
        visits, missed = gpu[f"{trace}_pool"][gpu[f"{trace}_order"]], gpu[f"{trace}_cycles"] >= FIRST_MISS
        numbers, lines = np.arange(visits.size), visits >> LINE_SHIFT
        compared = (numbers >= WARM_VISITS) & (numbers % LAUNCH_VISITS >= STARTING_VISITS)
        misses = first_misses(lines, int(trace.removeprefix("pad")) if trace.startswith("pad") else 0)
        wrong, count = int(np.sum((misses != missed)[compared])), int(compared.sum())
        sums += np.array([wrong, count, int(np.sum(~missed[compared]))])
        recent = [
            float(np.mean((find_misses(lines, np.zeros_like(lines), 1, ways) != missed)[compared]))
            for ways in range(1, FIRST_ENTRIES // FETCHED + 3)
        ]
        print(f"{trace}, first: {wrong} of {count} wrong; least recently used: {min(recent):.1%}")
        holds.append(wrong <= min(MAX_FIRST_WRONG, min(recent)) * count)
    print(f"first: wrong, all and hits: {sums.tolist()}")
    return all(holds)


def check_laps(gpu: Mapping[str, Numbers]) -> bool:
    """Print which laps miss; return whether as many as in sets of four lines and of eight units."""
    holds = []
    for stride, expected in LAPS.items():
        rows = gpu[f"laps_{stride}"]
        least = SECOND_MISS if stride == SECOND_SETS // SECOND_WAYS else THIRD_MISS
        shares = {lines: float(np.mean(rows[lines - 2][rows[lines - 2] > 0] >= least)) for lines in expected}
        print(f"laps of stride {stride}: {shares}")
        holds += [abs(shares[lines] - share) <= MAX_LAP_ERROR for lines, share in expected.items()]
    return all(holds)


def check_rivals(gpu: Mapping[str, Numbers]) -> bool:
    """Print which lines miss beside others a few lines apart; return whether only those of one line or unit do."""
    if "rival2_0_cycles" not in gpu:
        return True
    holds = []
    for name, least, lines, unit in (("rival2", SECOND_MISS, SECOND_WAYS, 1), ("rival3", THIRD_MISS, THIRD_WAYS, 2)):
        shares = []
        for distance in range(UNIT_LINES):
            order, cycles = gpu[f"{name}_{distance}_order"], gpu[f"{name}_{distance}_cycles"]
            targets = (order < lines) & (np.arange(order.size) >= STARTING_RIVALS)
            shares.append(float(np.mean(cycles[targets] >= least)))
        print(f"{name}: misses beside lines 0 to {UNIT_LINES - 1} lines apart: {[round(share, 3) for share in shares]}")
        holds += [min(shares[:unit]) >= MIN_RIVAL_MISSES, max(shares[unit:]) <= MAX_OTHER_MISSES]
    return all(holds)


def check_fetching(gpu: Mapping[str, Numbers]) -> bool:
    """Print where lines near a visited one are; return whether their units are prefetched as claimed."""
    if "starts" not in gpu:
        return True
    where = np.digitize(gpu["neighbours"], (FIRST_MISS, SECOND_MISS, THIRD_MISS))
    counts = np.zeros((2, len(DISTANCES), 4), np.int64)
    for number, (row, starts) in enumerate(zip(where, gpu["starts"], strict=True)):
        for parity in range(2):
            counts[parity, number] = np.bincount(row[starts % 2 == parity], minlength=4)
    for parity, name in enumerate(("even", "odd")):
        for distance in range(-1, 10):
            print(
                f"line {distance:+d} after an {name} one, by cache: {counts[parity, distance - DISTANCES[0]].tolist()}"
            )
    cached = counts[:, :, :3].sum(axis=2)
    even, odd = ([distance for distance, count in zip(DISTANCES, each, strict=True) if count] for each in cached)
    return (
        even == [*range(8)]
        and odd == [*range(-1, 9)]
        and bool((counts[:, 1 - DISTANCES[0] : 7 - DISTANCES[0], 3] == 0).all())
    )


def check_sharing(gpu: Mapping[str, Numbers]) -> bool:
    """Print what warps and SMs share; return whether as claimed."""
    by_warp = np.median(gpu["warps"], axis=1)
    print(f"after a visit by warp 0 to 4: {by_warp.tolist()} cycles")
    rows = gpu["sharing"]
    twins, same = rows[rows[:, 0] ^ 1 == rows[:, 1]], rows[rows[:, 0] == rows[:, 1]]
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
        and (same[:, 2] == ALL_LINES).all()
        and (twins[:, 2] == ALL_LINES).all()
        and (others[:, 2] == 0).all()
        and set(np.unique(others[:, 3]).tolist()) == {0, ALL_LINES}
        and len(groups) == GROUPS
        and all(len(group) in GROUP_SIZES for group in groups)
    )


def pack(files: list[Path]) -> None:
    """Write `DATA` from what `code_map_probe.py` measured."""
    arrays = recorded_map.joined(files).items()
    recorded_map.save(DATA, {name: each.astype(np.uint16) if each.max() < 1 << 16 else each for name, each in arrays})


def check(data: Mapping[str, NDArray[np.integer[Any]]]) -> bool:
    """Print what the recorded runs show; return whether the claims hold."""
    holds, totals = list[bool](), {name: np.zeros(4, np.int64) for name in ("second", "third")}
    checks = (check_first, check_laps, check_rivals, check_fetching, check_sharing)
    for gpu, of in recorded_map.by_gpu(data).items():
        print(f"GPU {gpu}")
        holds += [check_sets(of, totals), *(each(of) for each in checks)]
    for name, numbers in totals.items():
        print(f"{name}: wrong and all predictions, then those where the probe is: {numbers.tolist()}")
    return all(holds)


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

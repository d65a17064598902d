"""Check what `docs/l1.md` says of the room for data in the L1 of an H200, on recorded runs: ``--check`` for CI.

Each run fills one bank through the texture cache with lines of its own, then accesses each line again in the same
order. `docs/results/l1-room-h200.npz` holds the line numbers of `runs_482` and `runs_483` runs of 482 and 483 lines, in
the order of access, and which of them missed the second time. All runs of 483 lines ran on one SM, one after the other.

A run is simulated with 128 sets of four ways and policy last-two-hits. When a line finds no room, the set at a pointer
loses its least recently used line, and the pointer advances. The pointer keeps its value from kernel to kernel. Only
where it is at the start of a run is fitted.

`carveout_*` are sequences of random accesses on three paths with nine carve-outs: for each a row of path, lines for
which a bank has room, accesses, and timed accesses (the last ones); the words of 4 bytes that are accessed; and which of
the timed accesses missed. In banks whose lines all find room, the policy alone predicts every access.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import set_numbers as sets_of
from gpudissect.simulation.cache.models import CacheModel

DATA = Path(__file__).parents[1] / "docs" / "results" / "l1-room-h200.npz"
LINE_BITS: tuple[tuple[int, ...], ...] = (
    (9, 16, 18, 20, 24),
    (10, 17, 20, 21, 22, 24),
    (11, 16, 17, 20, 24),
    (12, 16, 19, 21, 22, 24),
)
LINE_BITS += ((13, 16, 20, 21, 23, 24), (14, 17, 19), (15, 18, 19, 21, 22, 23))
"""Address bits whose XOR is each bit of the set number within a bank; bits 7 and 8 are the bank."""
SEQUENCE = (117, 89, 1, 2, 4, 8, 16)
"""Set t of the pointer's sequence is the XOR of those of these numbers that the bits of t select."""
TEXTURE_INDEX = (128, 256, *(sum(1 << bit for bit in each) for each in LINE_BITS))
LOAD_INDEX = (8061056, 8782080, 29622784, 14287872, 22480896, 11866112, 15540224, 31473664, 23887872)
"""Masks of the address bits whose XOR is each bit of the set number: of texture fetches, and of global loads."""
LOAD_BANKS = (181, 367)  # masks of the bits of the set number whose XOR is each bit of the bank, of global loads
PATHS = {"global": (LOAD_INDEX, LOAD_BANKS), "readonly": (LOAD_INDEX, LOAD_BANKS), "texture": (TEXTURE_INDEX, (1, 2))}
BANK_LINES, SETS, WAYS = 482, 128, 4
MAX_WRONG_RUNS = 0.02
MIN_ACCESSES = 10_000  # of each path
MAX_SKIPPED = 8  # sets between the end of a run and the start of the next: results that are stored take lines, too

Runs = NDArray[np.int64]


def set_numbers(lines: Runs) -> Runs:
    """Set within the bank of each line."""
    bits = [np.bitwise_xor.reduce([lines >> bit - 7 & 1 for bit in each]) for each in LINE_BITS]
    return np.asarray(sum(bit << number for number, bit in enumerate(bits)), dtype=np.int64)


def pointer_sequence() -> list[int]:
    """The sets in the order in which they lose lines."""
    sets = np.zeros(SETS, dtype=np.int64)
    for bit, value in enumerate(SEQUENCE):
        sets ^= (np.arange(SETS) >> bit & 1) * value
    return sets.tolist()


def simulate(lines: list[int], sets: list[int], start: int) -> tuple[list[bool], int]:
    """Which lines miss when they are accessed for the second time, and where the pointer is then."""
    order, pointer = pointer_sequence(), start
    recency: list[list[int]] = [[] for _ in range(SETS)]  # lines of a set, the next victim last
    hits: list[list[int]] = [[] for _ in range(SETS)]  # lines of the last two hits of a set
    missed = []
    for line, number in [*zip(lines, sets, strict=True)] * 2:
        ways, last = recency[number], hits[number]
        if line in ways:
            ways.remove(line)
            ways.insert(0, line)
            hits[number] = [line, *last[:1]]
            missed.append(False)
            continue
        missed.append(True)
        if len(ways) == WAYS:
            ways.pop()
        elif sum(map(len, recency)) == BANK_LINES:
            while len(recency[order[pointer % SETS]]) < 2:
                pointer += 1
            recency[order[pointer % SETS]].pop()
            pointer += 1
        ways.insert(len({each for each in last if each in ways}), line)
    return missed[len(lines) :], pointer % SETS


def fit(lines: Runs, missed: NDArray[np.bool_]) -> tuple[int, int, int]:
    """Smallest number of wrong predictions of a run, with the start and the end of the pointer."""
    sets = set_numbers(lines).tolist()
    outcomes = [(simulate(lines.tolist(), sets, start), start) for start in range(SETS)]
    return min((int(np.sum(missed != predicted)), start, end) for (predicted, end), start in outcomes)


def check_carveouts(rows: Runs, words: Runs, missed: NDArray[np.bool_]) -> dict[str, tuple[int, int]]:
    """Wrong predictions and accesses of each path, in banks whose lines find room."""
    counts: dict[str, tuple[int, int]] = {}
    for number, room, size, timed in rows.tolist():
        path, (index, banks) = list(PATHS.items())[number]
        offsets, words, observed, missed = words[:size] * 4, words[size:], missed[:timed], missed[timed:]
        cache = Cache((WAYS,) * 4 * SETS, 128, 32, Index(IndexKind.XOR, masks=index), Policy(PolicyKind.LAST_TWO_HITS))
        predicted = CacheModel(cache).access_many(offsets)[-timed:]
        sets = sets_of(cache.index, 128, cache.sets, offsets)
        bank = sum((np.bitwise_count(sets & mask) & 1).astype(int) << bit for bit, mask in enumerate(banks))
        lines = np.unique(offsets // 128)
        numbers = sets_of(cache.index, 128, cache.sets, lines * 128)
        filled = np.minimum(np.bincount(numbers, minlength=cache.sets), WAYS)
        for each in range(4):
            in_bank = np.unique(sets[bank == each])
            if filled[in_bank].sum() <= room:
                compared = bank[-timed:] == each
                wrong, accesses = counts.get(path, (0, 0))
                wrong += int(np.sum((predicted != observed)[compared]))
                counts[path] = wrong, accesses + int(compared.sum())
    return counts


def main() -> int:
    """Print what was found; with ``--check``, exit status 1 if it is not what the page says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with np.load(DATA, allow_pickle=False) as data:
        fitting, full = data["missed_482"], data["missed_483"]
        rows, words = (data[f"carveout_{name}"].astype(np.int64) for name in ("rows", "words"))
        counts, rooms = check_carveouts(rows, words, data["carveout_missed"]), sorted(set(rows[:, 1].tolist()))
        fits = [fit(lines, missed) for lines, missed in zip(data["runs_483"].astype(np.int64), full, strict=True)]
    wrong = sum(each[0] > 0 for each in fits)
    skipped = [(after[1] - before[2]) % SETS for before, after in pairwise(fits)]
    print(f"482 lines: {fitting.sum()} of {fitting.size} accesses miss")
    print(f"483 lines: {full.sum()} misses in {len(fits)} runs, at least {full.sum(axis=1).min()} in each")
    print(f"runs that are predicted to the last access: {len(fits) - wrong}; wrong accesses: {sum(f[0] for f in fits)}")
    print(f"sets between the pointer of a run and that of the next: {min(skipped)} to {max(skipped)}")
    for path, (errors, accesses) in counts.items():
        print(f"{path}: {errors} of {accesses} accesses wrong where a bank has room, of {rooms} lines by carve-out")
    is_predicted = all(errors == 0 and accesses > MIN_ACCESSES for errors, accesses in counts.values())
    holds = is_predicted and not fitting.any() and full.any(axis=1).all() and wrong <= MAX_WRONG_RUNS * len(fits)
    return int(options.check and not (holds and max(skipped) <= MAX_SKIPPED))


if __name__ == "__main__":
    sys.exit(main())

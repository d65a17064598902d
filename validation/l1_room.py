"""Check what `docs/l1.md` says of the room for data in the L1 of an H200, on recorded runs: ``--check`` for CI.

`docs/results/l1-room-h200.npz` holds three kinds of runs, each on a cold L1.

`runs_482` and `runs_483`: each run fills one bank through the texture cache with 482 or 483 lines of its own, then
accesses each line again in the same order. Shape (runs, lines): line numbers in the order of access; `missed_*`: which
missed the second time. All runs of 483 lines ran on one SM, one after the other. They are simulated with 128 sets of
four ways and policy last-two-hits. When a line finds no room, the set at a pointer loses its least recent line, and the
pointer advances. The pointer keeps its value from kernel to kernel; only where it is at the start of a run is fitted.

`filled`: rows of KiB of shared memory, lines that filled one bank through the texture cache, and how many of them
missed the second time.

`carveout_*`: random accesses on three paths with eight sizes of shared memory. Each row of `carveout_rows` has a path,
the lines for which a bank has room, the number of accesses, and of timed accesses (the last ones). `carveout_words` are
the accessed words of 4 bytes, `carveout_missed` which of the timed accesses missed. In banks whose lines all find room,
the policy alone predicts every access.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpudissect.measure.prediction.infer_agreement import is_repeated
from gpudissect.results.files import load
from gpudissect.simulation.cache.geometry import Cache, Index, IndexKind, Policy, PolicyKind
from gpudissect.simulation.cache.index import set_numbers
from gpudissect.simulation.cache.models import CacheModel
from gpudissect.workload import Path as Memory

DATA = Path(__file__).parents[1] / "docs" / "results" / "l1-room-h200.npz"
PATHS = (Memory.GLOBAL, Memory.READONLY, Memory.TEXTURE)  # by number
BANKS = {Memory.GLOBAL: (181, 367), Memory.READONLY: (181, 367), Memory.TEXTURE: (1, 2)}
"""Masks of the bits of the set number whose XOR is each bit of the bank."""
SEQUENCE = (468, 356, 4, 8, 16, 32, 64)
"""Set t of the pointer's sequence in bank 0 is the XOR of those of these numbers that the bits of t select."""
BANK_LINES, SETS, WAYS, LINE = 482, 128, 4, 128
ROOMS = (42, 106, 170, 234, 370, 434, 466, 482)  # lines of a bank, by size of shared memory
MAX_WRONG, MAX_WRONG_RUNS = 3, 2  # accesses, and runs of 100 that are not predicted to the last access
MAX_SKIPPED = 6  # sets between the end of a run and the start of the next: results that are stored take lines, too
MIN_ACCESSES = 4_700  # of each path
STORED_KIB = 249  # of data and shared memory together

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@cache
def index_of(path: Memory) -> Index:
    """Index function of the L1 of the H200 for a path, as published."""
    element = "texture" if path is Memory.TEXTURE else "l1"
    (text,) = (
        str(each.value)
        for each in load(DATA.with_name("h200.json")).findings
        if (each.element, each.attribute) == (element, "index_function")
    )
    rows = [map(int, row.split("^")) for row in text.removeprefix("xor ").split()]
    return Index(IndexKind.XOR, masks=tuple(sum(1 << bit for bit in row) for row in rows))


def linear(values: Sequence[int]) -> Numbers:
    """For each number of as many bits as there are values, the XOR of those that its bits select."""
    found = np.zeros(1, dtype=np.int64)
    for value in values:
        found = np.concatenate([found, found ^ value])
    return found


@dataclass
class Set:
    """A set with policy last-two-hits: its lines, the next victim last, and those of its last two hits."""

    lines: list[Any] = field(default_factory=list)
    hits: list[Any] = field(default_factory=list)

    def access(self, line: object) -> bool:
        """Access a line; return whether it missed."""
        if line in self.lines:
            self.lines.remove(line)
            self.lines.insert(0, line)
            self.hits = [line, *self.hits[:1]]
            return False
        if len(self.lines) == WAYS:
            self.lines.pop()
        self.lines.insert(len({each for each in self.hits if each in self.lines}), line)
        return True


def simulate(lines: list[int], sets: list[int], start: int) -> tuple[Flags, int]:
    """Which lines miss when they are accessed for the second time, and where the pointer is then."""
    order, pointer = linear(SEQUENCE).tolist(), start
    bank = {number: Set() for number in order}
    missed, held = [], 0
    for line, number in [*zip(lines, sets, strict=True)] * 2:
        held -= len(bank[number].lines)
        missed.append(bank[number].access(line))
        held += len(bank[number].lines)
        while held > BANK_LINES:
            if len(bank[order[pointer]].lines) > 1:
                bank[order[pointer]].lines.pop()
                held -= 1
            pointer = (pointer + 1) % SETS
    return np.array(missed[len(lines) :]), pointer


def fit(lines: Numbers, missed: Flags) -> tuple[int, int, int]:
    """Smallest number of wrong predictions of a run, with the start and the end of the pointer."""
    sets = set_numbers(index_of(Memory.TEXTURE), LINE, WAYS * SETS, lines * LINE).tolist()
    outcomes = [(*simulate(lines.tolist(), sets, start), start) for start in range(SETS)]
    return min((int(np.sum(missed != predicted)), start, end) for predicted, end, start in outcomes)


def check_full_banks(runs: Numbers, missed: Flags, missed_of_fitting: Flags) -> bool:
    """Print what runs of 482 and 483 lines show; whether that is what the page says."""
    fits = [fit(*run) for run in zip(runs, missed, strict=True)]
    wrong, wrong_runs = sum(each[0] for each in fits), sum(each[0] > 0 for each in fits)
    skipped = [(after[1] - before[2]) % SETS for before, after in pairwise(fits)]
    print(f"482 lines: {missed_of_fitting.sum()} of {missed_of_fitting.size} accesses miss")
    print(f"483 lines: {missed.sum()} misses in {len(fits)} runs, at least {missed.sum(axis=1).min()} in each")
    print(f"runs that are predicted to the last access: {len(fits) - wrong_runs}; wrong accesses: {wrong}")
    print(f"sets between the pointer of a run and that of the next: {min(skipped)} to {max(skipped)}")
    is_predicted = wrong <= MAX_WRONG and wrong_runs <= MAX_WRONG_RUNS and max(skipped) <= MAX_SKIPPED
    return bool(is_predicted and missed.any(axis=1).all() and not missed_of_fitting.any())


def compare(path: Memory, room: int, offsets: Numbers, missed: Flags) -> tuple[int, int]:
    """Wrong predictions and accesses in banks whose lines find room, without first touches of a sector."""
    whole = Cache((WAYS,) * 4 * SETS, LINE, 32, index_of(path), Policy(PolicyKind.LAST_TWO_HITS))
    predicted = CacheModel(whole).access_many(offsets)[-missed.size :] == 1
    sets, lines = (
        set_numbers(whole.index, LINE, whole.sets, each) for each in (offsets, np.unique(offsets // LINE) * LINE)
    )
    filled = np.minimum(np.bincount(lines, minlength=whole.sets), WAYS)  # ways of each set
    numbers = np.arange(whole.sets)
    bank = sum((np.bitwise_count(numbers & mask) & 1).astype(int) << bit for bit, mask in enumerate(BANKS[path]))
    fits = np.bincount(bank, weights=filled) <= room
    compared = fits[np.asarray(bank)[sets[-missed.size :]]] & is_repeated(offsets, 32)[-missed.size :]
    return int(np.sum((predicted != missed)[compared])), int(compared.sum())


def check_filled(filled: Numbers) -> bool:
    """Print between how many lines a bank has room; whether `STORED_KIB` lie there for each size of shared memory."""
    holds = []
    for shared in np.unique(filled[:, 0]).tolist():
        lines, misses = filled[filled[:, 0] == shared, 1:].T
        low, high, expected = int(lines[misses == 0].max()), int(lines[misses > 0].min()), 2 * (STORED_KIB - shared)
        print(f"{shared} KiB of shared memory: room for {low} to {high - 1} lines, expected {expected}")
        holds.append(low <= expected < high)
    return all(holds) and len(holds) == len(ROOMS) - 1


def check_carveouts(data: Mapping[str, Numbers]) -> bool:
    """Print what random accesses show; whether that is what the page says."""
    words, missed = data["carveout_words"].astype(np.int64), data["carveout_missed"].astype(bool)
    counts, rooms = {path: [0, 0] for path in PATHS}, set()
    first = first_timed = 0
    for number, room, size, timed in data["carveout_rows"].tolist():
        offsets, observed = words[first : first + size] * 4, missed[first_timed : first_timed + timed]
        first, first_timed = first + size, first_timed + timed
        rooms.add(room)
        for place, count in enumerate(compare(PATHS[number], room, offsets, observed)):
            counts[PATHS[number]][place] += count
    for path, (wrong, accesses) in counts.items():
        print(f"{path}: {wrong} of {accesses} accesses wrong in banks with room")
    return rooms == set(ROOMS) and all(not wrong and accesses > MIN_ACCESSES for wrong, accesses in counts.values())


def main() -> int:
    """Print what was found; with ``--check``, exit status 1 if it is not what the page says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with np.load(DATA, allow_pickle=False) as data:
        full = data["runs_483"].astype(np.int64), data["missed_483"], data["missed_482"]
        holds = [check_full_banks(*full), check_filled(data["filled"]), check_carveouts(data)]
    return int(options.check and not all(holds))


if __name__ == "__main__":
    sys.exit(main())

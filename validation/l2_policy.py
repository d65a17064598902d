"""Check what `docs/l2.md` says of hints, stores, coherence and records of copies: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/l2-policy-h200.npz` from what `l2_policy_probe.py` measured on each GPU. Names
of arrays begin with the number of the GPU. A *word* is an operation on a line of a list: its position, plus 64 times
an `Operation`.

- `start`, `near`: physical address of the allocation, and the partition near to SM 0.
- `NAME_lines`, `NAME_words`, `NAME_cycles`, shapes (sequences, 64), (sequences, operations) twice: sequences in one set
  each, for the names in `MIXES`; cycles in units of four, 0 of operations without a result.
- `quota_bytes`, shape (sequences,): persisting memory that was set aside for each sequence of `quota`, -1 if it never
  was.
- `sharing_words`, `record_turns_words`: 1024 is added to the words of an SM near the other partition.
- `records`, `families`, `record_mixes`, `record_turns`: of lines far from SM 0 with one set of records, and in
  `records` of lines near to it, too.
- `scattered`: outcomes of random loads of lines `STEP` lines apart, two bits each: 0 near, 1 the other partition, 2
  memory.
- `watch`, shape (times, partitions, sets): how often each set lost its least recently used line in each time of
  `WATCHED`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l2_map import NEAR_CYCLES, hash_numbers
from l2_partitions import (
    LEAST_QUOTA,
    LOADS,
    MAX_DIRTY,
    MAX_INCOMPLETE,
    QUOTA,
    Operation,
    Partitions,
)
from l2_records import OneForNew, Quiet, Records, Renewing, ThreeForNew, copies_found, near_hits
from l2_rules import (
    HOME,
    LINE,
    MEMORY,
    NEAR,
    RECORD_LINES,
    SETS,
    WAY_BYTES,
    Flags,
    Numbers,
    near_sets,
    place,
    records_of,
)
from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "docs" / "results" / "l2-policy-h200.npz"

LISTED, OTHER_SM = 64, 1024  # lines of a list; what is added to the words of the other SM
HOME_CYCLES = 620  # of a load that the other partition serves, at most; it takes longer here than in `l2_map.cu`
Mix = dict[Operation, float]
MIXES: dict[str, tuple[str, Mix]] = {
    "hints": ("near far mixed", dict.fromkeys(list(Operation)[:4], 0.25)),
    "sectors": (
        "near far mixed",
        {
            Operation.LOAD: 0.4,
            Operation.LOAD_NEXT_SECTOR: 0.2,
            Operation.LOAD_OTHER_SECTOR: 0.2,
            Operation.STORE_SECTOR: 0.2,
        },
    ),
    "stores": (
        "near far mixed",
        {Operation.LOAD: 0.6, Operation.STORE_SECTOR: 0.2, Operation.REDUCTION: 0.1, Operation.ATOMIC: 0.1},
    ),
    "hinted": (
        "near far mixed",
        {Operation.LOAD: 0.4, **dict.fromkeys([*list(Operation)[1:4], *list(Operation)[11:14]], 0.1)},
    ),
    "words": (
        "near far mixed",
        {Operation.LOAD: 0.5, Operation.LOAD_OTHER_SECTOR: 0.1, Operation.STORE_WORD: 0.3, Operation.STORE_SECTOR: 0.1},
    ),
    "parts": ("near", {Operation.LOAD: 0.5, Operation.STORE_WORD: 0.25, Operation.STORE_REST: 0.25}),
    "discards": (
        "near far mixed",
        {Operation.LOAD: 0.5, Operation.STORE_SECTOR: 0.15, Operation.STORE_WORD: 0.15, Operation.DISCARD: 0.2},
    ),
    "prefetches": (
        "near far mixed",
        {Operation.LOAD: 0.4, Operation.LOAD_FIRST: 0.2, Operation.PREFETCH: 0.4},
    ),
    "all": (
        "near far mixed",
        {Operation.LOAD: 0.4, **dict.fromkeys(set(Operation) - {Operation.LOAD, Operation.STORE_REST}, 0.6 / 14)},
    ),
}
"""Which lines sequences use, seen from SM 0, and how often each operation occurs in them."""
SHARING = (Operation.STORE_SECTOR, Operation.STORE_WORD, Operation.ATOMIC, Operation.STORE_LAST, Operation.PREFETCH)
"""Operations of two SMs on the same lines, besides loads. Further sequences use the mix `all`."""
RECORD_MIXES: tuple[Mix, ...] = (
    {Operation.LOAD: 0.7, Operation.STORE_SECTOR: 0.15, Operation.STORE_WORD: 0.15},
    {Operation.LOAD: 0.7, Operation.REDUCTION: 0.15, Operation.ATOMIC: 0.15},
    {Operation.LOAD: 0.6, Operation.PREFETCH: 0.2, Operation.DISCARD: 0.2},
)
RECORD_TURNS = (
    Operation.LOAD,
    Operation.STORE_SECTOR,
    Operation.STORE_WORD,
    Operation.REDUCTION,
    Operation.ATOMIC,
    Operation.PREFETCH,
    Operation.DISCARD,
)
"""Operations of an SM near the home of lines that SM 0 loads, too."""
STEP, SCATTERED_LINES, SCATTERED_WARM = 75, 393_216, 300_000  # of `scattered`; loads that are not compared
WATCHED = (20_000_000, 200_000_000)  # nanoseconds
STARTING = 600  # operations of each sequence that are not compared: earlier kernels decide what hits
MAX_WRONG = 2e-3  # share of loads
MIN_RECORDS_WRONG = 400  # loads of a GPU, under refuted rules for records
MIN_SCATTERED, MIN_QUIET = 0.993, 0.9955  # share predicted, of all and in sets that nothing else uses
MIN_GAIN = 0.02  # by records
BLOCK_START, BLOCK_BYTES = 0x3E880000, 64 << 10
"""Physical addresses with the sets of a block that something else uses. 652 aligned blocks below 146 GiB have these."""
MIN_COMMON = 0.9  # share of the sets that something else uses on one GPU, and on others


@dataclass
class Counts:
    """Loads that are predicted wrongly, and all."""

    wrong: int = 0
    loads: int = 0

    @property
    def share(self) -> float:
        """Of loads that are predicted wrongly."""
        return self.wrong / max(self.loads, 1)

    def add(self, other: "Counts") -> None:
        """Add those of another sequence."""
        self.wrong += other.wrong
        self.loads += other.loads

    def __str__(self) -> str:
        return f"{self.wrong} of {self.loads} wrong"


def found_in(cycles: Numbers, far: Flags) -> Numbers:
    """Where loads found their lines, by their latencies; the other partition never serves a load of a near line."""
    return np.where(cycles <= NEAR_CYCLES, NEAR, np.where(far & (cycles <= HOME_CYCLES), HOME, MEMORY))


def sequences(data: Mapping[str, Numbers], name: str) -> Iterator[tuple[Flags, Numbers, Numbers, Numbers]]:
    """Of each sequence: which operations are on far lines, operations, positions, and where loads found their lines."""
    start, near = int(data["start"]), int(data["near"])
    for lines, words, cycles in zip(*(data[f"{name}_{each}"] for each in ("lines", "words", "cycles")), strict=True):
        operations, positions = np.divmod(words, LISTED)
        far = (place(lines + start // LINE)[0] != near)[positions]
        yield far, operations, positions, found_in(cycles, far)


def count_wrong(
    sequence: tuple[Flags, Numbers, Numbers, Numbers], state: Partitions, other: Flags | None = None
) -> Counts:
    """Loads of a sequence that are predicted to find their lines elsewhere than they did.

    `other`: whether the SM near the other partition runs the operation.
    """
    far, operations, positions, found = sequence
    partitions = np.zeros(far.size, np.int64) if other is None else other.astype(np.int64)
    counts = Counts()
    for number, (operation, line) in enumerate(zip(operations.tolist(), positions.tolist(), strict=True)):
        level = state.operate(Operation(operation), line, bool(far[number]), int(partitions[number]))
        if number >= STARTING and operation in LOADS:
            counts.loads += 1
            counts.wrong += int(level != found[number])
    return counts


def states(data: Mapping[str, Numbers], name: str, new: Callable[[], Partitions]) -> Iterator[Partitions]:
    """The state that each sequence continues: a new one if its lines are others than those of the one before."""
    before, state = b"", new()
    for lines in data[f"{name}_lines"]:
        if lines.tobytes() != before:
            state, before = new(), lines.tobytes()
        yield state


def count_mix(data: Mapping[str, Numbers], name: str, new: Callable[[], Partitions]) -> dict[str, Counts]:
    """Loads of a mix that are predicted wrongly, by where lines are; sequences of the same lines follow each other."""
    totals = dict[str, Counts]()
    for state, sequence in zip(states(data, name, new), sequences(data, name), strict=True):
        far = float(np.mean(sequence[0]))
        kind = "near" if far == 0 else "far" if far == 1 else "mixed"
        totals.setdefault(kind, Counts()).add(count_wrong(sequence, state))
    return totals


def check_mixes(data: Mapping[str, Numbers]) -> bool:
    """Print how many loads of the sequences of `MIXES` are predicted wrongly; whether as the page says."""
    totals = {name: count_mix(data, name, Partitions) for name in MIXES}
    for name, by_kind in totals.items():
        print(f"loads of {name}:", ", ".join(f"{kind} {each}" for kind, each in by_kind.items()))
    return all(each.share <= MAX_WRONG for by_kind in totals.values() for each in by_kind.values())


def check_quotas(data: Mapping[str, Numbers]) -> bool:
    """Print how many lines are protected with so much memory set aside; whether one for each `WAY_BYTES`.

    One line more or less that is protected has to predict worse.
    """
    sizes, wrong = data["quota_bytes"], dict[int, list[int]]()
    for size, sequence in zip(sizes.tolist(), sequences(data, "quota"), strict=True):
        expected = QUOTA if size < 0 else max(size // WAY_BYTES, LEAST_QUOTA)
        counts = [count_wrong(sequence, Partitions(quota)).wrong for quota in (expected - 1, expected, expected + 1)]
        wrong[size] = np.add(wrong.get(size, [0, 0, 0]), counts).tolist()
    print(
        "loads mispredicted if a set protects one line less, as many as stated, and one more, by bytes set aside:",
        wrong,
    )
    return all(exact <= 2 < min(below, above) for below, exact, above in wrong.values())


def check_limits(data: Mapping[str, Numbers]) -> bool:
    """Print how many near loads are mispredicted under other limits of dirty and incomplete lines; whether more."""
    holds = []
    for name, option, most in (("stores", "max_dirty", MAX_DIRTY), ("words", "max_incomplete", MAX_INCOMPLETE)):
        wrong = {
            limit: count_mix(data, name, partial(Partitions, **{option: limit}))["near"].wrong
            for limit in (most - 1, most, most + 1)
        }
        print(f"near loads of {name} mispredicted, by {option} of a set:", wrong)
        holds.append(min(wrong, key=wrong.__getitem__) == most)
    return all(holds)


def turns(data: Mapping[str, Numbers], name: str) -> Iterator[tuple[Flags, Flags, Numbers, Numbers, Numbers]]:
    """As `sequences`, after whether the other SM runs each operation; `far` is as SM 0 sees it."""
    words = data[f"{name}_words"]
    masked = {**data, f"{name}_words": words % OTHER_SM}
    for other, sequence in zip(words // OTHER_SM == 1, sequences(masked, name), strict=True):
        yield (other, *sequence)


def check_sharing(data: Mapping[str, Numbers]) -> bool:
    """Print how many loads of two SMs near different partitions are predicted wrongly; whether as the page says."""
    counts = Counts()
    runs = zip(states(data, "sharing", Partitions), data["sharing_cycles"], turns(data, "sharing"), strict=True)
    for state, cycles, (other, far, operations, positions, _) in runs:
        away = far ^ other
        counts.add(count_wrong((away, operations, positions, found_in(cycles, away)), state, other))
    print(f"loads of lines that SMs of both partitions use: {counts}")
    return counts.share <= MAX_WRONG


def check_record_operations(data: Mapping[str, Numbers]) -> bool:
    """Print how many loads are mispredicted if other operations use their set of records, too; whether as stated."""
    holds = []
    for name in ("record_mixes", "record_turns"):
        counts = Counts()
        for other, _, operations, positions, found in turns(data, name):
            compared = np.isin(operations, list(LOADS)) & ~other
            compared[:STARTING] = False
            copies = copies_found(operations, positions, other)
            counts.add(Counts(int(np.sum((copies != (found == NEAR))[compared])), int(compared.sum())))
        print(f"loads of {name}: {counts}")
        holds.append(counts.share <= MAX_WRONG)
    return all(holds)


def check_records(data: Mapping[str, Numbers]) -> bool:
    """Print how well loads of lines with one set of records are predicted; whether as the page says.

    A group of lines has several sequences. In the last ones of `records`, lines near to SM 0 evict the copy of the
    first line, too. In `families`, records have all their lines.
    """
    alone = np.array([far.all() for far, *_ in sequences(data, "records")])
    records, families = records_wrong(data, "records"), records_wrong(data, "families")
    compared = data["records_words"].shape[1] - STARTING
    holds = []
    for name, wrong in (("records", records[alone]), ("rivals", records[~alone]), ("families", families)):
        count = Counts(int(wrong.sum()), wrong.size * compared)
        print(f"loads of {name}: {count}, in {np.count_nonzero(wrong)} of {wrong.size} sequences")
        holds.append(count.share <= MAX_WRONG)
    for kind in (OneForNew, ThreeForNew, Quiet, Renewing):
        by_name = {name: int(records_wrong(data, name, kind=kind).sum()) for name in ("records", "families")}
        print(f"loads mispredicted under the rule {kind.__name__}: {by_name}")
        holds.append(sum(by_name.values()) >= MIN_RECORDS_WRONG)
    by_shared = {each: int(records_wrong(data, "families", shared=each).sum()) for each in (0, 1, 4, RECORD_LINES)}
    print("loads of families mispredicted, by the bits in which lines of a record may differ:", by_shared)
    holds.append(min(by_shared, key=by_shared.__getitem__) == RECORD_LINES)
    return all([*holds, *(have_one_set(data, name) for name in ("records", "families"))])


def have_one_set(data: Mapping[str, Numbers], name: str) -> bool:
    """Whether the far lines of each sequence have one set of records."""
    start = int(data["start"]) // LINE
    used = (
        lines[positions[far]]
        for lines, (far, _, positions, _) in zip(data[f"{name}_lines"], sequences(data, name), strict=True)
    )
    return all(np.unique(records_of(lines + start)).size == 1 for lines in used)


def records_wrong(
    data: Mapping[str, Numbers], name: str, *, kind: type[Records] = Records, shared: int = RECORD_LINES
) -> Numbers:
    """Mispredicted loads of each sequence; those of the same lines follow each other."""
    near, start = int(data["near"]), int(data["start"]) // LINE
    runs, numbers = list(sequences(data, name)), dict[bytes, list[int]]()
    for number, lines in enumerate(data[f"{name}_lines"]):
        numbers.setdefault(lines.tobytes(), []).append(number)
    wrong = np.zeros(len(runs), np.int64)
    for group in numbers.values():
        positions, found = (np.array([runs[number][part] for number in group]) for part in (2, 3))
        lines = data[f"{name}_lines"][group[0]] + start
        hits = near_hits(lines, positions.ravel(), near, kind=kind, shared=shared).reshape(positions.shape)
        wrong[group] = np.sum((hits != (found == NEAR))[:, STARTING:], axis=1)
    return wrong


def check_scattered(data: Mapping[str, Numbers], used: Flags) -> bool:
    """Print how many scattered loads are predicted (near or not), and without records; whether as the page says.

    The same of sets that nothing else uses on other GPUs; `used`, shape (partitions, sets): the others.
    """
    wrong, sets = scattered_wrong(data, Records)
    without, _ = scattered_wrong(data, None)
    quiet = wrong[~used[int(data["near"])][sets]]
    shares = [1 - float(np.mean(each)) for each in (wrong, without, quiet)]
    print("scattered loads predicted: {:.2%}; without records: {:.2%}; in quiet sets: {:.2%}".format(*shares))
    return shares[0] >= MIN_SCATTERED and shares[2] >= MIN_QUIET and shares[0] - shares[1] >= MIN_GAIN


def scattered_wrong(data: Mapping[str, Numbers], kind: type[Records] | None) -> tuple[Flags, Numbers]:
    """Which of the compared scattered loads are predicted wrongly, and their sets in the near partition."""
    outcomes = (data["scattered"][:, None] >> np.arange(0, 8, 2) & 3).ravel()
    steps = np.arange(outcomes.size, dtype=np.uint64) + np.uint64(1 << 40)
    order = (hash_numbers(steps) * np.uint64(SCATTERED_LINES) >> np.uint64(32)).astype(np.int64)
    lines = np.arange(SCATTERED_LINES) * STEP + int(data["start"]) // LINE
    again = np.isin(np.arange(order.size), np.unique(order, return_index=True)[1], invert=True)
    again[:SCATTERED_WARM] = False
    hits = near_hits(lines, order, int(data["near"]), kind=kind)
    return (hits != (outcomes == NEAR))[again], near_sets(lines, int(data["near"]))[1][order[again]]


def used_sets(data: Mapping[str, Numbers]) -> Flags:
    """Sets that something else used in every one of the longer times of a GPU; shape (partitions, sets)."""
    counts = data["watch"][-1]
    return np.asarray(counts == counts.max())


def block_trials(data: Mapping[str, Numbers]) -> Numbers:
    """In how many of the shorter times each set of the block lost its least recently used line."""
    home, slices, sets = place(np.arange(BLOCK_START, BLOCK_START + BLOCK_BYTES, LINE) // LINE)
    return np.asarray(data["watch"][0][home, slices * SETS + sets])


def check_watch(used: list[Flags]) -> bool:
    """Print how many sets something else uses on each GPU; whether they are the same on all."""
    common = np.logical_and.reduce(used)
    print(
        "sets that something else uses:",
        ", ".join(str(each.sum()) for each in used),
        f"of which on all GPUs {common.sum()}",
    )
    return all(common.sum() >= MIN_COMMON * each.sum() for each in used)


def pack(files: list[Path]) -> None:
    """Write `DATA` from what `l2_policy_probe.py` measured."""
    recorded_map.save(DATA, recorded_map.joined(files))


def runs_by_gpu(data: Mapping[str, NDArray[np.integer[Any]]]) -> dict[str, dict[str, Numbers]]:
    """The arrays of each GPU, with latencies in cycles."""
    gpus = recorded_map.by_gpu(data)
    for own in gpus.values():
        for name in own:
            if name.endswith("_cycles"):
                own[name] *= 4
    return gpus


def check(data: Mapping[str, NDArray[np.integer[Any]]]) -> bool:
    """Print what the recorded runs show; whether that is what the page says."""
    gpus, holds = runs_by_gpu(data), list[bool]()
    used = {gpu: used_sets(own) for gpu, own in gpus.items()}
    for gpu, own in gpus.items():
        print(f"GPU {gpu}: the allocation starts at {own['start'] >> 20} MiB")
        checks = check_mixes, check_quotas, check_limits, check_sharing, check_records, check_record_operations
        holds += [each(own) for each in checks]
        on_others = np.logical_and.reduce([each for other, each in used.items() if other != gpu])
        holds.append(check_scattered(own, on_others))
        trials = block_trials(own)
        print(f"sets of a block of 64 KiB that something else uses: {trials.size}, each in {trials.min()} of 40 trials")
        holds.append(bool(trials.min() == own["watch"][0].max()))
    return all([*holds, check_watch([*used.values()])])


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

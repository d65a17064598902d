"""Measure policies of the L2 of an H200: ``python validation/l2_policy_probe.py FILE.npz [SEED]``; see `l2_policy.py`.

Takes nearly all memory of the GPU and about 27 seconds.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gpu_probe
import numpy as np
from cuda.bindings import driver
from gpu_probe import U32, U64, Gpu, call
from l2_map import NEAR_CYCLES
from l2_partitions import QUOTA, Operation
from l2_policy import (
    LISTED,
    MIXES,
    OTHER_SM,
    RECORD_MIXES,
    RECORD_TURNS,
    SCATTERED_LINES,
    SHARING,
    STEP,
    WATCHED,
    Mix,
)
from l2_rules import LINE, RECORD_LINES, SETS, SLICES, WAY_BYTES, WAYS, Numbers, near_sets, place, records_of
from numpy.typing import NDArray

SOURCE = Path(__file__).with_name("l2_policy.cu")
SHARED_BYTES = 200 << 10  # so that one block runs on each SM
KEPT_BYTES = 3 << 30  # of the GPU's memory, not used
USUAL_START = 528 << 20  # of a large allocation in physical memory
STARTS = sorted(range(0, 1 << 30, 2 << 20), key=lambda start: abs(start - USUAL_START))
NEAR_LINES = (256 << 20) // LINE  # from which lines of a set are chosen: at least 60 of each home
START_LINES = (96 << 20) // LINE
SEQUENCE = 2048
USED_LINES = (17, 20, 28, 40)
SETS_OF_MIX = 2  # for lines of each kind
SHARED_LINES = (12, 24, 40)  # of the two SMs that take turns
QUOTA_SEQUENCES = 3  # for each size of persisting memory
TURN_SHARE = 0.3  # of operations that the other SM runs on lines with one set of records
RECORD_GROUPS = 6
RECORD_LINES_USED = (16, 12, 9, 8, 7, 6, 5)
RIVALS, RIVAL_SEQUENCES = 20, 3  # near lines that evict the copy of the first line of a group
SHARES_WITH_RIVALS = [0.02] * 10 + [0.0] * 6 + [0.8 / RIVALS] * RIVALS
"""Of loads, for each line of a group and each rival."""
FAMILIES, FAMILIES_USED = 9, (9, 8, 7, 6)  # records of which all lines are used
CANDIDATES = 6_000_000  # random lines of the whole memory
SCATTERED_LOADS = 640_000
WATCH_ROUNDS = (40, 8)
WATCH_THREADS = 256
NOT_NEAR = 0xFFFFFFFF


class Probe:
    """The kernels, and where they run.

    Attributes:
        rng: of all random choices.
        lines: number of lines of the allocation.
        start: its first byte in physical memory.
        near: for each SM, the partition near to it.

    """

    def __init__(self, seed: int) -> None:
        """Raise `RuntimeError` if the start is not found."""
        self._gpu = Gpu()
        self.rng = np.random.default_rng(seed)
        size = ((int(call(driver.cuMemGetInfo)) - KEPT_BYTES) >> 30) << 30
        self.lines = size // LINE
        self._memory = self._gpu.allocate(size)
        self._list, self._places, self._words = (self._gpu.allocate(bytes_) for bytes_ in (1 << 20, 1 << 10, 1 << 16))
        self._out, self._ran, self._turn = (self._gpu.allocate(bytes_) for bytes_ in (1 << 20, 256, 256))
        cubin = self._gpu.compile(SOURCE)
        self._kernels = {
            name: self._gpu.function(cubin, name.encode(), SHARED_BYTES)
            for name in ("operations", "turns", "scattered", "watch")
        }
        self.start = self._find_start()
        some = [split_by_set(np.arange(START_LINES), self.start, home)[0][:24] for home in (0, 1)]
        misses = [[np.median(self._laps(lines, sm)) for lines in some] for sm in range(self._gpu.sms)]
        self.near = np.argmin(misses, axis=1)  # misses take less long if the home of the lines is near

    def operate(self, lines: Numbers, words: Numbers, sm: int = 0) -> NDArray[np.uint16]:
        """Cycles of operations of one SM."""
        self._put(lines, words)
        arguments = (sm, U32), (self._memory, U64), (self._list, U64), (self._words, U64), (words.size, U32)
        self._run("operations", 32, 1, *arguments)
        return self._gpu.download(self._out, words.size, np.uint16)

    def take_turns(self, lines: Numbers, words: Numbers) -> NDArray[np.uint16]:
        """Cycles of operations of SM 0 and of one near the other partition."""
        self._put(lines, words)
        self._gpu.upload(self._out, np.zeros(words.size, np.uint16))
        other = int(np.flatnonzero(self.near != self.near[0])[0])
        arguments = (
            (0, U32),
            (other, U32),
            (self._memory, U64),
            (self._list, U64),
            (self._words, U64),
            (words.size, U32),
        )
        self._run("turns", 32, 2, *arguments, after=((self._turn, U64),))
        return self._gpu.download(self._out, words.size, np.uint16)

    def load_scattered(self) -> NDArray[np.uint8]:
        """Outcomes of random loads; see `l2_policy`."""
        arguments = (0, U32), (self._memory, U64), (STEP, U32), (SCATTERED_LINES, U32), (SCATTERED_LOADS, U32)
        self._run("scattered", 32, 1, *arguments)
        return self._gpu.download(self._out, SCATTERED_LOADS // 4, np.uint8)

    def watch(self, partition: int, nanoseconds: int, rounds: int) -> NDArray[np.uint32]:
        """How often each set of a partition lost its least recently used line in a time."""
        watching = np.flatnonzero(self.near == partition)
        places = np.full(256, NOT_NEAR, np.uint32)
        places[watching] = np.arange(watching.size)
        self._gpu.upload(self._places, places)
        sets = SLICES * SETS
        lines = [each[:WAYS] for each in self.lines_by_set(partition, NEAR_LINES)]
        self._gpu.upload(self._list, np.concatenate(lines).astype(np.uint32))
        arguments = (self._places, U64), (watching.size, U32), (self._memory, U64), (self._list, U64), (sets, U32)
        self._run("watch", WATCH_THREADS, watching.size, *arguments, (nanoseconds, U64), (rounds, U32))
        return self._gpu.download(self._out, sets, np.uint32)

    def lines_by_set(self, home: int, lines: int) -> list[Numbers]:
        """Of the first lines of the allocation, those with a home, for each set of that partition."""
        return split_by_set(np.arange(lines), self.start, home)

    def set_aside(self, size: int) -> None:
        """Set memory of the L2 aside for persisting accesses."""
        call(driver.cuCtxSetLimit, driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size)

    def _put(self, lines: Numbers, words: Numbers) -> None:
        self._gpu.upload(self._list, np.resize(lines, LISTED).astype(np.uint32))
        self._gpu.upload(self._words, words.astype(np.uint16))

    def _run(
        self,
        name: str,
        threads: int,
        expected: int,
        *arguments: tuple[int, type],
        after: Sequence[tuple[int, type]] = (),
    ) -> None:
        for counter in (self._ran, self._turn):
            self._gpu.upload(counter, np.zeros(1, np.uint32))
        results = (self._out, U64), (self._ran, U64), *after
        self._gpu.launch(self._kernels[name], (self._gpu.sms, threads), SHARED_BYTES, *arguments, *results)
        ran = int(self._gpu.download(self._ran, 1, np.uint32)[0])
        if ran != expected:
            raise RuntimeError(f"{name}: {ran} of {expected} blocks ran on their SMs")

    def _find_start(self) -> int:
        for start in STARTS:
            sets = split_by_set(np.arange(START_LINES), start, 0)
            chosen = [sets[each] for each in self.rng.choice(len(sets), 4)]
            if all(np.mean(self._laps(lines[:20], 0) > NEAR_CYCLES) > 0.9 for lines in chosen):
                return start
        raise RuntimeError("no start of the allocation was found at which lines of a predicted set evict each other")

    def _laps(self, lines: Numbers, sm: int) -> NDArray[np.uint16]:
        """Cycles of the last two laps over lines."""
        return self.operate(lines, np.tile(np.arange(lines.size), 5), sm)[-2 * lines.size :]


def split_by_set(lines: Numbers, start: int, home: int) -> list[Numbers]:
    """Lines with a home, for each set of its partition."""
    partition, slices, sets = place(lines + start // LINE)
    own = partition == home
    return group(lines[own], (slices * SETS + sets)[own])


def group(lines: Numbers, numbers: Numbers) -> list[Numbers]:
    """Lines of each set of a partition."""
    order = np.argsort(numbers, kind="stable")
    return np.split(lines[order], np.searchsorted(numbers[order], np.arange(1, SLICES * SETS)))


class Experiments:
    """Runs on one GPU.

    Attributes:
        arrays: of `l2_policy`, by name; of each kind of sequence, the sequences one by one.

    """

    def __init__(self, probe: Probe) -> None:
        self.arrays: dict[str, list[NDArray[Any]]] = {}
        self._probe, self._rng, self._near = probe, probe.rng, int(probe.near[0])
        self._own = probe.lines_by_set(self._near, NEAR_LINES)
        far = np.concatenate(probe.lines_by_set(1 - self._near, NEAR_LINES))
        self._copies = group(far, near_sets(far + probe.start // LINE, self._near)[1])

    def mixes(self) -> None:
        """Sequences of operations in single sets, after laps over all lines that leave none of earlier kernels."""
        protected = np.arange(QUOTA + 1) + LISTED * Operation.LOAD_LAST
        flush = np.append(protected, np.tile(np.arange(max(USED_LINES)), 2))
        for name, (kinds, mix) in MIXES.items():
            for kind in kinds.split():
                for _ in range(SETS_OF_MIX):
                    lines = self._lines(kind, max(USED_LINES))
                    for used in USED_LINES:
                        self._operate(name, lines, np.append(flush, self._words(mix, used))[:SEQUENCE])

    def sharing(self) -> None:
        """Two SMs near different partitions use the same lines."""
        for kind in ("near", "far"):
            for mix in (*({Operation.LOAD: 0.7, each: 0.3} for each in SHARING), MIXES["all"][1]):
                lines = self._lines(kind, max(SHARED_LINES))
                for used in SHARED_LINES:
                    words = self._words(mix, used)
                    words += OTHER_SM * self._rng.integers(0, 2, words.size)
                    self._take_turns("sharing", lines, words)

    def records(self) -> None:
        """Loads of far lines with one set of records; then of lines that evict the copy of the first one, too.

        For `families`, each record has all its lines.
        """
        for far in record_groups(self._probe, self._near):
            rivals = self._own[int(near_sets(far[:1] + self._probe.start // LINE, self._near)[1][0])]
            lines = np.concatenate([far, rivals[:RIVALS]])
            for used in RECORD_LINES_USED:
                self._operate("records", lines, self._rng.integers(0, used, SEQUENCE))
            laps = np.tile(np.arange(far.size, lines.size), 2)
            for _ in range(RIVAL_SEQUENCES):
                chosen = self._rng.choice(lines.size, SEQUENCE, p=SHARES_WITH_RIVALS)
                self._operate("records", lines, np.append(laps, chosen)[:SEQUENCE])
            for mix in RECORD_MIXES:
                for used in RECORD_LINES_USED:
                    self._operate("record_mixes", far, self._words(mix, used))
            physical = far[:FAMILIES] + self._probe.start // LINE
            family = np.unique(np.arange(RECORD_LINES + 1) & RECORD_LINES)
            related = np.bitwise_xor.outer(physical, family).ravel() - self._probe.start // LINE
            for used in FAMILIES_USED:
                self._operate("families", related, self._rng.integers(0, used * family.size, SEQUENCE))

    def record_turns(self) -> None:
        """SM 0 loads far lines with one set of records, and an SM near their home uses them, too."""
        for far in record_groups(self._probe, self._near, len(RECORD_TURNS)):
            for operation in RECORD_TURNS:
                words = self._rng.integers(0, far.size, SEQUENCE)
                by_other = self._rng.random(SEQUENCE) < TURN_SHARE
                words += np.where(by_other, OTHER_SM + LISTED * operation, 0)
                self._take_turns("record_turns", far, words)

    def quotas(self) -> Numbers:
        """Sequences with more and more persisting memory set aside; bytes of it for each, -1 before any was."""
        attribute = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE
        most = int(call(driver.cuDeviceGetAttribute, attribute, 0))
        sizes = [-1, *range(WAY_BYTES, most + 1, WAY_BYTES), 0]
        for size in sizes:
            if size >= 0:
                self._probe.set_aside(size)
            used = max(USED_LINES)
            for _ in range(QUOTA_SEQUENCES):
                self._operate("quota", self._lines("near", used), self._words(MIXES["hints"][1], used))
        return np.repeat(sizes, QUOTA_SEQUENCES)

    def _lines(self, kind: str, count: int) -> Numbers:
        """Lines in one set of the partition near to SM 0, in random order."""
        number = int(self._rng.integers(SLICES * SETS))
        own, far = self._rng.permutation(self._own[number]), self._rng.permutation(self._copies[number])
        mixed = np.concatenate([own[: count // 2], far[: count // 2]])
        return self._rng.permutation({"near": own, "far": far, "mixed": mixed}[kind][:count])

    def _words(self, mix: Mix, used: int) -> Numbers:
        operations = self._rng.choice(list(mix), SEQUENCE, p=list(mix.values()))
        return np.asarray(self._rng.integers(0, used, SEQUENCE) + LISTED * operations)

    def _operate(self, name: str, lines: Numbers, words: Numbers) -> None:
        self._keep(name, lines, words, self._probe.operate(lines, words))

    def _take_turns(self, name: str, lines: Numbers, words: Numbers) -> None:
        self._keep(name, lines, words, self._probe.take_turns(lines, words))

    def _keep(self, name: str, lines: Numbers, words: Numbers, cycles: NDArray[np.uint16]) -> None:
        parts: dict[str, NDArray[Any]] = {
            "lines": np.resize(lines, LISTED).astype(np.uint32),
            "words": words.astype(np.uint16),
            "cycles": np.minimum(cycles // 4, 255).astype(np.uint8),
        }
        for part, values in parts.items():
            self.arrays.setdefault(f"{name}_{part}", []).append(values)


def measure(probe: Probe) -> dict[str, NDArray[Any]]:
    """All runs; see `l2_policy` for the arrays."""
    experiments = Experiments(probe)
    for run in (experiments.mixes, experiments.sharing, experiments.records, experiments.record_turns):
        run()
    probe.watch(int(probe.near[0]), WATCHED[0], 1)  # evicts all copies, so that no record is left
    scattered = probe.load_scattered()
    times = zip(WATCHED, WATCH_ROUNDS, strict=True)
    watched = [[probe.watch(partition, time, rounds) for partition in (0, 1)] for time, rounds in times]
    sizes = experiments.quotas()
    return {
        "start": np.array(probe.start),
        "near": np.array(probe.near[0]),
        "scattered": scattered,
        "watch": np.array(watched, np.uint8),
        "quota_bytes": sizes,
        **{name: np.array(values) for name, values in experiments.arrays.items()},
    }


def record_groups(probe: Probe, near: int, count: int = RECORD_GROUPS) -> list[Numbers]:
    """Far lines from the whole memory with one set of records each, but in different sets of the L2."""
    lines = np.unique(probe.rng.integers(0, probe.lines, CANDIDATES))
    physical = lines + probe.start // LINE
    far, sets, _ = near_sets(physical, near)
    lines, physical, sets = lines[far], physical[far], sets[far]
    numbers = records_of(physical)
    groups = []
    for number in probe.rng.choice(np.unique(numbers), count, replace=False):
        members = np.flatnonzero(numbers == number)
        for values in (physical & ~RECORD_LINES, sets):
            members = members[np.unique(values[members], return_index=True)[1]]
        groups.append(probe.rng.permutation(lines[members])[: max(RECORD_LINES_USED)])
    return groups


if __name__ == "__main__":
    gpu_probe.main(lambda seed: measure(Probe(seed)))

"""Compare the rules of `docs/l1.md` for the data storage of the L1 of H200s with recorded runs: ``--check`` for CI.

`docs/results/l1-storage-h200.npz` holds runs on four GPUs, with nine sizes of shared memory. In each run, a kernel
follows a chain with one thread on each SM, in an L1 that a change of the carve-out has emptied. The arrays of each GPU:

- `rows`: KiB of shared memory, kind of access, laps, accesses of a lap, on how many SMs the same accesses missed.
- `units`: sectors in the order of access, as numbers of 32 bytes, of all runs.
- `missed`: a bit for each access, on one SM: whether it missed.

Chains of one lap access each line two or three times, in random order, each time in one of two sectors. The others
access more lines of one bank than it stores, in the same order in each lap.

`Bank` predicts every access. The only fitted parameter is one constant per process, which maps the set numbers of
loads to those of texture fetches.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from numpy.typing import NDArray

from gpudissect.results.files import load
from gpudissect.simulation.cache.geometry import Index, IndexKind
from gpudissect.simulation.cache.index import set_numbers

DATA = Path(__file__).parents[1] / "docs" / "results" / "l1-storage-h200.npz"
GLOBAL, READONLY, TEXTURE = KINDS = range(3)
SMS, LINES, LINE, SECTORS, SETS, WAYS, BANKS = 132, 8192, 128, 4, 512, 4, 4
BANK_SETS = SETS // BANKS
ROOMS = {kib: 2 * (249 - kib) for kib in (8, 16, 32, 64, 100, 132, 164, 196, 228)}
"""Lines that a bank stores, by KiB of shared memory; 7 of the 256 KiB hold neither data nor shared memory."""
SEQUENCE = (468, 356, 4, 8, 16, 32, 64, 469, 358)
"""Basis of the sequence: set t, numbered as for texture fetches, is the XOR of all entries i for which bit i of t is 1.

The two highest bits of t select the bank."""
LINEAR = (469, 358, 97, 22, 223, 473, 50, 351, 442)
"""Maps set numbers of loads to those of texture fetches: the XOR of a constant and all entries i whose bit i is 1."""
VISITS_OF_HIT, VISITS_OF_REPLACEMENT, VISITS_OF_FILL = 1, 2, 5
WRONG = (0, 0, 0, 4)  # accesses that are mispredicted, by GPU
FITTED_RUNS = 5  # of loads with the largest shared memory, from which the constant is found

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@cache
def index_of(kind: int) -> Index:
    """Index function of the L1 of the H200 for a kind of access, as published."""
    element = "texture" if kind == TEXTURE else "l1"
    (text,) = (
        str(each.value)
        for each in load(DATA.with_name("h200.json")).findings
        if (each.element, each.attribute) == (element, "index_function")
    )
    rows = [map(int, row.split("^")) for row in text.removeprefix("xor ").split()]
    return Index(IndexKind.XOR, masks=tuple(sum(1 << bit for bit in row) for row in rows))


def sets_of(kind: int, lines: Numbers) -> Numbers:
    """Numbers of the sets of lines, up to a constant that depends on their address."""
    return np.asarray(set_numbers(index_of(kind), LINE, SETS, lines * LINE))


def linear(values: tuple[int, ...]) -> Numbers:
    """For each number of as many bits as there are values, the XOR of those that its bits select."""
    found = np.zeros(1, dtype=np.int64)
    for value in values:
        found = np.concatenate([found, found ^ value])
    return found


PLACES = np.argsort(linear(SEQUENCE))
"""Place of each set in the sequence."""


def places_of(kind: int, lines: Numbers, constant: int = 0) -> Numbers:
    """Places in the sequence of the sets of lines: 128 for each bank."""
    sets = sets_of(kind, lines)
    return PLACES[sets if kind == TEXTURE else linear(LINEAR)[sets] ^ constant]


def banks_of(kind: int, lines: Numbers) -> Numbers:
    """Banks of lines, up to a constant that depends on their address."""
    return places_of(kind, lines) // BANK_SETS


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
            self.evict()
        self.lines.insert(len({each for each in self.hits if each in self.lines}), line)
        return True

    def evict(self) -> None:
        """Evict the next victim; its hits no longer count."""
        line = self.lines.pop()
        self.hits = [None if each == line else each for each in self.hits]


class Bank:
    """A bank: its sets in the order of the sequence, and storage for `room` lines and one more.

    If more than `room` lines are stored, an access visits sets in sequence, beginning at a pointer: 1 set if its line
    is present, 2 if its line replaces another, 5 if its line enters a free way. Sets without lines do not count. Each
    set that is visited loses its next victim. A load that hits may evict its own line; misses and texture
    fetches never do. A visit that would evict such a line evicts nothing but counts, except the first visit after a new
    line.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._sets = [Set() for _ in range(BANK_SETS)]
        self._sectors: dict[int, set[int]] = {}  # of the lines
        self._stored = self._pointer = 0

    def access(self, place: int, unit: int, is_texture: bool) -> bool:
        """Access a sector of a set; return whether it missed."""
        own, line, is_over = self._sets[place], unit // SECTORS, self._stored > self._room
        before = len(own.lines)
        if is_new := own.access(line):
            self._sectors[line] = set()
        missed = unit not in self._sectors[line]
        self._sectors[line].add(unit)
        self._stored += len(own.lines) - before
        if is_over:
            visits = VISITS_OF_HIT if not is_new else VISITS_OF_FILL if before < WAYS else VISITS_OF_REPLACEMENT
            for number in range(visits):
                self._visit(line if missed or is_texture else None, is_new and not number)
        return missed

    def remove(self, lines: Callable[[int], bool]) -> None:
        """Remove the lines that `lines` selects and free their storage at once. An H200 frees it later."""
        for each in self._sets:
            before = len(each.lines)
            each.lines = [line for line in each.lines if not lines(line)]
            self._stored -= before - len(each.lines)

    def _visit(self, kept: int | None, passes: bool) -> None:
        """Evict the next victim of the next set with lines, unless it is `kept`; if `passes`, go on to another set."""
        while True:
            visited = self._sets[self._pointer]
            self._pointer = (self._pointer + 1) % len(self._sets)
            if visited.lines and visited.lines[-1] != kept:
                visited.evict()
                self._stored -= 1
                return
            if visited.lines and not passes:
                return


@dataclass(frozen=True, eq=False)
class Run:
    """Accesses of a kernel and which of them missed; shapes (accesses,)."""

    shared_kib: int
    kind: int
    matching_sms: int
    units: Numbers
    missed: Flags


def runs_of(gpu: Mapping[str, Numbers]) -> list[Run]:
    """The runs of a GPU."""
    bits = np.unpackbits(gpu["missed"].astype(np.uint8)).astype(bool)
    runs, first, first_bit = [], 0, 0
    for kib, kind, laps, count, matching in gpu["rows"].tolist():
        units, missed = np.tile(gpu["units"][first : first + count], laps), bits[first_bit : first_bit + laps * count]
        runs.append(Run(kib, kind, matching, units, missed))
        first, first_bit = first + count, first_bit + laps * count
    return runs


def predict(run: Run, constant: int, room: int) -> Flags:
    """Which accesses miss."""
    banks, is_texture = [Bank(room) for _ in range(BANKS)], run.kind == TEXTURE
    places = places_of(run.kind, run.units // SECTORS, constant)
    numbers = zip((places // BANK_SETS).tolist(), (places % BANK_SETS).tolist(), strict=True)
    visits = zip(numbers, run.units.tolist(), strict=True)
    return np.array([banks[bank].access(place, unit, is_texture) for (bank, place), unit in visits])


def fitted_constant(runs: list[Run]) -> int:
    """The constant with which the fewest accesses of some runs of loads are mispredicted."""
    best, fewest = 0, sys.maxsize
    some = [run for run in runs if run.kind != TEXTURE and run.shared_kib == max(ROOMS)][:FITTED_RUNS]
    for constant in range(SETS):
        wrong = 0
        for run in some:
            if wrong < fewest:
                wrong += int((predict(run, constant, ROOMS[run.shared_kib]) != run.missed).sum())
        if wrong < fewest:
            best, fewest = constant, wrong
    return best


def wrong_accesses(runs: list[Run], constant: int, limited: bool) -> int:
    """Accesses that are mispredicted; without `limited`, with storage for every line."""
    rooms = {kib: room if limited else LINES for kib, room in ROOMS.items()}
    return sum(int((predict(run, constant, rooms[run.shared_kib]) != run.missed).sum()) for run in runs)


def check(data: Mapping[str, NDArray[Any]]) -> bool:
    """Print what the runs show; return whether it matches the page."""
    found, sms = [], set[int]()
    for name, gpu in recorded_map.by_gpu(data).items():
        runs = runs_of(gpu)
        constant, accesses = fitted_constant(runs), sum(run.missed.size for run in runs)
        wrong, unlimited = (wrong_accesses(runs, constant, limited) for limited in (True, False))
        print(f"GPU {name}: {wrong} of {accesses} accesses wrong, {unlimited} with storage for every line")
        found.append(wrong)
        sms |= {run.matching_sms for run in runs}
    print(f"the same accesses miss on {min(sms)} to {max(sms)} SMs")
    return tuple(found) == WRONG and sms == {SMS}


def pack(paths: list[Path]) -> None:
    """Write `DATA` from the files of the probe, one for each GPU."""
    recorded_map.save(DATA, recorded_map.joined(paths))


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

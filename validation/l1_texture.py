"""Check what `docs/l1.md` says of lines that texture fetches leave in the L1 of H200s: ``--check`` for CI.

`docs/results/l1-texture-h200.npz` holds runs of kernels on three GPUs. Each run begins with a change of the carve-out.
Then kernels follow chains of lines, with one thread on each SM and the smallest carve-out.
The arrays of each GPU:

- `chains`: kind of access, first of `lines`, number of lines.
- `steps`: run, number of a chain (or `CHANGE`: the carve-out changes and changes back), laps, on how many SMs the same
  accesses missed as on the first.
- `missed`: a bit for each access of the kernels with loads, in their order, on four SMs: whether it missed. Those with
  texture fetches store nothing, because stores allocate lines.
- `ms`: how long 256 threads took to load `KIB_PER_SM` on each SM 200 times; shape (5, sizes, 3): from an empty L1,
  after texture fetches of the same memory, and after these and a change of the carve-out. These kernels use no shared
  memory and prefer no carve-out. They ran on two of the GPUs.

The two kinds of access have different index functions. `LINEAR` translates set numbers of one into those of the
other.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import recorded_map
from l1_storage import (
    BANK_SETS,
    BANKS,
    LINEAR,
    LINES,
    PLACES,
    ROOMS,
    SECTORS,
    SETS,
    SMS,
    TEXTURE,
    Bank,
    linear,
    sets_of,
)
from numpy.typing import NDArray

DATA = Path(__file__).parents[1] / "docs" / "results" / "l1-texture-h200.npz"
SET_BITS, CHANGE = 9, -1
KIB_PER_SM = (64, 96, 112, 128, 144, 160, 192, 224)
FIRST, LATER = "first kernels with loads", "later ones"

Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Step:
    """A kernel; `missed` has shape (SMs, laps, lines), and is empty for texture fetches."""

    kind: int
    lines: Numbers
    laps: int
    matching_sms: int
    missed: Flags


def runs_of(gpu: Mapping[str, Numbers]) -> list[list[Step | None]]:
    """The kernels of each run; None is a change of the carve-out."""
    bits = np.unpackbits(gpu["missed"].astype(np.uint8), axis=1).astype(bool)
    runs: list[list[Step | None]] = [[] for _ in range(1 + int(gpu["steps"][:, 0].max()))]
    at = 0
    for run, chain, laps, matching_sms in gpu["steps"].tolist():
        if chain == CHANGE:
            runs[run].append(None)
            continue
        kind, first, count = gpu["chains"][chain].tolist()
        size = 0 if kind == TEXTURE else laps * count
        missed = bits[:, at : at + size].reshape(len(bits), -1, count)
        runs[run].append(Step(kind, gpu["lines"][first : first + count], laps, matching_sms, missed))
        at += size
    return runs


def observed_map(runs: list[list[Step | None]]) -> Numbers:
    """For each set of loads the set of texture fetches, from the first runs.

    In run 2 i + j, texture fetches held two ways of every set whose number has bit i. Then three lines were loaded in
    each set of half j. They miss where two ways are held.
    """
    found = np.zeros(SETS, np.int64)
    for number, run in enumerate(runs[: 2 * SET_BITS]):
        loads = run[-1]
        assert loads is not None
        sets, missed = sets_of(loads.kind, loads.lines), loads.missed[0, 2:].mean(axis=0)
        shares = np.bincount(sets, missed, SETS) / np.maximum(np.bincount(sets, minlength=SETS), 1)
        found |= (shares > 0.5).astype(np.int64) << number // 2
    return found


def predict(run: list[Step | None], of_loads: Numbers, texture_stays: bool) -> list[Flags]:
    """Which accesses of each kernel miss.

    A kernel with texture fetches begins with an empty L1. One without loses the lines that were loaded; those of
    texture fetches stay if `texture_stays`. A change of the carve-out removes all lines.
    """
    banks, predicted = _empty_banks(), []
    for step in run:
        if step is None:
            banks = _empty_banks()
            continue
        is_texture = step.kind == TEXTURE
        for bank in banks:
            bank.remove(lambda line, stays=texture_stays and not is_texture: not (stays and line >= LINES))
        sets = sets_of(step.kind, step.lines)
        places = PLACES[sets if is_texture else of_loads[sets]].tolist()
        units = ((step.lines + LINES * is_texture) * SECTORS).tolist()
        visits = [*zip(places, units, strict=True)] * step.laps
        missed = [banks[place // BANK_SETS].access(place % BANK_SETS, unit, is_texture) for place, unit in visits]
        predicted.append(np.array(missed).reshape(step.laps, -1))
    return predicted


def _empty_banks() -> list[Bank]:
    """The L1 with the smallest carve-out."""
    return [Bank(ROOMS[min(ROOMS)]) for _ in range(BANKS)]


def compare(run: list[Step | None], of_loads: Numbers, texture_stays: bool) -> list[tuple[int, int]]:
    """Wrong predictions and predictions of each kernel with loads, on all its SMs, without its first lap."""
    kernels = [step for step in run if step is not None]
    pairs = zip(kernels, predict(run, of_loads, texture_stays), strict=True)
    wrong = [(step.missed != predicted)[:, 1:] for step, predicted in pairs if step.kind != TEXTURE]
    return [(int(each.sum()), each.size) for each in wrong]


def check(data: Mapping[str, NDArray[Any]]) -> bool:
    """Print what the runs show; whether that is what the page says."""
    holds = [check_gpu(name, runs_of(gpu)) for name, gpu in recorded_map.by_gpu(data).items()]
    holds += [check_times(times) for name, times in data.items() if name.endswith("_ms")]
    return all(holds)


def check_gpu(name: str, runs: list[list[Step | None]]) -> bool:
    """The same for the runs of one GPU."""
    found, of_loads = observed_map(runs), linear(LINEAR)
    of_loads ^= int(np.bincount(found ^ of_loads).argmax())
    agree = int((found == of_loads).sum())
    print(f"GPU {name}: {agree} of {SETS} sets of loads are those of texture fetches that the map gives")
    tested = runs[2 * SET_BITS :]
    alike = set[int]()
    for run in tested:
        alike.add(next(step.matching_sms for step in run if step is not None and step.kind != TEXTURE))
        if [len(step.lines) for step in run if step is not None] == [600, 1000]:
            print(f"  {', '.join(map(described, run))}")
    wrong: dict[tuple[str, bool], int] = {}
    for texture_stays in (True, False):
        counts: dict[str, list[tuple[int, int]]] = {FIRST: [], LATER: []}
        for run in tested:
            first, *later = compare(run, of_loads, texture_stays)
            counts[FIRST].append(first)
            counts[LATER] += later
        for what, pairs in counts.items():
            wrong[what, texture_stays], total = (sum(each) for each in zip(*pairs, strict=True))
            place = "stay" if texture_stays else "go"
            print(f"  {what}, texture lines {place}: {wrong[what, texture_stays]} of {total} loads wrong")
    print(f"  {FIRST}: the same loads miss on {min(alike)} to {max(alike)} SMs")
    is_better = all(10 * wrong[what, True] < wrong[what, False] for what in (FIRST, LATER))
    return agree == SETS and alike == {SMS} and not wrong[FIRST, True] and is_better


def described(step: Step | None) -> str:
    """A kernel in words, and how many loads of its last lap miss."""
    if step is None:
        return "change of the carve-out"
    if step.kind == TEXTURE:
        return f"{len(step.lines)} lines fetched {step.laps} times"
    return f"{len(step.lines)} lines loaded: {step.missed[0, -1].mean():.1%} miss"


def check_times(ms: NDArray[np.float64]) -> bool:
    """Print how much longer loads of one GPU take after texture fetches; whether only those of much memory do."""
    medians = np.median(ms, axis=0)
    after, changed = medians[:, 1] / medians[:, 0], medians[:, 2] / medians[:, 0]
    for row in zip(KIB_PER_SM, after.tolist(), changed.tolist(), strict=True):
        print("  {} KiB: {:.2f} times as long after texture fetches, {:.2f} with a change between".format(*row))
    return bool(np.abs(changed - 1).max() < 0.1 and np.abs(after[0] - 1) < 0.1 and after.max() > 1.5)


def pack(paths: list[Path]) -> None:
    """Write `DATA` from the files of the probe, one for each GPU."""
    recorded_map.save(DATA, recorded_map.joined(paths))


if __name__ == "__main__":
    sys.exit(recorded_map.main(__doc__, DATA, check, pack))

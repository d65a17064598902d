"""Check what `docs/tlb.md` says of how many random loads an H200 serves: ``--check`` for CI.

``--pack FILE ...`` writes `docs/results/tlb-rates-h200.csv` from the files that `tlb_rates_probe.py` wrote, one for
each GPU. Columns are the number of the GPU and those of `Rate`.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DATA = Path(__file__).parents[1] / "docs" / "results" / "tlb-rates-h200.csv"
SECOND_GIB, THIRD_GIB = 64, 256  # reach of the second and the L3 TLB
FITS_SECOND, FITS_ORDINARY = 8, (4, 64)  # GiB
LOOKUPS = 1.8, 2.1  # of a L2 TLB, per ns
MISSES, MISSES_OF_ONE = (2.85, 3.15), (0.17, 0.35)  # of all L2 TLBs, and of one
WALKS = 0.040, 0.050
MAX_LOSS, MIN_GAIN = 0.05, 5  # if half of the L2 TLBs use half of the memory each


class Rate(NamedTuple):
    """Loads per nanosecond.

    Attributes:
        memory: ``mapped``: the same 2 MiB in each area of 32 MiB, so that all loads hit in the L2; or ``ordinary``.
        gib: GiB of addresses that the loads of one SM are spread over.
        lanes: threads of a warp that load.
        split: ``no``: all SMs load from the same addresses; ``by TLB`` or ``by SM``: half of the L2 TLBs, or SMs with
            odd numbers, load from a second range of equal size; ``one SM``, ``one TLB``, ``other TLBs``: only one SM
            loads, or the SMs of one L2 TLB, or as many of different ones.
        sms: number of SMs that load.
        rate: loads per nanosecond.

    """

    memory: str
    gib: float
    lanes: int
    split: str
    sms: int
    rate: float


COLUMNS = Rate._fields


def check(gpu: str, rates: Sequence[Rate]) -> Iterator[tuple[str, float, bool]]:
    """What the rates of a GPU show, and whether it is what the page says."""
    for lanes in sorted({rate.lanes for rate in rates}):
        mapped = [rate for rate in rates if rate.memory == "mapped" and rate.lanes == lanes]
        ordinary = [rate for rate in rates if rate.memory == "ordinary" and rate.lanes == lanes]
        where = f"GPU {gpu}, {lanes} threads of a warp"
        if lanes > 1:
            for each in mapped:
                if each.split == "one TLB" and each.gib == FITS_SECOND:
                    yield f"{where}: lookups of a L2 TLB", each.rate, LOOKUPS[0] <= each.rate <= LOOKUPS[1]
        for split, (low, high) in {"no": MISSES, "one TLB": MISSES_OF_ONE}.items():
            for each in mapped:
                if each.split == split and SECOND_GIB < each.gib <= THIRD_GIB:
                    misses = each.rate * (1 - SECOND_GIB / each.gib)
                    yield f"{where}, {each.gib:g} GiB, {each.sms} SMs: misses", misses, low <= misses <= high
        for each in mapped:
            if each.split == "no" and each.gib > THIRD_GIB:
                walks = each.rate * (1 - THIRD_GIB / each.gib)
                yield f"{where}, {each.gib:g} GiB: page walks", walks, WALKS[0] <= walks <= WALKS[1]
        yield from check_ordinary(where, ordinary)


def check_ordinary(where: str, rates: Sequence[Rate]) -> Iterator[tuple[str, float, bool]]:
    """The same of ordinary memory: of loads from all of it, and if halves of the L2 TLBs or SMs use a half each."""
    low, high = FITS_ORDINARY
    whole = [each for each in rates if each.split == "no"]
    fitting = [each.rate for each in whole if low <= each.gib <= high]
    yield f"{where}: loads from {low} to {high} GiB", min(fitting), min(fitting) >= (1 - MAX_LOSS) * max(fitting)
    largest = max(whole, key=lambda each: each.gib)
    yield f"{where}: loads from {largest.gib:g} GiB", largest.rate, MIN_GAIN * largest.rate < min(fitting)
    halves = {each.split: each.rate for each in rates if each.gib == largest.gib / 2}
    yield f"{where}: halves by TLB", halves["by TLB"], halves["by TLB"] >= (1 - MAX_LOSS) * min(fitting)
    yield f"{where}: halves by SM", halves["by SM"], halves["by SM"] <= (1 + MAX_LOSS) * largest.rate


def read(path: Path) -> dict[str, list[Rate]]:
    """The rates by GPU."""
    found: dict[str, list[Rate]] = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            rate = Rate(
                row["memory"], float(row["gib"]), int(row["lanes"]), row["split"], int(row["sms"]), float(row["rate"])
            )
            found.setdefault(row.get("gpu", ""), []).append(rate)
    return found


def pack(files: Sequence[Path]) -> None:
    """Write `DATA`."""
    with DATA.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("gpu", *COLUMNS))
        for gpu, path in enumerate(files):
            writer.writerows((gpu, *rate[:-1], f"{rate.rate:.4f}") for rates in read(path).values() for rate in rates)


def main() -> int:
    """Print what the rates show; with ``--check``, exit status 1 if it is not what the page says."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--pack", nargs="+", type=Path, metavar="PATH")
    options = parser.parse_args()
    if options.pack:
        pack(options.pack)
    wrong = 0
    for gpu, rates in read(DATA).items():
        for what, value, holds in check(gpu, rates):
            print(f"{what}: {value:.3f} per ns{'' if holds else ', not as docs/tlb.md says'}")
            wrong += not holds
    return int(wrong > 0 and options.check)


if __name__ == "__main__":
    sys.exit(main())

"""Copies in global memory: MC16 s5.1, table 6 and figure 12."""

from __future__ import annotations

from itertools import product

from curves import Panel, picture
from rows import NAMES, Row, number

from gpudissect import catalogue
from gpudissect.device.find import open_device
from gpudissect.workload import Path, Stream, Transfer

WORD = 4
SATURATED = 0.9
BLOCKS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # of an SM
THREADS = (64, 128, 256, 512, 1024)
ILPS = (1, 2, 4)
PASS = 32 << 20  # bytes, at least, that a copy goes through
TABLE_6 = {"gtx560ti": 109.38, "gtx780": 215.92, "gtx980": 156.25}  # GB/s
Shape = tuple[int, int, int]  # blocks of an SM, threads of a block, accesses in flight


def copies(gpu: str) -> dict[Shape, float]:
    """GB/s of every shape of a copy: what is read and what is written."""
    rates = {}
    with open_device(f"sim:{gpu}?noise=none") as device:
        for blocks, threads, ilp in product(BLOCKS, THREADS, ILPS):
            tiles = blocks * device.info.sm_count * threads * ilp * WORD
            stream = Stream(path=Path.GLOBAL_L2, transfer=Transfer.COPY, footprint=-(-PASS // tiles) * tiles,
                            blocks=blocks * device.info.sm_count, threads=threads, ilp=ilp, width=WORD)  # fmt: skip
            (trace,) = device.run([stream])
            rates[blocks, threads, ilp] = float(trace.bytes[0] / trace.nanoseconds[0])
    return rates


def needed(rates: dict[Shape, float], ilp: int) -> int:
    """The fewest words of 4 bytes in flight of an SM with which 90 % of the most is reached."""
    enough = SATURATED * max(rates.values())
    return min(b * t * i for (b, t, i), rate in rates.items() if i == ilp and rate >= enough)


def figure_12(every: dict[str, dict[Shape, float]]) -> tuple[list[Row], str]:
    """Rows and picture of MC16 table 6 and figure 12."""
    rows, panels = [], []
    for gpu, rates in every.items():
        most = max(rates.values())
        rows.append(number("MC16 table 6", gpu, "most that a copy moves", TABLE_6[gpu], most, "GB/s", 0.02))
        twice = rates[2, 64, 1] / rates[1, 64, 1]
        rows.append(Row("MC16 fig 12", gpu, "64 threads, ILP 1: 2 CTAs of an SM over 1", "almost linear",
                        f"x {twice:.2f}", 1.8 <= twice <= 2.05))  # fmt: skip
        warps = [needed(rates, ilp) // ilp // 32 for ilp in ILPS]
        rows.append(Row("MC16 fig 12", gpu, "warps of an SM for 90 % with ILP 1, 2, 4", "a larger ILP saturates faster",
                        ", ".join(map(str, warps)), warps == sorted(set(warps), reverse=True)))  # fmt: skip
        curves = {f"T={t}, ILP={i}": [(b, rates[b, t, i]) for b in BLOCKS] for t in (64, 256) for i in ILPS}
        panels.append(Panel(NAMES[gpu], curves, ((BLOCKS[-1], TABLE_6[gpu]),)))
    slowest = {gpu: min(needed(rates, ilp) for ilp in ILPS) for gpu, rates in every.items()}
    rows.append(Row("MC16 fig 12", "gtx780", "words in flight of all SMs for 90 %", "the most of the three",
                    ", ".join(f"{_in_all(gpu, each)} ({NAMES[gpu]})" for gpu, each in slowest.items()),
                    max(slowest, key=lambda gpu: _in_all(gpu, slowest[gpu])) == "gtx780"))  # fmt: skip
    return rows, picture(panels, "CTAs of an SM", "GB/s")


def _in_all(gpu: str, of_one: int) -> int:
    return of_one * catalogue.load(gpu).table.chip.sm_count.value

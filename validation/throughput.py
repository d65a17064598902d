"""Redo, on the simulated GPUs, the experiments behind MC16 tables 6 and 7, its figures 12 and 15 to 19, VV16 table 6.7.

`discover` finds plateaus; these are whole curves, and the documents' own protocols, workload by workload. Writes
`docs/throughput.md` and the pictures beside it, or compares with them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path as FilePath

from copies_global import copies, figure_12
from copies_shared import figures_15_and_16, short_copies
from diverging import table_6_7
from rows import Row
from strides import figures_17_to_19

DOCS = FilePath(__file__).parent.parent / "docs"
PAGE = DOCS / "throughput.md"
MEI = ("gtx560ti", "gtx780", "gtx980")


def made() -> dict[FilePath, str]:
    """What the files hold: the page and its pictures."""
    first, fig_12 = figure_12({gpu: copies(gpu) for gpu in MEI})
    second, fig_15, fig_16 = figures_15_and_16({gpu: short_copies(gpu) for gpu in MEI})
    third, fig_19 = figures_17_to_19()
    fourth = table_6_7()
    every = [*first, *second, *third, *fourth]
    pictures = {DOCS / f"throughput-{name}.svg": text for name, text in (
        ("global", fig_12), ("shared", fig_15), ("shared-ilp", fig_16), ("banks", fig_19))}  # fmt: skip
    out = [
        "# Throughput: the documents' own experiments, redone",
        "",
        "Curves and protocols of MC16 and VV16 on the simulated GPUs, without noise. What `gpudissect discover` makes",
        "of the same GPUs stands in [validation](validation.md). Made by `python validation/throughput.py`.",
        "",
        f"**{sum(row.agrees for row in every)} of {len(every)} rows agree.** Throughputs within 2 % (table 6), 5 % "
        "(table 7, at the shape published) or 15 % (fig 15, of all shapes), latencies within 1 to 3 %, *almost linear*",
        "within 10 %.",
        "",
        "## Copies in global memory (MC16 table 6, fig 12)",
        "",
        "CTAs of an SM x threads x independent words of 4 bytes; the ring is table 6. CTAs beyond what an SM holds run",
        "one after the other.",
        "",
        "![Copies in global memory](throughput-global.svg)",
        "",
        *_table(first),
        "",
        "## Copies in shared memory (MC16 table 7, fig 15-16)",
        "",
        "Every thread copies ILP words once, between two barriers and readings of the clock, whose cost (78, 37 and 36",
        "cycles, MC16 s6.1) counts. So little work does not reach what the SM can do, as VV16 s6.1 says of these very",
        "numbers; on Fermi and Kepler stores must take twice as long as loads besides, which the GPU files take from",
        "here. That shared memory gives all of its bandwidth to long runs (VV16 table 6.1) holds at the same time.",
        "Rings are table 7. That the most of all shapes lies above it comes of shapes with more in flight, which gain",
        "nothing on the real GPUs.",
        "",
        "![Copies in shared memory, the best ILP](throughput-shared.svg)",
        "",
        "![Copies in shared memory by ILP](throughput-shared-ilp.svg)",
        "",
        *_table(second),
        "",
        "## Strides over banks (MC16 fig 17-19)",
        "",
        "One warp, dependent loads, even strides; both modes of Kepler.",
        "",
        "![Latency against stride](throughput-banks.svg)",
        "",
        *_table(third),
        "",
        "## Loads that diverge (VV16 table 6.7)",
        "",
        "One warp on the whole GPU: each load 32 transactions instead of the 1, 2 or 4 of a coalesced one.",
        "",
        *_table(fourth),
    ]
    return {PAGE: "\n".join(out) + "\n", **pictures}


def _table(rows: Sequence[Row]) -> list[str]:
    return ["| where | GPU | what | published | found | |", "|---|---|---|---|---|---|", *(row.line for row in rows)]


def main() -> int:
    """Write the files, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file would become another")
    options = parser.parse_args()
    files = made()
    if options.check:
        stale = [path.name for path, text in files.items() if not path.exists() or path.read_text() != text]
        print(f"stale: {', '.join(stale)}: run validation/throughput.py" if stale else "throughput: as written")
        return 1 if stale else 0
    for path, text in files.items():
        path.write_text(text)
    print("\n".join(line for line in files[PAGE].splitlines() if "agree" in line or "differs" in line))
    return 0


if __name__ == "__main__":
    sys.exit(main())

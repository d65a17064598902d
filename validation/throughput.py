"""Repeat the throughput experiments of MC16 and VV16 on the simulated GPUs: docs/throughput.md and its pictures."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from throughput_experiments import (
    BLOCKS,
    ILPS,
    MEI,
    NAMES,
    SHARED_ILPS,
    STRIDES,
    TABLE_6,
    TABLE_7,
    WARP,
    Row,
    bank_conflicts,
    by_warps,
    divergence,
    global_copies,
    shared_copies,
    stride_latencies,
    table_6,
    table_7,
)
from written import csv_text, write_or_check

from gpudissect.views.plots.figure import Figure, Kind, overlay
from gpudissect.views.plots.standalone import sheet

PAGE = Path(__file__).parent.parent / "docs" / "throughput.md"
TABLE = PAGE.with_suffix(".csv")
COLUMNS = ("kind", "agrees", "gpu", "what", "published", "found", "verdict", "source")
TEXT = """# Validation: throughput

Experiments of MC16 and VV16, repeated on the simulated GPUs without noise. Made by `python validation/throughput.py`.

{headline} {kinds}
[Validation](validation.md) explains the kinds. Tolerances: throughput 2 % (table 6) or 5 % (table 7,
fig 15); latency 1 to 3 %; *almost linear* 10 %. [All rows](throughput.csv).

{differing}

## Copies in global memory (MC16 table 6, fig 12)

{global_copies} Axes: CTAs per SM, threads, independent words of 4 bytes. The single point is table 6. CTAs beyond what
an SM holds run one after the other.

<!-- made: picture throughput/global -->

## Copies in shared memory (MC16 table 7, fig 15-16)

{shared_copies} Each thread copies ILP words once, between two barriers and two clock reads. Their cost (78, 37 and 36
cycles, MC16 s6.1) is included, so the copy is too short to reach the SM's peak (VV16 s6.1). On Fermi and Kepler the GPU
files take the ratio of store to load time, two, from these numbers. Long runs still reach the full bandwidth of shared
memory (VV16 table 6.1). The single points are table 7. Shapes with more in flight raise the maximum of all shapes; on
the real GPUs they gain nothing.

<!-- made: picture throughput/shared -->

<!-- made: picture throughput/shared-ilp -->

## Strides over banks (MC16 fig 17-19)

{bank_conflicts} One warp, dependent loads, even strides; both modes of Kepler.

<!-- made: picture throughput/banks -->

## Divergent loads (VV16 table 6.7)

{divergence} One warp on the whole GPU. Each load makes 32 transactions instead of 1, 2 or 4.
"""


def tables() -> dict[str, list[Row]]:
    """All rows by section."""
    return {
        "global_copies": list(table_6()),
        "shared_copies": list(table_7()),
        "bank_conflicts": list(bank_conflicts()),
        "divergence": list(divergence()),
    }


def page() -> str:
    """The page in Markdown: rows that agree are counted, the others listed."""
    sections = tables()
    every = [row for rows in sections.values() for row in rows]
    head = ["| where | GPU | what | published | found | |", "|---|---|---|---|---|---|"]
    return TEXT.format(
        headline=f"**{_agreeing(every)}**",
        kinds=" ".join(_by_kind(every)),
        differing="\n".join([*head, *(row.line for row in every if not row.agrees)]),
        **{name: _agreeing(rows) for name, rows in sections.items()},
    )


def _agreeing(rows: Sequence[Row]) -> str:
    return f"{sum(row.agrees for row in rows)} of {len(rows)} rows agree."


def _by_kind(rows: Sequence[Row]) -> Iterator[str]:
    for kind in dict.fromkeys(row.kind for row in rows):
        of_kind = [row for row in rows if row.kind is kind]
        yield f"*{kind.capitalize()}*: {sum(row.agrees for row in of_kind)} of {len(of_kind)}."


def table() -> str:
    """All rows as CSV."""
    rows = [row.cells for each in tables().values() for row in each]
    return csv_text([COLUMNS, *rows])


def pictures() -> dict[str, str]:
    """The pictures of the page by name, as SVG files."""
    copies = [
        _figure(
            NAMES[gpu],
            "CTAs per SM",
            {f"T={t}, ILP={i}": {b: global_copies(gpu)[b, t, i] for b in BLOCKS} for t in (64, 256) for i in ILPS},
            [(BLOCKS[-1], TABLE_6[gpu])],
        )
        for gpu in MEI
    ]
    known = {gpu: (shape[0] * shape[1] / WARP, rate) for gpu, (rate, shape) in TABLE_7.items()}
    best = {NAMES[gpu]: by_warps(shared_copies(gpu)) for gpu in MEI}
    by_ilp = [
        _figure(
            NAMES[gpu],
            "active warps per SM",
            {f"ILP={ilp}": by_warps(shared_copies(gpu), ilp) for ilp in SHARED_ILPS},
            [known[gpu]],
        )
        for gpu in MEI
    ]
    strides = {
        "GTX560Ti (fig 17)": {"4 B": stride_latencies("gtx560ti")},
        "GTX780 (fig 19)": {f"{mode}-byte mode": stride_latencies("gtx780", mode) for mode in (4, 8)},
        "GTX980": {"4 B": stride_latencies("gtx980")},
    }
    banks = [
        overlay(
            title,
            ("stride", "words of 4 B"),
            ("latency", "cycles"),
            {name: (STRIDES[::2], cycles[::2]) for name, cycles in curves.items()},
        )
        for title, curves in strides.items()
    ]
    return {
        "global": sheet("Copies in global memory", copies),
        "shared": sheet(
            "Copies in shared memory, the best ILP", [_figure("best ILP", "active warps per SM", best, known.values())]
        ),
        "shared-ilp": sheet("Copies in shared memory by ILP", by_ilp),
        "banks": sheet("Latency against stride", banks),
    }


def _figure(
    title: str, x: str, curves: Mapping[str, Mapping[int, float]], published: Iterable[tuple[float, float]]
) -> Figure:
    xs, ys = zip(*published, strict=True)
    groups = {name: (list(curve), list(curve.values())) for name, curve in curves.items()}
    return overlay(
        title,
        (x, ""),
        ("throughput", "GB/s"),
        {**groups, "published": (xs, ys)},
        kinds={"published": Kind.DOTS},
        kind=Kind.CURVES,
        log_x=True,
    )


def summary() -> str:
    """The lines of the page that count what agrees."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return "\n".join(line for line in lines if "agree" in line or "differs" in line)


def main() -> int:
    """Write the page and its table, or compare with them."""
    return write_or_check(__doc__, __file__, lambda: {PAGE: page(), TABLE: table()}, summary)


if __name__ == "__main__":
    sys.exit(main())

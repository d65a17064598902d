"""Chapter 3 of VV16 with kernels and machine code of today: ``python validation/explain_vv16.py``.

Writes docs/validation-explain-vv16.md and .csv: the figures with kernels recorded on an H200 and an H100, the tables on
the five simulated GPUs of VV16 from machine code. ``--check`` compares instead.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import io
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import vv16
from explain import ROOT, points_of
from kernels import versions
from vv16_code import CAPABILITY
from vv16_curves import CLOSE, COLUMNS, GPUS, PLOTS, TABLE, Summary, read_points, summaries, unit, work
from vv16_tables import (
    ADD,
    KEPLER,
    MAXWELL,
    MIX,
    Measured,
    discover,
    listing,
    machine_of,
    overhead,
    statements,
    table,
    table_3_1,
    table_3_2,
    table_3_3,
    table_3_4,
    worksheets,
)

from gpudissect.explanation.model.card import card_of
from gpudissect.results.files import load

PAGE = ROOT / "docs" / "validation-explain-vv16.md"
TABLES = "## Tables"
Summaries = Mapping[tuple[str, str], Summary]
INTRODUCTION = """# Chapter 3 of VV16, measured and from machine code

V. Volkov, *Understanding Latency Hiding on GPUs* (2016), predicts throughput from two bounds: occupancy over
the latency of a warp, and the throughput of each resource. Here its figures are plotted with kernels that were
recorded on an H200 and an H100, and its tables are filled in from machine code. Made by `python
validation/explain_vv16.py`.

## Figures

Occupancy is that of an SM and set by dynamic shared memory (s5.11); throughput counts the bytes that the thesis
counts. *Volkov's model* is the smaller of the *latency bound* (with the replacement of blocks, s3.7) and the
*throughput bound*; *explain* is `gpudissect explain`. A vertical line marks the minimum warps for {close} of the
best measured throughput (for two kernels with the same work, of the slower one's). *Largest L1*: without dynamic
shared memory, so that the driver leaves more of the array to the L1. Pairs of numbers are H200, H100. Only the
text of the thesis was available; axes follow the text.
"""


def texts(found: Summaries) -> Mapping[str, str]:
    """Two sentences on each plot: what it shows, and where it agrees with the thesis or differs."""

    def both(kernel: str, of: str) -> str:
        """A number on the H200 and on the H100, or one if they are equal."""
        return " and ".join(dict.fromkeys(_number(found[gpu, kernel], of) for gpu in GPUS))

    drops = " and ".join(
        f"{found[gpu, 'permute_trivial'].best / found[gpu, 'permute_random'].best:.1f}" for gpu in GPUS
    )
    printed, add = vv16.tables()["section_3_10"], vv16.tables()["section_3_8"]
    meeting = add["warp_latency"] * add["throughput_bound"]
    close = {name: "-".join(map(str, sorted({*printed[name]}))) for name in ("black_scholes", "black_scholes_fast")}
    close |= {name: str(printed[f"absolute_value_{name}"][0]) for name in ("positive", "negative")}
    return {
        "1-01": "Throughput rises with occupancy up to a limit, as in the thesis, and the bounds alone predict where "
        f"it bends: at {both('matrix_multiply', 'meeting')} warps for the matrix multiplication, at "
        f"{both('reduction', 'meeting')} for the reduction. The figure of the thesis has measured points alone, and "
        "its text names no kernel but SGEMM, which is the one used here; the others are chosen.",
        "3-06": f"With 8 warps Volkov's model is off by {both('vector_add', 'first')}: accurate at small occupancies, "
        "and too high where the bounds meet, as on Kepler. "
        f"Different: the bounds meet at {both('vector_add', 'meeting')} warps instead of {meeting:.0f}, for a warp "
        "takes more cycles, while memory delivers no more bytes per cycle of an SM; throughput is not saturated at the "
        "largest occupancy.",
        "3-07": "A random permutation needs fewer warps than a trivial one, as the thesis expects: "
        f"{both('permute_random', 'needed')} warps, against {both('permute_trivial', 'needed')}. "
        f"Different: throughput drops by a factor of {drops} instead of {printed['min_drop_of_random']} or more, for "
        f"the L2 ({_l2_mib()} MiB) serves many accesses to the array "
        f"({work('permute_random', ('b',)) / 2**20:.0f} MiB). A larger L1 makes it faster, because its lines limit the "
        "loads in flight, which neither bound models.",
        "3-09": "The same throughput needs "
        f"{both('absolute_value_positive', 'needed')} warps if all numbers are positive and "
        f"{both('absolute_value_negative', 'needed')} if all are negative; on Maxwell {close['positive']} and "
        f"{close['negative']}. As on four of the five GPUs of the thesis, positive numbers never reach the throughput "
        f"of memory: that would take {both('absolute_value_positive', 'meeting')} warps.",
        "3-10": "Not in the thesis: accesses of 8 and 16 bytes. Twice the bytes at the same latency of a warp halve "
        f"the occupancy at which the bounds meet: {both('absolute_value_float2', 'meeting')}, then "
        f"{both('absolute_value_float4', 'meeting')} warps.",
        "3-11": f"Fewer instructions need fewer warps: {both('black_scholes_fast', 'needed')} instead of "
        f"{both('black_scholes', 'needed')}; on Maxwell {close['black_scholes_fast']} instead of "
        f"{close['black_scholes']}. Different: the thesis takes both to be bound by memory. Here the throughput bounds "
        f"are {both('black_scholes', 'bound')} GB/s without `-use_fast_math` and "
        f"{both('black_scholes_fast', 'bound')} with it: on the H200 the schedulers, not memory, "
        "bound the longer code, as on the Fermi GPU of the thesis.",
    }


def _l2_mib() -> str:
    """Capacity of the L2 in MiB, of the H200 and of the H100 if they differ."""
    cards = (card_of(load(ROOT / "docs" / "results" / f"{gpu}.json")) for gpu in GPUS)
    return " and ".join(dict.fromkeys(f"{card.value('l2', 'capacity') / 2**20:.0f}" for card in cards))


def _number(summary: Summary, of: str) -> str:
    if of == "first":
        return f"{100 * summary.volkov[0]:+.0f} %"
    return "none" if of == "needed" and summary.needed is None else f"{getattr(summary, of):.0f}"


def figures(found: Summaries) -> Iterator[str]:
    """The plots with their text, and the errors of both models."""
    sentences = texts(found)
    for key, plot in PLOTS.items():
        title = plot.title.removeprefix("VV16 ")
        yield f"\n### {title[0].upper()}{title[1:]}\n\n{sentences[key]}\n\n<!-- made: picture vv16-kernels/{key} -->\n"
    rows = []
    for plot in PLOTS.values():
        for panel in plot.panels:
            for gpu, name in GPUS.items():
                each = found[gpu, panel.kernel]
                errors = [f"{100 * np.abs(errors).mean():.1f} %" for errors in (each.volkov, each.explain)]
                enough = "" if each.needed is None else str(each.needed)
                best = f"{each.best:.0f} {unit(panel)}"
                rows.append((f"`{panel.kernel}`", name, best, enough, f"{each.meeting:.0f}", *errors))
    yield "\n### Errors\n\nMean absolute error of the predicted time over the plotted occupancies.\n\n"
    head = ("kernel", "GPU", "best measured", "warps marked", "bounds meet at", "Volkov's model", "explain")
    yield table(head, rows)
    for gpu, name in GPUS.items():
        chosen = [each for (of, _), each in found.items() if of == gpu]
        volkov, explain = (
            100 * np.abs(np.concatenate([getattr(each, model) for each in chosen])).mean()
            for model in ("volkov", "explain")
        )
        yield f"\nAll of them on the {name}: Volkov's model {volkov:.1f} %, explain {explain:.1f} %.\n"


def tables(gpus: Mapping[str, Measured]) -> Iterator[str]:
    """The tables, printed and ours."""
    yield f"""
{TABLES}

The code is compiled for sm_{CAPABILITY}, the oldest architecture that NVRTC 13 compiles for. The GPUs are the
five of the thesis, **simulated**; their latencies and rates are those that `discover` finds. Issue rates and
widths are documented, and the time between two issues of a warp is that of s3.7. How often instructions run and
which addresses they access was recorded on an H200, from the same PTX. A warp waits for its operands alone: the
GPUs of the thesis have no stall counts of sm_{CAPABILITY}.

### Table 3.1: latencies, throughputs, concurrency

Printed for Maxwell; the other rows are compared with table 4.1. Kepler's table has the 4 instructions per cycle
that its schedulers issue from warps without independent neighbours; its cores execute 6.

"""
    yield table_3_1(gpus)
    yield f"""
### Table 3.2: instruction mix

`{MIX}` (`validation/vv16.cu`) has the mix of the table. Its machine code has also {overhead()}: the index,
three addresses of 64 bits, a result. Shared memory needs no instruction for its addresses, sm_{CAPABILITY}
scales the index in the access. The kernels of the chapter check their index, which adds a comparison and an
`EXIT`; `black_scholes` loads a price again after the first store, which might have changed it.

"""
    yield table_3_2()
    yield "\n### Table 3.3: limits of throughput\n\n"
    yield table_3_3(gpus)
    yield f"""
### Table 3.4: worksheet on Maxwell

`{MIX}`. Different: the store of the result is one more access, the throughput of memory is the one that
`discover` finds, and all independent neighbours are paired, where the thesis pairs each SFU instruction with
one of the CUDA cores.

"""
    yield table_3_4(gpus[MAXWELL])
    yield f"""
### The vector addition of section 3.8

`{ADD}` is listing 3.4 as printed. With addresses of 64 bits the longest chain has the same links.

"""
    yield listing(gpus[KEPLER])
    yield """
### Worksheets of the chapter's kernels

Cycles of a warp on one SM by resource, without hits in caches; warp latency in cycles; and the quotient of the
latency and the cycles of the busiest resource, which are the warps needed.

"""
    yield worksheets(gpus)
    yield "\n### Numbers of sections 3.8 and 3.10\n\n"
    yield table(("where", "what", "printed", "ours", ""), [each.cells for each in statements(gpus)])


def page(found: Summaries, gpus: Mapping[str, Measured]) -> str:
    """The page in Markdown."""
    compilers = ", ".join(f"{name} {version}" for name, version in versions().items())
    head = INTRODUCTION.format(close=f"{100 * CLOSE:.0f} %")
    return "".join((head, *figures(found), *tables(gpus), f"\nCompiled with {compilers}.\n"))


def curves(jobs: list[tuple[str, str]], pool: ProcessPoolExecutor) -> str:
    """The points of these GPUs and kernels as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for (gpu, kernel), points in zip(jobs, pool.map(points_of, *zip(*jobs, strict=True)), strict=True):
        for each in points:
            times = (each.measured, each.predicted["explain"], each.latency_bound, each.throughput_bound)
            largest = "yes" if each.largest_carveout else "no"
            writer.writerow([gpu, kernel, each.warps, largest, *(f"{time:.5g}" for time in times)])
    return text.getvalue()


def main() -> int:
    """Write the page and the points, or compare with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page would change")
    options = parser.parse_args()
    jobs = [(gpu, panel.kernel) for gpu in GPUS for plot in PLOTS.values() for panel in plot.panels]
    with ProcessPoolExecutor(None, get_context("spawn")) as pool:
        values = {gpu: pool.submit(discover, gpu) for gpu in vv16.gpus()}
        points = curves(jobs, pool)
        gpus = {gpu: machine_of(gpu, future.result()) for gpu, future in values.items()}
    if not options.check:
        TABLE.write_text(points, encoding="utf-8")
    found = summaries(read_points(points))
    text = page(found, gpus)
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    kept = PAGE.read_text(encoding="utf-8")
    if kept.splitlines()[-1] != text.splitlines()[-1]:
        print(f"{PAGE.name} has machine code of another compiler: its tables are not compared")
        kept, text = (each.partition(TABLES)[0] for each in (kept, text))
    differences = [line for line in difflib.unified_diff(kept.splitlines(), text.splitlines(), lineterm="", n=0)]
    if differences or TABLE.read_text(encoding="utf-8") != points:
        print(f"{PAGE.name} or {TABLE.name} is out of date, run validation/explain_vv16.py:", *differences, sep="\n")
        return 1
    print(f"{PAGE.name}: {len(jobs)} curves and the tables are as written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

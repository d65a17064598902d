"""Every picture of the documentation by name, as SVG files; made when the site is built.

``python docs/making/pictures.py FOLDER NAME ...`` writes some of them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "validation"))

import hiding_figures
import mt22_curves
import throughput
import tlb_rates
import vv16_curves

from gpudissect.views.page.hierarchy import hierarchy_file
from gpudissect.views.plots.element import figures_of_element
from gpudissect.views.plots.figure import Kind, overlay
from gpudissect.views.plots.standalone import standalone
from making.attribute_pictures import PICTURES
from making.hiding_page import PAGES, pictures, results_of
from making.result_page import GPUS, result_of

ROOT = Path(__file__).parents[2]
MEASURED = (
    ("l1", "address bits in each bit of the set number"),
    ("l2", "latency by SM"),
    ("spectrum_global", "latency by what an access hits"),
    ("l1", "misses against footprint"),
    ("icache_l0", "cycles of a line against footprint"),
    ("shared", "latency against stride"),
    ("dram", "read bandwidth by configuration"),
    ("ffma", "rate against warps and chains"),
)
"""Plots of the page about a GPU's result: element, and how the title goes on after its name; the first such plot."""
CALIBRATION_ROW = re.compile(
    r"^\| ([\d.]+)(?: \.\. ([\d.]+))? \| (\d+) \| (\d+) \| .*?\(([\d.]+)% \.\. ([\d.]+)%\)", re.M
)
MIN_CHANCE = 1e-4  # of being wrong: end of the axes of the calibration


def draw(names: Iterable[str]) -> dict[str, str]:
    """SVG files of these pictures by name, made in several processes. Raises `KeyError` for an unknown name."""
    wanted = set(names)
    jobs = sorted({_job(name) for name in wanted}, key=lambda job: (job != "vv16", job))  # the longest first
    svgs: dict[str, str] = {}
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for made in pool.map(make, jobs):
            svgs |= made
    if unknown := wanted - set(svgs):
        raise KeyError(f"no picture {', '.join(sorted(unknown))}")
    return {name: svgs[name] for name in sorted(wanted)}


def title_of(svg: str) -> str:
    """Title of a picture."""
    title = re.search('aria-label="(.*?)"', svg)
    return title[1] if title else ""


def _job(name: str) -> str:
    """Pictures of one job are made together; each example is a job of its own."""
    kind = name.partition("/")[0]
    return name if kind == "gallery" else kind if kind in _JOBS or kind in PAGES else "attributes"


def make(job: str) -> dict[str, str]:
    """The pictures of one job by name."""
    if job.startswith("gallery/"):
        return {job: _example(job.partition("/")[2])}
    if job in PAGES:
        return {f"{job}/{element}": svg for element, svg in pictures(results_of(job)[0])}
    return _JOBS[job]()


def _attributes() -> dict[str, str]:
    return {name: standalone(figure()) for name, figure in PICTURES.items()}


def _measured(gpu: str) -> dict[str, str]:
    plots = {
        f"{gpu}/{number}": standalone(figure)
        for number, (element, start) in enumerate(MEASURED)
        for figure in reversed(figures_of_element(result_of(gpu), element))
        if figure.title.partition(": ")[2].startswith(start)
    }
    return {**plots, f"{gpu}/drawing": hierarchy_file(result_of(gpu))}


def _example(name: str) -> str:
    """The picture that an example writes."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        arguments, sys.argv = sys.argv, [name]
        try:
            runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="__main__")
        finally:
            sys.argv = arguments
        return Path(f"{name}.svg").read_text(encoding="utf-8")


def _throughput() -> dict[str, str]:
    return {f"throughput/{name}": svg for name, svg in throughput.pictures().items()}


def _vv16() -> dict[str, str]:
    return {f"vv16/{name}": svg for name, svg in hiding_figures.pictures()}


def _mt22() -> dict[str, str]:
    return {f"mt22/{name}": svg for name, svg in mt22_curves.pictures()}


def _vv16_kernels() -> dict[str, str]:
    return {f"vv16-kernels/{name}": svg for name, svg in vv16_curves.pictures()}


def _calibration() -> dict[str, str]:
    """Share of wrong answers against the chance that the confidence leaves, from the table of its page."""
    text = (ROOT / "docs" / "calibration.md").read_text(encoding="utf-8")
    chances, shares, ends = [], [], []
    for low, high, count, right, share_low, share_high in CALIBRATION_ROW.findall(text):
        chance = 1 - (float(low) + float(high or low)) / 2
        chances.append(chance)
        shares.append(max(1 - int(right) / int(count), MIN_CHANCE))
        ends += [(chance, max(1 - float(end) / 100, MIN_CHANCE)) for end in (share_low, share_high)]
    groups = {
        "share wrong": (chances, shares),
        "ends of its 95 % interval": tuple(zip(*ends, strict=True)),
        "as stated": ([MIN_CHANCE, 1.0], [MIN_CHANCE, 1.0]),
    }
    figure = overlay(
        "Share of wrong answers against the chance of being wrong that was stated",
        ("chance stated", ""),
        ("share wrong", ""),
        groups,
        kinds={"as stated": Kind.CURVES},
        kind=Kind.DOTS,
        log_x=True,
        log_y=True,
        note="above the line: too confident; at the bottom edge: none wrong",
    )
    return {"calibration": standalone(figure)}


def _tlb_rates() -> dict[str, str]:
    """Random loads of one H200 against the memory that they are spread over."""
    rates = next(iter(tlb_rates.read(tlb_rates.DATA).values()))
    chosen = [each for each in rates if each.memory == "ordinary" and each.lanes > 1]
    groups = {
        name: tuple(zip(*((parts * each.gib, each.rate) for each in chosen if each.split == split), strict=True))
        for name, split, parts in (
            ("every SM loads from all of it", "no", 1),
            ("each half of the SMs loads from one half", "by SM", 2),
            ("each half of the L2 TLBs loads from one half", "by TLB", 2),
        )
    }
    figure = overlay(
        "Random loads of an H200 against the memory that they are spread over",
        ("GiB of memory", ""),
        ("loads per ns", ""),
        groups,
        log_x=False,
        log_y=False,
        x_ticks={gib: str(gib) for gib in range(0, 129, 32)},
    )
    return {"tlb-rates": standalone(figure)}


_JOBS: Mapping[str, Callable[[], dict[str, str]]] = {
    "attributes": _attributes,
    **{gpu: partial(_measured, gpu) for gpu in GPUS},
    "throughput": _throughput,
    "mt22": _mt22,
    "vv16": _vv16,
    "vv16-kernels": _vv16_kernels,
    "calibration": _calibration,
    "tlb-rates": _tlb_rates,
}

if __name__ == "__main__":
    for name, svg in draw(sys.argv[2:]).items():
        path = Path(sys.argv[1], f"{name}.svg")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(svg, encoding="utf-8")

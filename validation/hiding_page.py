"""Write a page on latency hiding and its figures, from result files of `gpudissect hide` of the same GPU.

``python validation/hiding_page.py RESULT.json [MORE.json ...]`` writes ``docs/results/NAME-latency-hiding.md`` and the
folder of that name; figures and tables are of the first result, the others say how runs agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from hiding_page_figures import (
    BLOCKS,
    CURVES,
    NEEDED,
    WORST,
    Drawn,
    Seen,
    figures,
    kinds_of,
    numbers,
    points_of,
)
from hiding_page_load import singles, under_load
from hiding_page_models import models, why_refined, worst_prior
from hiding_page_queue import figures as of_queues
from hiding_page_queue import queues
from hiding_page_runs import agreement
from hiding_page_words import capital, figure, listed

from gpudissect.errors import UsageError
from gpudissect.estimate import Status
from gpudissect.models.base import Machine
from gpudissect.results.files import load
from gpudissect.results.machine import machine_of
from gpudissect.results.model import Result
from gpudissect.results.text import bracket, clean, quantity
from gpudissect.units import WARP_SIZE
from gpudissect.views.terminal.hiding import answer

RESULTS = Path(__file__).parent.parent / "docs" / "results"
MAKERS = ("nvidia", "geforce", "tesla", "quadro")
FORETOLD = ("basic", "refined")  # whose warps needed stand beside those measured
ROUND = 0.005  # relative; more than what a median of a rate is off by


def name_of(result: Result) -> str:
    """The GPU in a file's name: h200, gtx980."""
    if result.device.catalogue:
        return result.device.catalogue
    return "".join(word for word in clean(result.device.name).lower().split() if word not in MAKERS)


def page(
    results: Sequence[Result], drawn: Sequence[Drawn], folder: str, kept: str | None = None, corner: Path | None = None
) -> str:  # fmt: skip
    """The page in Markdown; `folder` has the figures, `kept` is the result file beside it.

    `corner`: what `hiding_corner.py` measured.
    """
    first = results[0]
    machine, kinds = machine_of(first), kinds_of(first)
    shown = {each.key: f"![{capital(each.title)}]({folder}/{each.key}.svg)" for each in drawn}
    parts = [
        _head(first, len(kinds), len(results), kept),
        _in_words(machine, kinds),
        _parameters(first, machine, kinds),
        _throughput(kinds, shown),
        _needed(machine, kinds, shown),
        under_load(first, kinds, shown),
        singles(kinds, shown),
        _blocks(kinds, shown),
        models(results, machine, kinds, shown),
        why_refined(machine, kinds, shown),
        queues(machine, kinds, shown, corner),
        agreement(results),
    ]
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(result: Result, kinds: int, runs: int, kept: str | None) -> Iterator[str]:
    device, facts, conditions = result.device, result.device.facts, result.conditions
    what = [f"{device.sm_count} SMs"]
    what += [f"compute capability {facts['compute_capability']}"] if facts.get("compute_capability") else []
    environment = result.environment
    what += [f"driver {clean(environment['driver'])}"] if environment.get("driver") else []
    what += [f"CUDA {clean(environment['cuda_driver'])}"] if environment.get("cuda_driver") else []
    of = f" of {kinds} kinds of access" if kinds > 1 else ""
    yield f"# {clean(device.name)}: latency hiding{of}, {device.origin.value}"
    yield ""
    options = f"`gpudissect hide{' --quick' if result.options.quick else ''}`"
    yield f"Made by `python validation/hiding_page.py` from {runs} result{'s' if runs > 1 else ''} of {options} on"
    yield f"{clean(device.name)} ({', '.join(what)}): {result.workloads} mixes in {result.seconds:.0f} s."
    if conditions.clock_hz:
        low, high = conditions.clock_low, conditions.clock_high
        seen = f", {low / 1e6:.0f} to {high / 1e6:.0f} MHz seen" if low and high else ""
        yield f"The SM clock was {conditions.clock_hz / 1e6:.0f} MHz{seen}."
    if kept is not None:
        yield f"The [result file]({kept}) is of the first run."
    for failure in result.failures:
        yield f"**{clean(failure.experiment)} failed: {clean(failure.reason)}.**"
    yield ""
    yield "alpha: additions between two accesses. Rates are instructions of a warp a cycle of one SM, latencies cycles"
    yield "of the SM clock. How it is measured stands in [the method](../method.md#latency-hiding)."


def _in_words(machine: Machine, kinds: Sequence[Seen]) -> Iterator[str]:
    yield from ("", "## In words")
    for seen in kinds:
        yield from ("", f"**{capital(seen.title)}.** " + " ".join(
            line for line in answer(machine, seen.kind, seen.series[CURVES]) if line))  # fmt: skip
    for seen in kinds[:1]:
        if WORST in seen.series:
            yield from ("", worst_prior(seen))
    most, top = machine.issue, float(machine.schedulers)
    if most > top * (1 + ROUND):
        yield ""
        yield (f"**Doubtful**: {machine.schedulers} schedulers start at most {top:g} instructions a cycle, {most:.3g} "
               f"were seen; peaks of additions are {most / top - 1:.1%} too high, and what models make of them "
               f"is, too.")  # fmt: skip


def _parameters(result: Result, machine: Machine, kinds: Sequence[Seen]) -> Iterator[str]:
    told = {(each.element, each.attribute): each for each in result.findings}
    yield from ("", "## Parameters", "")
    names = list(dict.fromkeys(each.attribute for each in result.findings))
    yield "| | " + " | ".join(each.title for each in kinds) + " |"
    yield "|---" * (len(kinds) + 1) + "|"
    for name in names:
        cells = []
        for seen in kinds:
            finding = told.get((seen.element, name))
            if finding is None:
                cells.append("")
            elif finding.status is Status.FOUND:
                where = bracket(finding.low, finding.high, finding.unit)
                cells.append(quantity(finding.value, finding.unit) + (f" ({where})" if where else ""))
            else:
                cells.append(finding.status.value.replace("_", " "))
        yield f"| {name} | " + " | ".join(cells) + " |"
    lanes = [f"{_lane(machine, seen):g} B a lane ({seen.title})" for seen in kinds if machine.unit(seen.kind).bytes]
    if lanes:
        yield from ("", f"Throughput counts for one access of a warp {listed(lanes)}: words that lie between those "
                        "of two lanes count, as they are moved, too; of random words only those that "
                        "are loaded.")  # fmt: skip
    notes = [f"- {seen.title}, {each.attribute}: {clean(text)}" for seen in kinds for each in result.findings
             if each.element == seen.element for text in (*each.caveats, each.reason) if text]  # fmt: skip
    yield from ("", *dict.fromkeys(notes)) if notes else ()


def _lane(machine: Machine, seen: Seen) -> float:
    return machine.unit(seen.kind).bytes / WARP_SIZE


def _throughput(kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    yield from ("", "## Throughput against warps")
    for seen in kinds:
        points = points_of(seen.series[CURVES])
        blocks = sorted({int(each) for each in numbers(seen.series[CURVES], "block")})
        yield ""
        yield (
            f"{capital(seen.title)}: {len(points)} points of one chain a warp, {len(set(points[:, 0]))} alphas, "
            f"{points[:, 1].min():g} to {points[:, 1].max():g} warps in blocks of {blocks[0]} to {blocks[-1]} threads."
        )
        yield from figure(shown, f"throughput-{seen.kind}")


def _needed(machine: Machine, kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    having = [seen for seen in kinds if NEEDED in seen.series]
    if not having:
        return
    yield from ("", "## Warps needed for 90 % of the peak: the cusp", "")
    yield "| kind | most measured | at alpha | not even all reach it at | basic model, most | refined model, most |"
    yield "|---|---|---|---|---|---|"
    for seen in having:
        series = seen.series[NEEDED]
        alphas, measured = numbers(series, "alpha"), numbers(series, "measured")
        short = alphas[~np.isfinite(measured)]
        beyond = "" if not short.size else f"alpha {short.min():g}" + (f" to {short.max():g}" if short.size > 1 else "")
        cells = [seen.title, *_most(alphas, measured), beyond]
        for key in FORETOLD:
            if key not in series.columns:
                cells.append("")
                continue
            most, at = _most(alphas, numbers(series, key))
            cells.append(f"{most} at alpha {at}" if most else f"more than {machine.warps}")
        yield "| " + " | ".join(cells) + " |"
    yield from figure(shown, "needed")


def _most(alphas: np.ndarray, warps: np.ndarray) -> tuple[str, str]:
    """The largest number of warps, and at which alphas."""
    if not np.isfinite(warps).any():
        return "", ""
    most = float(np.nanmax(warps))
    at = alphas[warps == most]
    return f"{most:.3g}", f"{at[0]:g}" if at.size == 1 else f"{at.min():g} to {at.max():g}"


def _blocks(kinds: Sequence[Seen], shown: dict[str, str]) -> Iterator[str]:
    having = [seen for seen in kinds if BLOCKS in seen.series]
    if not having:
        return
    yield from ("", "## Blocks that stay, and many more than fit", "")
    yield "Accesses alone, all warps there can be (VV16 s5.8, 5.9). *rounds* 1: every block stays to the end"
    yield "(persistent); more: so many times as many blocks as run at once. *occupancy*: mean warps of the first SM;"
    yield "*short*: share of the time with less than 90 % of the most; *imbalance*: longest time of an SM over the"
    yield "mean one. *rate*: all instructions over the whole time of an SM, begin and end with fewer warps included."
    yield "The throughput of all other tables and figures is that of blocks that take the places of others wherever"
    yield "warps end at different times: seats stay empty until the last warp of a block has ended, so that with all"
    yield "warps there can be it lies below that of persistent blocks by what is said here."
    for seen in having:
        series = seen.series[BLOCKS]
        names = ("block", "rounds", "rate", "occupancy", "short", "imbalance", "latency")
        yield from ("", f"{capital(seen.title)}: {_persistent_or_not(seen)}", "")
        yield "| threads of a block | rounds | rate | occupancy | short | imbalance | mean latency |"
        yield "|---" * len(names) + "|"
        for block, rounds, rate, occupancy, short, uneven, cycles in zip(
            *(numbers(series, name) for name in names), strict=True
        ):
            yield (f"| {block:g} | {rounds:g} | {rate:.4g} | {occupancy:.3g} | {short:.1%} | {uneven:.3f} | "
                   f"{cycles:.4g} |")  # fmt: skip
    yield from figure(shown, "occupancy")


def _persistent_or_not(seen: Seen) -> str:
    series = seen.series[BLOCKS]
    rounds, rate, block = (numbers(series, name) for name in ("rounds", "rate", "block"))
    stay, many = rate[rounds == 1], rate[rounds > 1]
    if not stay.size or not many.size:
        return "one way only."
    better = "persistent blocks are" if stay.max() >= many.max() else "many blocks are"
    by = max(stay.max(), many.max()) / min(stay.max(), many.max()) - 1
    sizes = [f"{own.max() / own.min() - 1:.1%}" for own in (stay, many)]
    best = block[int(np.argmax(rate))]
    return (f"{better} faster by {by:.1%}, best with {best:g} threads a block; block sizes differ by {sizes[0]} "
            f"persistent, by {sizes[1]} with many.")  # fmt: skip


def write(results: Sequence[Result], into: Path, name: str) -> Path:
    """Write page and figures into a folder; the path of the page."""
    stem = f"{name}-latency-hiding"
    (into / stem).mkdir(parents=True, exist_ok=True)
    drawn = [*figures(results[0]), *of_queues(machine_of(results[0]), kinds_of(results[0]))]
    for stale in (into / stem).glob("*.svg"):
        stale.unlink()
    for each in drawn:
        (into / stem / f"{each.key}.svg").write_text(each.svg(clean(results[0].device.name)))
    kept = f"{stem}.json"
    corner = into / f"{stem}-corner.json"
    text = page(results, drawn, stem, kept if (into / kept).exists() else None, corner if corner.exists() else None)
    (into / f"{stem}.md").write_text(text)
    return into / f"{stem}.md"


def main() -> int:
    """Read the results, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("result", type=Path, nargs="+", help="result files of gpudissect hide -o, of the same GPU")
    parser.add_argument("--into", type=Path, default=RESULTS, help="the folder to write into (docs/results)")
    parser.add_argument("--name", help="of the page; otherwise that of the GPU")
    options = parser.parse_args()
    try:
        results = [load(path) for path in options.result]
        for result in results:
            machine_of(result)
    except UsageError as error:
        parser.error(str(error))
    if len({result.device.name for result in results}) > 1:
        parser.error("these results are of different GPUs")
    print(write(results, options.into, options.name or name_of(results[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare the findings on every simulated GPU of the catalogue with what is published of it: docs/validation.md."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpudissect import catalogue
from gpudissect.catalogue import Published
from gpudissect.device.kinds import open_device
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_comparison import Reading
from gpudissect.measure.plan import Study
from gpudissect.results.text import bracket, quantity
from gpudissect.results.verdict import Verdict, judge, lies_within
from gpudissect.survey.registry import measured_elements
from gpudissect.survey.run import Survey, run_survey

PAGE = Path(__file__).parents[1] / "docs" / "validation.md"
AGREED = Path(__file__).parent / "agreed.txt"
SEEDS = (1, 2, 3)
CLASSIC = ("gtx780", "texture")  # MC16 fig 4-5: where the two classic methods contradict each other
HEAD = """# Validation: published against found

Every GPU of the catalogue, **simulated** with its published structure and surveyed without prior knowledge, with noise
seeds {seeds}. Made by `python validation/validate.py`.

{headline}
{stated} more are stated by the driver and never measured (a simulated GPU states what its file has: no proof of
anything); the rest is known of the real GPU but no part of the simulated one (the partitions of an L2). Whole curves of
throughput are on [a page of their own](throughput.md).
A GPU file made from a measurement (`gpudissect export --format gpu`) is compared with that measurement.

*printed*: what the document prints where that is known to be off; the number before it is the structure
that is simulated. *bracket* and *confidence* are of the first seed.
"""
CLASSIC_HEAD = """
## The older methods on the same cache

What the two classic readings of averaged curves and MT22's change point give for the texture cache of `sim:gtx780`,
whose set is chosen by address bits 7-8 (MC16 s4.1, fig 4-5: the readings contradict each other). Our findings are in
the table above.

| method | capacity | line | sets | ways | |
|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Row:
    """One published number of one GPU and the finding of each seed."""

    gpu: str
    published: Published
    found: tuple[Estimate | None, ...]

    @property
    def key(self) -> str:
        return f"{self.gpu} {self.published.element} {self.published.attribute}"

    @property
    def is_measured(self) -> bool:
        return self.published.simulated and all(e is not None and e.status is not Status.STATED for e in self.found)

    @property
    def is_stated(self) -> bool:
        return all(each is not None and each.status is Status.STATED for each in self.found)

    @property
    def is_of_run(self) -> bool:
        """Measured on a real GPU by gpudissect itself, in no document."""
        return catalogue.load(self.gpu).table.run is not None

    @property
    def is_close(self) -> bool:
        """Equal with every seed; latencies within one cycle."""
        return all(each is not None and _is_close(each, self.published) for each in self.found)

    @property
    def agrees(self) -> bool:
        return all(each is not None and _agrees(each, self.published) for each in self.found)

    @property
    def line(self) -> str:
        """The row of the page."""
        item, first = self.published, self.found[0]
        known = quantity(item.value, item.unit)
        if item.printed is not None:
            known += f" (printed {quantity(item.printed, item.unit)})"
        cells = ["not measured yet", "", "", ""]
        if first is not None:
            findings = [each for each in self.found if each is not None]
            values = ", ".join(dict.fromkeys(map(_value, findings))) + (", stated" if self.is_stated else "")
            confidence = "" if first.confidence is None else f"{first.confidence:g}"
            worst = max((judge(each, item) for each in findings), key=lambda each: list(Verdict).index(each.verdict))
            verdict = "agrees" if self.agrees else f"**{worst.verdict}**: {worst.text}"
            verdict = verdict if self.is_measured else "" if self.is_stated else "not simulated"
            cells = [values, bracket(first.low, first.high, first.unit), confidence, verdict]
        return f"| {item.element} | {item.attribute} | {known} | {' | '.join(cells)} | {item.source} |"


def _agrees(found: Estimate, published: Published) -> bool:
    verdict = judge(found, published).verdict
    is_within = isinstance(found.value, int | float) and lies_within(found.value, published)
    return verdict in (Verdict.AGREES, Verdict.FINER) or (verdict is Verdict.OVERLAPS and is_within)


def _is_close(found: Estimate, published: Published) -> bool:
    value, known = found.value, published.value
    if isinstance(value, int | float) and isinstance(known, int | float) and found.unit == "cycles":
        return abs(value - known) <= 1
    return value == known


def _value(found: Estimate) -> str:
    if found.value is None:
        return found.status.value
    if isinstance(found.value, float) and found.unit == "cycles":
        return f"{found.value:.1f} cycles"
    return quantity(found.value, found.unit)


def survey(gpu: str, seed: int) -> Survey:
    """One survey of a simulated GPU, with the older methods where they are compared."""
    study = Study.COMPARE_METHODS if (gpu, seed) == (CLASSIC[0], SEEDS[0]) else Study.DISCOVER
    with open_device(f"sim:{gpu}?seed={seed}", seed=seed) as device:
        return run_survey(device, study, seed=seed)


def rows(gpu: str, surveys: Sequence[Survey]) -> list[Row]:
    """Published numbers of measured elements, in the order of the survey, then the others."""
    found = [{(each.element, each.attribute): each for each in one.findings} for one in surveys]
    order = {element: n for n, element in enumerate(measured_elements())}
    published = catalogue.load(gpu).published()
    published.sort(key=lambda item: (order.get(item.element, len(order)), item.element, item.attribute))
    return [Row(gpu, item, tuple(one.get((item.element, item.attribute)) for one in found)) for item in published]


def headline(every: Sequence[Row]) -> str:
    """How many of the measured published numbers agree: the line that a check looks for in the page."""
    measured = [row for row in every if row.is_measured]
    published = [row for row in measured if not row.is_of_run]
    runs = [row.agrees for row in measured if row.is_of_run]
    bracketed = sum(row.agrees and not row.is_close for row in published)
    return (
        f"**{sum(row.agrees for row in published)} of {len(published)} published values that are measured are found "
        f"again**, with every seed: sizes exactly and latencies within a cycle, except {bracketed} that lie within a "
        f"wider bracket. Of GPUs that were measured and exported {sum(runs)} of {len(runs)} values are."
    )


def page(table: dict[str, list[Row]], readings: Sequence[Reading]) -> str:
    """The page in Markdown."""
    every = [row for each in table.values() for row in each]
    stated = sum(row.is_stated for row in every)
    lines = [HEAD.format(seeds=", ".join(map(str, SEEDS)), headline=headline(every), stated=stated).rstrip()]
    for gpu, each in table.items():
        lines += ["", f"## {catalogue.load(gpu).name} (`sim:{gpu}`)", ""]
        lines += ["| element | attribute | published | found | bracket | confidence | verdict | source |"]
        lines += ["|---" * 8 + "|", *(row.line for row in each)]
    lines.append(CLASSIC_HEAD)
    classic = [each for each in readings if each.element == CLASSIC[1]]
    for method in dict.fromkeys(each.method for each in classic):
        known = {each.attribute: each for each in classic if each.method == method}
        cells = [_reading(known.get(name)) for name in ("capacity", "line_size", "sets", "ways")]
        notes = "; ".join(each.note for each in known.values() if each.note)
        lines.append(f"| {method} | {' | '.join(cells)} | {notes} |")
    return "\n".join(lines) + "\n"


def _reading(reading: Reading | None) -> str:
    if reading is None or reading.value is None:
        return "-"
    return quantity(reading.value, "B" if reading.attribute in ("capacity", "line_size") else "")


def main() -> int:
    """Survey the GPUs, then write the page and the list, or compare with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", nargs="*", default=[], help="catalogue names; all if none")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a row that agreed no longer does")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of noise seeds (the page: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names, seeds = options.gpus or list(catalogue.names()), SEEDS[: options.seeds]
    jobs = [(gpu, seed) for gpu in names for seed in seeds]
    with ProcessPoolExecutor(options.workers) as pool:
        surveys = dict(zip(jobs, pool.map(survey, *zip(*jobs, strict=True)), strict=True))
    table = {gpu: rows(gpu, [surveys[gpu, seed] for seed in seeds]) for gpu in names}
    every = [row for each in table.values() for row in each]
    print(*(row.line for row in every if row.is_measured and not row.agrees), sep="\n")
    agreed = {row.key for row in every if row.is_measured and row.agrees}
    if options.check:
        if seeds != SEEDS:  # more rows may agree than with every seed
            return check(agreed & set(AGREED.read_text().splitlines()), names, None)
        return check(agreed, names, headline(every) if not options.gpus else None)
    print(f"{len(agreed)} rows agree")
    if not options.gpus and seeds == SEEDS:
        PAGE.write_text(page(table, surveys[CLASSIC[0], SEEDS[0]].comparisons), encoding="utf-8")
        AGREED.write_text("".join(f"{key}\n" for key in sorted(agreed)))
    return 0


def check(agreed: set[str], names: Sequence[str], expected: str | None) -> int:
    """Exit code: 1 if a row that agreed no longer does, or if the list or the page (`expected` in it) is stale."""
    before = {key for key in AGREED.read_text().splitlines() if key.split()[0] in names}
    lost, new = sorted(before - agreed), sorted(agreed - before)
    print(f"{len(agreed)} rows agree, {len(lost)} no longer do{': ' + '; '.join(lost) if lost else ''}")
    is_stale = bool(new) or (expected is not None and expected not in PAGE.read_text(encoding="utf-8"))
    if is_stale:
        print(f"{AGREED.name} or the headline of {PAGE.name} is out of date: run validation/validate.py")
    return 1 if lost or is_stale else 0


if __name__ == "__main__":
    sys.exit(main())

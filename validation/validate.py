"""Compare the findings on every simulated GPU of the catalogue with what is published of it: docs/validation.md."""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
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
TABLE = PAGE.with_suffix(".csv")
AGREED = Path(__file__).parent / "agreed.txt"
SEEDS = (1, 2, 3)
CLASSIC = ("gtx780", "texture")  # MC16 fig 4-5: where the two classic methods contradict each other
COLUMNS = ("gpu", "element", "attribute", "published", "found", "bracket", "confidence", "verdict", "source")
AGREES, STATED, NOT_SIMULATED = "agrees", "stated", "not simulated"
DOCUMENT = re.compile(r"Luo \d+|[^ ,:]+")
HEAD = """# Validation: published values found again

Each GPU of the catalogue is **simulated** with its published structure. `discover` then measures the simulated GPU
without knowing that structure, once for each of the noise seeds {seeds}. Made by `python validation/validate.py`.

{headline}
{stated} more values are stated by the driver and not measured. The rest describe the real GPU but are not part of the
simulated one. A GPU file exported from a measurement is compared with that measurement.

All {rows} rows: [validation.csv](validation.csv). Bracket and confidence are those of the first seed. *printed* marks a
number that a document prints although the structure behind it is another. Throughput curves have
[their own page](throughput.md).

## Rows that do not agree

| GPU | element | attribute | published | found | bracket | verdict | source |
|---|---|---|---|---|---|---|---|
{differing}

## Rows by GPU and document

[Sources](sources.md) explains the keys.

| GPU | document | agree | do not agree | stated | not simulated |
|---|---|---|---|---|---|
{counts}
"""
CLASSIC_HEAD = """
## Older methods on one cache

The two classic readings of averaged curves and MT22's change point, applied to the texture cache of `sim:gtx780`.
Address bits 7-8 choose its set, and the classic readings contradict each other (MC16 s4.1, fig 4-5).

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
    def cells(self) -> tuple[str, ...]:
        """The row of the table, by `COLUMNS`."""
        item, first = self.published, self.found[0]
        known = quantity(item.value, item.unit)
        if item.printed is not None:
            known += f" (printed {quantity(item.printed, item.unit)})"
        cells = ["not measured yet", "", "", ""]
        if first is not None:
            findings = [each for each in self.found if each is not None]
            values = ", ".join(dict.fromkeys(map(_value, findings)))
            confidence = "" if first.confidence is None else f"{first.confidence:g}"
            worst = max((judge(each, item) for each in findings), key=lambda each: list(Verdict).index(each.verdict))
            verdict = AGREES if self.agrees else f"{worst.verdict}: {worst.text}"
            verdict = verdict if self.is_measured else STATED if self.is_stated else NOT_SIMULATED
            cells = [values, bracket(first.low, first.high, first.unit), confidence, verdict]
        return (self.gpu, item.element, item.attribute, known, *cells, item.source)


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
        f"again** with every seed: sizes exactly, latencies within a cycle, except {bracketed} that lie within a wider "
        f"bracket. Of values exported from measured GPUs, {sum(runs)} of {len(runs)} are found again."
    )


def page(table: Sequence[Sequence[str]], claim: str, classic: Sequence[str]) -> str:
    """The page in Markdown: rows that do not agree, counts of the others, the table of older methods."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    differing = []
    for gpu, element, attribute, known, found, ends, _, verdict, source in table:
        match = DOCUMENT.match(source)
        kind = verdict if verdict in (AGREES, STATED, NOT_SIMULATED) else "differs"
        counts.setdefault((gpu, match[0] if match else source), Counter())[kind] += 1
        if kind == "differs":
            differing.append(f"| {gpu} | {element} | {attribute} | {known} | {found} | {ends} | {verdict} | {source} |")
    kinds = (AGREES, "differs", STATED, NOT_SIMULATED)
    rows = [
        f"| {gpu} | {key} | {' | '.join(str(n[kind] or '') for kind in kinds)} |" for (gpu, key), n in counts.items()
    ]
    text = HEAD.format(
        seeds=", ".join(map(str, SEEDS)),
        headline=claim,
        stated=sum(each[STATED] for each in counts.values()),
        rows=len(table),
        differing="\n".join(differing),
        counts="\n".join(rows),
    )
    return "\n".join([text.rstrip(), CLASSIC_HEAD, *classic]) + "\n"


def older_methods(readings: Sequence[Reading]) -> Iterator[str]:
    """Rows of the table of older methods."""
    classic = [each for each in readings if each.element == CLASSIC[1]]
    for method in dict.fromkeys(each.method for each in classic):
        known = {each.attribute: each for each in classic if each.method == method}
        cells = [_reading(known.get(name)) for name in ("capacity", "line_size", "sets", "ways")]
        notes = "; ".join(each.note for each in known.values() if each.note)
        yield f"| {method} | {' | '.join(cells)} | {notes} |"


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
    print(*(" | ".join(row.cells) for row in every if row.is_measured and not row.agrees), sep="\n")
    agreed = {row.key for row in every if row.is_measured and row.agrees}
    if options.check:
        if seeds != SEEDS:  # more rows may agree than with every seed
            return check(agreed & set(AGREED.read_text().splitlines()), names, None)
        return check(agreed, names, headline(every) if not options.gpus else None)
    print(f"{len(agreed)} rows agree")
    if not options.gpus and seeds == SEEDS:
        cells = [row.cells for row in every]
        with TABLE.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([COLUMNS, *cells])
        classic = list(older_methods(surveys[CLASSIC[0], SEEDS[0]].comparisons))
        PAGE.write_text(page(cells, headline(every), classic), encoding="utf-8")
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

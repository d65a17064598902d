"""Hold what gpudissect finds on every simulated GPU of the catalogue against what is published of it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpudissect import catalogue
from gpudissect.catalogue import Published
from gpudissect.device.find import open_device
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.cache.plan_comparison import Reading
from gpudissect.results.text import bracket, quantity
from gpudissect.results.verdict import Verdict, judge, lies_within
from gpudissect.survey.registry import measured_elements
from gpudissect.survey.run import Survey, run_survey

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "validation.md"
AGREED = HERE / "agreed.txt"
SEEDS = (1, 2, 3)
CLASSIC = ("gtx780", "texture")  # MC16 fig 4-5: where the two classic readings contradict each other
NOT_YET = "not measured yet"


@dataclass(frozen=True)
class Row:
    """One published number of one GPU and what was found for it with each seed."""

    gpu: str
    published: Published
    found: tuple[Estimate | None, ...]

    @property
    def key(self) -> str:
        return f"{self.gpu} {self.published.element} {self.published.attribute}"

    @property
    def measured(self) -> bool:
        return self.published.simulated and all(e is not None and e.status is not Status.STATED for e in self.found)

    @property
    def of_a_run(self) -> bool:
        """Found on a real GPU by gpudissect itself, in no document."""
        return catalogue.load(self.gpu).table.run is not None

    @property
    def close(self) -> bool:
        """Equal with every seed; latencies within one cycle."""
        return all(each is not None and _close(each, self.published) for each in self.found)

    @property
    def stated(self) -> bool:
        return all(each is not None and each.status is Status.STATED for each in self.found)

    @property
    def agrees(self) -> bool:
        return all(each is not None and _again(each, self.published) for each in self.found)


def _again(found: Estimate, published: Published) -> bool:
    verdict = judge(found, published).verdict
    within = isinstance(found.value, int | float) and lies_within(found.value, published)
    return verdict in (Verdict.AGREES, Verdict.FINER) or (verdict is Verdict.OVERLAPS and within)


def _close(found: Estimate, published: Published) -> bool:
    value, known = found.value, published.value
    if isinstance(value, int | float) and isinstance(known, int | float) and found.unit == "cycles":
        return abs(value - known) <= 1
    return value == known


def survey(gpu: str, seed: int) -> Survey:
    """One survey of a simulated GPU, with the older methods beside ours where they are to be compared."""
    with open_device(f"sim:{gpu}?seed={seed}", seed=seed) as device:
        return run_survey(device, seed=seed, compare_methods=gpu == CLASSIC[0] and seed == SEEDS[0])


def rows(gpu: str, surveys: Sequence[Survey]) -> list[Row]:
    """Published numbers of elements that a survey looks at, in its order, then the others."""
    found = [{(each.element, each.attribute): each for each in one.findings} for one in surveys]
    published = catalogue.load(gpu).published()
    order = {element: i for i, element in enumerate(measured_elements())}
    published.sort(key=lambda item: (order.get(item.element, len(order)), item.element, item.attribute))
    return [Row(gpu, item, tuple(one.get((item.element, item.attribute)) for one in found)) for item in published]


def headline(every: Sequence[Row]) -> str:
    """How many of the published numbers that are measured come out: the line that a check looks for in the page."""
    measured = [row for row in every if row.measured]
    published = [row for row in measured if not row.of_a_run]
    agreeing = sum(row.agrees for row in published)
    bracketed = sum(row.agrees and not row.close for row in published)
    runs = [row for row in measured if row.of_a_run]
    return (
        f"**{agreeing} of {len(published)} published values that are measured come out again**, with every seed: sizes "
        f"exactly and latencies within a cycle, but for {bracketed} that lie within a wider bracket. "
        f"Of GPUs that were measured and exported {sum(row.agrees for row in runs)} of {len(runs)} values do."
    )


def page(table: dict[str, list[Row]], readings: Sequence[Reading]) -> str:
    """The page in Markdown."""
    every = [row for each in table.values() for row in each]
    out = [
        "# Validation: published against found",
        "",
        "Every GPU of the catalogue, **simulated** with its published structure and taken apart without being told",
        f"anything, with noise seeds {', '.join(map(str, SEEDS))}. Made by `python validation/validate.py`.",
        "",
        headline(every),
        f"{sum(row.stated for row in every)} more are stated by the driver and never measured (of a simulated GPU its",
        "file states them: no proof of anything); the rest is known of the real GPU but no part of the simulated one",
        "(the parts of an L2). Whole curves of throughput stand [apart](throughput.md).",
        "A GPU file made of a measurement (`gpudissect export --format gpu`) is held against that measurement.",
        "",
        "*printed*: what the document prints where that is known to be off; the number before it is the structure",
        "that is simulated. *bracket* and *confidence* are of the first seed.",
    ]
    for gpu, each in table.items():
        out += ["", f"## {catalogue.load(gpu).name} (`sim:{gpu}`)", ""]
        out += ["| element | attribute | published | found | bracket | confidence | verdict | source |"]
        out += ["|---|---|---|---|---|---|---|---|"]
        out += [_line(row) for row in each]
    out += ["", "## The older methods on the same cache", ""]
    out += [
        f"What the two classic readings of averaged curves and MT22's change point make of `sim:{CLASSIC[0]}`'s",
        "texture cache, whose set is chosen by address bits 7-8 (MC16 s4.1, fig 4-5: the readings contradict each",
        "other). Ours stands in the table above.",
        "",
        "| method | capacity | line | sets | ways | |",
        "|---|---|---|---|---|---|",
    ]
    for method in dict.fromkeys(r.method for r in readings if r.element == CLASSIC[1]):
        mine = {r.attribute: r for r in readings if r.element == CLASSIC[1] and r.method == method}
        cells = [_reading(mine.get(a)) for a in ("capacity", "line_size", "sets", "ways")]
        notes = "; ".join(r.note for r in mine.values() if r.note)
        out += [f"| {method} | {' | '.join(cells)} | {notes} |"]
    return "\n".join(out) + "\n"


def _reading(reading: Reading | None) -> str:
    if reading is None or reading.value is None:
        return "-"
    return quantity(reading.value, "B" if reading.attribute in ("capacity", "line_size") else "")


def _line(row: Row) -> str:
    item = row.published
    known = quantity(item.value, item.unit)
    if item.printed is not None:
        known += f" (printed {quantity(item.printed, item.unit)})"
    first = row.found[0]
    if first is None:
        cells = [NOT_YET, "", "", ""]
    else:
        values = dict.fromkeys(_value(each) for each in row.found if each is not None)
        if row.stated:
            values = {f"{' '.join(values)}, stated": None}
        confidence = "" if first.confidence is None else f"{first.confidence:g}"
        order = list(Verdict)
        verdict = max((judge(e, item) for e in row.found if e is not None), key=lambda each: order.index(each.verdict))
        agreement = "agrees" if row.agrees else f"**{verdict.verdict}**: {verdict.text}"
        cells = [", ".join(values), bracket(first.low, first.high, first.unit), confidence]
        cells += [agreement if row.measured else "" if row.stated else "not simulated"]
    return f"| {item.element} | {item.attribute} | {known} | {' | '.join(cells)} | {item.source} |"


def _value(found: Estimate) -> str:
    if found.value is None:
        return found.status.value
    if isinstance(found.value, float) and found.unit == "cycles":
        return f"{found.value:.1f} cycles"
    return quantity(found.value, found.unit)


def main() -> int:
    """Run, then write the page and the list, or check against the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", nargs="*", default=[], help="catalogue names; all if none")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a row that agreed no longer does")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="with so many noise seeds (the page: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    seeds = SEEDS[: options.seeds]
    names = options.gpus or list(catalogue.names())
    jobs = [(gpu, seed) for gpu in names for seed in seeds]
    with ProcessPoolExecutor(options.workers) as pool:
        surveys = dict(zip(jobs, pool.map(survey, *zip(*jobs, strict=True)), strict=True))
    table = {gpu: rows(gpu, [surveys[gpu, seed] for seed in seeds]) for gpu in names}
    agreed = {row.key for each in table.values() for row in each if row.measured and row.agrees}
    for each in table.values():
        for row in each:
            if row.measured and not row.agrees:
                print(_line(row))
    every = [row for each in table.values() for row in each]
    if options.check:
        if seeds != SEEDS:  # more rows may agree than with every seed
            return check(agreed & set(AGREED.read_text().splitlines()), names, None)
        return check(agreed, names, headline(every) if not options.gpus else None)
    print(f"{len(agreed)} rows agree")
    if not options.gpus and seeds == SEEDS:
        PAGE.write_text(page(table, surveys[CLASSIC[0], SEEDS[0]].comparisons))
        AGREED.write_text("".join(f"{key}\n" for key in sorted(agreed)))
    return 0


def check(agreed: set[str], names: Sequence[str], said: str | None) -> int:
    """Exit code: 1 if a row that agreed no longer does, or if the list or the page tell of another run."""
    before = {key for key in AGREED.read_text().splitlines() if key.split()[0] in names}
    lost, new = sorted(before - agreed), sorted(agreed - before)
    print(f"{len(agreed)} rows agree, {len(lost)} no longer do{': ' + '; '.join(lost) if lost else ''}")
    stale = bool(new) or (said is not None and said not in PAGE.read_text())
    if stale:
        print(f"{AGREED.name} or the headline of {PAGE.name} are of another run: run validation/validate.py")
    return 1 if lost or stale else 0


if __name__ == "__main__":
    sys.exit(main())

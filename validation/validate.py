"""Compare the findings on every simulated GPU of the catalogue with the published numbers: docs/validation.csv."""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kinds import DOCS, PRINTED_IN, Kind, kind_of, read, yes

from gpudissect import catalogue
from gpudissect.catalogue import Published
from gpudissect.device.kinds import open_device
from gpudissect.estimate import Estimate, Status
from gpudissect.measure.plan import Study
from gpudissect.results.text import bracket, quantity
from gpudissect.results.verdict import Verdict, judge, lies_within
from gpudissect.survey.registry import measured_elements
from gpudissect.survey.run import Survey, run_survey

TABLE = DOCS / "validation.csv"
AGREED = Path(__file__).parent / "agreed.txt"
SEEDS = (1, 2, 3)
ORDER = list(Verdict)
COLUMNS = ("kind", "agrees", "gpu", "element", "attribute", "published", "found", "bracket", "confidence", "verdict")
COLUMNS += ("source",)
PUBLISHED = ("kind", "gpu", "element", "attribute", "published", "source")  # columns that do not depend on a survey
AGREES, STATED, OUTSIDE = "agrees", "stated", "outside the simulation"
OTHER_SHARE = "99 % of the peak in the source, compared in validation-data.csv; 95 % here"


@dataclass(frozen=True)
class Row:
    """One published number of one GPU and the finding of each seed.

    `printed`: the number as the document prints it, where the GPU file has another value.
    """

    gpu: str
    published: Published
    found: tuple[Estimate | None, ...]
    printed: float | None = None

    @property
    def attribute(self) -> str:
        return self.published.attribute + (", as printed" if self.printed is not None else "")

    @property
    def key(self) -> str:
        return f"{self.gpu} {self.published.element} {self.attribute}"

    @property
    def is_compared(self) -> bool:
        """Whether it counts: not if the driver states it, if it is not simulated, or compared elsewhere."""
        return self.published.simulated and not self.is_stated and not self.has_other_share

    @property
    def has_other_share(self) -> bool:
        """Whether it is a number of warps for another share of the peak than ours (VV16 table 6.3, not of memory)."""
        is_vv16 = self.published.source.startswith("VV16 table 6.3")
        return is_vv16 and self.published.attribute == "warps_needed" and self.kind is Kind.EMERGENT

    @property
    def is_stated(self) -> bool:
        return all(each is not None and each.status is Status.STATED for each in self.found)

    @property
    def agrees(self) -> bool:
        if self.printed is not None:
            return all(each is not None and each.value == self.printed for each in self.found)
        return all(each is not None and _agrees(each, self.published) for each in self.found)

    @property
    def kind(self) -> Kind:
        return Kind.DATA if self.printed is not None else kind_of(self.published)

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table, by `COLUMNS`."""
        item, findings = self.published, [each for each in self.found if each is not None]
        known = quantity(item.value if self.printed is None else self.printed, item.unit)
        kind = (self.kind.value, yes(self.agrees)) if self.is_compared else ("", "")
        cells = ["not found", "", "", "not found"]
        if findings:
            first = findings[0]
            values = ", ".join(dict.fromkeys(map(_value, findings)))
            confidence = "" if first.confidence is None else f"{first.confidence:g}"
            cells = [values, bracket(first.low, first.high, first.unit), confidence, self._verdict(findings)]
        if not self.is_compared:
            cells[3] = STATED if self.is_stated else OTHER_SHARE if self.has_other_share else OUTSIDE
        source = item.source if self.printed is None else PRINTED_IN.get(self.gpu, item.source)
        return (*kind, self.gpu, item.element, self.attribute, known, *cells, source)

    def _verdict(self, findings: Sequence[Estimate]) -> str:
        if self.agrees:
            return AGREES
        if self.printed is not None:
            values = [each.value for each in findings if isinstance(each.value, int | float)]
            return f"differs: {values[0] / self.printed - 1:+.2%}" if values else "not found"
        worst = max((judge(each, self.published) for each in findings), key=lambda each: ORDER.index(each.verdict))
        return f"{worst.verdict}: {worst.text}"


def _agrees(found: Estimate, published: Published) -> bool:
    verdict = judge(found, published).verdict
    is_within = isinstance(found.value, int | float) and lies_within(found.value, published)
    return verdict in (Verdict.AGREES, Verdict.FINER) or (verdict is Verdict.OVERLAPS and is_within)


def _value(found: Estimate) -> str:
    if found.value is None:
        return found.status.value
    if isinstance(found.value, float) and found.unit == "cycles":
        return f"{found.value:.1f} cycles"
    return quantity(found.value, found.unit)


def survey(gpu: str, seed: int) -> Survey:
    """One survey of a simulated GPU."""
    with open_device(f"sim:{gpu}?seed={seed}", seed=seed) as device:
        return run_survey(device, Study.DISCOVER, seed=seed)


def rows(gpu: str, surveys: Sequence[Survey]) -> list[Row]:
    """Published numbers of measured elements, in the order of the survey, then the others."""
    found = [{(each.element, each.attribute): each for each in one.findings} for one in surveys]
    order = {element: n for n, element in enumerate(measured_elements())}
    published = catalogue.load(gpu).published()
    published.sort(key=lambda item: (order.get(item.element, len(order)), item.element, item.attribute))
    table = []
    for item in published:
        findings = tuple(one.get((item.element, item.attribute)) for one in found)
        table.append(Row(gpu, item, findings))
        if item.printed is not None and not table[-1].is_stated:
            table.append(Row(gpu, item, findings, item.printed))
    return table


def main() -> int:
    """Survey the GPUs, then write the tables and the list, or compare with them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gpus", nargs="*", default=[], help="catalogue names; all if none")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a row that agreed no longer does")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="number of noise seeds (the table: all)")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    names, seeds = options.gpus or list(catalogue.names()), SEEDS[: options.seeds]
    jobs = [(gpu, seed) for gpu in names for seed in seeds]
    with ProcessPoolExecutor(options.workers) as pool:
        surveys = dict(zip(jobs, pool.map(survey, *zip(*jobs, strict=True)), strict=True))
    table = [row for gpu in names for row in rows(gpu, [surveys[gpu, seed] for seed in seeds])]
    print(*(" | ".join(row.cells) for row in table if row.is_compared and not row.agrees), sep="\n")
    if options.check:
        return check(table, names, every_seed=seeds == SEEDS)
    if not options.gpus and seeds == SEEDS:
        write(table)
    return 0


def agreeing(table: Sequence[Row]) -> set[str]:
    """Keys of the rows that agree."""
    return {row.key for row in table if row.is_compared and row.agrees}


def write(table: Sequence[Row]) -> None:
    """Write the table and the list of rows that agree."""
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *(row.cells for row in table)])
    AGREED.write_text("".join(f"{key}\n" for key in sorted(agreeing(table))))


def check(table: Sequence[Row], names: Sequence[str], every_seed: bool) -> int:
    """Exit code: 1 if a row that agreed no longer does, or if the list or the published numbers of the table are stale.

    With fewer seeds more rows may agree than with all, so those are ignored.
    """
    agreed = agreeing(table)
    before = {key for key in AGREED.read_text().splitlines() if key.split()[0] in names}
    lost, new = sorted(before - agreed), sorted(agreed - before) if every_seed else []
    print(f"{len(agreed & before)} rows agree, {len(lost)} no longer do{': ' + '; '.join(lost) if lost else ''}")
    written = [
        (row["kind"], row["gpu"], row["element"], row["attribute"], row["published"]) for row in read(TABLE.stem)
    ]
    current = [(row.cells[0], *row.cells[2:6]) for row in table]
    is_stale = bool(new) or current != [row for row in written if row[1] in names]
    if is_stale:
        print(f"{AGREED.name} or {TABLE.name} is out of date: run validation/validate.py")
    return 1 if lost or is_stale else 0


if __name__ == "__main__":
    sys.exit(main())

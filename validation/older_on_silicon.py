"""Keep readings of the older methods on real GPUs, beside the published findings: docs/results/older-methods.csv.

    gpudissect discover -d cuda:0 --method saavedra --method wong --method mt22 --seed 0 -o RESULT.json
    python validation/older_on_silicon.py RESULT.json [RESULT.json ...]

Replaces all rows. Prints the readings of each cache in one line each, for the table in `docs/method.md`.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from cards import CARD
from kinds import DOCS
from written import csv_text

from gpudissect.results.files import load
from gpudissect.results.model import Result
from gpudissect.results.text import quantity
from gpudissect.vocabulary import OLDER_METHODS

TABLE = DOCS / "results" / "older-methods.csv"
COLUMNS = ("gpu", "card", "command", "element", "method", "attribute", "reading", "unit", "note", "published here")
NOT_READ = "nothing"


def command(result: Result) -> str:
    """How the readings were taken."""
    methods = " ".join(f"--method {name}" for name in OLDER_METHODS)
    return f"gpudissect discover -d cuda:0 {methods} --seed {result.options.seed}"


def rows(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """One row for each reading, with the value of our finding on the published card of the model."""
    for result in results:
        gpu = result.device.name.split()[1].lower()
        published = load(DOCS / "results" / f"{gpu}.json")
        ours = {(each.element, each.attribute): each.value for each in published.findings}
        head = gpu, ((result.provenance and result.provenance.gpu_uuid) or "")[CARD], command(result)
        for each in result.comparisons:
            reading = NOT_READ if each.value is None else f"{each.value:.10g}"
            own = ours.get((each.element, each.attribute))
            kept = "" if own is None else str(own)
            yield (*head, each.element, each.method, each.attribute, reading, each.unit, each.note, kept)


def summary(table: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Different readings of each attribute, by GPU, element and method."""
    readings: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for gpu, _, _, element, method, attribute, reading, unit, *_ in table:
        text = reading if reading == NOT_READ else quantity(float(reading), unit)
        readings[gpu, element, method, attribute].append(text)
    for key, texts in sorted(readings.items()):
        yield f"{' '.join(key)}: {', '.join(dict.fromkeys(texts))}"


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    table = list(rows([load(path) for path in parser.parse_args().results]))
    TABLE.write_text(csv_text([COLUMNS, *table]), encoding="utf-8")
    print(*summary(table), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Compare older methods on simulated caches with their printed results: docs/validation-older-methods.csv."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

from kinds import DOCS, PRINTED_IN, Kind, yes

import gpudissect as gd
from gpudissect import catalogue
from gpudissect.results.text import quantity

TABLE = DOCS / "validation-older-methods.csv"
COLUMNS = ("kind", "agrees", "gpu", "what", "published", "found", "verdict", "source")
SAAVEDRA, WONG, MT22 = "Saavedra 1995, latency against stride", "Wong 2010, latency against size", "MT22 change point"
CLASSIC = {  # GPU, element, method: `ATTRIBUTES` that MC16 and HC13 read from curves, and the place
    ("gtx780", "texture", SAAVEDRA): ((32, 16, 24), "MC16 fig 4"),
    ("gtx780", "texture", WONG): ((128, 4, 24), "MC16 fig 5"),
    ("c2070", "l1", WONG): ((128, 32, 4), "HC13 table"),
    ("c2070-48k", "l1", WONG): ((128, 64, 6), "HC13 table"),
}
ATTRIBUTES = ("line_size", "sets", "ways")  # our capacity is given to both methods
UNITS = {"capacity": "B", "line_size": "B"}


def printed() -> dict[tuple[str, str, str], dict[str, tuple[float, str]]]:
    """Printed readings and their places, by GPU, element and method, then by attribute."""
    known = {
        key: {name: (value, place) for name, value in zip(ATTRIBUTES, values, strict=True)}
        for key, (values, place) in CLASSIC.items()
    }
    for gpu, place in PRINTED_IN.items():
        for item in catalogue.load(gpu).published():
            if item.attribute == "capacity" and item.printed is not None and item.element != "dram":
                known[gpu, item.element, MT22] = {"capacity": (item.printed, place)}
    return known


def readings(job: tuple[str, tuple[str, ...]]) -> dict[tuple[str, str, str, str], float | None]:
    """Readings of the older methods on some elements of one simulated GPU."""
    gpu, elements = job
    result = gd.discover(f"sim:{gpu}?seed=1", only=elements, quick=True, compare_methods=True, seed=1)
    return {(gpu, each.element, each.method, each.attribute): each.value for each in result.comparisons}


def rows() -> Iterator[tuple[str, ...]]:
    """One row for each printed reading."""
    known = printed()
    elements: dict[str, list[str]] = {}
    for gpu, element, _ in known:
        elements.setdefault(gpu, []).append(element)
    jobs = [(gpu, tuple(dict.fromkeys(names))) for gpu, names in elements.items()]
    with ProcessPoolExecutor(2) as pool:
        found = {key: value for each in pool.map(readings, jobs) for key, value in each.items()}
    for (gpu, element, method), attributes in known.items():
        for attribute, (value, place) in attributes.items():
            ours, unit = found.get((gpu, element, method, attribute)), UNITS.get(attribute, "")
            text = "no reading" if ours is None else quantity(ours, unit)
            agrees = ours == value
            verdict = "agrees" if agrees else "no reading" if ours is None else f"differs: {ours / value - 1:+.1%}"
            what = f"{element} {attribute} by {method}"
            kind = (Kind.DATA.value, yes(agrees))
            yield (*kind, gpu, what, quantity(value, unit), text, verdict, place)


def main() -> int:
    """Write the table."""
    table = [COLUMNS, *rows()]
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table)
    print(*(" | ".join(row[2:7]) for row in table), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
